package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

const testKey = "sk-test-0123456789"

// reply is what one call of a model gave.
type reply struct {
	events []chat.StreamEvent
	draft  chat.Draft
	reply  chat.Reply
	err    error
}

// calls are the calls of a complete reply, as the caller of a model sees them.
func (r *reply) calls() []string {
	var out []string
	for _, p := range r.draft.Complete(nil) {
		if c, ok := p.(chat.ToolCall); ok {
			out = append(out, c.ToolName+string(c.Input)+c.RawInput)
		}
	}
	return out
}

func (r *reply) ids() []string {
	var out []string
	for _, ev := range r.events {
		if ev.Kind == chat.StreamToolStart {
			out = append(out, ev.ID)
		}
	}
	return out
}

func (r *reply) text(kind chat.StreamKind) string {
	var b strings.Builder
	for _, ev := range r.events {
		if ev.Kind == kind {
			b.WriteString(ev.Text)
		}
	}
	return b.String()
}

func stream(ctx context.Context, m llm.Model, p chat.Prompt) *reply {
	r := &reply{}
	r.reply, r.err = m.Stream(ctx, p, func(ev chat.StreamEvent) {
		r.events = append(r.events, ev)
		r.draft.Apply(ev)
	})
	return r
}

func openAI(t *testing.T, url string) *llm.OpenAI {
	t.Helper()
	m, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: url, APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(t *testing.T, turn llmtest.Turn) *reply {
	t.Helper()
	return stream(t.Context(), openAI(t, llmtest.New(t, turn).URL), hello())
}

func hello() chat.Prompt {
	return chat.Prompt{Model: "m1", Messages: []chat.PromptMessage{user("hello")}}
}

func user(text string) chat.PromptMessage {
	return chat.PromptMessage{Role: chat.PromptUser, Parts: []chat.PromptPart{{Kind: chat.PromptText, Text: text}}}
}

func wantOK(t *testing.T, r *reply, finish chat.FinishReason) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("error: %v", r.err)
	}
	if r.reply.Finish != finish {
		t.Errorf("finish %q, want %q", r.reply.Finish, finish)
	}
}

func wantError(t *testing.T, err error, kind chat.ModelErrorKind, says ...string) *chat.ModelError {
	t.Helper()
	var me *chat.ModelError
	if !errors.As(err, &me) {
		t.Fatalf("error %v (%T), want a *chat.ModelError", err, err)
	}
	if me.Kind != kind {
		t.Errorf("kind %q, want %q (%s)", me.Kind, kind, me.Message)
	}
	for _, s := range says {
		if !strings.Contains(me.Message, s) {
			t.Errorf("message %q does not say %q", me.Message, s)
		}
	}
	if strings.Contains(me.Message, testKey) {
		t.Errorf("message %q holds the key", me.Message)
	}
	return me
}

func TestOpenAIReadsTextReasoningAndUsage(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"reasoning_content", "reasoning"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			r := ask(t, llmtest.ReasoningIn(field, "let me ", "see").Then(llmtest.Text("Hel", "lo ✓")))
			wantOK(t, r, chat.FinishStop)
			if got := r.text(chat.StreamText); got != "Hello ✓" {
				t.Errorf("text %q", got)
			}
			if got := r.text(chat.StreamReasoning); got != "let me see" {
				t.Errorf("reasoning %q", got)
			}
			if got, want := string(r.events[0].Metadata), `{"openai":{"reasoningField":"`+field+`"}}`; got != want {
				t.Errorf("metadata %s, want %s", got, want)
			}
			if want := (chat.Usage{InputTokens: 11, OutputTokens: 7}); r.reply.Usage != want {
				t.Errorf("usage %v, want %v", r.reply.Usage, want)
			}
		})
	}
	t.Run("a server that sends reasoning under both names is heard once", func(t *testing.T) {
		t.Parallel()
		r := ask(t, llmtest.Delta(`{"reasoning":"a","reasoning_content":"a"}`).Then(llmtest.Delta(`{"reasoning":"b","reasoning_content":"b"}`)))
		if got := r.text(chat.StreamReasoning); got != "ab" {
			t.Errorf("reasoning %q", got)
		}
	})
	t.Run("content may be an array, a refusal is text", func(t *testing.T) {
		t.Parallel()
		r := ask(t, llmtest.Delta(`{"content":[{"type":"text","text":"a"},{"type":"other"}]}`).Then(llmtest.Delta(`{"content":null,"refusal":"no"}`)))
		if got := r.text(chat.StreamText); got != "ano" {
			t.Errorf("text %q", got)
		}
	})
}

func TestOpenAIKnowsWhereAReplyEnds(t *testing.T) {
	t.Parallel()
	call := llmtest.Calls(llmtest.Call{ID: "a", Name: "rm", Args: `{"path":"notes.txt"}`})
	half := llmtest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{\"path\":\"no"}}]}`)
	for _, tt := range []struct {
		name string
		turn llmtest.Turn
		want chat.FinishReason
		kind chat.ModelErrorKind
	}{
		{"no end mark after a finish reason", llmtest.Text("a").Then(llmtest.Finish("stop")).Then(llmtest.EOF()), chat.FinishStop, ""},
		{"no end mark after calls and a finish reason", call.Then(llmtest.Finish("tool_calls")).Then(llmtest.EOF()), chat.FinishToolCalls, ""},
		{"a cut after the finish reason", llmtest.Text("a").Then(llmtest.Finish("stop")).Then(llmtest.Cut()), chat.FinishStop, ""},
		{"length with text only", llmtest.Text("a").Then(llmtest.Finish("length")), chat.FinishLength, ""},
		{"a content filter with text only", llmtest.Text("a").Then(llmtest.Finish("content_filter")), chat.FinishContentFilter, ""},
		{"a reason nobody knows, with text only", llmtest.Text("a").Then(llmtest.Finish("bored")), chat.FinishOther, ""},
		{"clean end in the middle of text", llmtest.Text("a").Then(llmtest.EOF()), "", chat.ModelIncomplete},
		{"clean end inside of arguments", half.Then(llmtest.EOF()), "", chat.ModelIncomplete},
		{"clean end after whole arguments", call.Then(llmtest.EOF()), "", chat.ModelIncomplete},
		{"clean end of nothing", llmtest.EOF(), "", chat.ModelIncomplete},
		{"end mark without a finish reason", llmtest.Raw(`data: {"choices":[{"delta":{"content":"a"}}]}`, "", "data: [DONE]", ""), "", chat.ModelIncomplete},
		{"cut in the middle of text", llmtest.Text("a").Then(llmtest.Cut()), "", chat.ModelIncomplete},
		{"cut inside of arguments", half.Then(llmtest.Cut()), "", chat.ModelIncomplete},
		{"length inside of a call", half.Then(llmtest.Finish("length")), "", chat.ModelIncomplete},
		{"length after a whole call", call.Then(llmtest.Finish("length")), "", chat.ModelIncomplete},
		{"max_tokens after a whole call", call.Then(llmtest.Finish("max_tokens")), "", chat.ModelIncomplete},
		{"a content filter after a call", call.Then(llmtest.Finish("content_filter")), "", chat.ModelIncomplete},
		{"a reason nobody knows, after a call", call.Then(llmtest.Finish("bored")), "", chat.ModelIncomplete},
		{"finish with calls, without one", llmtest.Text("a").Then(llmtest.Finish("tool_calls")), "", chat.ModelIncomplete},
		{"a call without a name", llmtest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`), "", chat.ModelIncomplete},
		{"more content after a finish reason, then nothing", llmtest.Text("a").Then(llmtest.Finish("stop")).Then(half).Then(llmtest.EOF()), "", chat.ModelIncomplete},
		{"finish reason error", llmtest.Text("a").Then(llmtest.Finish("error")), "", chat.ModelServer},
		{"an event that is not JSON", llmtest.Text("a").Then(llmtest.Raw("data: {oops", "")), "", chat.ModelServer},
		{"another choice's finish", llmtest.Text("a").Then(llmtest.Raw(`data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`, "", "data: [DONE]", "")), "", chat.ModelIncomplete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := ask(t, tt.turn)
			if tt.kind == "" {
				wantOK(t, r, tt.want)
				return
			}
			wantError(t, r.err, tt.kind)
			if r.reply != (chat.Reply{}) {
				t.Errorf("reply %v beside an error", r.reply)
			}
		})
	}
}

func TestOpenAIKeepsTheTextOfABrokenReply(t *testing.T) {
	t.Parallel()
	r := ask(t, llmtest.Text("some ", "text").Then(llmtest.Cut()))
	wantError(t, r.err, chat.ModelIncomplete)
	if got := r.text(chat.StreamText); got != "some text" {
		t.Errorf("text %q", got)
	}
}

func TestOpenAIStopsWhenItIsCanceled(t *testing.T) {
	t.Parallel()
	why := errors.New("the person pressed stop")
	for _, tt := range []struct {
		name string
		turn llmtest.Turn
	}{
		{"in the middle of text", llmtest.Text("partial").Then(llmtest.Hang(nil))},
		{"inside of arguments", llmtest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{"}}]}`).Then(llmtest.Hang(nil))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := llmtest.New(t, tt.turn)
			ctx, cancel := context.WithCancelCause(t.Context())
			events := 0
			_, err := openAI(t, srv.URL).Stream(ctx, hello(), func(chat.StreamEvent) {
				events++
				cancel(why)
			})
			e := wantError(t, err, chat.ModelCanceled)
			if !errors.Is(e, why) {
				t.Errorf("cause %v, want %v", e.Cause, why)
			}
			if events == 0 {
				t.Error("nothing was emitted before")
			}
			if n := <-srv.Left(); n != 1 {
				t.Errorf("the server saw the client of request %d leave, want 1", n)
			}
		})
	}
	t.Run("before the first byte", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{})
		srv := llmtest.Start(t, llmtest.Handler(func(int, llmtest.Request) llmtest.Turn {
			close(asked)
			return llmtest.Gate(nil)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		wantError(t, stream(ctx, openAI(t, srv.URL), hello()).err, chat.ModelCanceled)
		<-srv.Left()
	})
	t.Run("a caller that has left hears no more of what is there", func(t *testing.T) {
		t.Parallel()
		srv := llmtest.New(t, llmtest.Raw(strings.Repeat(`data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n", 20)))
		ctx, cancel := context.WithCancel(t.Context())
		events := 0
		_, err := openAI(t, srv.URL).Stream(ctx, hello(), func(chat.StreamEvent) {
			events++
			cancel()
		})
		wantError(t, err, chat.ModelCanceled)
		if events != 1 {
			t.Errorf("%d events, want 1", events)
		}
	})
}
