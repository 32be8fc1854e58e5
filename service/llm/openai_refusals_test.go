package llm_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestOpenAITellsErrorsApart(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"the words","type":"x"}}`
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		body   string
		kind   chat.ModelErrorKind
		after  time.Duration
		says   string
	}{
		{"too many, 1 s", 429, http.Header{"Retry-After": {"1"}}, body, chat.ModelRateLimit, time.Second, "the words"},
		{"too many, 30 s", 429, http.Header{"Retry-After": {"30"}}, body, chat.ModelRateLimit, 30 * time.Second, "the words"},
		{"too many, in ms", 429, http.Header{"Retry-After-Ms": {"250"}}, body, chat.ModelRateLimit, 250 * time.Millisecond, "the words"},
		{"too many, nonsense", 429, http.Header{"Retry-After": {"soon"}}, body, chat.ModelRateLimit, 0, "the words"},
		{"too many, negative", 429, http.Header{"Retry-After": {"-5"}}, body, chat.ModelRateLimit, 0, "the words"},
		{"no key", 401, nil, body, chat.ModelAuth, 0, "key"},
		{"not allowed", 403, nil, body, chat.ModelAuth, 0, "the words"},
		{"bad request", 400, nil, `{"error":"plain words"}`, chat.ModelBadRequest, 0, "plain words"},
		{"too long", 413, nil, `{"message":"flat words"}`, chat.ModelBadRequest, 0, "flat words"},
		{"wrong shape", 422, nil, `{"detail":[{"loc":["body"],"msg":"listed words"}]}`, chat.ModelBadRequest, 0, "listed words"},
		{"unknown model", 404, nil, `{"error":{"message":"model not found"}}`, chat.ModelBadRequest, 0, `"m1"`},
		{"bug", 500, nil, body, chat.ModelServer, 0, "the words"},
		{"gateway", 502, http.Header{"Content-Type": {"text/html"}}, "<html>proxy</html>", chat.ModelServer, 0, "502"},
		{"plain text", 500, http.Header{"Content-Type": {"text/plain"}}, "plain text words", chat.ModelServer, 0, "plain text words"},
		{"overloaded", 503, http.Header{"Retry-After": {"2"}}, body, chat.ModelOverloaded, 2 * time.Second, "overloaded"},
		{"overloaded, its own code", 529, nil, body, chat.ModelOverloaded, 0, "the words"},
		{"no words", 500, nil, "", chat.ModelServer, 0, "500"},
		{"redirect", 307, http.Header{"Location": {"https://elsewhere.invalid/"}}, "", chat.ModelServer, 0, "redirect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := llmtest.New(t, llmtest.Status(tt.status, tt.header, tt.body))
			r := stream(t.Context(), openAI(t, srv.URL), hello())
			e := wantError(t, r.err, tt.kind, tt.says)
			if e.Status != tt.status || e.RetryAfter != tt.after {
				t.Errorf("status %d, retry after %s, want %d, %s", e.Status, e.RetryAfter, tt.status, tt.after)
			}
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d requests, want 1: nothing may be retried in secret", n)
			}
			if strings.Contains(e.Message, "<html>") {
				t.Errorf("message %q holds a web page", e.Message)
			}
		})
	}
}

func TestOpenAIShowsForeignWordsSafely(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": "bad\x1b[31m \u202e\nkey " + testKey + " " + strings.Repeat("ä", 400),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, llmtest.Status(401, nil, string(body)))
	e := wantError(t, r.err, chat.ModelAuth, "bad[31m  key [key] ää", "…")
	_, said, _ := strings.Cut(e.Message, ": ")
	if len(said) > 300 || strings.ContainsAny(said, "\x1b\n\u202e") || strings.ContainsRune(said, '\uFFFD') {
		t.Errorf("the provider's words are not fit to be shown: %d bytes, %q", len(said), said)
	}

	t.Run("a key that the cut would halve", func(t *testing.T) {
		t.Parallel()
		body := `{"error":{"message":"` + strings.Repeat("x", 290) + testKey + `"}}`
		e := wantError(t, ask(t, llmtest.Status(401, nil, body)).err, chat.ModelAuth)
		if strings.Contains(e.Message, "sk-") {
			t.Errorf("message %q holds a part of the key", e.Message)
		}
	})
}

func TestOpenAITellsErrorsWithinAStreamApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, event string
		kind        chat.ModelErrorKind
		says        string
	}{
		{"a code", `data: {"error":{"code":429,"message":"slow down"}}`, chat.ModelRateLimit, "slow down"},
		{"a code as text", `data: {"error":{"code":"503","message":"later"}}`, chat.ModelOverloaded, "later"},
		{"a word", `data: {"error":{"code":"context_length_exceeded","message":"too long"}}`, chat.ModelBadRequest, "too long"},
		{"a type", `data: {"error":{"type":"overloaded_error","message":"busy"}}`, chat.ModelOverloaded, "busy"},
		{"a key", `data: {"error":{"code":null,"type":"authentication_error","message":"who"}}`, chat.ModelAuth, "who"},
		{"a server's", `data: {"error":{"type":"server_error","message":"oops"}}`, chat.ModelServer, "oops"},
		{"a string", `data: {"error":"just words"}`, chat.ModelServer, "just words"},
		{"in a choice", `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`, chat.ModelServer, "upstream"},
		{"an object", `data: {"object":"error","message":"engine died","code":400}`, chat.ModelBadRequest, "engine died"},
		{"a named event", "event: error\ndata: {\"message\":\"named\",\"code\":401}", chat.ModelAuth, "named"},
		{"a named event of plain words", "event: error\ndata: plain words", chat.ModelServer, "plain words"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := ask(t, llmtest.Text("partial").Then(llmtest.Finish("stop")).Then(llmtest.Raw(tt.event, "", "data: [DONE]", "")))
			wantError(t, r.err, tt.kind, tt.says)
			if got := r.text(chat.StreamText); got != "partial" {
				t.Errorf("text %q", got)
			}
		})
	}
}

func TestOpenAIRefusesWhatIsNotAStream(t *testing.T) {
	t.Parallel()
	t.Run("a web page", func(t *testing.T) {
		t.Parallel()
		wantError(t, ask(t, llmtest.Status(200, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, "<p>")).err, chat.ModelServer, "text/html")
	})
	t.Run("an error in a 200", func(t *testing.T) {
		t.Parallel()
		wantError(t, ask(t, llmtest.Status(200, nil, `{"error":{"code":401,"message":"who are you"}}`)).err, chat.ModelAuth, "who are you")
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		// Port 1 of this machine, without a listener.
		r := stream(t.Context(), openAI(t, "http://user:pass@127.0.0.1:1/v1?key="+testKey), hello())
		e := wantError(t, r.err, chat.ModelNetwork, "cannot be reached")
		if strings.Contains(e.Message+e.Cause.Error(), "pass") || strings.Contains(e.Cause.Error(), testKey) {
			t.Errorf("%q, caused by %q, tells the URL", e.Message, e.Cause)
		}
	})
	t.Run("a base that is no URL", func(t *testing.T) {
		t.Parallel()
		for _, base := range []string{"", "ftp://x", "http://", "://", "localhost:11434"} {
			if _, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: base}); err == nil {
				t.Errorf("base %q is taken", base)
			}
		}
	})
	t.Run("a schema that is no JSON", func(t *testing.T) {
		t.Parallel()
		p := hello()
		p.Tools = []chat.ToolSpec{{Name: "x", InputSchema: json.RawMessage("{")}}
		wantError(t, stream(t.Context(), openAI(t, "http://127.0.0.1:1"), p).err, chat.ModelBadRequest)
	})
}
