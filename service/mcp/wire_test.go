package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// web is a fake served over HTTP.
type web struct {
	*fake
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	answer   func(w http.ResponseWriter, r *http.Request) bool // before the server, true if it answered
}

func newWeb(t *testing.T, o *sdk.StreamableHTTPOptions) *web {
	t.Helper()
	w := &web{fake: newFake(t, &sdk.Tool{Name: "ping"})}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return w.server }, o)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Clone(context.Background()))
		answer := w.answer
		w.mu.Unlock()
		if answer == nil || !answer(rw, r) {
			handler.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() {
		for s := range w.server.Sessions() {
			s.Close()
		}
	})
	t.Cleanup(w.Server.Close)
	t.Cleanup(w.CloseClientConnections)
	return w
}

func (w *web) setAnswer(answer func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

func (w *web) config() chat.MCPServer {
	return chat.MCPServer{
		ID: "id-web", Name: "web", Transport: chat.TransportHTTP, URL: w.URL + "/mcp?key=s3cret-key",
		Headers: map[string]string{"Authorization": "Bearer s3cret-token"},
	}
}

func (w *web) connect(t *testing.T, o ClientOptions) *Client {
	t.Helper()
	if o.MinBackoff == 0 {
		o.MinBackoff = time.Millisecond
	}
	c := StartClient(w.config(), o)
	t.Cleanup(c.Close)
	return c
}

// await waits until the state is as it should be.
func await(t *testing.T, c *Client, is func(chat.ServerState) bool) chat.ServerState {
	t.Helper()
	hang := time.After(2 * time.Minute)
	for {
		c.mu.Lock()
		state, changed := c.stateLocked(), c.changed
		c.mu.Unlock()
		if is(state) {
			return state
		}
		select {
		case <-changed:
		case <-hang:
			t.Fatalf("the state stays %+v", state)
		}
	}
}

func inPhase(p chat.ServerPhase) func(chat.ServerState) bool {
	return func(s chat.ServerState) bool { return s.Phase == p }
}

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
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			w := newWeb(t, nil)
			c := w.connect(t, ClientOptions{})
			await(t, c, inPhase(chat.ServerReady))
			var once atomic.Bool
			w.setAnswer(func(rw http.ResponseWriter, _ *http.Request) bool {
				first := once.CompareAndSwap(false, true)
				if first {
					http.Error(rw, "not you", status)
				}
				return first
			})
			if r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) {
				t.Errorf("the call gave %+v, %v", r, err)
			}
			await(t, c, func(s chat.ServerState) bool {
				r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody)
				return s.Phase == chat.ServerReady && err == nil && r.Outcome == chat.OutcomeOK
			})
		})
	}
}

func TestTransientRefusalLeavesTheOutcomeOpen(t *testing.T) {
	w := newWeb(t, nil)
	c := w.connect(t, ClientOptions{})
	await(t, c, inPhase(chat.ServerReady))
	w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			http.Error(rw, "upstream timed out", http.StatusGatewayTimeout)
		}
		return r.Method == http.MethodPost
	})
	if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeUnknown {
		t.Errorf("a gateway that gave up gave %+v", r)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	body := func(n int) *watchedBody {
		return &watchedBody{ReadCloser: io.NopCloser(strings.NewReader("12345678")), limited: true, left: n, stopped: func() error { return nil }}
	}
	if got, err := io.ReadAll(body(9)); err != nil || string(got) != "12345678" {
		t.Errorf("what fits: %q, %v", got, err)
	}
	if got, err := io.ReadAll(body(5)); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("what does not: %q, %v", got, err)
	}
}

func TestTrace(t *testing.T) {
	var none *callTrace // of a message that belongs to no call
	none.arrived()
	none.turnedAway()
	none.broken(io.EOF)
	trace := &callTrace{}
	for _, step := range []struct {
		do    func()
		never bool
	}{{func() {}, true}, {trace.arrived, false}, {trace.turnedAway, true}, {trace.arrived, false}, {trace.arrived, false}, {trace.turnedAway, false}} {
		if step.do(); trace.neverBegan() != step.never {
			t.Errorf("after %d arrivals: never began %v", trace.reached.Load(), !step.never)
		}
	}
}
