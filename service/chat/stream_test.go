package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

// A reader that applies the deltas as docs/events.md says, counting in UTF-16
// units, holds the draft's text at every moment.
func TestDraftDeltasRebuildTheDraft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d chat.Draft
		var fields [][]uint16
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			ev := chat.StreamEvent{
				Kind:  rapid.SampledFrom([]chat.StreamKind{chat.StreamText, chat.StreamReasoning, chat.StreamToolStart, chat.StreamToolInput}).Draw(t, "kind"),
				Index: rapid.IntRange(0, 2).Draw(t, "index"),
				ID:    "c", Name: "s__t",
				Text: rapid.SampledFrom([]string{"", "a", "é", "😀", "\u2028", "{}"}).Draw(t, "text"),
			}
			delta, ok := d.Apply(ev)
			if !ok {
				continue
			}
			if (delta.Start != nil) != (delta.Part == len(fields)) {
				t.Fatalf("part %d of %d, start %v", delta.Part, len(fields), delta.Start)
			}
			if delta.Start != nil {
				fields = append(fields, nil)
			}
			if delta.Offset != len(fields[delta.Part]) {
				t.Fatalf("offset %d, have %d", delta.Offset, len(fields[delta.Part]))
			}
			fields[delta.Part] = append(fields[delta.Part], utf16.Encode([]rune(delta.Text))...)
		}
		parts := d.Parts()
		if len(parts) != len(fields) {
			t.Fatalf("%d parts, %d known", len(parts), len(fields))
		}
		for i, p := range parts {
			var text string
			switch p := p.(type) {
			case chat.Text:
				text = p.Text
			case chat.Reasoning:
				text = p.Text
			case chat.ToolCall:
				text = p.RawInput
			}
			if got := string(utf16.Decode(fields[i])); got != text {
				t.Fatalf("part %d: %q, want %q", i, got, text)
			}
		}
	})
}

func draft(events ...chat.StreamEvent) *chat.Draft {
	var d chat.Draft
	for _, ev := range events {
		d.Apply(ev)
	}
	return &d
}

func TestDraftComplete(t *testing.T) {
	t.Parallel()
	d := draft(
		chat.StreamEvent{Kind: chat.StreamReasoning, Text: "hm"},
		chat.StreamEvent{Kind: chat.StreamText, Text: "I will "},
		chat.StreamEvent{Kind: chat.StreamText, Text: "write."},
		chat.StreamEvent{Kind: chat.StreamToolStart, Index: 0, ID: "c", Name: "s__w"},
		chat.StreamEvent{Kind: chat.StreamToolStart, Index: 1, ID: "c", Name: "s__w"},
		chat.StreamEvent{Kind: chat.StreamToolInput, Index: 0, Text: `{"n":`},
		chat.StreamEvent{Kind: chat.StreamToolInput, Index: 1, Text: `{"n":`},
		chat.StreamEvent{Kind: chat.StreamToolInput, Index: 0, Text: `12345678901234567890}`},
		chat.StreamEvent{Kind: chat.StreamToolInput, Index: 7, Text: `lost`},
	)
	got := d.Complete(map[string]bool{"c": true})
	want := chat.Parts{
		chat.Reasoning{Text: "hm", State: "done"},
		chat.Text{Text: "I will write.", State: "done"},
		chat.ToolCall{Type: chat.DynamicTool, ToolName: "s__w", ToolCallID: "c-2", State: chat.CallInputAvailable, Input: json.RawMessage(`{"n":12345678901234567890}`)},
		chat.ToolCall{
			Type: chat.DynamicTool, ToolName: "s__w", ToolCallID: "c-3", State: chat.CallOutputError, RawInput: `{"n":`,
			ErrorText:    "The call was not run: the arguments are not valid JSON: they end too early.",
			ToolMetadata: &chat.ToolMetadata{Outcome: chat.OutcomeInvalid},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(chat.Parts{want[0], want[1]}, d.Text()); diff != "" {
		t.Error("a broken reply keeps more, or less, than its words:", diff)
	}
}

func TestHearingTellsTheFivesApart(t *testing.T) {
	t.Parallel()
	no := chat.Decision{Reason: "only staging"}
	denied, _ := chat.SettleDenied(decided(t, no))
	cancelled, _ := chat.Close(waiting(), chat.ResolutionCancelled, later)
	expired, _ := chat.Close(waiting(), chat.ResolutionExpired, later)
	superseded, _ := chat.Close(waiting(), chat.ResolutionSuperseded, later)
	failed, _ := chat.Finish(decided(t, chat.Decision{Approved: true}), chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "disk full"}, later)
	started, _ := chat.Start(decided(t, chat.Decision{Approved: true}), later)
	unknown, _ := chat.Lose(started, later)
	stopped, _ := chat.Close(decided(t, chat.Decision{Approved: true}), chat.ResolutionCancelled, later)
	refused := chat.Refuse(waiting(), "ap", chat.Judgement{Verdict: chat.VerdictDeny, Rule: "r", Reason: "never on Fridays"}, noon)
	seen := map[string]bool{}
	for _, tt := range []struct {
		call chat.ToolCall
		want string
	}{
		{denied, "The person refused this call. It was not run. The reason given: only staging"},
		{cancelled, "ended before anybody decided"}, {expired, "expired"}, {superseded, "went on without deciding"},
		{failed, "disk full"}, {unknown, "outcome is unknown"}, {stopped, "Stopped before it ran"}, {refused, "A rule of this server refused this call. It was not run. The reason given: never on Fridays"},
		{waiting(), "no result yet"},
	} {
		text, bad := chat.Hearing(tt.call)
		if !bad || !strings.Contains(text, tt.want) || seen[text] {
			t.Errorf("%s: %q, %v", tt.call.State, text, bad)
		}
		seen[text] = true
	}
	edited := decided(t, chat.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"path":"b"}`)})
	edited, _ = chat.Finish(edited, chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"wrote"`)}, later)
	if text, bad := chat.Hearing(edited); bad || !strings.Contains(text, `{"path":"b"}`) || !strings.HasSuffix(text, "wrote") {
		t.Errorf("got %q, %v", text, bad)
	}
}

// Whatever a message holds, the provider sees every call followed by exactly
// one result, in the next message, before anything else.
func TestHistoryPairsCallsAndResults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts chat.Parts
		n := 0
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			switch rapid.IntRange(0, 4).Draw(t, "type") {
			case 0:
				parts = append(parts, chat.StepStart{})
			case 1:
				parts = append(parts, chat.Text{Text: rapid.SampledFrom([]string{"", "words"}).Draw(t, "text")})
			case 2:
				parts = append(parts, chat.Reasoning{Text: "hm"})
			case 3:
				parts = append(parts, chat.Other{Type: "data-x", Raw: json.RawMessage(`{"type":"data-x"}`)})
			case 4:
				n++
				call := waiting()
				call.ToolCallID = strings.Repeat("c", n)
				call.State = rapid.SampledFrom([]chat.CallState{
					chat.CallInputStreaming, chat.CallInputAvailable, chat.CallApprovalRequested, chat.CallApprovalResponded,
					chat.CallOutputAvailable, chat.CallOutputError, chat.CallOutputDenied,
				}).Draw(t, "state")
				parts = append(parts, call)
			}
		}
		history := chat.History([]chat.Message{
			{Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "go"}}},
			{Role: chat.RoleAssistant, Parts: parts},
			{Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "on"}}},
		})
		seen := 0
		for i, m := range history {
			if len(m.Parts) == 0 {
				t.Fatal("an empty message")
			}
			var calls, results []string
			for _, p := range m.Parts {
				switch p.Kind {
				case chat.PromptToolCall:
					calls = append(calls, p.CallID)
				case chat.PromptToolResult:
					results = append(results, p.CallID)
				}
			}
			if (m.Role == chat.PromptTool) != (len(results) > 0) {
				t.Fatalf("message %d: %+v", i, m)
			}
			if len(calls) > 0 {
				seen += len(calls)
				var next []string
				for _, p := range history[i+1].Parts {
					next = append(next, p.CallID)
				}
				if diff := cmp.Diff(calls, next); diff != "" || history[i+1].Role != chat.PromptTool {
					t.Fatal("calls without their results:", diff)
				}
			}
		}
		if seen != n {
			t.Fatalf("%d of %d calls are in the history", seen, n)
		}
	})
}
