package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestHeadersGoToTheServer(t *testing.T) {
	w := newWeb(t, nil)
	c := w.connect(t, ClientOptions{})
	if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
		t.Fatalf("got %+v", r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.Header.Get("Authorization") != "Bearer s3cret-token" || r.URL.Query().Get("key") != "s3cret-key" {
			t.Errorf("%s %s came without what was configured", r.Method, r.URL)
		}
	}
}

func TestServerThatRefusesSaysWhy(t *testing.T) {
	w := newWeb(t, nil)
	w.setAnswer(func(rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "token s3cret-token is no good", http.StatusUnauthorized)
		return true
	})
	c := w.connect(t, ClientOptions{MinBackoff: time.Hour})
	s := await(t, c, inPhase(chat.ServerFailed))
	if !strings.Contains(s.Error, "401 Unauthorized") || strings.Contains(s.Error, "s3cret") {
		t.Errorf("the state says %q", s.Error)
	}
}

func TestRedirectToAnotherServerIsNotFollowed(t *testing.T) {
	var visited atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) }))
	defer other.Close()
	w := newWeb(t, nil)
	w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
		return true
	})
	c := w.connect(t, ClientOptions{MinBackoff: time.Hour})
	s := await(t, c, inPhase(chat.ServerFailed))
	if !strings.Contains(s.Error, "redirects") || visited.Load() {
		t.Errorf("the state says %q; the other server was visited: %v", s.Error, visited.Load())
	}
}

// The SDK would wait a second and more for a stream that it could resume; a
// call whose connection broke is over before that.
func TestBrokenStreamEndsItsCall(t *testing.T) {
	w := newWeb(t, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	began := w.blocking(t)
	c := w.connect(t, ClientOptions{})
	go func() { <-began; w.CloseClientConnections() }()
	r := call(t, c, "block", `{}`)
	if r.Outcome != chat.OutcomeUnknown {
		t.Errorf("the call ended as %+v", r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.Header.Get("Last-Event-ID") != "" {
			t.Error("the call outlived an attempt to resume it")
		}
	}
}

func TestBrokenJSONAnswerIsUnknown(t *testing.T) {
	w := newWeb(t, &sdk.StreamableHTTPOptions{JSONResponse: true})
	began := w.blocking(t)
	c := w.connect(t, ClientOptions{})
	go func() { <-began; w.CloseClientConnections() }()
	if r := call(t, c, "block", `{}`); r.Outcome != chat.OutcomeUnknown {
		t.Errorf("the call ended as %+v", r)
	}
}

func TestCallToAServerThatIsGoneNeverBegan(t *testing.T) {
	t.Run("nobody listens any more", func(t *testing.T) {
		w := newWeb(t, nil)
		c := w.connect(t, ClientOptions{MinBackoff: time.Hour})
		await(t, c, inPhase(chat.ServerReady))
		w.CloseClientConnections()
		w.Server.Close()
		if r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the call gave %+v, %v", r, err)
		}
		s := await(t, c, inPhase(chat.ServerFailed))
		if !strings.Contains(s.Error, "refused") || strings.Contains(s.Error, "s3cret") {
			t.Errorf("the state says %q", s.Error)
		}
	})
}

func TestToStopOneCallStopsNoOther(t *testing.T) {
	kinds := map[string]func(rw http.ResponseWriter, id string){
		"in the middle of an answer": func(rw http.ResponseWriter, id string) {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,`, id)
		},
		"in the middle of a stream": func(rw http.ResponseWriter, _ string) {
			rw.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(rw, ": wait\n\nid: 1\n")
		},
		"before there is an answer": func(http.ResponseWriter, string) {},
	}
	for name, begin := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, nil)
			c := w.connect(t, ClientOptions{})
			await(t, c, inPhase(chat.ServerReady))
			began, finish := make(chan struct{}, 2), make(chan struct{})
			w.onCall(t, func(rw http.ResponseWriter, id string, r *http.Request) {
				begin(rw, id)
				rw.(http.Flusher).Flush()
				began <- struct{}{}
				select {
				case <-r.Context().Done():
					return
				case <-finish:
				}
				const rest = `"result":{"content":[{"type":"text","text":"done"}]}}`
				switch rw.Header().Get("Content-Type") {
				case "application/json":
					fmt.Fprint(rw, rest)
				case "text/event-stream":
					fmt.Fprintf(rw, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,%s\n\n", id, rest)
				default:
					rw.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,%s`, id, rest)
				}
			})
			if name == "before there is an answer" {
				w.onCall(t, func(rw http.ResponseWriter, id string, r *http.Request) {
					began <- struct{}{}
					select {
					case <-r.Context().Done():
					case <-finish:
						rw.Header().Set("Content-Type", "application/json")
						fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
					}
				})
			}
			other := make(chan chat.Result, 1)
			go func() {
				r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody)
				if err != nil {
					t.Error(err)
				}
				other <- r
			}()
			<-began
			ctx, stop := context.WithCancel(t.Context())
			go func() { <-began; stop() }()
			if r, err := c.Call(ctx, "ping", nil, func(string) {}, nobody); err != nil || r.Outcome != chat.OutcomeUnknown {
				t.Errorf("the call that was stopped gave %+v, %v", r, err)
			}
			close(finish)
			if r := <-other; r.Outcome != chat.OutcomeOK || text(t, r) != "done" {
				t.Errorf("the other call gave %+v", r)
			}
			if n := w.sessions(); n != 1 {
				t.Errorf("there were %d sessions", n)
			}
		})
	}
}

func TestAnswersOfNoUseEndOneCallAlone(t *testing.T) {
	stream := func(data string) func(http.ResponseWriter, string) {
		return func(rw http.ResponseWriter, id string) {
			rw.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(rw, strings.ReplaceAll(data, "ID", id))
		}
	}
	plain := func(kind, data string) func(http.ResponseWriter, string) {
		return func(rw http.ResponseWriter, id string) {
			rw.Header().Set("Content-Type", kind)
			fmt.Fprint(rw, strings.ReplaceAll(data, "ID", id))
		}
	}
	const result = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}`
	const toNobody = `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"what?"}}`
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, string)
		want   chat.Outcome
	}{
		{"a result", plain("application/json; charset=utf-8", result), chat.OutcomeOK},
		{"an answer to nobody", plain("application/json", toNobody), chat.OutcomeUnknown},
		{"an answer to another call", plain("application/json", `{"jsonrpc":"2.0","id":999,"result":{}}`), chat.OutcomeUnknown},
		{"no JSON", plain("application/json", `{"jsonrpc":`), chat.OutcomeUnknown},
		{"a page", plain("text/html", `<p>Welcome.`), chat.OutcomeUnknown},
		{"nothing", plain("application/json", ``), chat.OutcomeUnknown},
		{"a great many values", plain("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"a":[`+strings.Repeat("{},", maxTokens)+`1]}}}`), chat.OutcomeUnknown},
		{"a stream", stream("data: " + result + "\n\n"), chat.OutcomeOK},
		{"a stream in small pieces", stream(": hello\n\nid: 1\nretry: 10\n\nevent: message\r\ndata: " + strings.ReplaceAll(result, ",", ",\ndata: ") + "\n\n"), chat.OutcomeOK},
		{"a stream that does not end its event", stream("data: " + result), chat.OutcomeOK},
		{"a stream with an answer to nobody", stream("data: " + toNobody + "\n\nevent: other\ndata: {\n\ndata: " + result + "\n\n"), chat.OutcomeOK},
		{"a stream without an answer", stream("data: " + toNobody + "\n\n"), chat.OutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb(t, nil)
			c := w.connect(t, ClientOptions{})
			await(t, c, inPhase(chat.ServerReady))
			w.onCall(t, func(rw http.ResponseWriter, id string, _ *http.Request) { tt.answer(rw, id) })
			if r := call(t, c, "ping", `{}`); r.Outcome != tt.want {
				t.Errorf("the call gave %+v", r)
			}
			w.setAnswer(nil)
			if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeOK || w.sessions() != 1 {
				t.Errorf("the next call gave %+v in session %d", r, w.sessions())
			}
		})
	}
}

func TestCloseWaitsForNoAnswer(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
	t.Run("to the greeting", func(t *testing.T) {
		w := newWeb(t, nil)
		came := make(chan struct{}, 10)
		w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
			came <- struct{}{}
			return silent(rw, r)
		})
		c := w.connect(t, ClientOptions{})
		<-came
		c.Close()
	})
	t.Run("to the question what tools there are now", func(t *testing.T) {
		w := newWeb(t, nil)
		c := w.connect(t, ClientOptions{})
		await(t, c, inPhase(chat.ServerReady))
		came := make(chan struct{}, 10)
		w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
			if posted(t, r).Method != "tools/list" {
				return false
			}
			came <- struct{}{}
			return silent(rw, r)
		})
		w.add(&sdk.Tool{Name: "new"}, nil)
		<-came
		c.Close()
	})
	t.Run("to what the server asked", func(t *testing.T) {
		w := newWeb(t, nil)
		c := w.connect(t, ClientOptions{})
		await(t, c, inPhase(chat.ServerReady))
		came := make(chan struct{}, 10)
		w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
			if posted(t, r).Method == "tools/call" {
				rw.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(rw, "data: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}\n\n")
				rw.(http.Flusher).Flush()
			} else {
				came <- struct{}{}
			}
			return silent(rw, r)
		})
		go func() { <-came; c.Close() }()
		if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeUnknown {
			t.Errorf("the call gave %+v", r)
		}
		c.Close()
	})
}
