package llm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestOpenAIPutsCallsTogether(t *testing.T) {
	t.Parallel()
	item := func(s string) llmtest.Turn { return llmtest.Delta(`{"tool_calls":[` + s + `]}`) }
	join := func(items ...string) llmtest.Turn {
		var t llmtest.Turn
		for _, s := range items {
			t = t.Then(item(s))
		}
		return t
	}
	for _, tt := range []struct {
		name string
		turn llmtest.Turn
		want []string
		ids  []string // nil: made
	}{
		{
			"two calls with fragmented arguments, digits kept",
			llmtest.Calls(llmtest.Call{ID: "a", Name: "read", Args: `{"n":12345678901234567}`}, llmtest.Call{ID: "b", Name: "rm", Args: `{"path":"ä ✓"}`}),
			[]string{`read{"n":12345678901234567}`, `rm{"path":"ä ✓"}`},
			[]string{"a", "b"},
		},
		{
			"fragments interleaved by index",
			join(`{"index":0,"id":"a","function":{"name":"read","arguments":""}}`, `{"index":1,"id":"b","function":{"name":"rm","arguments":""}}`,
				`{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":1,"function":{"arguments":"{\"y\""}}`,
				`{"index":0,"function":{"arguments":":1}"}}`, `{"index":1,"function":{"arguments":":2}"}}`),
			[]string{`read{"x":1}`, `rm{"y":2}`},
			[]string{"a", "b"},
		},
		{
			"whole calls in one event",
			item(`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\":1}"}},{"index":1,"id":"b","function":{"name":"rm","arguments":"{}"}}`),
			[]string{`read{"x":1}`, `rm{}`},
			[]string{"a", "b"},
		},
		{
			"a whole call in each event, all with index 0",
			join(`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"b","function":{"name":"rm","arguments":"{\"x\":2}"}}`),
			[]string{`read{"x":1}`, `rm{"x":2}`},
			[]string{"a", "b"},
		},
		{
			"fragments, all with index 0, new ids",
			join(`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
				`{"index":0,"id":"b","function":{"name":"read","arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":2}"}}`),
			[]string{`read{"x":1}`, `read{"x":2}`},
			[]string{"a", "b"},
		},
		{
			"no arguments at all, all with index 0, new ids",
			join(`{"index":0,"id":"a","function":{"name":"read","arguments":""}}`, `{"index":0,"id":"b","function":{"name":"rm"}}`),
			[]string{`read{}`, `rm{}`},
			[]string{"a", "b"},
		},
		{
			"all with index 0, no ids, a new name after arguments",
			join(`{"index":0,"function":{"name":"read","arguments":"{\"x\":1}"}}`, `{"index":0,"function":{"name":"rm","arguments":"{\"x\":2}"}}`),
			[]string{`read{"x":1}`, `rm{"x":2}`},
			nil,
		},
		{
			"all with index 0, no ids, the same name after whole arguments",
			join(`{"index":0,"function":{"name":"rm","arguments":"{\"x\":1}"}}`, `{"index":0,"function":{"name":"rm","arguments":"{\"x\":2}"}}`),
			[]string{`rm{"x":1}`, `rm{"x":2}`},
			nil,
		},
		{
			"no index, with ids",
			join(`{"id":"a","function":{"name":"read","arguments":"{\"x\""}}`, `{"id":"b","function":{"name":"rm","arguments":"{\"x\":2}"}}`, `{"id":"a","function":{"arguments":":1}"}}`),
			[]string{`read{"x":1}`, `rm{"x":2}`},
			[]string{"a", "b"},
		},
		{
			"no index and no ids, arguments as objects",
			item(`{"function":{"name":"read","arguments":{"x": 1}}},{"function":{"name":"rm","arguments":{"x":2}}}`),
			[]string{`read{"x":1}`, `rm{"x":2}`},
			nil,
		},
		{
			"id and name repeated with every piece",
			join(`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"x\""}}`, `{"index":0,"id":"a","function":{"name":"read","arguments":":1}"}}`, `{"index":0,"id":"a","function":{"name":"read","arguments":""}}`),
			[]string{`read{"x":1}`},
			[]string{"a"},
		},
		{
			"a name in pieces, an id that comes late",
			join(`{"index":0,"function":{"name":"re"}}`, `{"index":0,"id":"a","function":{"name":"ad"}}`, `{"index":0,"function":{"arguments":"{}"}}`),
			[]string{`read{}`},
			[]string{"a"},
		},
		{
			"a name after the arguments",
			join(`{"index":0,"id":"a","function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"name":"read"}}`, `{"index":0,"function":{"arguments":":1}"}}`),
			[]string{`read{"x":1}`},
			[]string{"a"},
		},
		{
			"a repeated whole call under one id is never run twice",
			join(`{"index":0,"id":"a","function":{"name":"rm","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"a","function":{"name":"rm","arguments":"{\"x\":1}"}}`),
			[]string{`rm{"x":1}{"x":1}`},
			[]string{"a"},
		},
		{
			"arguments that are not JSON are the caller's to settle",
			llmtest.Calls(llmtest.Call{ID: "a", Name: "rm", Args: `{"x": oops`}),
			[]string{`rm{"x": oops`},
			[]string{"a"},
		},
		{
			"empty pieces are nothing",
			join(`{}`, `{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}`, `{"index":0,"id":"","function":{"name":"","arguments":null}}`),
			[]string{`read{}`},
			[]string{"a"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := ask(t, tt.turn)
			wantOK(t, r, chat.FinishToolCalls)
			if diff := cmp.Diff(tt.want, r.calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if tt.ids != nil {
				if diff := cmp.Diff(tt.ids, r.ids()); diff != "" {
					t.Errorf("ids (-want +got):\n%s", diff)
				}
			}
			wantUnique(t, r.ids())
		})
	}
}

func wantUnique(t *testing.T, ids []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range ids {
		if id == "" || seen[id] {
			t.Errorf("ids %q are not unique", ids)
		}
		seen[id] = true
	}
}

func TestOpenAIMakesTwoCallsWithOneIDUnique(t *testing.T) {
	t.Parallel()
	r := ask(t, llmtest.Calls(llmtest.Call{ID: "x", Name: "a", Args: `{}`}, llmtest.Call{ID: "x", Name: "b", Args: `{}`}))
	wantOK(t, r, chat.FinishToolCalls)
	if len(r.ids()) != 2 {
		t.Errorf("ids %q, want two", r.ids())
	}
	wantUnique(t, r.ids())
}

func TestOpenAICallsWinOverFinishStop(t *testing.T) {
	t.Parallel()
	wantOK(t, ask(t, llmtest.Calls(llmtest.Call{ID: "a", Name: "read", Args: `{}`}).Then(llmtest.Finish("stop"))), chat.FinishToolCalls)
}

func TestOpenAIKeepsExtraContentForTheWayBack(t *testing.T) {
	t.Parallel()
	extra := `{"google":{"thought_signature":"a+b/c<>=="}}`
	srv := llmtest.New(t,
		llmtest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"},"extra_content":`+extra+`}]}`),
		llmtest.Text("done"),
	)
	m := openAI(t, srv.URL)
	first := stream(t.Context(), m, hello())
	wantOK(t, first, chat.FinishToolCalls)
	call := first.draft.Complete(nil)[0].(chat.ToolCall)

	p := hello()
	p.Messages = append(p.Messages,
		chat.PromptMessage{Role: chat.PromptAssistant, Parts: []chat.PromptPart{{
			Kind: chat.PromptToolCall, CallID: "a", Name: "read", Input: call.Input, Metadata: call.CallProviderMetadata,
		}}},
		chat.PromptMessage{Role: chat.PromptTool, Parts: []chat.PromptPart{{Kind: chat.PromptToolResult, CallID: "a", Text: "ok"}}},
	)
	wantOK(t, stream(t.Context(), m, p), chat.FinishStop)
	if got := string(srv.Requests()[1].Messages[1].ToolCalls[0].ExtraContent); got != extra {
		t.Errorf("extra_content %s, want %s", got, extra)
	}
}
