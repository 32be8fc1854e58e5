package main

import (
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestAnApprovalThatNobodyDecidesInTimeIsDenied(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.flags = []string{"-approval-expiry", "1s"}
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.eventually(func() bool { return len(w.model.Requests()) == 2 }, func() string { return "the question does not expire" })
		w.until(topic, chat.TopicDone)
		for _, c := range w.calls(topic) {
			a := c.Approval
			if c.State != chat.CallOutputDenied || a.Granted() || a.Resolution != chat.ResolutionExpired || a.DecidedBy != "" {
				t.Errorf("the call is %+v, %+v", c, a)
			}
			if a.ExpiresAt == nil || a.DecidedAt.Before(*a.ExpiresAt) || a.ExpiresAt.Before(*a.RequestedAt) {
				t.Errorf("asked at %v, to end at %v, ended at %v", a.RequestedAt, a.ExpiresAt, a.DecidedAt)
			}
			for _, approved := range []bool{true, false} {
				w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": a.ID, "approved": approved})
			}
		}
		if n := w.probe.starts(t, "a") + w.probe.starts(t, "b"); n != 0 {
			t.Errorf("%d calls ran", n)
		}
		heard := w.model.Requests()[1].Messages
		if got := heard[len(heard)-1].Text(); !strings.Contains(got, "Nobody decided in time") {
			t.Errorf("the model heard %q", got)
		}
		for _, e := range w.audit(topic) {
			if e.Resolution != chat.ResolutionExpired || e.Approved {
				t.Errorf("the audit says %+v", e)
			}
		}
	})
}

func TestApprovalsDoNotExpireUnlessToldTo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		if c := w.card(topic, "a"); c.Approval.ExpiresAt != nil {
			t.Errorf("it ends at %v", c.Approval.ExpiresAt)
		}
	})
}
