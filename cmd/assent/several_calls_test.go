package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestFourCallsFourDecisionsOneContinuation(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(
			llmtest.Calls(call("note", "a"), call("note", "b"), call("note", "c"), call("note", "d")),
			llmtest.Text("all done"),
		)
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		// In another order than asked, with denials among them.
		for i, text := range []string{"c", "a", "d", "b"} {
			var d chat.Decided
			if text == "a" {
				d = w.deny(topic, text, "not a")
			} else {
				d = w.approve(topic, text)
			}
			want, open := chat.ContinuationWaiting, 3-i
			if open == 0 {
				want = chat.ContinuationScheduled
			}
			if d.Pending != open || d.Continuation != want {
				t.Fatalf("after %d decisions: %+v", i+1, d)
			}
		}
		w.until(topic, chat.TopicDone)

		for _, text := range []string{"b", "c", "d"} {
			if n := w.probe.starts(t, text); n != 1 {
				t.Errorf("%s was started %d times", text, n)
			}
		}
		if n := w.probe.starts(t, "a"); n != 0 {
			t.Errorf("the denied call was started %d times", n)
		}
		heard := w.model.Requests()[1].Messages
		for i, want := range []string{"refused", "did b", "did c", "did d"} {
			if got := heard[len(heard)-4+i]; got.Role != "tool" || !strings.Contains(got.Text(), want) {
				t.Errorf("outcome %d: the model heard %q, want %q", i, got.Text(), want)
			}
		}
		if m := w.last(topic); m.Metadata.Epoch != 2 || m.lastText() != "all done" {
			t.Errorf("the turn was claimed %d times and says %q", m.Metadata.Epoch, m.lastText())
		}
	})
}

func TestOneOfTwoDecidedKeepsWaitingAndDoesNotAskTheModel(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b"))) // a second request fails the test
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.deny(topic, "a", "no")
		s := w.status(topic)
		if s.Status != chat.TopicAwaitingApproval || s.PendingApprovals != 1 || len(s.AwaitingApprovalAnchors) != 1 {
			t.Errorf("got %+v", s)
		}
		// Rejecting one leaves the other as it is.
		if b := w.card(topic, "b"); b.State != chat.CallApprovalRequested {
			t.Errorf("b is %s", b.State)
		}
		if log := w.probe.log(t); len(log) != 0 {
			t.Errorf("something ran: %v", log)
		}
	})
}

func TestTheSecondCardMayBeDecidedFirst(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.approve(topic, "b")
		w.approve(topic, "a")
		w.until(topic, chat.TopicDone)
		if a, b := w.probe.starts(t, "a"), w.probe.starts(t, "b"); a != 1 || b != 1 {
			t.Errorf("a started %d times, b %d", a, b)
		}
	})
}

func TestUngatedCallRunsAtOnceGatedOneNeverBeforeItsDecision(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "gated"), call("peek", "free")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		if gated, free := w.probe.starts(t, "gated"), w.probe.starts(t, "free"); gated != 0 || free != 1 {
			t.Fatalf("while waiting: gated started %d times, free %d", gated, free)
		}
		if n := len(w.model.Requests()); n != 1 {
			t.Fatalf("the model was asked %d times while a call waits", n)
		}
		calls := w.calls(topic)
		if calls[0].State != chat.CallApprovalRequested || calls[1].State != chat.CallOutputAvailable || calls[1].Approval != nil {
			t.Fatalf("got %+v", calls)
		}
		w.approve(topic, "gated")
		w.until(topic, chat.TopicDone)
		if n := w.probe.starts(t, "free"); n != 1 {
			t.Errorf("the free call was started %d times", n)
		}
	})
}

func TestDecisionWhileASlowSiblingRuns(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "gated"), call("peek", "slow", `"hold":true`)), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.eventually(func() bool { return w.probe.starts(t, "slow") == 1 && len(w.pending(topic)) == 1 }, func() string { return "no card beside a running call" })
		if s := w.status(topic); s.Status == chat.TopicAwaitingApproval || s.PendingApprovals != 1 {
			t.Errorf("a running turn that asks is %+v", s)
		}
		if d := w.approve(topic, "gated"); d.Continuation != chat.ContinuationRunning || d.Pending != 0 {
			t.Errorf("got %+v", d)
		}
		w.probe.release(t, "slow")
		w.until(topic, chat.TopicDone)
		if m := w.last(topic); m.Metadata.Epoch != 1 {
			t.Errorf("the turn parked although nothing was pending: claimed %d times", m.Metadata.Epoch)
		}
		if n := w.probe.starts(t, "gated"); n != 1 {
			t.Errorf("the approved call was started %d times", n)
		}
	})
}

func TestAllDeniedStillGoesOnAndTheModelHearsEachRefusal(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("I see"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.deny(topic, "a", "reason one")
		w.deny(topic, "b", "reason two")
		w.until(topic, chat.TopicDone)
		heard := w.model.Requests()[1].Messages
		for i, want := range []string{"reason one", "reason two"} {
			if got := heard[len(heard)-2+i].Text(); !strings.Contains(got, want) || !strings.Contains(got, "refused") {
				t.Errorf("the model heard %q, want %q", got, want)
			}
		}
		for _, c := range w.calls(topic) {
			if c.State != chat.CallOutputDenied || c.Approval.Resolution != "" {
				t.Errorf("got %s, %+v", c.State, c.Approval)
			}
		}
	})
}

func TestEightCallsHalfGatedSixteenDeciders(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		var calls []llmtest.Call
		for i := range 8 {
			calls = append(calls, call([]string{"note", "peek"}[i%2], fmt.Sprintf("x%d", i)))
		}
		w.says(llmtest.Calls(calls...), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		cards := w.pending(topic)
		if len(cards) != 4 {
			t.Fatalf("%d cards", len(cards))
		}

		type outcome struct {
			id       string
			approved bool
			reply    reply
			err      error
		}
		outcomes := make(chan outcome, 16*len(cards))
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for _, i := range rand.Perm(len(cards)) {
					o := outcome{id: cards[i].ApprovalID, approved: rand.IntN(2) == 0}
					o.reply, o.err = w.do("POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": o.id, "approved": o.approved})
					outcomes <- o
				}
			})
		}
		wg.Wait()
		close(outcomes)
		won := map[string]bool{}
		applied, scheduled := map[string]int{}, 0
		var all []outcome
		for o := range outcomes {
			if o.err != nil {
				t.Fatal(o.err)
			}
			all = append(all, o)
			if o.reply.status != 200 {
				continue
			}
			var d chat.Decided
			o.reply.into(t, &d)
			if d.Results[0].Outcome == chat.EffectApplied {
				applied[o.id]++
				won[o.id] = o.approved
			}
			if d.Continuation == chat.ContinuationScheduled {
				scheduled++
			}
		}
		for _, o := range all {
			want := 409
			if o.approved == won[o.id] {
				want = 200
			}
			if o.reply.status != want {
				t.Errorf("%s approved=%v won=%v: got %d", o.id, o.approved, won[o.id], o.reply.status)
			}
		}
		if scheduled != 1 {
			t.Errorf("%d decisions were the last", scheduled)
		}
		w.until(topic, chat.TopicDone)
		for _, c := range cards {
			if applied[c.ApprovalID] != 1 {
				t.Errorf("%s was applied %d times", c.ApprovalID, applied[c.ApprovalID])
			}
			starts := w.probe.starts(t, strings.TrimPrefix(c.ToolCallID, "call-"))
			if want := map[bool]int{true: 1}[won[c.ApprovalID]]; starts != want {
				t.Errorf("%s (approved %v) was started %d times", c.ToolCallID, won[c.ApprovalID], starts)
			}
		}
		if m := w.last(topic); m.Metadata.Epoch != 2 {
			t.Errorf("%d continuations", m.Metadata.Epoch-1)
		}
	})
}

func TestTwoDecisionsOnOneMessageAtOnceBothCount(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			last := r.Messages[len(r.Messages)-1]
			if last.Role == "tool" {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(call("note", last.Text()+"-a"), call("note", last.Text()+"-b"))
		})
		w.start()
		for n := range 5 {
			topic, text := w.topic(), fmt.Sprint("t", n)
			w.send(topic, text)
			w.until(topic, chat.TopicAwaitingApproval)
			cards := []chat.ApprovalItem{w.card(topic, text+"-a"), w.card(topic, text+"-b")}
			var wg sync.WaitGroup
			decided := make([]chat.Decided, len(cards))
			now := make(chan struct{})
			for i, card := range cards {
				wg.Go(func() {
					<-now
					r, err := w.do("POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": card.ApprovalID, "approved": i == 0})
					if err != nil || r.status != 200 {
						t.Errorf("got %d %s, %v", r.status, r.body, err)
						return
					}
					r.into(t, &decided[i])
				})
			}
			close(now)
			wg.Wait()
			if t.Failed() {
				return
			}
			if x, y := decided[0], decided[1]; x.Pending+y.Pending != 1 || x.Continuation == y.Continuation ||
				x.Results[0].Outcome != chat.EffectApplied || y.Results[0].Outcome != chat.EffectApplied {
				t.Errorf("they were answered %+v and %+v", x, y)
			}
			w.until(topic, chat.TopicDone)
			if a, b := w.probe.starts(t, text+"-a"), w.probe.starts(t, text+"-b"); a != 1 || b != 0 {
				t.Errorf("the approved call was started %d times, the denied one %d times", a, b)
			}
			if m := w.last(topic); m.Metadata.Epoch != 2 {
				t.Errorf("%d continuations", m.Metadata.Epoch-1)
			}
		}
	})
}

func TestAWaitingTopicDelaysNoOther(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Text() == "ask" {
				return llmtest.Calls(call("note", "a"))
			}
			return llmtest.Text("at once")
		})
		w.start()
		waiting := w.topic()
		w.send(waiting, "ask")
		w.until(waiting, chat.TopicAwaitingApproval)
		other := w.topic()
		w.send(other, "talk")
		w.until(other, chat.TopicDone)
		if s := w.status(waiting); s.Status != chat.TopicAwaitingApproval {
			t.Errorf("the waiting topic is %s", s.Status)
		}
	})
}

func TestABatchIsAppliedWholeOrNotAtAll(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b"), call("note", "c")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		a, b, c := w.card(topic, "a").ApprovalID, w.card(topic, "b").ApprovalID, w.card(topic, "c").ApprovalID
		w.deny(topic, "b", "")
		decisions := func(ids ...string) map[string]any {
			var list []any
			for _, id := range ids {
				list = append(list, map[string]any{"approvalId": id, "approved": true})
			}
			return map[string]any{"decisions": list}
		}
		r := w.want(409, "POST", "/topics/"+topic+"/approvals", decisions(a, b, c))
		if !strings.Contains(string(r.body), b) || strings.Contains(string(r.body), a) {
			t.Errorf("the conflict names %s", r.body)
		}
		if n := len(w.pending(topic)); n != 2 {
			t.Fatalf("part of a refused batch was applied: %d wait", n)
		}
		w.want(400, "POST", "/topics/"+topic+"/approvals", decisions(a, a))
		var d chat.Decided
		w.want(200, "POST", "/topics/"+topic+"/approvals", decisions(a, c)).into(t, &d)
		if len(d.Results) != 2 || d.Pending != 0 || d.Continuation != chat.ContinuationScheduled {
			t.Errorf("got %+v", d)
		}
		w.until(topic, chat.TopicDone)
	})
}
