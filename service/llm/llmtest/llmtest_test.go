package llmtest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/llm/llmtest"
)

const greeting = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// post sends body and gives the status and what could be read of the answer.
func post(t *testing.T, url, body string) (int, string, error) {
	t.Helper()
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// watched is a test that notes what it is failed for, and ends when it is told.
type watched struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (w *watched) Helper() {}

func (w *watched) Errorf(format string, a ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, a...))
}
func (w *watched) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }
func (w *watched) end() {
	for i := len(w.cleanups) - 1; i >= 0; i-- {
		w.cleanups[i]()
	}
}

func TestNewHoldsTheTestToItsTurns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		turns  int
		bodies []string
		want   []string
	}{
		{"as many as there are", 2, []string{greeting, greeting}, nil},
		{"one too many", 1, []string{greeting, greeting}, []string{"the model was asked 2 times, but has only 1 turns"}},
		{"one left over", 2, []string{greeting}, []string{"the model was asked 1 times, want 2"}},
		{"a bad history", 0, []string{`{}`}, []string{"the model was sent what a provider refuses: you must provide a model parameter"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &watched{TB: t}
			srv := llmtest.New(w, make([]llmtest.Turn, tt.turns)...)
			for _, b := range tt.bodies {
				_, _, _ = post(t, srv.URL, b)
			}
			w.end()
			if diff := cmp.Diff(tt.want, w.failures); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTurnsAreWrittenAsProvidersWrite(t *testing.T) {
	t.Parallel()
	delta := func(d, finish string) string {
		return `data: {"choices":[{"delta":` + d + `,"finish_reason":` + finish + `,"index":0}],"created":1,"id":"chatcmpl-fake","model":"m","object":"chat.completion.chunk"}` + "\n\n"
	}
	const done = "data: [DONE]\n\n"
	open := make(chan struct{})
	close(open)
	for _, tt := range []struct {
		name string
		turn llmtest.Turn
		want string
	}{
		{"text", llmtest.Text("a", "b<"), delta(`{"content":"a"}`, "null") + delta(`{"content":"b<"}`, "null") + delta("{}", `"stop"`) + done},
		{"reasoning, then text", llmtest.Reasoning("r").Then(llmtest.ReasoningIn("reasoning", "s")).Then(llmtest.Text("a")),
			delta(`{"reasoning_content":"r"}`, "null") + delta(`{"reasoning":"s"}`, "null") + delta(`{"content":"a"}`, "null") + delta("{}", `"stop"`) + done},
		{"calls", llmtest.Calls(llmtest.Call{ID: "a", Name: "n", Args: `{"x":"ää"}`}).Then(llmtest.Calls(llmtest.Call{ID: "b", Name: "m"})),
			delta(`{"tool_calls":[{"function":{"arguments":"","name":"n"},"id":"a","index":0,"type":"function"}]}`, "null") +
				delta(`{"tool_calls":[{"function":{"arguments":"{\"x\":\"ä"},"index":0}]}`, "null") +
				delta(`{"tool_calls":[{"function":{"arguments":"ä\"}"},"index":0}]}`, "null") +
				delta(`{"tool_calls":[{"function":{"arguments":"","name":"m"},"id":"b","index":1,"type":"function"}]}`, "null") +
				delta("{}", `"tool_calls"`) + done},
		{"a finish of its own", llmtest.Text("a").Then(llmtest.Finish("length")), delta(`{"content":"a"}`, "null") + delta("{}", `"length"`) + done},
		{"a clean end", llmtest.Text("a").Then(llmtest.EOF()), delta(`{"content":"a"}`, "null")},
		{"raw lines", llmtest.Raw("data: x", ""), "data: x\n\n"},
		{"an open gate", llmtest.Gate(open).Then(llmtest.Hang(open)).Then(llmtest.Text("a")), delta(`{"content":"a"}`, "null") + delta("{}", `"stop"`) + done},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, got, err := post(t, llmtest.New(t, tt.turn).URL, greeting)
			if err != nil || code != 200 {
				t.Fatalf("%d, %v", code, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("usage, if it is asked for", func(t *testing.T) {
		t.Parallel()
		_, got, err := post(t, llmtest.New(t, llmtest.Text("a")).URL, strings.Replace(greeting, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1))
		if err != nil || !strings.Contains(got, `"usage":{"completion_tokens":7,"prompt_tokens":11,"total_tokens":18}`) {
			t.Errorf("%v, %s", err, got)
		}
	})
	t.Run("a cut ends the body too early", func(t *testing.T) {
		t.Parallel()
		_, got, err := post(t, llmtest.New(t, llmtest.Text("a").Then(llmtest.Cut())).URL, greeting)
		if !errors.Is(err, io.ErrUnexpectedEOF) || got != delta(`{"content":"a"}`, "null") {
			t.Errorf("%v, %q", err, got)
		}
	})
	t.Run("a status", func(t *testing.T) {
		t.Parallel()
		code, got, _ := post(t, llmtest.New(t, llmtest.Status(429, http.Header{"retry-after": {"1"}}, "wait")).URL, greeting)
		if code != 429 || got != "wait" {
			t.Errorf("%d %q", code, got)
		}
	})
}

func TestAHangEndsWithTheServer(t *testing.T) {
	t.Parallel()
	f := llmtest.Handler(func(n int, _ llmtest.Request) llmtest.Turn { return llmtest.Text("a").Then(llmtest.Hang(nil)) })
	srv := llmtest.Start(t, f)
	resp, err := http.Post(srv.URL+"/chat/completions", "application/json", strings.NewReader(greeting))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f.Close()
	f.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"a"`) {
		t.Errorf("%v, %q", err, text)
	}
}

func TestHandlerAnswersByRules(t *testing.T) {
	t.Parallel()
	srv := llmtest.Start(t, llmtest.Handler(func(n int, r llmtest.Request) llmtest.Turn {
		return llmtest.Text(fmt.Sprint(n, r.Messages[len(r.Messages)-1].Text(), r.Tools[0].Function.Name, string(r.Tools[0].Function.Parameters)))
	}))
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"type":"function","function":{"name":"rm","parameters":{}}}]}`
	for n := 1; n <= 2; n++ {
		_, got, err := post(t, srv.URL, body)
		if err != nil || !strings.Contains(got, fmt.Sprintf(`"content":"%dhirm{}"`, n)) {
			t.Errorf("%v, %s", err, got)
		}
	}
	if n := len(srv.Requests()); n != 2 || string(srv.Requests()[0].Body) != body {
		t.Errorf("%d requests", n)
	}
}

func TestHistoryIsHeldToTheRules(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"role":"user","content":"hi"}`
		callAB = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"n","arguments":"{}"}}]}`
		toolA  = `{"role":"tool","tool_call_id":"a","content":""}`
		toolB  = `{"role":"tool","tool_call_id":"b","content":"x"}`
	)
	for _, tt := range []struct {
		name, messages, want string // want: "" is accepted
	}{
		{"every call has its result", user + "," + callAB + "," + toolB + "," + toolA + "," + user, ""},
		{"results at the end", user + "," + callAB + "," + toolA + "," + toolB, ""},
		{"an empty assistant message", user + `,{"role":"assistant","content":""},` + user, ""},
		{"an array of content", `{"role":"user","content":[{"type":"text","text":""}]}`, ""},
		{"a result is missing at the end", user + "," + callAB + "," + toolA, `none answers "b"`},
		{"no result at all", user + "," + callAB + "," + user, `none answers "a"`},
		{"something between call and result", user + "," + callAB + "," + toolA + "," + user + "," + toolB, `none answers "b"`},
		{"two results for a call", user + "," + callAB + "," + toolA + "," + toolA + "," + toolB, `"a" answers no open call`},
		{"a result without a call", user + "," + toolA, `"a" answers no open call`},
		{"a result without content", user + "," + callAB + `,{"role":"tool","tool_call_id":"a","content":null}`, "needs content"},
		{"an id twice", user + "," + strings.Replace(callAB, `"id":"b"`, `"id":"a"`, 1), "an id that another has"},
		{"a call without a name", user + "," + strings.Replace(callAB, `"name":"n"`, `"name":""`, 1), "no name"},
		{"an assistant message without anything", user + `,{"role":"assistant","content":null}`, "needs content"},
		{"a user message without content", `{"role":"user","content":null}`, "must be a string or an array"},
		{"another role", `{"role":"robot","content":"x"}`, `no role "robot"`},
		{"no messages", "", "at least one message"},
		{"not JSON", "{", "decode request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := llmtest.Start(t, llmtest.Handler(func(int, llmtest.Request) llmtest.Turn { return llmtest.Text("ok") }))
			code, got, _ := post(t, srv.URL, `{"model":"m","stream":true,"messages":[`+tt.messages+`]}`)
			if tt.want == "" {
				if code != 200 || len(srv.Violations()) > 0 {
					t.Errorf("%d %s", code, got)
				}
				return
			}
			if v := srv.Violations(); code != 400 || len(v) != 1 || !strings.Contains(v[0], tt.want) || len(srv.Requests()) != 0 {
				t.Errorf("%d, violations %q, want one that says %q", code, v, tt.want)
			}
		})
	}
	t.Run("a request that does not stream", func(t *testing.T) {
		t.Parallel()
		srv := llmtest.Start(t, llmtest.Handler(nil))
		if code, got, _ := post(t, srv.URL, `{"model":"m","messages":[]}`); code != 400 || !strings.Contains(got, "streams") {
			t.Errorf("%d %s", code, got)
		}
	})
}

func TestModelsAreListed(t *testing.T) {
	t.Parallel()
	srv := llmtest.New(t)
	get := func(path string) (int, string) {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, got := get("/models"); code != 200 || !strings.Contains(got, `"id":"fake-model"`) {
		t.Errorf("%d %s", code, got)
	}
	srv.SetModels("x")
	if _, got := get("/models"); !strings.Contains(got, `"id":"x"`) || strings.Contains(got, "fake-model") {
		t.Error(got)
	}
	if code, _ := get("/other"); code != 404 {
		t.Errorf("status %d", code)
	}
}
