package repotest

import (
	"time"

	"github.com/assent-chat/assent/service/chat"
)

var stopTests = map[string]func(*bench){
	"stopping an idle topic is harmless": func(b *bench) {
		topic := b.topic()
		stopped, c, err := b.Stop(b.ctx, topic.ID)
		if err != nil || len(stopped) != 0 || c.Revision != 0 {
			b.Errorf("%+v, %+v, %v", stopped, c, err)
		}
	},
	"stopping a turn that waits settles every call": func(b *bench) {
		topic, f := b.start()
		approvals := b.asking(f, 3)
		b.park(f)
		b.decide(topic.ID, yes(approvals[0]), no(approvals[1]))
		stopped, c, err := b.Stop(b.ctx, topic.ID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch}, stopped)
		if len(c.Parts) != 3 || len(c.Metadata) != 1 || c.Metadata[0].Status != chat.MessageAborted || len(c.Messages) != 0 {
			b.Errorf("told %+v", c)
		}
		calls := b.calls(topic.ID, f.MessageID)
		if calls[0].State != chat.CallOutputError || calls[0].ToolMetadata.Outcome != chat.OutcomeStopped ||
			calls[1].State != chat.CallOutputDenied || calls[1].Approval.Resolution != "" ||
			calls[2].State != chat.CallOutputDenied || calls[2].Approval.Resolution != chat.ResolutionCancelled {
			b.Errorf("calls %+v", calls)
		}
		for i, want := range []chat.AuditEntry{{Approved: true, Outcome: chat.OutcomeStopped}, {}, {Resolution: chat.ResolutionCancelled}} {
			e, ok := b.auditOf(approvals[i])
			if !ok || e.Approved != want.Approved || e.Outcome != want.Outcome || e.Resolution != want.Resolution {
				b.Errorf("record %d: %+v", i, e)
			}
		}
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[2])}, ada)
		b.is(err, chat.ErrGone)
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{no(approvals[0])}, ada)
		b.is(err, chat.ErrGone)
		b.state(topic.ID, chat.TopicAborted)
		b.same("claimable", []string{}, b.claimable())
		if sent := b.send(topic.ID, "go on"); sent.Queued {
			b.Error("a message after a stop was queued")
		}
	},
	"the owner of a stopped turn keeps its words, once": func(b *bench) {
		topic, f := b.start()
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		_, err := b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(time.Time) chat.Parts { return say("too late") }})
		b.is(err, chat.ErrLost)
		wrong := f.Fence
		wrong.Epoch++
		_, err = b.KeepPartial(b.ctx, wrong, 0, say("not mine"))
		b.is(err, chat.ErrLost)
		c := must[chat.Change](b)(b.KeepPartial(b.ctx, f.Fence, 0, say("half a")))
		if len(c.Messages) != 1 || c.Messages[0].Status != chat.MessageAborted || texts(c.Messages)[0] != "half a" {
			b.Errorf("told %+v", c)
		}
		_, err = b.KeepPartial(b.ctx, f.Fence, 0, say("half a"))
		b.is(err, chat.ErrLost)
		if _, _, err := b.Retry(b.ctx, topic.ID, f.MessageID); err != nil {
			b.Fatal(err)
		}
		b.same("parts after retry", 0, len(b.message(topic.ID, f.MessageID).Parts))
	},
	"a started call of a stopped turn has an unknown outcome": func(b *bench) {
		topic, f := b.start()
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
			started, err := chat.Start(allowed("c"), at)
			if err != nil {
				b.Fatal(err)
			}
			return chat.Parts{started}
		}}))
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		b.same("outcome", chat.OutcomeUnknown, b.calls(topic.ID, f.MessageID)[0].ToolMetadata.Outcome)
		// A retry goes on from what is settled, and runs nothing again.
		if _, _, err := b.Retry(b.ctx, topic.ID, f.MessageID); err != nil {
			b.Fatal(err)
		}
		if calls := b.claim(topic.ID, f.TurnID).work.Anchor.Parts.Calls(); len(calls) != 1 || calls[0].Call.Runnable() {
			b.Errorf("calls %+v", calls)
		}
	},
	"an owner that does not let go loses its epoch after the grace": func(b *bench) {
		topic, f := b.start()
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		b.same("closed within the grace", 0, len(b.closeStopped(time.Hour)))
		before := b.status(topic.ID)
		closed := b.closeStopped(0)
		if len(closed) != 1 || closed[0].Revision != before.Revision+1 || len(closed[0].Messages) != 1 || closed[0].Messages[0].Epoch != f.Epoch+1 {
			b.Errorf("told %+v", closed)
		}
		b.same("message", closed[0].Messages[0], b.message(topic.ID, f.MessageID))
		b.same("closed twice", 0, len(b.closeStopped(0)))
		_, err := b.KeepPartial(b.ctx, f.Fence, 0, say("too late"))
		b.is(err, chat.ErrLost)
		b.same("parts", 0, len(b.message(topic.ID, f.MessageID).Parts))
	},
	"within the grace the owner keeps its epoch": func(b *bench) {
		topic, f := b.start()
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		b.closeStopped(time.Hour)
		must[chat.Change](b)(b.KeepPartial(b.ctx, f.Fence, 0, nil))
	},
	"a stop leaves what waits in another branch, and ends what runs there": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		stopped, _, err := b.Stop(b.ctx, topic.ID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{sent.Turn.ID: 0}, stopped)
		b.decide(topic.ID, yes(approvals[0]))
		b.claim(topic.ID, f.TurnID)
		stopped, _, err = b.Stop(b.ctx, topic.ID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch + 1}, stopped)
	},
}

// closeStopped closes what has been stopped for longer than grace.
func (b *bench) closeStopped(grace time.Duration) []chat.Change {
	b.Helper()
	return must[[]chat.Change](b)(b.CloseStopped(b.ctx, grace))
}
