package repotest

import (
	"encoding/json"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

var turnTests = map[string]func(*bench){
	"a claim gives all that the turn needs": func(b *bench) {
		topic := b.topic()
		first := b.send(topic.ID, "one")
		b.done(b.claim(topic.ID, first.Turn.ID), "answer")
		second := b.send(topic.ID, "two")
		f := b.claim(topic.ID, second.Turn.ID)
		b.same("history", []string{"one", "answer", "two"}, texts(f.work.History))
		if w := f.work; w.Anchor.ID != second.Turn.MessageID || w.Turn.State != chat.TurnRunning || w.Turn.Epoch != 1 || w.Anchor.Epoch != 1 ||
			w.Turn.Owner != "owner" || w.Turn.BrokenAt != -1 || w.Topic.ID != topic.ID {
			b.Errorf("work %+v", w)
		}
		if c := f.change; c.Revision == 0 || len(c.Metadata) != 1 || c.Metadata[0].Epoch != 1 || c.Metadata[0].Parts != nil || len(c.Messages) != 0 {
			b.Errorf("told %+v", c)
		}
		b.same("claimable", []string{}, b.claimable())
		b.state(topic.ID, chat.TopicPending)
	},
	"a turn that is owned, or is not there, is not claimed": func(b *bench) {
		topic, f := b.start()
		for _, c := range []chat.Candidate{{TopicID: topic.ID, TurnID: f.TurnID}, {TopicID: topic.ID, TurnID: "none"}, {TopicID: "none", TurnID: f.TurnID}} {
			_, change, ok, err := b.Claim(b.ctx, c, "other", lease)
			if ok || err != nil || change.Revision != 0 {
				b.Errorf("claim: %v, %+v, %v", ok, change, err)
			}
		}
		b.same("revision", f.change.Revision, b.status(topic.ID).Revision)
	},
	"a lease that is over lets another owner take the turn, and fences the first": func(b *bench) {
		topic := b.topic()
		sent := b.send(topic.ID, "hello")
		lost := b.claimFor(topic.ID, sent.Turn.ID, "first", over)
		must[chat.Change](b)(b.CommitStep(b.ctx, lost.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
			started, err := chat.Start(allowed("started"), at)
			if err != nil {
				b.Fatal(err)
			}
			asked := chat.Ask(call("asked"), "asked-"+topic.ID, at)
			return chat.Parts{chat.StepStart{}, started, allowed("untouched"), asked}
		}}))
		b.same("claimable", []string{sent.Turn.ID}, b.claimable())
		f := b.claimFor(topic.ID, sent.Turn.ID, "second", lease)
		if f.Epoch != 2 || len(f.change.Messages) != 1 || len(f.change.Messages[0].Parts) != 4 || f.change.Messages[0].Epoch != 2 || len(f.change.Parts) != 0 {
			b.Errorf("told %+v", f.change)
		}
		b.same("anchor", f.change.Messages[0], f.work.Anchor)
		calls := b.calls(topic.ID, f.MessageID)
		if calls[0].State != chat.CallOutputError || calls[0].ToolMetadata.Outcome != chat.OutcomeUnknown {
			b.Errorf("the started call is %+v", calls[0])
		}
		if calls[1].State != chat.CallInputAvailable || !calls[2].Pending() {
			b.Errorf("the others are %s and %s", calls[1].State, calls[2].State)
		}

		before := b.status(topic.ID)
		_, err := b.FirstOutput(b.ctx, lost.Fence)
		b.is(err, chat.ErrLost)
		_, err = b.CommitStep(b.ctx, lost.Fence, chat.Step{Position: 4, Build: func(time.Time) chat.Parts { return say("late") }})
		b.is(err, chat.ErrLost)
		_, _, err = b.EditCalls(b.ctx, lost.Fence, func(calls []chat.PlacedCall, _ time.Time) []chat.PlacedCall { return calls })
		b.is(err, chat.ErrLost)
		_, _, _, err = b.Park(b.ctx, lost.Fence)
		b.is(err, chat.ErrLost)
		_, err = b.Fail(b.ctx, lost.Fence, 4, nil, chat.TurnError{})
		b.is(err, chat.ErrLost)
		_, err = b.KeepPartial(b.ctx, lost.Fence, 4, say("late"))
		b.is(err, chat.ErrLost)
		b.same("status", before, b.status(topic.ID))
	},
	"a heartbeat keeps turns, and says which are still owned": func(b *bench) {
		topic := b.topic()
		mine := b.claimFor(topic.ID, b.send(topic.ID, "hello").Turn.ID, "me", over)
		_, other := b.start()
		both := chat.Epochs{mine.TurnID: mine.Epoch, other.TurnID: other.Epoch}
		// A turn of ours that we do not know to be running here must lapse.
		if owned, err := b.Heartbeat(b.ctx, "me", nil, lease); err != nil || len(owned) != 0 {
			b.Errorf("owned %v, %v", owned, err)
		}
		b.same("claimable", []string{mine.TurnID}, b.claimable())
		owned, err := b.Heartbeat(b.ctx, "me", both, lease)
		if err != nil {
			b.Fatal(err)
		}
		b.same("owned", chat.Epochs{mine.TurnID: 1}, owned)
		b.same("claimable", []string{}, b.claimable())
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		for _, owner := range []string{"me", ""} {
			owned, err := b.Heartbeat(b.ctx, owner, both, lease)
			if err != nil || len(owned) != 0 {
				b.Errorf("%q owns %v, %v", owner, owned, err)
			}
		}
		if owned, err := b.Heartbeat(b.ctx, "owner", both, lease); err != nil || owned[other.TurnID] != other.Epoch {
			b.Errorf("owned %v, %v", owned, err)
		}
	},
	"turns that are let go of can be claimed at once": func(b *bench) {
		topic, f := b.start()
		if err := b.LetGo(b.ctx, "another"); err != nil {
			b.Fatal(err)
		}
		b.same("claimable", []string{}, b.claimable())
		if err := b.LetGo(b.ctx, "owner"); err != nil {
			b.Fatal(err)
		}
		b.same("claimable", []string{f.TurnID}, b.claimable())
		if next := b.claimFor(topic.ID, f.TurnID, "another", lease); next.Epoch != 2 {
			b.Errorf("epoch %d", next.Epoch)
		}
	},
	"the list of what can be claimed has a limit": func(b *bench) {
		for range 3 {
			b.send(b.topic().ID, "hello")
		}
		if found, err := b.Claimable(b.ctx, 2); err != nil || len(found) != 2 {
			b.Errorf("%v, %v", found, err)
		}
	},
}

var stepTests = map[string]func(*bench){
	"the first output is recorded once a step": func(b *bench) {
		topic, f := b.start()
		c := must[chat.Change](b)(b.FirstOutput(b.ctx, f.Fence))
		if c.Revision == 0 {
			b.Error("nothing was recorded")
		}
		b.state(topic.ID, chat.TopicStreaming)
		if c := must[chat.Change](b)(b.FirstOutput(b.ctx, f.Fence)); c.Revision != 0 {
			b.Error("it was recorded twice")
		}
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(time.Time) chat.Parts { return chat.Parts{allowed("c")} }}))
		b.state(topic.ID, chat.TopicPending)
	},
	"a step is committed whole, at its position": func(b *bench) {
		topic, f := b.start()
		var at time.Time
		c := must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(now time.Time) chat.Parts {
			at = now
			return chat.Parts{chat.StepStart{}, chat.Text{Text: "words", State: "done"}, chat.Ask(call("c"), "a-"+topic.ID, now)}
		}}))
		if len(c.Parts) != 3 || c.Parts[2].Position != 2 || c.Parts[2].Epoch != 1 || c.Parts[2].MessageID != f.MessageID || len(c.Metadata) != 1 {
			b.Fatalf("told %+v", c)
		}
		m := b.message(topic.ID, f.MessageID)
		b.same("parts", chat.Parts{c.Parts[0].Part, c.Parts[1].Part, c.Parts[2].Part}, m.Parts)
		if m.Revision != c.Revision || !m.UpdatedAt.Equal(at) || !m.Parts[2].(chat.ToolCall).Approval.RequestedAt.Equal(at) {
			b.Errorf("message %+v, at %v", m, at)
		}
		for _, position := range []int{0, 2, 4} {
			_, err := b.CommitStep(b.ctx, f.Fence, chat.Step{Position: position, Build: func(time.Time) chat.Parts { return say("x") }})
			b.is(err, chat.ErrConflict)
		}
		if next := must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Position: 3, Build: func(time.Time) chat.Parts { return say("x") }})); next.Parts[0].Position != 3 {
			b.Errorf("told %+v", next)
		}
	},
	"the last step ends the turn and is the topic's last completion": func(b *bench) {
		topic, f := b.start()
		c := b.done(f, "the end")
		if c.Metadata[0].Status != chat.MessageSuccess {
			b.Errorf("told %+v", c)
		}
		status := b.status(topic.ID)
		if status.Status != chat.TopicDone || status.LastCompletedAt == nil || !status.LastCompletedAt.Equal(b.snapshot(topic.ID).Topic.UpdatedAt) {
			b.Errorf("status %+v", status)
		}
		_, err := b.FirstOutput(b.ctx, f.Fence)
		b.is(err, chat.ErrLost)
	},
	"a call that a rule refused is on record": func(b *bench) {
		topic, f := b.start()
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
			return chat.Parts{chat.Refuse(call("c"), "refused-"+topic.ID, chat.Judgement{Rule: "no writes", Reason: "Never."}, at)}
		}}))
		entry, ok := b.auditOf("refused-" + topic.ID)
		if !ok || entry.Resolution != chat.ResolutionPolicy || entry.DecidedBy != "no writes" || entry.Via != chat.ViaRule || entry.Reason != "Never." {
			b.Errorf("recorded %+v", entry)
		}
	},
	"a turn parks if something is pending, and not else": func(b *bench) {
		topic, f := b.start()
		parked, calls, c, err := b.Park(b.ctx, f.Fence)
		if parked || len(calls) != 0 || c.Revision != 0 || err != nil {
			b.Fatalf("nothing to wait for: %v %v %v", parked, c, err)
		}
		approvals := b.asking(f, 2)
		b.decide(topic.ID, yes(approvals[0]))
		parked, calls, c, err = b.Park(b.ctx, f.Fence)
		if !parked || len(calls) != 2 || len(c.Metadata) != 1 || err != nil {
			b.Fatalf("park: %v %v %v", parked, c, err)
		}
		if calls[0].Call.State != chat.CallApprovalResponded || !calls[1].Call.Pending() {
			b.Errorf("calls %+v", calls)
		}
		b.same("status", chat.Status{
			TopicID: topic.ID, Revision: c.Revision, Status: chat.TopicAwaitingApproval, ActiveExecutions: []chat.Execution{},
			AwaitingApprovalAnchors: []chat.Execution{{ExecutionID: f.TurnID, AnchorMessageID: f.MessageID, Pending: 1}}, PendingApprovals: 1,
		}, b.status(topic.ID))
		b.same("claimable", []string{}, b.claimable())
		_, err = b.FirstOutput(b.ctx, f.Fence)
		b.is(err, chat.ErrLost)
	},
	"editing calls writes those that change, with the record": func(b *bench) {
		topic, f, approvals := b.waiting(2)
		b.decide(topic.ID, yes(approvals[0]))
		b.decide(topic.ID, no(approvals[1]))
		f = b.claim(topic.ID, f.TurnID)
		calls, c, err := b.EditCalls(b.ctx, f.Fence, func([]chat.PlacedCall, time.Time) []chat.PlacedCall { return nil })
		if err != nil || len(calls) != 2 || c.Revision != 0 {
			b.Fatalf("no edit: %v, %+v, %v", calls, c, err)
		}
		var startedAt, finishedAt time.Time
		calls, c, err = b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			startedAt = at
			next, err := chat.Start(calls[0].Call, at)
			if err != nil {
				b.Fatal(err)
			}
			return []chat.PlacedCall{{Position: calls[0].Position, Call: next}}
		})
		if err != nil || len(c.Parts) != 1 || c.Parts[0].Position != 1 || c.Parts[0].Epoch != f.Epoch || !calls[0].Call.Started() {
			b.Fatalf("start: %+v, %v", c, err)
		}
		if entry, _ := b.auditOf(approvals[0]); entry.StartedAt == nil || !entry.StartedAt.Equal(startedAt) || entry.FinishedAt != nil {
			b.Errorf("recorded %+v", entry)
		}
		_, _, err = b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			finishedAt = at
			next, _ := chat.Finish(calls[0].Call, chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"ok"`)}, at)
			denied, _ := chat.SettleDenied(calls[1].Call)
			return []chat.PlacedCall{{Position: calls[0].Position, Call: next}, {Position: calls[1].Position, Call: denied}}
		})
		if err != nil {
			b.Fatal(err)
		}
		entry, _ := b.auditOf(approvals[0])
		if entry.Outcome != chat.OutcomeOK || entry.FinishedAt == nil || !entry.FinishedAt.Equal(finishedAt) || !entry.StartedAt.Equal(startedAt) {
			b.Errorf("recorded %+v", entry)
		}
		stored := b.calls(topic.ID, f.MessageID)
		if stored[0].State != chat.CallOutputAvailable || stored[1].State != chat.CallOutputDenied {
			b.Errorf("stored %+v", stored)
		}
		_, _, err = b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, _ time.Time) []chat.PlacedCall {
			return []chat.PlacedCall{{Position: 99, Call: calls[0].Call}}
		})
		if err == nil {
			b.Error("a call was written where there is none")
		}
	},
	"a question that takes the place of another closes it": func(b *bench) {
		topic, f := b.start()
		approvals := b.asking(f, 1)
		if _, _, err := b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			return []chat.PlacedCall{{Position: calls[0].Position, Call: chat.Ask(calls[0].Call, "again-"+topic.ID, at)}}
		}); err != nil {
			b.Fatal(err)
		}
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada)
		b.is(err, chat.ErrGone)
		if entry, _ := b.auditOf(approvals[0]); entry.Resolution != chat.ResolutionSuperseded {
			b.Errorf("recorded %+v", entry)
		}
		b.decide(topic.ID, yes("again-"+topic.ID))
	},
	"a failed turn keeps its words, and a retry drops them": func(b *bench) {
		topic, f := b.start()
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
			done, _ := chat.Finish(allowed("c"), chat.Result{Outcome: chat.OutcomeOK}, at)
			return chat.Parts{chat.StepStart{}, done}
		}}))
		why := chat.TurnError{Kind: "network", Message: "It broke \x00 off."}
		c := must[chat.Change](b)(b.Fail(b.ctx, f.Fence, 2, chat.Parts{chat.StepStart{}, chat.Text{Text: "half a"}}, why))
		if len(c.Messages) != 1 || len(c.Messages[0].Parts) != 4 || c.Messages[0].Status != chat.MessageError {
			b.Fatalf("told %+v", c)
		}
		b.same("why", &why, c.Messages[0].Error)
		b.state(topic.ID, chat.TopicError)

		sent, c, err := b.Retry(b.ctx, topic.ID, f.MessageID)
		if err != nil || sent.Turn.ID != f.TurnID || sent.Turn.State != chat.TurnQueued || c.Reset {
			b.Fatalf("retry: %+v, %+v, %v", sent, c, err)
		}
		m := b.message(topic.ID, f.MessageID)
		b.same("message", c.Messages[0], m)
		if len(m.Parts) != 2 || m.Status != chat.MessagePending || m.Error != nil {
			b.Errorf("message %+v", m)
		}
		b.state(topic.ID, chat.TopicPending)
		if next := b.claim(topic.ID, f.TurnID); next.Epoch != 2 || next.work.Turn.Steps != 0 || next.work.Turn.BrokenAt != -1 {
			b.Errorf("work %+v", next.work.Turn)
		}
	},
	"a turn that failed without words has none to drop": func(b *bench) {
		topic, f := b.start()
		must[chat.Change](b)(b.Fail(b.ctx, f.Fence, 0, nil, chat.TurnError{Kind: "auth", Message: "No key."}))
		if _, _, err := b.Retry(b.ctx, topic.ID, f.MessageID); err != nil {
			b.Fatal(err)
		}
	},
	"failing closes what nobody decided, and keeps what was decided": func(b *bench) {
		topic, f := b.start()
		approvals := b.asking(f, 1)
		c := b.fail(f)
		if len(c.Messages) != 1 || len(c.Parts) != 0 {
			b.Errorf("told %+v", c)
		}
		if entry, _ := b.auditOf(approvals[0]); entry.Resolution != chat.ResolutionCancelled {
			b.Errorf("recorded %+v", entry)
		}
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada)
		b.is(err, chat.ErrGone)
	},
	"an owner that did not hear of its step's commit loses none of its calls": func(b *bench) {
		topic, f := b.start()
		b.asking(f, 1)
		c := must[chat.Change](b)(b.Fail(b.ctx, f.Fence, 0, say("the same words"), chat.TurnError{Kind: "internal"}))
		if len(c.Messages[0].Parts) != 2 || len(b.calls(topic.ID, f.MessageID)) != 1 {
			b.Errorf("parts %+v", c.Messages[0].Parts)
		}
		if _, err := b.Fail(b.ctx, b.claim(topic.ID, b.send(topic.ID, "x").Turn.ID).Fence, -1, nil, chat.TurnError{}); err == nil {
			b.Error("a negative position was taken")
		}
	},
	"words beyond the end are put at the end, and words in the place of words replace them": func(b *bench) {
		topic, f := b.start()
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(time.Time) chat.Parts { return say("one") }}))
		c := must[chat.Change](b)(b.Fail(b.ctx, f.Fence, 7, say("two"), chat.TurnError{}))
		b.same("parts", chat.Parts{chat.Text{Text: "one"}, chat.Text{Text: "two"}}, c.Messages[0].Parts)
		if _, _, err := b.Retry(b.ctx, topic.ID, f.MessageID); err != nil {
			b.Fatal(err)
		}
		c = must[chat.Change](b)(b.Fail(b.ctx, b.claim(topic.ID, f.TurnID).Fence, 0, say("three"), chat.TurnError{}))
		b.same("parts", say("three"), c.Messages[0].Parts, cmpopts.EquateEmpty())
	},
}
