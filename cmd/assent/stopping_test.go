package main

import (
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestStopWhileACardIsOpen(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(
			llmtest.Calls(call("note", "a"), call("note", "b"), call("note", "c"), call("peek", "d")),
			llmtest.Text("next"),
		)
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a")
		w.deny(topic, "b", "no")
		id := w.card(topic, "c").ApprovalID
		var s chat.Status
		w.want(200, "POST", "/topics/"+topic+"/stop", nil).into(t, &s)
		if s.Status != chat.TopicAborted || s.PendingApprovals != 0 {
			t.Fatalf("right after a stop the topic is %+v", s)
		}
		calls := w.calls(topic)
		for i, want := range []struct {
			state      chat.CallState
			outcome    chat.Outcome
			resolution chat.Resolution
		}{
			{chat.CallOutputError, chat.OutcomeStopped, ""},
			{chat.CallOutputDenied, "", ""},
			{chat.CallOutputDenied, "", chat.ResolutionCancelled},
			{chat.CallOutputAvailable, chat.OutcomeOK, ""},
		} {
			c := calls[i]
			resolution := chat.Resolution("")
			if c.Approval != nil {
				resolution = c.Approval.Resolution
			}
			if c.State != want.state || c.ToolMetadata.Outcome != want.outcome || resolution != want.resolution {
				t.Errorf("call %d is %s, %q, %q; want %+v", i, c.State, c.ToolMetadata.Outcome, resolution, want)
			}
		}
		w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})

		// The topic takes a new message at once, and the provider is not sent a
		// call without its result (the fake refuses one).
		if s := w.send(topic, "something else"); s.Queued {
			t.Error("a message after a stop was queued")
		}
		w.until(topic, chat.TopicDone)
		if n := len(w.probe.log(t)); n != 2 { // the ungated call's start and end
			t.Errorf("log: %v", w.probe.log(t))
		}
	})
}

func TestStopDuringAModelStreamKeepsTheText(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		never := make(chan struct{})
		w.says(llmtest.Text("Once upon ", "a time").Then(llmtest.Hang(never)), llmtest.Text("continued"))
		w.start()
		topic := w.topic()
		w.send(topic, "tell")
		w.until(topic, chat.TopicStreaming)
		w.want(200, "POST", "/topics/"+topic+"/stop", nil)
		if s := w.status(topic); s.Status != chat.TopicAborted {
			t.Fatalf("the topic is %s", s.Status)
		}
		w.eventually(func() bool { return w.last(topic).lastText() == "Once upon a time" }, func() string { return "the partial text is lost" })
		if n := <-w.model.Left(); n != 1 {
			t.Errorf("the model's client left request %d", n)
		}
		// Retry goes on without the broken step's text.
		last := w.last(topic)
		w.want(202, "POST", "/topics/"+topic+"/messages/"+last.ID+"/retry", nil)
		w.until(topic, chat.TopicDone)
		if m := w.last(topic); m.ID != last.ID || m.lastText() != "continued" || len(m.Parts) != 2 {
			t.Errorf("got %+v", m)
		}
	})
}

func TestStopDuringAToolRun(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a", `"hold":true`)), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "a")
		w.eventually(func() bool { return w.probe.starts(t, "a") == 1 }, func() string { return "the approved call did not start" })
		w.want(200, "POST", "/topics/"+topic+"/stop", nil)
		c := w.calls(topic)[0]
		if c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnknown {
			t.Fatalf("the stopped call is %s, %q", c.State, c.ToolMetadata.Outcome)
		}
		if e := w.audit(topic)[0]; e.Outcome != chat.OutcomeUnknown || e.StartedAt == nil || !e.Approved {
			t.Errorf("the audit says %+v", e)
		}
		if s := w.send(topic, "next"); s.Queued {
			t.Error("the topic is not free")
		}
		w.until(topic, chat.TopicDone)
		if c := w.calls(topic); len(c) != 0 {
			t.Errorf("got %+v", c)
		}
		if n := w.probe.starts(t, "a"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestMessageWhileParkedIsQueuedShownAndSentWhenTheTurnIsDone(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("first done"), llmtest.Text("second done"), llmtest.Text("third done"))
		w.start()
		topic := w.topic()
		w.send(topic, "first")
		w.until(topic, chat.TopicAwaitingApproval)
		second := w.send(topic, "second")
		third := w.send(topic, "third")
		gone := w.send(topic, "gone")
		h := w.history(topic)
		if !second.Queued || second.Turn != nil || len(h.Queued) != 3 || h.Queued[0].ID != second.Message.ID || h.Status.QueuedMessages != 3 {
			t.Fatalf("got %+v, %+v", second, h)
		}
		w.want(204, "DELETE", "/topics/"+topic+"/messages/"+gone.Message.ID, nil)
		w.want(202, "PATCH", "/topics/"+topic+"/messages/"+third.Message.ID, map[string]any{"text": "third, changed"})
		w.approve(topic, "a")
		w.eventually(func() bool { m := w.history(topic); return len(m.Messages) == 6 && m.Status.Status == chat.TopicDone }, func() string { return "the queue was not sent" })
		var said []string
		for _, m := range w.history(topic).Messages {
			said = append(said, m.lastText())
		}
		if got := strings.Join(said, "|"); got != "first|first done|second|second done|third, changed|third done" {
			t.Errorf("got %s", got)
		}
	})
}

func TestQueuedMessagesStayAfterAnErrorUntilSentOrDiscarded(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		gate := make(chan struct{})
		w.says(llmtest.Gate(gate).Then(llmtest.Status(500, nil, `{"error":{"message":"broken"}}`)), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "first")
		queued := w.send(topic, "second")
		close(gate)
		w.until(topic, chat.TopicError)
		if h := w.history(topic); len(h.Queued) != 1 {
			t.Fatalf("%d queued", len(h.Queued))
		}
		w.want(202, "POST", "/topics/"+topic+"/messages/"+queued.Message.ID+"/send", nil)
		w.until(topic, chat.TopicDone)
		if h := w.history(topic); len(h.Queued) != 0 || len(h.Messages) != 4 {
			t.Errorf("got %+v", h)
		}
	})
}

func TestSupersedeAndReject(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("instead"))
		w.start()
		topic := w.topic()
		w.send(topic, "first")
		w.until(topic, chat.TopicAwaitingApproval)
		id := w.card(topic, "a").ApprovalID
		w.want(409, "POST", "/topics/"+topic+"/messages", map[string]any{"text": "no", "whenBusy": "reject"})
		w.want(202, "POST", "/topics/"+topic+"/messages", map[string]any{"text": "instead", "whenBusy": "supersede"})
		w.until(topic, chat.TopicDone)
		w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})
		h := w.history(topic)
		c := h.Messages[1].Parts.Calls()[0].Call
		if c.State != chat.CallOutputDenied || c.Approval.Resolution != chat.ResolutionSuperseded {
			t.Errorf("got %s, %+v", c.State, c.Approval)
		}
	})
}

func TestAPendingCardOfAnOldBranchFreezesNothing(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "old")), llmtest.Text("another answer"), llmtest.Text("later"), llmtest.Text("old branch goes on"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		old := w.last(topic)
		id := w.card(topic, "old").ApprovalID
		w.want(202, "POST", "/topics/"+topic+"/messages/"+old.ID+"/regenerate", nil)
		s := w.until(topic, chat.TopicDone)
		if s.PendingApprovals != 0 {
			t.Errorf("the active branch counts the old card: %+v", s)
		}
		if s := w.send(topic, "and now"); s.Queued {
			t.Error("the old card queues new messages")
		}
		w.until(topic, chat.TopicDone)
		// The old card is still answerable, in its branch.
		var d chat.Decided
		w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true}).into(t, &d)
		w.eventually(func() bool { return w.probe.starts(t, "old") == 1 && len(w.model.Requests()) == 4 }, func() string { return "the old branch did not go on" })
		if h := w.history(topic); len(h.Messages) != 4 {
			t.Errorf("the active branch has %d messages", len(h.Messages))
		}
	})
}

func TestDeletingClosesCards(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(int, llmtest.Request) llmtest.Turn { return llmtest.Calls(call("note", "a")) })
		w.start()
		topic := w.topic()
		first := w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		id := w.card(topic, "a").ApprovalID
		w.want(204, "DELETE", "/topics/"+topic+"/messages/"+first.Message.ID, nil)
		if n := len(w.pending(topic)); n != 0 {
			t.Errorf("%d cards are left of a deleted message", n)
		}
		w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})

		w.send(topic, "again")
		w.until(topic, chat.TopicAwaitingApproval)
		id = w.card(topic, "a").ApprovalID
		w.want(204, "DELETE", "/topics/"+topic, nil)
		w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": false})
		w.want(410, "GET", "/topics/"+topic, nil)
		var inbox struct {
			Approvals []chat.ApprovalItem `json:"approvals"`
		}
		w.want(200, "GET", "/approvals?state=pending", nil).into(t, &inbox)
		if len(inbox.Approvals) != 0 {
			t.Errorf("the inbox has %+v", inbox.Approvals)
		}
		if log := w.probe.log(t); len(log) != 0 {
			t.Errorf("something ran: %v", log)
		}
	})
}

func TestTheQueueGoesOnWhicheverBranchIsDone(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(n int, _ llmtest.Request) llmtest.Turn {
			if n == 2 {
				return llmtest.Calls(call("note", "a"))
			}
			return llmtest.Text("ok")
		})
		w.start()
		topic := w.topic()
		w.send(topic, "one")
		w.until(topic, chat.TopicDone)
		first := w.last(topic)
		w.want(202, "POST", "/topics/"+topic+"/messages/"+first.ID+"/regenerate", nil)
		w.until(topic, chat.TopicAwaitingApproval)
		if s := w.send(topic, "queued"); !s.Queued {
			t.Fatal("not queued")
		}
		w.want(200, "POST", "/topics/"+topic+"/messages/"+first.ID+"/select", nil)
		w.approve(topic, "a") // its branch is not the active one any more
		w.eventually(func() bool {
			h := w.history(topic)
			return len(h.Queued) == 0 && len(h.Messages) == 4 && h.Status.Status == chat.TopicDone
		}, func() string { return "the queue is stuck" })
	})
}
