package main

import (
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestKilledWhileParked(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		a, b := w.card(topic, "a").ApprovalID, w.card(topic, "b").ApprovalID
		w.deny(topic, "a", "no")
		w.kill()
		w.spawn()
		if s := w.status(topic); s.Status != chat.TopicAwaitingApproval || s.PendingApprovals != 1 {
			t.Errorf("right after the restart: %+v", s)
		}
		if got := w.card(topic, "b").ApprovalID; got != b {
			t.Errorf("the card's id changed from %s to %s", b, got)
		}
		w.want(409, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": a, "approved": true})
		w.approve(topic, "b") // by the API, with no tab open
		w.until(topic, chat.TopicDone)
		if a, b := w.probe.starts(t, "a"), w.probe.starts(t, "b"); a != 0 || b != 1 {
			t.Errorf("a started %d times, b %d", a, b)
		}
	})
}

func TestKilledRightAfterTheLastDecision(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Role == "tool" {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(call("note", "a"))
		})
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a")
		w.kill()
		w.spawn()
		w.until(topic, chat.TopicDone)
		if n := w.probe.starts(t, "a"); n > 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestKilledAfterAnApprovedToolTookEffect(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a", `"hold":true`)), llmtest.Text("I cannot know"))
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a")
		w.eventually(func() bool { return w.probe.starts(t, "a") == 1 }, func() string { return "the call did not start" })
		w.kill()
		w.probe.release(t, "a") // a second run would end at once
		w.spawn()
		w.until(topic, chat.TopicDone)
		if n := w.probe.starts(t, "a"); n != 1 {
			t.Errorf("started %d times", n)
		}
		c := w.calls(topic)[0]
		if c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnknown || !strings.Contains(c.ErrorText, "unknown") {
			t.Errorf("the card says %s, %q, %q", c.State, c.ToolMetadata.Outcome, c.ErrorText)
		}
		requests := w.model.Requests()
		if heard := requests[1].Messages[len(requests[1].Messages)-1].Text(); !strings.Contains(heard, "outcome is unknown") {
			t.Errorf("the model heard %q", heard)
		}
		if e := w.audit(topic)[0]; e.Outcome != chat.OutcomeUnknown || e.StartedAt == nil {
			t.Errorf("the audit says %+v", e)
		}
	})
}

func TestDeniedThenRestartedNeverRuns(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.deny(topic, "a", "no")
		w.kill()
		w.spawn()
		w.deny(topic, "b", "no")
		w.until(topic, chat.TopicDone)
		if log := w.probe.log(t); len(log) != 0 {
			t.Errorf("log: %v", log)
		}
	})
}

func TestKilledDuringAModelStreamTheStepIsAskedAgain(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		never := make(chan struct{})
		w.says(
			llmtest.Calls(call("peek", "before")),
			llmtest.Text("half a sen").Then(llmtest.Calls(call("note", "half"))).Then(llmtest.Hang(never)),
			llmtest.Text("a whole sentence"),
		)
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.eventually(func() bool { return len(w.model.Requests()) == 2 && w.status(topic).Status == chat.TopicStreaming }, func() string { return "no second step" })
		w.kill()
		w.spawn()
		w.until(topic, chat.TopicDone)
		m := w.last(topic)
		if m.lastText() != "a whole sentence" || len(m.Parts.Calls()) != 1 {
			t.Errorf("got %+v", m.Parts)
		}
		if n := w.probe.starts(t, "before"); n != 1 {
			t.Errorf("the committed step's call ran %d times", n)
		}
	})
}

func TestModelFailureInTheContinuationKeepsDecisionsAndRetryGoesOn(t *testing.T) {
	for name, broken := range map[string]llmtest.Turn{
		"ServerError": llmtest.Status(500, nil, `{"error":{"message":"boom"}}`),
		"BadKey":      llmtest.Status(401, nil, `{"error":{"message":"invalid api key"}}`),
		"CutOff":      llmtest.Text("half").Then(llmtest.Cut()),
		"CleanEnd":    llmtest.Text("half").Then(llmtest.Calls(call("note", "b"))).Then(llmtest.EOF()),
	} {
		t.Run(name, func(t *testing.T) {
			eachDeployment(t, func(t *testing.T, w *world) {
				w.says(llmtest.Calls(call("note", "a")), broken, llmtest.Text("ok"))
				w.start()
				topic := w.topic()
				w.send(topic, "go")
				w.until(topic, chat.TopicAwaitingApproval)
				w.approve(topic, "a")
				w.until(topic, chat.TopicError)
				m := w.last(topic)
				if m.Metadata.Status != chat.MessageError || len(m.Parts.Calls()) != 1 || m.Parts.Calls()[0].Call.State != chat.CallOutputAvailable {
					t.Fatalf("got %+v", m)
				}
				w.want(202, "POST", "/topics/"+topic+"/messages/"+m.ID+"/retry", nil)
				w.until(topic, chat.TopicDone)
				if n := w.probe.starts(t, "a"); n != 1 {
					t.Errorf("started %d times", n)
				}
				if m := w.last(topic); m.lastText() != "ok" || strings.Contains(string(mustJSON(t, m.Parts)), "half") {
					t.Errorf("got %s", mustJSON(t, m.Parts))
				}
			})
		})
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := chat.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
