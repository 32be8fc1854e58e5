package repotest

import (
	"github.com/assent-chat/assent/service/chat"
)

var branchTests = map[string]func(*bench){
	"answering again makes a sibling and selects it": func(b *bench) {
		topic := b.topic()
		sent := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, sent.Turn.ID), "one")
		again, c, err := b.Regenerate(b.ctx, topic.ID, sent.Turn.MessageID)
		if err != nil || !c.Reset || again.Turn == nil || again.Message.ParentID != sent.Message.ID || again.Message.Role != chat.RoleAssistant {
			b.Fatalf("%+v, %+v, %v", again, c, err)
		}
		b.done(b.claim(topic.ID, again.Turn.ID), "two")
		b.same("branch", []string{"hello", "two"}, texts(b.snapshot(topic.ID).Messages))
		tree, revision, err := b.Tree(b.ctx, topic.ID)
		if err != nil || revision != b.status(topic.ID).Revision {
			b.Fatal(revision, err)
		}
		b.same("tree", []string{"hello", "one", "two"}, texts(tree))

		third, _, err := b.Regenerate(b.ctx, topic.ID, sent.Message.ID)
		if err != nil || third.Message.ParentID != sent.Message.ID {
			b.Fatalf("by the question: %+v, %v", third, err)
		}
	},
	"editing a message makes a sibling with its own answer": func(b *bench) {
		topic := b.topic()
		first := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, first.Turn.ID), "hi")
		second := b.send(topic.ID, "how are you?")
		b.done(b.claim(topic.ID, second.Turn.ID), "fine")
		edit := chat.NewMessage{ID: "edited", Parts: say("who are you?")}
		sent, c, err := b.EditMessage(b.ctx, topic.ID, second.Message.ID, edit)
		if err != nil || !c.Reset || sent.Message.ID != "edited" || sent.Message.ParentID != first.Turn.MessageID || sent.Turn == nil {
			b.Fatalf("%+v, %+v, %v", sent, c, err)
		}
		again, c, err := b.EditMessage(b.ctx, topic.ID, second.Message.ID, edit)
		if err != nil || !again.Repeated || c.Revision != 0 || again.Turn.ID != sent.Turn.ID {
			b.Fatalf("again: %+v, %v", again, err)
		}
		_, _, err = b.EditMessage(b.ctx, topic.ID, second.Message.ID, chat.NewMessage{ID: "edited", Parts: say("other")})
		b.is(err, chat.ErrConflict)
		b.same("branch", []string{"hello", "hi", "who are you?", ""}, texts(b.snapshot(topic.ID).Messages))
		_, _, err = b.EditMessage(b.ctx, topic.ID, first.Turn.MessageID, edit)
		b.is(err, chat.ErrInvalid)
		_, _, err = b.EditMessage(b.ctx, topic.ID, "none", edit)
		b.is(err, chat.ErrNotFound)
	},
	"a branch is selected down to its newest leaf": func(b *bench) {
		topic := b.topic()
		first := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, first.Turn.ID), "one")
		below := b.send(topic.ID, "more")
		b.done(b.claim(topic.ID, below.Turn.ID), "more of one")
		again, _, err := b.Regenerate(b.ctx, topic.ID, first.Turn.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.done(b.claim(topic.ID, again.Turn.ID), "two")

		got, c, err := b.Select(b.ctx, topic.ID, first.Turn.MessageID)
		if err != nil || !c.Reset || got.ActiveLeaf != below.Turn.MessageID || c.Topic == nil {
			b.Fatalf("%+v, %+v, %v", got, c, err)
		}
		b.same("branch", []string{"hello", "one", "more", "more of one"}, texts(b.snapshot(topic.ID).Messages))
		got, c, err = b.Select(b.ctx, topic.ID, below.Message.ID)
		if err != nil || c.Revision != 0 || got.ActiveLeaf != below.Turn.MessageID {
			b.Errorf("again: %+v, %+v, %v", got, c, err)
		}
		if got, _, err := b.Select(b.ctx, topic.ID, first.Message.ID); err != nil || got.ActiveLeaf != again.Turn.MessageID {
			b.Errorf("from the root: %+v, %v", got, err)
		}
		_, _, err = b.Select(b.ctx, topic.ID, "none")
		b.is(err, chat.ErrNotFound)
	},
	"branches do not change while a turn runs, and do while it waits": func(b *bench) {
		topic := b.topic()
		first := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, first.Turn.ID), "one")
		second := b.send(topic.ID, "more")
		queued := b.send(topic.ID, "queued")
		refused := func() {
			b.Helper()
			_, _, err := b.Regenerate(b.ctx, topic.ID, first.Turn.MessageID)
			b.is(err, chat.ErrConflict)
			_, _, err = b.EditMessage(b.ctx, topic.ID, first.Message.ID, chat.NewMessage{Parts: say("x")})
			b.is(err, chat.ErrConflict)
			_, _, err = b.Retry(b.ctx, topic.ID, first.Turn.MessageID)
			b.is(err, chat.ErrConflict)
		}
		refused()
		f := b.claim(topic.ID, second.Turn.ID)
		refused()
		_, _, err := b.Select(b.ctx, topic.ID, queued.Message.ID)
		b.is(err, chat.ErrConflict)
		_, _, err = b.Regenerate(b.ctx, topic.ID, queued.Message.ID)
		b.is(err, chat.ErrConflict)
		approvals := b.asking(f, 1)
		b.park(f)
		again, _, err := b.Regenerate(b.ctx, topic.ID, first.Turn.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		_, _, err = b.Select(b.ctx, topic.ID, second.Message.ID)
		b.is(err, chat.ErrConflict)
		b.fail(b.claim(topic.ID, again.Turn.ID))
		if got, _, err := b.Select(b.ctx, topic.ID, second.Message.ID); err != nil || got.Status.Status != chat.TopicAwaitingApproval {
			b.Fatalf("select: %+v, %v", got.Status, err)
		}
		_, _, err = b.Retry(b.ctx, topic.ID, again.Turn.MessageID) // the active branch waits
		b.is(err, chat.ErrConflict)
		b.decide(topic.ID, yes(approvals[0]))
	},
	"only what failed or was stopped is retried, and the retry selects it": func(b *bench) {
		topic, f := b.start()
		b.fail(f)
		next := b.send(topic.ID, "go on")
		b.done(b.claim(topic.ID, next.Turn.ID), "ok")
		for _, id := range []string{next.Turn.MessageID, next.Message.ID} {
			_, _, err := b.Retry(b.ctx, topic.ID, id)
			b.is(err, chat.ErrConflict)
		}
		_, _, err := b.Retry(b.ctx, topic.ID, "none")
		b.is(err, chat.ErrNotFound)
		sent, c, err := b.Retry(b.ctx, topic.ID, f.MessageID)
		if err != nil || !c.Reset || sent.Message.Status != chat.MessagePending {
			b.Fatalf("%+v, %+v, %v", sent, c, err)
		}
		b.same("leaf", f.MessageID, b.snapshot(topic.ID).Topic.ActiveLeaf)
		b.state(topic.ID, chat.TopicPending)
	},
}

var deleteTests = map[string]func(*bench){
	"a message is deleted with all below it": func(b *bench) {
		topic := b.topic()
		first := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, first.Turn.ID), "hi")
		second := b.send(topic.ID, "write")
		f := b.claim(topic.ID, second.Turn.ID)
		approvals := b.asking(f, 2)
		b.decide(topic.ID, yes(approvals[0]))
		b.park(f)
		stopped, c, err := b.DeleteMessage(b.ctx, topic.ID, second.Message.ID)
		if err != nil || !c.Reset || len(c.Parts)+len(c.Metadata)+len(c.Messages) != 0 {
			b.Fatalf("%+v, %v", c, err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch}, stopped)
		sameSet(b, []string{second.Message.ID, f.MessageID}, c.Removed)
		snap := b.snapshot(topic.ID)
		b.same("left", []string{"hello", "hi"}, texts(snap.Messages))
		b.same("leaf", first.Turn.MessageID, snap.Topic.ActiveLeaf)
		b.state(topic.ID, chat.TopicDone)
		for i, id := range approvals {
			_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(id)}, ada)
			b.is(err, chat.ErrGone)
			_, err = b.Call(b.ctx, topic.ID, id)
			b.is(err, chat.ErrGone)
			entry, ok := b.auditOf(id)
			if !ok || entry.Approved != (i == 0) {
				b.Errorf("recorded %+v", entry)
			}
		}
		items, _, err := b.Approvals(b.ctx, chat.ApprovalFilter{TopicID: topic.ID}, chat.Page{Limit: 10})
		if err != nil || len(items) != 0 {
			b.Errorf("the inbox holds %+v, %v", items, err)
		}
		_, _, err = b.DeleteMessage(b.ctx, topic.ID, second.Message.ID)
		b.is(err, chat.ErrGone)
		_, _, err = b.DeleteMessage(b.ctx, topic.ID, "none")
		b.is(err, chat.ErrNotFound)
	},
	"the owner of a deleted turn writes nothing any more": func(b *bench) {
		topic, f := b.start()
		stopped, _, err := b.DeleteMessage(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch}, stopped)
		_, err = b.KeepPartial(b.ctx, f.Fence, 0, say("late"))
		b.is(err, chat.ErrLost)
		_, err = b.Fail(b.ctx, f.Fence, 0, say("late"), chat.TurnError{})
		b.is(err, chat.ErrLost)
		b.state(topic.ID, chat.TopicIdle)
		if sent := b.send(topic.ID, "again"); sent.Queued {
			b.Error("the topic is still busy")
		}
	},
	"another answer takes the place of a deleted one": func(b *bench) {
		topic := b.topic()
		sent := b.send(topic.ID, "hello")
		b.done(b.claim(topic.ID, sent.Turn.ID), "one")
		again, _, err := b.Regenerate(b.ctx, topic.ID, sent.Turn.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.done(b.claim(topic.ID, again.Turn.ID), "two")
		if _, _, err := b.DeleteMessage(b.ctx, topic.ID, again.Turn.MessageID); err != nil {
			b.Fatal(err)
		}
		b.same("branch", []string{"hello", "one"}, texts(b.snapshot(topic.ID).Messages))
		if _, _, err := b.DeleteMessage(b.ctx, topic.ID, sent.Message.ID); err != nil {
			b.Fatal(err)
		}
		if snap := b.snapshot(topic.ID); len(snap.Messages) != 0 || snap.Topic.ActiveLeaf != "" {
			b.Errorf("left %+v", snap)
		}
	},
	"deleting another branch leaves the active one": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		again, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		stopped, _, err := b.DeleteMessage(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch}, stopped)
		b.same("leaf", again.Turn.MessageID, b.snapshot(topic.ID).Topic.ActiveLeaf)
		b.state(topic.ID, chat.TopicPending)
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{no(approvals[0])}, ada)
		b.is(err, chat.ErrGone)
	},
}
