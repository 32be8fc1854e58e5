package main

import (
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// replaced waits until another question has taken the place of the card.
func (w *world) replaced(topic string, card chat.ApprovalItem) chat.ToolCall {
	w.t.Helper()
	var now chat.ToolCall
	w.eventually(func() bool {
		for _, c := range w.calls(topic) {
			if c.ToolCallID == card.ToolCallID {
				now = c
			}
		}
		return now.Approval == nil || now.Approval.ID != card.ApprovalID
	}, func() string { return "the card was not asked again" })
	return now
}

func TestACardWhoseToolChangesIsAskedAgainAtOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		b, server := w.boxed(boxCall("note", "a"))
		topic := w.waits()
		yes := func(card chat.ApprovalItem, status int) {
			t.Helper()
			w.want(status, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": card.ApprovalID, "approved": true})
		}

		card := w.card(topic, "a")
		if card.Approval.SchemaDigest == "" || card.Approval.InputDigest == "" {
			t.Errorf("the card is bound to %+v", card.Approval)
		}
		b.add("note", `{"type":"string","maxLength":100}`)
		now := w.replaced(topic, card)
		if !now.Pending() || !strings.Contains(now.ToolMetadata.Changed, "other input") || now.Approval.SchemaDigest == card.Approval.SchemaDigest {
			t.Errorf("asked again as %+v, %+v", now, now.ToolMetadata)
		}
		yes(card, 410)

		card = w.card(topic, "a")
		w.want(200, "PATCH", serverPath(server.ID), map[string]any{"headers": map[string]any{"X-Place": "elsewhere"}})
		now = w.replaced(topic, card)
		if !now.Pending() || !strings.Contains(now.ToolMetadata.Changed, "settings") {
			t.Errorf("asked again as %+v", now.ToolMetadata)
		}
		w.server(server.ID, chat.ServerReady)

		card = w.card(topic, "a")
		b.server.RemoveTools("note")
		if now = w.replaced(topic, card); !now.Pending() || !now.ToolMetadata.Gone {
			t.Errorf("asked again as %+v", now.ToolMetadata)
		}
		card = w.card(topic, "a")
		b.add("note", `{"type":"string","maxLength":100}`)
		if now = w.replaced(topic, card); !now.Pending() || now.ToolMetadata.Gone || !strings.Contains(now.ToolMetadata.Changed, "again") {
			t.Errorf("asked again as %+v", now.ToolMetadata)
		}

		yes(w.card(topic, "a"), 200)
		w.until(topic, chat.TopicDone)
		if runs := b.runs(); len(runs) != 1 || runs[0] != "note a" {
			t.Errorf("ran %q", runs)
		}
		closed := 0
		for _, e := range w.audit(topic) {
			if e.Resolution == chat.ResolutionSuperseded && !e.Approved && e.StartedAt == nil {
				closed++
			}
		}
		if closed != 4 {
			t.Errorf("%d questions were closed as superseded, want 4", closed)
		}
	})
}

func TestAChangeThatTheInputDoesNotFitSettlesTheCall(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		b, _ := w.boxed(boxCall("note", "a"))
		topic := w.waits()
		b.add("note", `{"type":"integer"}`)
		w.until(topic, chat.TopicDone)
		c := w.calls(topic)[0]
		if c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeInvalid || len(b.runs()) != 0 {
			t.Errorf("the call is %+v, ran %q", c, b.runs())
		}
	})
}

func TestAnApprovedCallDoesNotRunOnAnotherTool(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		b, server := w.boxed(boxCall("note", "a"), boxCall("look", "b"))
		topic := w.waits()
		w.approve(topic, "a") // waits for its sibling
		card := w.card(topic, "b")
		w.want(200, "PATCH", serverPath(server.ID), map[string]any{"headers": map[string]any{"X-Place": "elsewhere"}})
		w.replaced(topic, card)
		w.server(server.ID, chat.ServerReady)
		w.approve(topic, "b")
		w.until(topic, chat.TopicDone)
		calls := w.calls(topic)
		if c := calls[0]; c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnavailable || !c.Approval.Granted() {
			t.Errorf("the call is %+v", c)
		}
		if runs := b.runs(); len(runs) != 1 || runs[0] != "look b" {
			t.Errorf("ran %q", runs)
		}
	})
}

func TestARemovedServerLeavesNoCardThatCannotBeDecided(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		b, server := w.boxed(boxCall("note", "a"), boxCall("look", "b"))
		topic := w.waits()
		a, c := w.card(topic, "a"), w.card(topic, "b")
		w.want(204, "DELETE", serverPath(server.ID), nil)
		w.replaced(topic, a)
		w.replaced(topic, c)
		w.approve(topic, "a")
		w.deny(topic, "b", "it is gone")
		w.until(topic, chat.TopicDone)
		calls := w.calls(topic)
		if calls[0].ToolMetadata.Outcome != chat.OutcomeUnavailable || calls[1].State != chat.CallOutputDenied || len(b.runs()) != 0 {
			t.Errorf("the calls are %+v, ran %q", calls, b.runs())
		}
	})
}
