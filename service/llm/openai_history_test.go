package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// sent is the body that a prompt becomes.
func sent(t *testing.T, p chat.Prompt, opt llm.OpenAIOptions) map[string]json.RawMessage {
	t.Helper()
	srv := llmtest.New(t, llmtest.Text("ok"))
	opt.BaseURL = srv.URL
	m, err := llm.NewOpenAI(opt)
	if err != nil {
		t.Fatal(err)
	}
	wantOK(t, stream(t.Context(), m, p), chat.FinishStop)
	var body map[string]json.RawMessage
	if err := json.Unmarshal(srv.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestOpenAISendsTheHistory(t *testing.T) {
	t.Parallel()
	text := func(s string) chat.PromptPart { return chat.PromptPart{Kind: chat.PromptText, Text: s} }
	thought := func(s, meta string) chat.PromptPart {
		return chat.PromptPart{Kind: chat.PromptReasoning, Text: s, Metadata: json.RawMessage(meta)}
	}
	assistant := func(parts ...chat.PromptPart) chat.PromptMessage {
		return chat.PromptMessage{Role: chat.PromptAssistant, Parts: parts}
	}
	call := func(id, input string) chat.PromptPart {
		return chat.PromptPart{Kind: chat.PromptToolCall, CallID: id, Name: "fs__rm", Input: json.RawMessage(input)}
	}
	result := func(id, text string) chat.PromptPart {
		return chat.PromptPart{Kind: chat.PromptToolResult, CallID: id, Text: text, IsError: true}
	}
	for _, tt := range []struct {
		name     string
		system   string
		messages []chat.PromptMessage
		want     string
	}{
		{
			"system and text", "Be brief.",
			[]chat.PromptMessage{{Role: chat.PromptUser, Parts: []chat.PromptPart{text("a <b>"), text("c")}}, assistant(text("d")), user("e")},
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"a <b>\n\nc"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]`,
		},
		{
			"an image makes an array, another file a note", "",
			[]chat.PromptMessage{{Role: chat.PromptUser, Parts: []chat.PromptPart{
				text("look"), {Kind: chat.PromptFile, MediaType: "image/png", URL: "data:image/png;base64,AAAA"}, {Kind: chat.PromptFile, MediaType: "application/pdf", URL: "data:,"},
			}}},
			`[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},` +
				`{"type":"text","text":"[A file of type application/pdf is attached. Its content cannot be shown to this model.]"}]}]`,
		},
		{
			"files that are no images leave a string", "",
			[]chat.PromptMessage{{Role: chat.PromptUser, Parts: []chat.PromptPart{{Kind: chat.PromptFile, URL: "x"}, {Kind: chat.PromptFile, MediaType: "image/png", URL: "/local.png"}}}},
			`[{"role":"user","content":"[A file of type unknown is attached. Its content cannot be shown to this model.]\n\n` +
				`[A file of type image/png is attached. Its content cannot be shown to this model.]"}]`,
		},
		{
			"calls with exact arguments, each with its result directly after", "",
			[]chat.PromptMessage{
				user("go"), assistant(text("I will."), call("a", `{"n":12345678901234567, "s":"<&>"}`), call("b", `{}`)),
				{Role: chat.PromptTool, Parts: []chat.PromptPart{result("a", "refused"), result("b", "")}}, user("and?"),
			},
			`[{"role":"user","content":"go"},{"role":"assistant","content":"I will.","tool_calls":[` +
				`{"id":"a","type":"function","function":{"name":"fs__rm","arguments":"{\"n\":12345678901234567, \"s\":\"<&>\"}"}},` +
				`{"id":"b","type":"function","function":{"name":"fs__rm","arguments":"{}"}}]},` +
				`{"role":"tool","content":"refused","tool_call_id":"a"},{"role":"tool","content":"","tool_call_id":"b"},{"role":"user","content":"and?"}]`,
		},
		{
			"calls without text have null content", "",
			[]chat.PromptMessage{user("go"), assistant(call("a", `{}`)), {Role: chat.PromptTool, Parts: []chat.PromptPart{result("a", "x")}}},
			`[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"fs__rm","arguments":"{}"}}]},` +
				`{"role":"tool","content":"x","tool_call_id":"a"}]`,
		},
		{
			"reasoning goes back where it came from", "",
			[]chat.PromptMessage{
				user("a"), assistant(thought("t1", `{"openai":{"reasoningField":"reasoning"}}`), text("b")),
				user("c"), assistant(thought("t2", `{"openai":{"reasoningField":"reasoning_content"}}`), text("d")), user("e"),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"t1"},` +
				`{"role":"user","content":"c"},{"role":"assistant","content":"d","reasoning_content":"t2"},{"role":"user","content":"e"}]`,
		},
		{
			"reasoning of another dialect, or of a made-up member, stays here", "",
			[]chat.PromptMessage{user("a"), assistant(thought("t", `{"anthropic":{"signature":"x"}}`), thought("t", `{"openai":{"reasoningField":"content"}}`), thought("t", `7`), text("b")), user("c")},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
		},
		{
			"nothing but reasoning leaves an empty string", "",
			[]chat.PromptMessage{user("a"), assistant(thought("t", ``)), user("b")},
			`[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"b"}]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := sent(t, chat.Prompt{Model: "m1", System: tt.system, Messages: tt.messages}, llm.OpenAIOptions{})
			if diff := cmp.Diff(tt.want, string(body["messages"])); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenAIOffersTools(t *testing.T) {
	t.Parallel()
	p := hello()
	p.Tools = []chat.ToolSpec{
		{Name: "fs__rm", Description: "Deletes <a> file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
		{Name: "bare"},
	}
	body := sent(t, p, llm.OpenAIOptions{})
	want := `[{"type":"function","function":{"name":"fs__rm","description":"Deletes <a> file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}},` +
		`{"type":"function","function":{"name":"bare","parameters":{"type":"object","properties":{}}}}]`
	if diff := cmp.Diff(want, string(body["tools"])); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got := string(body["stream_options"]); got != `{"include_usage":true}` {
		t.Errorf("stream_options %s", got)
	}
	if got := string(body["stream"]) + string(body["model"]); got != `true"m1"` {
		t.Errorf("stream and model %s", got)
	}
}

func TestOpenAICanLeaveUsageAndKeyOut(t *testing.T) {
	t.Parallel()
	srv := llmtest.New(t, llmtest.Text("ok"))
	m, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: srv.URL + "/", OmitUsage: true})
	if err != nil {
		t.Fatal(err)
	}
	wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
	r := srv.Requests()[0]
	if r.IncludeUsage || r.Header.Get("Authorization") != "" || r.Tools != nil {
		t.Errorf("sent usage %v, authorization %q, tools %v", r.IncludeUsage, r.Header.Get("Authorization"), r.Tools)
	}
}

func TestOpenAISendsItsKey(t *testing.T) {
	t.Parallel()
	srv := llmtest.New(t, llmtest.Text("ok"))
	wantOK(t, stream(t.Context(), openAI(t, srv.URL), hello()), chat.FinishStop)
	if got := srv.Requests()[0].Header.Get("Authorization"); got != "Bearer "+testKey {
		t.Errorf("authorization %q", got)
	}
}

func TestOpenAIReasoningSurvivesTheWholeWay(t *testing.T) {
	t.Parallel()
	srv := llmtest.New(t, llmtest.ReasoningIn("reasoning", "hm").Then(llmtest.Calls(llmtest.Call{ID: "a", Name: "rm", Args: `{ "n": 1 }`})), llmtest.Text("ok"))
	m := openAI(t, srv.URL)
	first := stream(t.Context(), m, hello())
	wantOK(t, first, chat.FinishToolCalls)
	history := chat.History([]chat.Message{
		{Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "hello"}}},
		{Role: chat.RoleAssistant, Parts: first.draft.Complete(nil)},
	})
	wantOK(t, stream(t.Context(), m, chat.Prompt{Model: "m1", Messages: history}), chat.FinishStop)
	got := srv.Requests()[1].Messages[1]
	if got.Reasoning != "hm" || got.ReasoningContent != "" || got.ToolCalls[0].Function.Arguments != `{"n":1}` {
		t.Errorf("assistant message %+v", got)
	}
}
