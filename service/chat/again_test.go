package chat_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

// asked is a tool, and a call of it that waits.
func asked() (chat.Tool, chat.ToolCall) {
	tool := chat.Tool{
		Name: "s__t", Server: "s", ServerID: "1", Tool: "t", Title: "Do it", Identity: "as it was",
		InputSchema: json.RawMessage(`{"type":"object","required":["a"]}`), Annotations: json.RawMessage(`{"readOnlyHint":true}`),
	}
	call := chat.ToolCall{
		Type: chat.DynamicTool, ToolName: tool.Name, ToolCallID: "c1", State: chat.CallInputAvailable, Input: json.RawMessage(`{"a":1}`),
		ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictAsk, Rule: chat.ByDefault, Why: "Nothing allows it.", Principal: "ada", Model: "p/m", Step: 2},
	}
	return tool, chat.Ask(chat.Describe(call, tool), "ap1", noon)
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	tool, call := asked()
	want := &chat.ToolMetadata{
		Server: "s", ServerID: "1", Tool: "t", Title: "Do it", Annotations: tool.Annotations, InputSchema: tool.InputSchema, ServerIdentity: "as it was",
		Verdict: chat.VerdictAsk, Rule: chat.ByDefault, Why: "Nothing allows it.", Principal: "ada", Model: "p/m", Step: 2,
	}
	if diff := cmp.Diff(want, call.ToolMetadata); diff != "" || call.Title != "Do it" {
		t.Errorf("title %q (-want +got):\n%s", call.Title, diff)
	}
	if call.Approval.SchemaDigest != chat.Digest(tool.InputSchema) || call.Approval.InputDigest != chat.Digest(call.Input) {
		t.Errorf("asked about %+v", call.Approval)
	}
	if bare := chat.Ask(chat.ToolCall{Input: json.RawMessage(`{}`)}, "ap1", noon); bare.Approval.SchemaDigest != "" {
		t.Errorf("a call without a schema names one: %s", bare.Approval.SchemaDigest)
	}
	if refused := chat.Refuse(call, "ap2", chat.Judgement{Rule: "no"}, noon); refused.Approval.SchemaDigest != chat.Digest(tool.InputSchema) {
		t.Errorf("refused: %+v", refused.Approval)
	}
	gone, _ := chat.AskAgain(call, chat.Tool{}, false, nil, "ap2", later)
	if back := chat.Describe(gone, tool); back.ToolMetadata.Gone || !gone.ToolMetadata.Gone {
		t.Error("a tool that is described is not gone, and the call that was given does not change")
	}
}

func TestWhetherAToolIsTheSame(t *testing.T) {
	t.Parallel()
	change := func(f func(*chat.Tool)) func(*chat.Tool, *chat.ToolMetadata) {
		return func(tool *chat.Tool, _ *chat.ToolMetadata) { f(tool) }
	}
	for _, tt := range []struct {
		name   string
		change func(*chat.Tool, *chat.ToolMetadata)
		why    string // part of it; "" if it is the same
	}{
		{"nothing", change(func(*chat.Tool) {}), ""},
		{"the schema, written otherwise", change(func(tool *chat.Tool) { tool.InputSchema = json.RawMessage(`{ "required": ["a"], "type": "object" }`) }), ""},
		{"what a person said about it", change(func(tool *chat.Tool) { tool.Policy = chat.ToolPolicy{AutoApprove: true} }), ""},
		{"its title", change(func(tool *chat.Tool) { tool.Title = "Do it well" }), ""},
		{"the server's name", change(func(tool *chat.Tool) { tool.Name, tool.Server = "z__t", "z" }), ""},
		{"the server", change(func(tool *chat.Tool) { tool.ServerID = "2" }), "Another tool"},
		{"the tool", change(func(tool *chat.Tool) { tool.Tool = "u" }), "Another tool"},
		{"the connection", change(func(tool *chat.Tool) { tool.Identity = "other" }), "in another way"},
		{"the connection, to none that can change", change(func(tool *chat.Tool) { tool.Identity = "" }), "in another way"},
		{"the schema", change(func(tool *chat.Tool) { tool.InputSchema = json.RawMessage(`{"type":"object"}`) }), "other input"},
		{"a number of the schema in its last digit", func(tool *chat.Tool, m *chat.ToolMetadata) {
			m.InputSchema, tool.InputSchema = json.RawMessage(`{"maximum":12345678901234567890}`), json.RawMessage(`{"maximum":12345678901234567891}`)
		}, "other input"},
		{"the schema, to none", change(func(tool *chat.Tool) { tool.InputSchema = nil }), "other input"},
		{"what it claims", change(func(tool *chat.Tool) { tool.Annotations = json.RawMessage(`{"readOnlyHint":false}`) }), "claims"},
		{"what it claims, to nothing", change(func(tool *chat.Tool) { tool.Annotations = nil }), "claims"},
		{"a call from before there were identities", func(_ *chat.Tool, m *chat.ToolMetadata) { m.ServerIdentity = "" }, ""},
		{"a tool that was gone", func(_ *chat.Tool, m *chat.ToolMetadata) { m.Gone = true }, "again"},
		{"a tool that was gone, and is another now", func(tool *chat.Tool, m *chat.ToolMetadata) { m.Gone, tool.ServerID = true, "2" }, "Another tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tool, call := asked()
			m := *call.ToolMetadata
			tt.change(&tool, &m)
			call.ToolMetadata = &m
			why := chat.Changed(call, tool, true)
			if (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
				t.Errorf("got %q, want %q", why, tt.why)
			}
			if same := chat.SameTool(call, tool); same != (tt.why == "" || tt.why == "again") {
				t.Errorf("the same: %v", same)
			}
			if gone := chat.Changed(call, chat.Tool{}, false); (gone == "") != m.Gone {
				t.Errorf("not offered: %q", gone)
			}
		})
	}
}

func TestAskAgain(t *testing.T) {
	t.Parallel()
	tool, call := asked()
	other := tool
	other.Title, other.InputSchema, other.Identity = "New", json.RawMessage(`{"type":"object"}`), "other"
	no := errors.New("/a: must not be there")

	t.Run("of what has not changed is none", func(t *testing.T) {
		t.Parallel()
		if got, ok := chat.AskAgain(call, tool, true, nil, "ap2", later); ok || cmp.Diff(call, got) != "" {
			t.Errorf("got %v, %+v", ok, got)
		}
		if got, ok := chat.AskAgain(call, tool, true, no, "ap2", later); ok || cmp.Diff(call, got) != "" {
			t.Errorf("what it asked for is wrong by now: %v, %+v", ok, got)
		}
	})
	t.Run("of a call that does not wait is none", func(t *testing.T) {
		t.Parallel()
		yes, _, err := chat.Decide(call, chat.Decision{ApprovalID: "ap1", Approved: true}, ada, later)
		if err != nil {
			t.Fatal(err)
		}
		closed, _ := chat.Close(call, chat.ResolutionCancelled, later)
		expired := chat.ExpireAfter(call, later.Sub(noon))
		for _, c := range []chat.ToolCall{yes, closed, expired, {}} {
			for _, offered := range []bool{true, false} {
				if got, ok := chat.AskAgain(c, other, offered, nil, "ap2", later); ok || cmp.Diff(c, got) != "" {
					t.Errorf("%s: got %v, %+v", c.State, ok, got)
				}
			}
		}
	})
	t.Run("asks about the tool that there is now", func(t *testing.T) {
		t.Parallel()
		got, ok := chat.AskAgain(call, other, true, nil, "ap2", later)
		want := chat.Ask(chat.Describe(call, other), "ap2", later)
		m := *want.ToolMetadata
		m.Changed = "The settings of the tool's server changed: the call would reach it in another way."
		want.ToolMetadata = &m
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%v (-want +got):\n%s", ok, diff)
		}
		if got.Approval.SchemaDigest != chat.Digest(other.InputSchema) || !got.Approval.RequestedAt.Equal(later) {
			t.Errorf("asked about %+v", got.Approval)
		}
	})
	t.Run("settles what the tool does not take any more", func(t *testing.T) {
		t.Parallel()
		got, ok := chat.AskAgain(call, other, true, no, "ap2", later)
		if !ok || got.State != chat.CallOutputError || got.ToolMetadata.Outcome != chat.OutcomeInvalid || got.Approval != nil || got.Runnable() ||
			!strings.Contains(got.ErrorText, no.Error()) || got.ToolMetadata.Changed == "" {
			t.Errorf("got %v, %s, %+v", ok, got.State, got.ToolMetadata)
		}
	})
	t.Run("asks once when the tool goes, and once when it comes back", func(t *testing.T) {
		t.Parallel()
		gone, ok := chat.AskAgain(call, chat.Tool{}, false, no, "ap2", later)
		if !ok || !gone.Pending() || gone.Approval.ID != "ap2" || !gone.ToolMetadata.Gone || !strings.Contains(gone.ToolMetadata.Changed, "does not offer") {
			t.Fatalf("got %v, %+v, %+v", ok, gone.Approval, gone.ToolMetadata)
		}
		if gone.ToolMetadata.Tool != "t" || string(gone.ToolMetadata.InputSchema) != string(tool.InputSchema) || gone.Title != "Do it" {
			t.Errorf("it is not known any more what was asked: %+v", gone.ToolMetadata)
		}
		if _, ok := chat.AskAgain(gone, chat.Tool{}, false, nil, "ap3", later); ok {
			t.Error("asked again while nothing changed")
		}
		back, ok := chat.AskAgain(gone, tool, true, nil, "ap3", later)
		if !ok || back.Approval.ID != "ap3" || back.ToolMetadata.Gone || !strings.Contains(back.ToolMetadata.Changed, "again") {
			t.Errorf("got %v, %+v, %+v", ok, back.Approval, back.ToolMetadata)
		}
	})
	if diff := cmp.Diff(call.Approval.ID, "ap1"); diff != "" || call.ToolMetadata.Changed != "" || call.ToolMetadata.Gone {
		t.Error("the argument was modified")
	}
}

// However tools change, a card that was asked again is true until they change
// again, and what it was asked about is what is recorded of the tool.
func TestAskAgainComesToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, call := asked()
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			now := chat.Tool{
				ServerID: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "server"), Tool: rapid.SampledFrom([]string{"t", "u"}).Draw(t, "tool"),
				Identity:    rapid.SampledFrom([]string{"", "as it was", "other"}).Draw(t, "identity"),
				InputSchema: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"type":"object","required":["a"]}`), json.RawMessage(`{"a":1.0}`), json.RawMessage(`{"a":1}`)}).Draw(t, "schema"),
				Annotations: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`{"readOnlyHint":true}`)}).Draw(t, "claims"),
			}
			offered := rapid.Bool().Draw(t, "offered")
			before := call
			next, ok := chat.AskAgain(call, now, offered, nil, call.Approval.ID+"'", later)
			if ok != (chat.Changed(before, now, offered) != "") || ok != (next.Approval.ID != before.Approval.ID) {
				t.Fatalf("asked again: %v, %s", ok, next.Approval.ID)
			}
			if why := chat.Changed(next, now, offered); why != "" {
				t.Fatalf("it is asked again for ever: %s", why)
			}
			if !next.Pending() || string(next.Input) != string(before.Input) || next.ToolMetadata.Gone == offered {
				t.Fatalf("got %+v", next)
			}
			if offered && !chat.SameTool(next, now) {
				t.Fatalf("asked about %+v, offered is %+v", next.ToolMetadata, now)
			}
			// What is stored and read again is as true.
			raw, err := chat.EncodePart(next)
			if err != nil {
				t.Fatal(err)
			}
			part, err := chat.DecodePart(raw)
			if err != nil {
				t.Fatal(err)
			}
			call = part.(chat.ToolCall)
			if why := chat.Changed(call, now, offered); why != "" {
				t.Fatalf("after it was stored: %s", why)
			}
		}
	})
}
