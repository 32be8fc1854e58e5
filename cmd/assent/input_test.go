package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestInputThatCannotRunIsNotAskedForAndTheModelHearsWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		call  llmtest.Call
		hears string
	}{
		"NotJSON":      {llmtest.Call{ID: "c", Name: "probe__note", Args: `{"text": rm -rf`}, "not valid JSON"},
		"NotAnObject":  {llmtest.Call{ID: "c", Name: "probe__note", Args: `"a"`}, "one JSON object"},
		"KeyTwice":     {llmtest.Call{ID: "c", Name: "probe__note", Args: `{"text":"a","text":"b"}`}, "twice"},
		"AllowedTool":  {llmtest.Call{ID: "c", Name: "probe__peek", Args: `{"text":`}, "not valid JSON"},
		"BreaksSchema": {llmtest.Call{ID: "c", Name: "probe__note", Args: `{"text":7}`}, "/text"},
		"Missing":      {llmtest.Call{ID: "c", Name: "probe__peek", Args: ``}, "text"},
		"UnknownTool":  {llmtest.Call{ID: "c", Name: "probe__nothing", Args: `{}`}, "no tool named"},
	} {
		t.Run(name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, w *world) {
				w.says(llmtest.Calls(tt.call), llmtest.Text("I see"))
				w.start()
				topic := w.topic()
				w.send(topic, "go")
				w.until(topic, chat.TopicDone)
				c := w.calls(topic)[0]
				if c.State != chat.CallOutputError || c.Approval != nil {
					t.Errorf("got %s, %+v", c.State, c.Approval)
				}
				heard := w.model.Requests()[1].Messages
				if got := heard[len(heard)-1].Text(); !strings.Contains(got, tt.hears) {
					t.Errorf("the model heard %q, want %q", got, tt.hears)
				}
				if log := w.probe.log(t); len(log) != 0 {
					t.Errorf("log: %v", log)
				}
			})
		})
	}
}

func TestARefusedCallNeverRunsAndSaysTheRule(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("off", "a")), llmtest.Text("I see"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicDone)
		c := w.calls(topic)[0]
		if c.State != chat.CallOutputDenied || c.Approval.Resolution != chat.ResolutionPolicy || c.Approval.Granted() || c.Approval.Via != chat.ViaRule {
			t.Errorf("got %s, %+v", c.State, c.Approval)
		}
		if e := w.audit(topic); len(e) != 1 || e[0].Approved || e[0].Resolution != chat.ResolutionPolicy {
			t.Errorf("the audit says %+v", e)
		}
		if log := w.probe.log(t); len(log) != 0 {
			t.Errorf("log: %v", log)
		}
	})
}

func TestEditedInputIsCheckedRunAndKeptWithTheOriginal(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a", `"n":12345678901234567890`)), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		card := w.card(topic, "a")
		path := "/topics/" + topic + "/approvals"
		bad := w.want(422, "POST", path, `{"approvalId":"`+card.ApprovalID+`","approved":true,"updatedInput":{"text":"b","n":"many"}}`)
		if !strings.Contains(string(bad.body), `"/n"`) {
			t.Errorf("the problem does not point at /n: %s", bad.body)
		}
		w.want(422, "POST", path, `{"approvalId":"`+card.ApprovalID+`","approved":true,"updatedInput":{"text":"b","more":1}}`)
		w.want(200, "POST", path, `{"approvalId":"`+card.ApprovalID+`","approved":true,"updatedInput":{"text":"b","n":12345678901234567891}}`)
		w.until(topic, chat.TopicDone)
		if got := w.probe.log(t)[0].input; got != `{"text":"b","n":12345678901234567891}` {
			t.Errorf("ran with %s", got)
		}
		c := w.calls(topic)[0]
		if string(c.Input) != `{"text":"b","n":12345678901234567891}` || string(c.Approval.OriginalInput) != `{"text":"a","n":12345678901234567890}` {
			t.Errorf("the history says %s, originally %s", c.Input, c.Approval.OriginalInput)
		}
		e := w.audit(topic)[0]
		if string(e.OriginalInput) != `{"text":"a","n":12345678901234567890}` || string(e.ExecutedInput) != string(c.Input) || e.InputDigest != chat.Digest(c.Input) {
			t.Errorf("the audit says %+v", e)
		}
		// The same decision again, and one without the edit.
		w.want(200, "POST", path, `{"approvalId":"`+card.ApprovalID+`","approved":true,"updatedInput":{"n":12345678901234567891,"text":"b"}}`)
		w.want(409, "POST", path, `{"approvalId":"`+card.ApprovalID+`","approved":true}`)
	})
}

func TestInputReachesTheToolDigitForDigit(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		args := `{"text":"\u0000 <b> \ud83d\ude00","n":123456789012345678901234567890}`
		w.says(llmtest.Calls(llmtest.Call{ID: "c", Name: "probe__note", Args: args}), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		if got := w.pending(topic)[0].Input; string(got) != args {
			t.Errorf("the card shows %s", got)
		}
		w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.pending(topic)[0].ApprovalID, "approved": true})
		w.until(topic, chat.TopicDone)
		if got := w.probe.log(t)[0].input; got != args {
			t.Errorf("the tool got %s", got)
		}
		// What the provider is given back is what it said.
		heard := w.model.Requests()[1].Messages
		if got := heard[len(heard)-2].ToolCalls[0].Function.Arguments; got != args {
			t.Errorf("the history says %s", got)
		}
	})
}

func TestReasonsAreKeptByteForByte(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		reason := "  No — \"staging\" only!\n\t<b>€ 😀</b> \u202e  "
		w.deny(topic, "a", reason)
		w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.card(topic, "b").ApprovalID, "approved": false, "reason": " \n "})
		w.until(topic, chat.TopicDone)
		calls := w.calls(topic)
		if calls[0].Approval.Reason != reason {
			t.Errorf("got %q", calls[0].Approval.Reason)
		}
		if strings.Contains(string(mustJSON(t, calls[1].Approval)), "reason") {
			t.Errorf("a blank reason is there: %s", mustJSON(t, calls[1].Approval))
		}
		if e := w.audit(topic); e[0].Reason != reason {
			t.Errorf("the audit says %q", e[0].Reason)
		}
	})
}

func TestAskIsHonouredOnEveryTurnRegenerateAndRetry(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		fail := true
		w.answers(func(n int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Role == "tool" {
				if fail {
					fail = false
					return llmtest.Status(500, nil, `{}`)
				}
				return llmtest.Calls(call("note", "again"))
			}
			return llmtest.Calls(call("note", "a"))
		})
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a")
		w.until(topic, chat.TopicError)
		m := w.last(topic)
		w.want(202, "POST", "/topics/"+topic+"/messages/"+m.ID+"/retry", nil)
		w.until(topic, chat.TopicAwaitingApproval)
		w.card(topic, "again")
		w.want(202, "POST", "/topics/"+topic+"/messages/"+m.ID+"/regenerate", nil)
		w.eventually(func() bool { return w.last(topic).ID != m.ID && w.status(topic).Status == chat.TopicAwaitingApproval }, func() string { return "regenerate did not ask" })
		if n := w.probe.starts(t, "a"); n != 1 {
			t.Errorf("the call ran %d times; it was approved once", n)
		}
	})
}

func TestFiveEndsAreFiveThings(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.answers(func(n int, r llmtest.Request) llmtest.Turn {
			if n > 1 {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(call("note", "denied"), call("note", "failed", `"fail":true`), call("off", "policy"), call("note", "unknown", `"hold":true`))
		})
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.deny(topic, "denied", "")
		w.approve(topic, "failed")
		w.approve(topic, "unknown")
		w.eventually(func() bool { return w.calls(topic)[1].State.Settled() && w.probe.starts(t, "unknown") == 1 }, func() string { return "the calls did not run" })
		w.want(200, "POST", "/topics/"+topic+"/stop", nil)
		seen := map[string]bool{}
		for _, c := range w.calls(topic) {
			resolution := chat.Resolution("")
			if c.Approval != nil {
				resolution = c.Approval.Resolution
			}
			text, _ := chat.Hearing(c)
			key := string(c.State) + "|" + string(c.ToolMetadata.Outcome) + "|" + string(resolution)
			if seen[key] || seen[text] {
				t.Errorf("%s is like another: %s, %s", c.ToolCallID, key, text)
			}
			seen[key], seen[text] = true, true
		}
		for _, e := range w.audit(topic) {
			key, err := json.Marshal([]any{e.Approved, e.Resolution, e.Outcome, e.StartedAt != nil})
			if err != nil || seen[string(key)] {
				t.Errorf("two ends look alike in the audit: %s", key)
			}
			seen[string(key)] = true
		}
	})
}

func TestHeadlessParksAndSaysSo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.flags = []string{"-no-auth"}
		w.says(llmtest.Calls(call("note", "a")))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		var inbox struct {
			Approvals []chat.ApprovalItem `json:"approvals"`
		}
		w.want(200, "GET", "/approvals?state=pending", nil).into(t, &inbox)
		if len(inbox.Approvals) != 1 || inbox.Approvals[0].TopicID != topic {
			t.Errorf("the inbox says %+v", inbox)
		}
		w.stop() // a parked turn holds no goroutine: the server ends at once and cleanly
		if log := w.probe.log(t); len(log) != 0 {
			t.Errorf("log: %v", log)
		}
	})
}
