package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// roundTrip is a transport within the process, for tests about time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func streamOf(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
}

// inProcess is a model whose body is a pipe that ends with the request, as a
// connection does.
func inProcess(t *testing.T, write func(w io.Writer)) *llm.OpenAI {
	t.Helper()
	m, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: "http://fake/v1", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
		go write(pw)
		return streamOf(pr), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sse(w io.Writer, data string) { fmt.Fprintf(w, "data: %s\n\n", data) }

func TestOpenAIWaitsLongButNotForEver(t *testing.T) {
	t.Parallel()
	word := `{"choices":[{"delta":{"content":"a"}}]}`
	end := `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	t.Run("for the headers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: "http://fake/v1", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			wantError(t, stream(t.Context(), m, hello()).err, chat.ModelNetwork, "5m0s")
			if waited := time.Since(began); waited != 5*time.Minute {
				t.Errorf("waited %s", waited)
			}
		})
	})
	t.Run("for the first byte after the headers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := inProcess(t, func(w io.Writer) {
				time.Sleep(4 * time.Minute)
				sse(w, word)
				sse(w, end)
				sse(w, "[DONE]")
			})
			wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
		})
	})
	t.Run("for the next event", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := inProcess(t, func(w io.Writer) {
				sse(w, word)
				time.Sleep(119 * time.Second)
				io.WriteString(w, ": still here\n\n")
				time.Sleep(119 * time.Second)
				sse(w, word)
			})
			began := time.Now()
			r := stream(t.Context(), m, hello())
			wantError(t, r.err, chat.ModelIncomplete, "2m0s")
			if waited := time.Since(began); waited != 238*time.Second+2*time.Minute {
				t.Errorf("waited %s", waited)
			}
			if r.text(chat.StreamText) != "aa" {
				t.Errorf("text %q", r.text(chat.StreamText))
			}
		})
	})
	t.Run("an hour of text is no reason to stop", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := inProcess(t, func(w io.Writer) {
				for range 60 {
					sse(w, word)
					time.Sleep(time.Minute)
				}
				sse(w, end)
				sse(w, "[DONE]")
			})
			wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
		})
	})
	t.Run("a moment for the end mark of a complete reply", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := inProcess(t, func(w io.Writer) {
				sse(w, word)
				sse(w, end)
			})
			began := time.Now()
			wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
			if waited := time.Since(began); waited != 5*time.Second {
				t.Errorf("waited %s", waited)
			}
		})
	})
	t.Run("a reply that goes on after its finish has its patience back", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := inProcess(t, func(w io.Writer) {
				sse(w, end)
				sse(w, word)
				time.Sleep(time.Minute)
				sse(w, end)
				sse(w, "[DONE]")
			})
			wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
		})
	})
	t.Run("a deadline of the caller is the caller's", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			m := inProcess(t, func(w io.Writer) { sse(w, word) })
			wantError(t, stream(ctx, m, hello()).err, chat.ModelCanceled)
		})
	})
}

func TestOpenAIBoundsAReply(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	repeat := func(n int, turn llmtest.Turn) llmtest.Turn {
		var all llmtest.Turn
		for range n {
			all = all.Then(turn)
		}
		return all
	}
	args, err := json.Marshal(big)
	if err != nil {
		t.Fatal(err)
	}
	var many []llmtest.Call
	for i := range 129 {
		many = append(many, llmtest.Call{ID: fmt.Sprint("c", i), Name: "n", Args: "{}"})
	}
	t.Run("8 MiB of text are taken, more are not", func(t *testing.T) {
		t.Parallel()
		wantOK(t, ask(t, repeat(8, llmtest.Text(big))), chat.FinishStop)
		wantError(t, ask(t, repeat(8, llmtest.Text(big)).Then(llmtest.Text("x"))).err, chat.ModelServer, "8 MiB")
	})
	t.Run("reasoning and arguments count as well", func(t *testing.T) {
		t.Parallel()
		piece := llmtest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":` + string(args) + `}}]}`)
		wantError(t, ask(t, repeat(4, llmtest.Reasoning(big)).Then(repeat(4, piece))).err, chat.ModelServer, "8 MiB")
	})
	t.Run("one event of more than 64 KiB is taken, one of 5 MiB is not", func(t *testing.T) {
		t.Parallel()
		wantOK(t, ask(t, llmtest.Text(big+big+big)), chat.FinishStop)
		wantError(t, ask(t, llmtest.Text(strings.Repeat(big, 5))).err, chat.ModelServer, "4 MiB")
	})
	t.Run("128 calls are taken, more are not", func(t *testing.T) {
		t.Parallel()
		r := ask(t, llmtest.Calls(many[:128]...))
		wantOK(t, r, chat.FinishToolCalls)
		if n := len(r.calls()); n != 128 {
			t.Errorf("%d calls", n)
		}
		wantError(t, ask(t, llmtest.Calls(many...)).err, chat.ModelServer, "128")
	})
}

// FuzzOpenAIStream holds that no bytes make the decoder panic, and that only a
// finish reason makes a reply complete.
func FuzzOpenAIStream(f *testing.F) {
	for _, seed := range []string{
		"",
		"data: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"n\",\"arguments\":\"{\"}}]}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"n\",\"arguments\":{}}},{\"index\":-1,\"id\":\"b\"}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1e99}}\n\n",
		"event: error\ndata: x\n\n",
		"data: {\"error\":[[\"a\"]]}\n\n",
		"data: null\n\ndata: {\"choices\":null}\n\n: c\n\nid: 1\n\n\ufeff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: "http://fake/v1", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return streamOf(io.NopCloser(strings.NewReader(string(body)))), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		r := stream(t.Context(), m, hello())
		if r.err != nil {
			var me *chat.ModelError
			if r.reply != (chat.Reply{}) || !asModelError(r.err, &me) || me.Message == "" {
				t.Fatalf("error %#v beside reply %v", r.err, r.reply)
			}
			return
		}
		// The member's name may be written with escapes or in other cases.
		if plain := strings.ToLower(string(body)); !strings.Contains(plain, "finish_reason") && !strings.Contains(plain, `\u`) && !strings.Contains(plain, "ſ") {
			t.Fatalf("complete without a finish reason: %v", r.reply)
		}
		if (r.reply.Finish == chat.FinishToolCalls) != (len(r.ids()) > 0) {
			t.Fatalf("finish %q with %d calls", r.reply.Finish, len(r.ids()))
		}
		wantUnique(t, r.ids())
	})
}

func asModelError(err error, me **chat.ModelError) bool {
	return errors.As(err, me)
}
