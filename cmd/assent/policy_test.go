package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// rule adds a rule over HTTP.
func (w *world) rule(v chat.Verdict, expression string) chat.Rule {
	w.t.Helper()
	var r chat.Rule
	w.want(201, "POST", "/policy/rules", map[string]any{"name": string(v) + " rule", "verdict": v, "expression": expression, "reason": "House rules."}).into(w.t, &r)
	return r
}

func (w *world) explain(query string) chat.Explanation {
	w.t.Helper()
	var e chat.Explanation
	w.want(200, "GET", "/policy/explain?"+query, nil).into(w.t, &e)
	return e
}

// TestPrecedenceOverHTTP holds each line of the order of precedence against
// the one above it, from the rule's text to what ran.
func TestPrecedenceOverHTTP(t *testing.T) {
	deny, ask, allow := chat.VerdictDeny, chat.VerdictAsk, chat.VerdictAllow
	type rules []struct {
		verdict    chat.Verdict
		expression string
	}
	const fails = `server == "probe" && input.missing == 1`
	for name, tt := range map[string]struct {
		tool  string
		mode  chat.Mode
		rules rules
		state chat.CallState
		rule  string
	}{
		"DisabledOverAll":         {"off", "", rules{{allow, "true"}}, chat.CallOutputDenied, chat.ByDisabled},
		"DenyOverAskAll":          {"peek", chat.ModeAskAll, rules{{allow, "true"}, {ask, "true"}, {deny, `tool == "peek"`}}, chat.CallOutputDenied, "deny rule"},
		"AskAllOverAllow":         {"peek", chat.ModeAskAll, rules{{allow, "true"}, {ask, "true"}}, chat.CallApprovalRequested, chat.ByAskAll},
		"AskOverAllow":            {"peek", "", rules{{allow, "true"}, {ask, `input.text == "a"`}}, chat.CallApprovalRequested, "ask rule"},
		"AllowOverNothing":        {"note", "", rules{{allow, `server == "probe" && tool == "note"`}}, chat.CallOutputAvailable, "allow rule"},
		"NothingKnown":            {"note", "", rules{{allow, `server == "workspace"`}, {deny, `tool == "probe__note"`}}, chat.CallApprovalRequested, chat.ByDefault},
		"AutoApprove":             {"peek", chat.ModeDefault, nil, chat.CallOutputAvailable, chat.ByAutoApprove},
		"DenyThatFailsAsks":       {"peek", "", rules{{allow, "true"}, {deny, fails}}, chat.CallApprovalRequested, "deny rule"},
		"AllowThatFailsAsks":      {"peek", "", rules{{allow, fails}}, chat.CallApprovalRequested, "allow rule"},
		"AskThatFailsAsks":        {"peek", "", rules{{ask, fails}}, chat.CallApprovalRequested, "ask rule"},
		"DenyOverDenyThatFails":   {"peek", "", rules{{deny, fails}, {deny, "true"}}, chat.CallOutputDenied, "deny rule"},
		"AClaimOfReadingIsNoHelp": {"note", chat.ModeTrustedReadOnly, nil, chat.CallApprovalRequested, chat.ByDefault},
	} {
		t.Run(name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, w *world) {
				turns := []llmtest.Turn{llmtest.Calls(call(tt.tool, "a")), llmtest.Text("ok")}
				if tt.state == chat.CallApprovalRequested {
					turns = turns[:1] // the model is not asked again
				}
				w.says(turns...)
				w.start()
				for _, r := range tt.rules {
					w.rule(r.verdict, r.expression)
				}
				topic := w.topic()
				if tt.mode != "" {
					w.want(200, "PATCH", "/topics/"+topic, map[string]any{"mode": tt.mode})
				}
				w.send(topic, "go")
				state := chat.TopicDone
				if tt.state == chat.CallApprovalRequested {
					state = chat.TopicAwaitingApproval
				}
				w.until(topic, state)
				c := w.calls(topic)[0]
				if c.State != tt.state || c.ToolMetadata.Rule != tt.rule || c.ToolMetadata.Why == "" {
					t.Errorf("the call is %s by %q, want %s by %q", c.State, c.ToolMetadata.Rule, tt.state, tt.rule)
				}
				ran := 0
				if tt.state == chat.CallOutputAvailable {
					ran = 1
				}
				if n := w.probe.starts(t, "a"); n != ran {
					t.Errorf("it ran %d times", n)
				}
				if e := w.explain("topicId=" + topic + "&toolCallId=" + c.ToolCallID); e.Rule != tt.rule || e.Why != c.ToolMetadata.Why || e.Verdict != c.ToolMetadata.Verdict {
					t.Errorf("explained as %+v", e)
				}
			})
		})
	}
}

func TestADeniedEditIsRefusedAndTheCardStays(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
		w.start()
		w.rule(chat.VerdictDeny, `has(input.n) && input.n == 9007199254740993`)
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		card := w.card(topic, "a")
		path, decide := "/topics/"+topic+"/approvals", `{"approvalId":"`+card.ApprovalID+`","approved":true`
		r := w.want(422, "POST", path, decide+`,"updatedInput":{"text":"a","n":9007199254740993}}`)
		if text := string(r.body); !strings.Contains(text, "deny rule") || !strings.Contains(text, "House rules.") {
			t.Errorf("the problem says %s", text)
		}
		if again := w.card(topic, "a"); again.State != chat.CallApprovalRequested {
			t.Errorf("the card is %s", again.State)
		}
		w.want(200, "POST", path, decide+`,"updatedInput":{"text":"a","n":9007199254740992}}`)
		w.until(topic, chat.TopicDone)
		if n := w.probe.starts(t, "a"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

func TestADenyRuleAfterTheApprovalKeepsTheCallFromRunning(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a") // waits for its sibling
		rule := w.rule(chat.VerdictDeny, `input.text == "a"`)
		w.approve(topic, "b")
		w.until(topic, chat.TopicDone)
		calls := w.calls(topic)
		if a, b := w.probe.starts(t, "a"), w.probe.starts(t, "b"); a != 0 || b != 1 {
			t.Errorf("a ran %d times, b %d", a, b)
		}
		if a := calls[0]; a.State != chat.CallOutputError || !a.Approval.Granted() || a.ErrorText != "House rules. The call was not run." {
			t.Errorf("got %+v, %+v", a, a.Approval)
		}
		heard := w.model.Requests()[1].Messages
		if got := heard[len(heard)-2].Text(); !strings.Contains(got, "House rules. The call was not run.") {
			t.Errorf("the model heard %q", got)
		}
		if e := w.explain("approvalId=" + calls[0].Approval.ID); e.Verdict != chat.VerdictDeny || e.RuleVersion == nil || e.RuleVersion.After.ID != rule.ID || !e.Approval.Granted() {
			t.Errorf("explained as %+v", e)
		}
	})
}

func TestRulesAreTriedChangedRecordedAndExplained(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("peek", "a"), call("peek", "b"), call("off", "c"), call("peek", "d", `"n":123456789012345678901234567890`)), llmtest.Text("ok"),
			llmtest.Calls(call("peek", "a")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicDone)

		// Tried before it is saved.
		var trial chat.RuleTrial
		w.want(200, "POST", "/policy/rules/try", map[string]any{"verdict": "deny", "expression": `tool == "peek" && (input.text == "a" || has(input.n) && input.n > 5)`}).into(t, &trial)
		if trial.Of != 4 || trial.Matched != 1 || trial.Failed != 1 || trial.Changed != 2 || len(trial.Samples) != 2 || trial.Samples[0].Error == "" {
			t.Errorf("tried: %+v", trial)
		}
		if string(trial.Samples[1].Input) != `{"text":"a"}` || trial.Samples[1].TopicID != topic {
			t.Errorf("tried on %+v", trial.Samples[1])
		}
		bad := w.want(422, "POST", "/policy/rules/try", map[string]any{"verdict": "deny", "expression": `tool == nobody`})
		if !strings.Contains(string(bad.body), "line 1, column 9: undeclared reference to 'nobody'") {
			t.Errorf("the problem says %s", bad.body)
		}
		w.want(422, "POST", "/policy/rules", map[string]any{"name": "n", "verdict": "deny", "expression": `1`})

		// Saved, switched on, changed.
		rule := w.rule(chat.VerdictDeny, `tool == "peek" && input.text == "a"`)
		path := "/policy/rules/" + rule.ID
		w.send(topic, "again")
		w.until(topic, chat.TopicDone)
		denied := w.calls(topic)[0]
		if denied.State != chat.CallOutputDenied || denied.Approval.DecidedBy != "deny rule" || denied.ToolMetadata.RuleID != rule.ID || denied.ToolMetadata.Principal != owner {
			t.Errorf("got %+v, %+v", denied, denied.ToolMetadata)
		}
		if e := w.explain("approvalId=" + denied.Approval.ID); e.RuleNow != "same" || e.RuleVersion.After.Expression != rule.Expression || e.Reason != "House rules." {
			t.Errorf("explained as %+v", e)
		}
		w.want(422, "PATCH", path, map[string]any{"expression": "input."})
		w.want(409, "PATCH", path, map[string]any{"expression": "false", "version": 9})
		w.want(200, "PATCH", path, map[string]any{"expression": "false", "version": 1})
		if e := w.explain("approvalId=" + denied.Approval.ID); e.RuleNow != "changed" || e.RuleVersion.After.Expression != rule.Expression {
			t.Errorf("explained as %+v", e)
		}
		var list struct {
			Rules []chat.Rule `json:"rules"`
		}
		w.want(200, "GET", "/policy/rules", nil).into(t, &list)
		if len(list.Rules) != 1 || list.Rules[0].Version != 2 || list.Rules[0].Expression != "false" {
			t.Errorf("listed: %+v", list)
		}
		w.want(204, "DELETE", path, nil)
		w.want(410, "GET", path, nil)
		w.want(410, "DELETE", path, nil)
		w.want(404, "GET", "/policy/rules/none", nil)
		if e := w.explain("topicId=" + topic + "&toolCallId=" + denied.ToolCallID); e.RuleNow != "deleted" || e.RuleVersion.After.Name != "deny rule" {
			t.Errorf("explained as %+v", e)
		}

		// Recorded.
		var record struct {
			Versions []chat.RuleChange `json:"versions"`
		}
		w.want(200, "GET", path+"/versions", nil).into(t, &record)
		if len(record.Versions) != 3 {
			t.Fatalf("recorded: %+v", record)
		}
		for i, want := range []chat.Action{chat.ActionDeleted, chat.ActionChanged, chat.ActionCreated} {
			c := record.Versions[i]
			if c.Action != want || c.By != owner || c.Via != chat.ViaAPI || c.Version != 3-i || (c.Before == nil) != (i == 2) || (c.After == nil) != (i == 0) {
				t.Errorf("entry %d: %+v", i, c)
			}
		}
		w.want(404, "GET", "/policy/rules/none/versions", nil)
		w.want(404, "GET", "/policy/explain?approvalId=none", nil)
		w.want(410, "GET", "/policy/explain?approvalId="+func() string {
			w.want(204, "DELETE", "/topics/"+topic, nil)
			return denied.Approval.ID
		}(), nil)
	})
}

func TestTheModeOfATopicIsShownAndHolds(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("peek", "a")), llmtest.Text("ok"))
		w.start()
		var topic chat.Topic
		w.want(201, "POST", "/topics", `{"mode":"ask-all"}`).into(t, &topic)
		w.send(topic.ID, "go")
		w.until(topic.ID, chat.TopicAwaitingApproval)
		w.want(200, "PATCH", "/topics/"+topic.ID, `{"mode":"default"}`).into(t, &topic)
		if topic.Mode != chat.ModeDefault {
			t.Errorf("got %+v", topic)
		}
		if raw, err := json.Marshal(w.calls(topic.ID)[0].ToolMetadata); err != nil || !strings.Contains(string(raw), `"rule":"mode ask-all"`) {
			t.Errorf("the card says %s", raw)
		}
		w.approve(topic.ID, "a")
		w.until(topic.ID, chat.TopicDone)
	})
}
