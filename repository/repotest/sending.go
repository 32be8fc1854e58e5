package repotest

import (
	"github.com/assent-chat/assent/service/chat"
)

var sendTests = map[string]func(*bench){
	"a message is stored with its answer's turn, and names the topic": func(b *bench) {
		topic := b.topic()
		sent, c, err := b.Send(b.ctx, topic.ID, chat.NewMessage{ID: "m1", Parts: say("hello"), Title: "Hello"})
		if err != nil {
			b.Fatal(err)
		}
		if sent.Queued || sent.Repeated || sent.Turn == nil || sent.Turn.State != chat.TurnQueued || sent.Revision != 2 {
			b.Fatalf("sent %+v", sent)
		}
		b.same("told", []string{"m1", sent.Turn.MessageID}, ids(c.Messages))
		if c.Topic == nil || c.Topic.Title != "Hello" || c.Topic.Status.Status != chat.TopicPending {
			b.Errorf("topic %+v", c.Topic)
		}
		snap := b.snapshot(topic.ID)
		b.same("stored", c.Messages, snap.Messages)
		user, anchor := snap.Messages[0], snap.Messages[1]
		if user.Status != chat.MessageSuccess || user.Role != chat.RoleUser || user.ParentID != "" || user.Revision != 2 {
			b.Errorf("message %+v", user)
		}
		if anchor.Status != chat.MessagePending || anchor.ParentID != "m1" || anchor.TurnID != sent.Turn.ID || anchor.Model != "demo/guide" || len(anchor.Parts) != 0 {
			b.Errorf("anchor %+v", anchor)
		}
		b.same("claimable", []string{sent.Turn.ID}, b.claimable())
		b.done(b.claim(topic.ID, sent.Turn.ID), "hi")
		_, c, err = b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("more"), Title: "More"})
		if err != nil || c.Topic != nil || b.snapshot(topic.ID).Topic.Title != "Hello" {
			b.Errorf("a second message named the topic again: %+v, %v", c, err)
		}
	},
	"the same message again is harmless, another of its id conflicts": func(b *bench) {
		topic := b.topic()
		m := chat.NewMessage{ID: "m1", Parts: say("hello")}
		first, _, err := b.Send(b.ctx, topic.ID, m)
		if err != nil {
			b.Fatal(err)
		}
		again, c, err := b.Send(b.ctx, topic.ID, m)
		if err != nil || c.Revision != 0 || !again.Repeated || again.Revision != first.Revision {
			b.Fatalf("again: %+v, %+v, %v", again, c, err)
		}
		b.same("turn", first.Turn, again.Turn)
		b.same("message", first.Message, again.Message)
		_, _, err = b.Send(b.ctx, topic.ID, chat.NewMessage{ID: "m1", Parts: say("other")})
		b.is(err, chat.ErrConflict)
		_, _, err = b.Send(b.ctx, topic.ID, chat.NewMessage{ID: first.Turn.MessageID, Parts: say("hello")})
		b.is(err, chat.ErrConflict)
		other := b.topic()
		if sent, _, err := b.Send(b.ctx, other.ID, m); err != nil || sent.Repeated {
			b.Errorf("the same id in another topic: %+v, %v", sent, err)
		}
	},
	"a repeat is recognised when the message was queued, and when it was sent since": func(b *bench) {
		topic, f := b.start()
		m := chat.NewMessage{ID: "later", Parts: say("later")}
		if first, _, err := b.Send(b.ctx, topic.ID, m); err != nil || !first.Queued {
			b.Fatalf("%+v, %v", first, err)
		}
		again, _, err := b.Send(b.ctx, topic.ID, m)
		if err != nil || !again.Repeated || !again.Queued || again.Turn != nil {
			b.Fatalf("while queued: %+v, %v", again, err)
		}
		b.done(f, "done")
		again, _, err = b.Send(b.ctx, topic.ID, m)
		if err != nil || !again.Repeated || again.Queued || again.Turn == nil {
			b.Fatalf("when sent: %+v, %v", again, err)
		}
	},
	"a message that was deleted is gone": func(b *bench) {
		topic := b.topic()
		m := chat.NewMessage{ID: "m1", Parts: say("hello")}
		if _, _, err := b.Send(b.ctx, topic.ID, m); err != nil {
			b.Fatal(err)
		}
		if _, _, err := b.DeleteMessage(b.ctx, topic.ID, "m1"); err != nil {
			b.Fatal(err)
		}
		_, _, err := b.Send(b.ctx, topic.ID, m)
		b.is(err, chat.ErrGone)
	},
	"a busy topic refuses a message that must not wait": func(b *bench) {
		for _, state := range []chat.TurnState{chat.TurnQueued, chat.TurnRunning, chat.TurnAwaitingApproval} {
			topic := b.topic()
			sent := b.send(topic.ID, "hello")
			if state != chat.TurnQueued {
				f := b.claim(topic.ID, sent.Turn.ID)
				if state == chat.TurnAwaitingApproval {
					b.asking(f, 1)
					b.park(f)
				}
			}
			before := b.status(topic.ID)
			_, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("x"), WhenBusy: chat.WhenBusyReject})
			b.is(err, chat.ErrConflict)
			b.same("status", before, b.status(topic.ID))
		}
	},
	"superseding closes what waits and sends at once": func(b *bench) {
		topic, f, approvals := b.waiting(2)
		b.decide(topic.ID, yes(approvals[0]))
		sent, c, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("never mind"), WhenBusy: chat.WhenBusySupersede})
		if err != nil || sent.Queued || sent.Turn == nil {
			b.Fatalf("%+v, %v", sent, err)
		}
		if len(c.Parts) != 2 || len(c.Metadata) != 1 || c.Metadata[0].Status != chat.MessageAborted || len(c.Messages) != 2 {
			b.Errorf("told %+v", c)
		}
		calls := b.calls(topic.ID, f.MessageID)
		if calls[0].ToolMetadata.Outcome != chat.OutcomeStopped || calls[1].State != chat.CallOutputDenied || calls[1].Approval.Resolution != chat.ResolutionSuperseded {
			b.Errorf("calls %+v", calls)
		}
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[1])}, ada)
		b.is(err, chat.ErrGone)
		b.state(topic.ID, chat.TopicPending)
	},
	"a turn that runs is not superseded": func(b *bench) {
		topic, _ := b.start()
		_, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("x"), WhenBusy: chat.WhenBusySupersede})
		b.is(err, chat.ErrConflict)
	},
	"superseding an idle topic is sending": func(b *bench) {
		sent, _, err := b.Send(b.ctx, b.topic().ID, chat.NewMessage{Parts: say("x"), WhenBusy: chat.WhenBusySupersede})
		if err != nil || sent.Turn == nil {
			b.Errorf("%+v, %v", sent, err)
		}
	},
}

var queueTests = map[string]func(*bench){
	"queued messages are sent one by one, first in, first out": func(b *bench) {
		topic, f := b.start()
		for _, text := range []string{"one", "two", "three"} {
			sent := b.send(topic.ID, text)
			if !sent.Queued || sent.Turn != nil || sent.Message.Status != chat.MessageQueued {
				b.Fatalf("sent %+v", sent)
			}
		}
		snap := b.snapshot(topic.ID)
		b.same("queue", []string{"one", "two", "three"}, texts(snap.Queued))
		if snap.Status.QueuedMessages != 3 || len(snap.Messages) != 2 {
			b.Errorf("status %+v", snap.Status)
		}
		for i, text := range []string{"one", "two", "three"} {
			c := b.done(f, "answer")
			if len(c.Messages) != 2 || texts(c.Messages)[0] != text || c.Messages[0].ParentID != f.MessageID || c.Messages[0].Status != chat.MessageSuccess {
				b.Fatalf("told %+v", c.Messages)
			}
			b.same("left", 2-i, b.status(topic.ID).QueuedMessages)
			f = b.claim(topic.ID, c.Messages[1].TurnID)
			b.same("history", 2*i+3, len(f.work.History))
		}
		if c := b.done(f, "last"); len(c.Messages) != 0 {
			b.Errorf("told %+v", c.Messages)
		}
		b.state(topic.ID, chat.TopicDone)
	},
	"a message waits behind a turn that waits": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		if sent := b.send(topic.ID, "later"); !sent.Queued {
			b.Fatalf("sent %+v", sent)
		}
		b.state(topic.ID, chat.TopicAwaitingApproval)
		b.decide(topic.ID, no(approvals[0]))
		b.same("queued", 1, b.status(topic.ID).QueuedMessages)
		b.done(b.claim(topic.ID, f.TurnID), "ok")
		b.same("queued", 0, b.status(topic.ID).QueuedMessages)
	},
	"after an error or a stop queued messages stay, and a new one is sent at once": func(b *bench) {
		for name, end := range map[string]func(claimed){
			"error": func(f claimed) { b.fail(f) },
			"stop": func(f claimed) {
				if _, _, err := b.Stop(b.ctx, f.TopicID); err != nil {
					b.Fatal(err)
				}
			},
		} {
			topic, f := b.start()
			queued := b.send(topic.ID, "queued")
			end(f)
			b.same(name, 1, b.status(topic.ID).QueuedMessages)
			if sent := b.send(topic.ID, "new"); sent.Queued || sent.Message.ParentID != f.MessageID {
				b.Fatalf("after %s: %+v", name, sent)
			}
			_, _, err := b.SendQueued(b.ctx, topic.ID, queued.Message.ID)
			b.is(err, chat.ErrConflict)
		}
	},
	"a queued message is sent when asked for": func(b *bench) {
		topic, f := b.start()
		queued := b.send(topic.ID, "queued")
		b.fail(f)
		sent, c, err := b.SendQueued(b.ctx, topic.ID, queued.Message.ID)
		if err != nil || sent.Turn == nil || sent.Message.Status != chat.MessageSuccess || sent.Message.ParentID != f.MessageID {
			b.Fatalf("%+v, %v", sent, err)
		}
		b.same("told", []string{queued.Message.ID, sent.Turn.MessageID}, ids(c.Messages))
		again, c, err := b.SendQueued(b.ctx, topic.ID, queued.Message.ID)
		if err != nil || !again.Repeated || c.Revision != 0 {
			b.Fatalf("again: %+v, %v", again, err)
		}
		b.same("turn", sent.Turn, again.Turn)
		_, _, err = b.SendQueued(b.ctx, topic.ID, "none")
		b.is(err, chat.ErrNotFound)
		_, _, err = b.SendQueued(b.ctx, topic.ID, f.MessageID)
		b.is(err, chat.ErrConflict)
	},
	"a queued message is edited in place and may be deleted at any time": func(b *bench) {
		topic, f := b.start()
		first, second := b.send(topic.ID, "first"), b.send(topic.ID, "second")
		sent, c, err := b.EditMessage(b.ctx, topic.ID, first.Message.ID, chat.NewMessage{Parts: say("changed")})
		if err != nil || !sent.Queued || sent.Message.ID != first.Message.ID || c.Reset || len(c.Messages) != 1 {
			b.Fatalf("%+v, %+v, %v", sent, c, err)
		}
		b.same("queue", []string{"changed", "second"}, texts(b.snapshot(topic.ID).Queued))
		_, c, err = b.DeleteMessage(b.ctx, topic.ID, first.Message.ID)
		if err != nil || c.Reset {
			b.Fatalf("%+v, %v", c, err)
		}
		b.same("removed", []string{first.Message.ID}, c.Removed)
		_, _, err = b.SendQueued(b.ctx, topic.ID, first.Message.ID)
		b.is(err, chat.ErrGone)
		c = b.done(f, "ok")
		b.same("sent", second.Message.ID, c.Messages[0].ID)
	},
	"only the end of the active branch sends the queue": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.send(topic.ID, "queued")
		b.decide(topic.ID, yes(approvals[0])) // a card of the old branch
		if c := b.done(b.claim(topic.ID, f.TurnID), "old branch"); len(c.Messages) != 0 {
			b.Fatalf("the old branch sent %v", ids(c.Messages))
		}
		if c := b.done(b.claim(topic.ID, sent.Turn.ID), "new branch"); len(c.Messages) != 2 {
			b.Fatalf("the active branch sent %v", ids(c.Messages))
		}
	},
	"another branch that ends sends nothing of a queue that stays after an error": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.send(topic.ID, "queued")
		b.fail(b.claim(topic.ID, sent.Turn.ID))
		b.decide(topic.ID, yes(approvals[0]))
		if c := b.done(b.claim(topic.ID, f.TurnID), "old branch"); len(c.Messages) != 0 {
			b.Errorf("the old branch sent %v", ids(c.Messages))
		}
		b.same("queued", 1, b.status(topic.ID).QueuedMessages)
	},
}
