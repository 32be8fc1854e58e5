package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// always approves the card of the call with the text, and its tool for good.
func (w *world) always(topic, text string) {
	w.t.Helper()
	w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{
		"approvalId": w.card(topic, text).ApprovalID, "approved": true, "remember": "always-allow",
	})
}

// boxed starts the server with a box beside the built-in tools, and a model
// that answers every message with the calls and then a word.
func (w *world) boxed(calls ...llmtest.Call) (*box, chat.ServerInfo) {
	w.t.Helper()
	w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return llmtest.Text("ok")
		}
		return llmtest.Calls(calls...)
	})
	w.start()
	b := newBox(w.t, "note", "look")
	return b, w.addServer(map[string]any{"name": "box", "url": b.url})
}

// waits is a new topic in which the model has made its calls.
func (w *world) waits() string {
	w.t.Helper()
	topic := w.topic()
	w.send(topic, "go")
	w.until(topic, chat.TopicAwaitingApproval)
	return topic
}

func TestAlwaysAllowSaysTheRuleFirstAndHoldsFromThenOn(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		b, server := w.boxed(boxCall("note", "a"), boxCall("note", "b"), boxCall("look", "c"))
		first, second, strict := w.waits(), w.waits(), w.topic()
		w.want(200, "PATCH", "/topics/"+strict, `{"mode":"ask-all"}`)
		w.send(strict, "go")
		w.until(strict, chat.TopicAwaitingApproval)

		card := w.card(first, "a")
		allow := w.explain("approvalId=" + card.ApprovalID).AlwaysAllow
		if allow == nil || allow.ServerID != server.ID || allow.Tool != "note" || !allow.Effective || allow.Others != 3 ||
			!strings.Contains(allow.Rule, "note") || !strings.Contains(allow.Rule, "box") || !strings.Contains(allow.Rule, "disabledAutoApproveTools") {
			t.Errorf("the rule is shown as %+v", allow)
		}
		if in := w.explain("approvalId=" + w.card(strict, "a").ApprovalID).AlwaysAllow; in == nil || in.Effective || !strings.Contains(in.Why, "every call") {
			t.Errorf("where every call is asked for it is shown as %+v", in)
		}
		tab := w.open("", nil, second)
		w.eventually(func() bool { return tab.cards(second) == 3 }, func() string { return "the tab does not show the cards" })
		w.always(first, "a")
		w.eventually(func() bool { // it is told of the rule without asking
			parts, _ := tab.topic(second)
			return tab.cards(second) == 1 && strings.Count(parts, `"decidedBy":"auto-approve"`) == 2
		}, func() string { return "the tab does not show what the rule settled" })

		// The other card of the topic and those of the other topic are settled by
		// the rule; other tools and the strict topic are not.
		for topic, texts := range map[string][]string{first: {"b"}, second: {"a", "b"}} {
			w.eventually(func() bool { return len(w.pending(topic)) == 1 }, func() string { return "the cards were not settled" })
			for _, c := range w.calls(topic) {
				if text := strings.TrimPrefix(c.ToolCallID, "call-"); slices.Contains(texts, text) {
					if a := c.Approval; !a.Granted() || a.Via != chat.ViaRule || a.DecidedBy != chat.ByAutoApprove || a.Reason == "" {
						t.Errorf("%s was settled as %+v", text, a)
					}
				}
			}
			w.card(topic, "c")
		}
		if n := len(w.pending(strict)); n != 3 {
			t.Errorf("%d cards wait where every call is asked for", n)
		}
		mine := w.calls(first)[0].Approval
		if mine.DecidedBy != owner || mine.Remember != chat.RememberAlwaysAllow {
			t.Errorf("the decision is %+v", mine)
		}
		w.approve(first, "c")
		w.until(first, chat.TopicDone)
		w.deny(second, "c", "")
		w.until(second, chat.TopicDone)
		runs := b.runs()
		slices.Sort(runs)
		if want := []string{"look c", "note a", "note a", "note b", "note b"}; !slices.Equal(runs, want) {
			t.Errorf("ran %q, want %q", runs, want)
		}
		var ways []chat.Via
		for _, e := range w.audit(second) {
			ways = append(ways, e.Via)
		}
		if !slices.Equal(ways, []chat.Via{chat.ViaRule, chat.ViaRule, chat.ViaAPI}) {
			t.Errorf("the audit says %v", ways)
		}

		// From now on it does not ask, until it is taken back.
		if got := w.server(server.ID, chat.ServerReady); !slices.Equal(got.AutoApproveTools, []string{"note"}) || !slices.Equal(got.DisabledAutoApproveTools, []string{"look"}) {
			t.Errorf("the settings are %+v", got)
		}
		third := w.waits()
		if n := len(w.pending(third)); n != 1 {
			t.Errorf("%d cards wait", n)
		}
		w.want(200, "PATCH", serverPath(server.ID), `{"disabledAutoApproveTools":["note","look"]}`)
		if n := len(w.pending(w.waits())); n != 3 {
			t.Errorf("%d cards wait after it was taken back", n)
		}
		var record struct {
			Versions []chat.ServerChange `json:"versions"`
		}
		w.want(200, "GET", serverPath(server.ID)+"/versions", nil).into(t, &record)
		if len(record.Versions) != 3 || record.Versions[1].ApprovalID != card.ApprovalID || record.Versions[1].By != owner ||
			!slices.Equal(record.Versions[1].After.AutoApproveTools, []string{"note"}) || record.Versions[0].ApprovalID != "" {
			t.Errorf("recorded: %+v", record)
		}
	})
}

func TestAlwaysAllowIsDecidedOnceAndOnlyWhereItCanBe(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Role == "tool" {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(call("note", "a"), llmtest.Call{ID: "w", Name: "workspace__write_file", Args: `{"path":"a.txt","content":"1"}`},
				llmtest.Call{ID: "v", Name: "workspace__write_file", Args: `{"path":"b.txt","content":"1"}`})
		})
		w.start()
		topic := w.waits()
		path := "/topics/" + topic + "/approvals"
		probe := w.card(topic, "a")
		if e := w.explain("approvalId=" + probe.ApprovalID); e.AlwaysAllow != nil {
			t.Errorf("a tool of which nothing can be stored is offered: %+v", e.AlwaysAllow)
		}
		w.want(422, "POST", path, map[string]any{"approvalId": probe.ApprovalID, "approved": true, "remember": "always-allow"})
		w.want(422, "POST", path, map[string]any{"approvalId": probe.ApprovalID, "approved": false, "remember": "always-allow"})
		w.want(422, "POST", path, map[string]any{"approvalId": probe.ApprovalID, "approved": true, "remember": "for ever"})

		// A batch that fails changes no setting.
		cards := w.pending(topic)
		write := cards[1].ApprovalID
		w.want(409, "POST", path, map[string]any{"decisions": []any{
			map[string]any{"approvalId": write, "approved": true, "remember": "always-allow"},
			map[string]any{"approvalId": probe.ApprovalID, "approved": true, "remember": "always-allow"},
		}})
		if got := w.server("workspace", chat.ServerReady); slices.Contains(got.AutoApproveTools, "write_file") || len(w.pending(topic)) != 3 {
			t.Errorf("the refused batch left %v and %d cards", got.AutoApproveTools, len(w.pending(topic)))
		}

		w.want(200, "POST", path, map[string]any{"approvalId": write, "approved": true, "remember": "always-allow"})
		var d chat.Decided
		w.want(200, "POST", path, map[string]any{"approvalId": write, "approved": true, "remember": "always-allow"}).into(t, &d)
		if d.Results[0].Outcome != chat.EffectAlreadySettled || d.Continuation != chat.ContinuationNone {
			t.Errorf("the repeat gives %+v", d)
		}
		w.want(200, "POST", path, map[string]any{"approvalId": write, "approved": true})
		w.eventually(func() bool { return len(w.pending(topic)) == 1 }, func() string { return "the other call still waits" })
		w.approve(topic, "a")
		w.until(topic, chat.TopicDone)
		again := w.waits()
		yes := w.card(again, "a").ApprovalID
		w.want(200, "POST", "/topics/"+again+"/approvals", map[string]any{"approvalId": yes, "approved": true})
		w.until(again, chat.TopicDone)
		if n := w.probe.starts(t, "a"); n != 2 {
			t.Errorf("the probe ran %d times", n)
		}
	})
}
