package repotest

import (
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

var topicTests = map[string]func(*bench){
	"a topic is read as it was made": func(b *bench) {
		made, c, err := b.CreateTopic(b.ctx, chat.NewTopic{Title: "T", Model: "demo/guide", SystemPrompt: "Be brief.", MCPServerIDs: []string{"a", "b"}})
		if err != nil {
			b.Fatal(err)
		}
		b.same("change", chat.Change{TopicID: made.ID, Revision: 1, Topic: &made}, c)
		got := must[chat.Topic](b)(b.Topic(b.ctx, made.ID))
		b.same("topic", made, got)
		b.same("servers", []string{"a", "b"}, got.MCPServerIDs)
		if got.Revision != 1 || got.Status.Status != chat.TopicIdle || got.CreatedAt.IsZero() {
			b.Errorf("got %+v", got)
		}
	},
	"no servers, and every server, are told apart": func(b *bench) {
		none, _, err := b.CreateTopic(b.ctx, chat.NewTopic{MCPServerIDs: []string{}})
		if err != nil {
			b.Fatal(err)
		}
		if got := must[chat.Topic](b)(b.Topic(b.ctx, none.ID)); got.MCPServerIDs == nil {
			b.Error("no servers became every server")
		}
		if got := must[chat.Topic](b)(b.Topic(b.ctx, b.topic().ID)); got.MCPServerIDs != nil {
			b.Error("every server became some")
		}
	},
	"a patch changes what it names, and one that changes nothing is no change": func(b *bench) {
		topic := b.topic()
		title := "New"
		got, c, err := b.UpdateTopic(b.ctx, topic.ID, chat.TopicPatch{Title: &title})
		if err != nil {
			b.Fatal(err)
		}
		if got.Title != "New" || got.Model != topic.Model || c.Revision != 2 || c.Topic == nil || c.Topic.Title != "New" {
			b.Errorf("got %+v, %+v", got, c)
		}
		got, c, err = b.UpdateTopic(b.ctx, topic.ID, chat.TopicPatch{Title: &title})
		if err != nil || c.Revision != 0 || got.Revision != 2 {
			b.Errorf("the same again: %+v, %+v, %v", got, c, err)
		}
	},
	"a topic that is not there is not found, one that was deleted is gone": func(b *bench) {
		topic := b.topic()
		_, c, err := b.DeleteTopic(b.ctx, topic.ID)
		if err != nil || !c.TopicRemoved || c.Revision != 2 {
			b.Fatalf("delete: %+v, %v", c, err)
		}
		for id, want := range map[string]error{"none": chat.ErrNotFound, topic.ID: chat.ErrGone} {
			title := "T"
			_, err := b.Topic(b.ctx, id)
			b.is(err, want)
			_, err = b.Status(b.ctx, id)
			b.is(err, want)
			_, err = b.Snapshot(b.ctx, id, 1, "")
			b.is(err, want)
			_, _, err = b.Tree(b.ctx, id)
			b.is(err, want)
			_, _, err = b.UpdateTopic(b.ctx, id, chat.TopicPatch{Title: &title})
			b.is(err, want)
			_, _, err = b.DeleteTopic(b.ctx, id)
			b.is(err, want)
			_, _, err = b.Send(b.ctx, id, chat.NewMessage{Parts: say("x")})
			b.is(err, want)
			_, _, err = b.Stop(b.ctx, id)
			b.is(err, want)
			_, _, err = b.Decide(b.ctx, id, []chat.Decision{yes("x")}, ada)
			b.is(err, want)
			_, _, ok, err := b.Claim(b.ctx, chat.Candidate{TopicID: id, TurnID: "x"}, "o", lease)
			if ok || err != nil {
				b.Errorf("claim: %v, %v", ok, err)
			}
			_, err = b.FirstOutput(b.ctx, chat.Fence{TopicID: id})
			b.is(err, chat.ErrLost)
		}
	},
	"deleting a topic ends its turns, closes its cards and keeps the record": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		_, running := b.start()
		stopped, _, err := b.DeleteTopic(b.ctx, topic.ID)
		if err != nil {
			b.Fatal(err)
		}
		b.same("stopped", chat.Epochs{f.TurnID: f.Epoch}, stopped)
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada)
		b.is(err, chat.ErrGone)
		_, err = b.Call(b.ctx, topic.ID, approvals[0])
		b.is(err, chat.ErrGone)
		entry, ok := b.auditOf(approvals[0])
		if !ok || entry.Resolution != chat.ResolutionCancelled || entry.Approved {
			b.Errorf("recorded: %+v", entry)
		}
		items, _, err := b.Approvals(b.ctx, chat.ApprovalFilter{}, chat.Page{Limit: 10})
		if err != nil || len(items) != 0 {
			b.Errorf("the inbox holds %v, %v", items, err)
		}
		if _, _, err := b.DeleteTopic(b.ctx, running.TopicID); err != nil {
			b.Fatal(err)
		}
		_, err = b.FirstOutput(b.ctx, running.Fence)
		b.is(err, chat.ErrLost)
	},
	"topics are listed by their last change, page by page, each with its status": func(b *bench) {
		var want []string
		for range 5 {
			want = append([]string{b.topic().ID}, want...)
		}
		waiting, _, _ := b.waiting(2)
		deleted := b.topic()
		if _, _, err := b.DeleteTopic(b.ctx, deleted.ID); err != nil {
			b.Fatal(err)
		}
		b.send(want[4], "now the last")
		want = append([]string{want[4], waiting.ID}, want[:4]...)

		var got []string
		cursor := ""
		for page := 0; page < 10; page++ {
			topics, next, err := b.Topics(b.ctx, chat.Page{Limit: 4, Cursor: cursor})
			if err != nil {
				b.Fatal(err)
			}
			for _, topic := range topics {
				got = append(got, topic.ID)
				b.same("status", b.status(topic.ID), topic.Status)
			}
			if cursor = next; next == "" {
				break
			}
		}
		sameSet(b, want, got)
		_, _, err := b.Topics(b.ctx, chat.Page{Limit: 1, Cursor: "???"})
		b.is(err, chat.ErrMalformed)
	},
	"a snapshot of a long branch comes in pages": func(b *bench) {
		topic := b.topic()
		for i := range 3 {
			sent := b.send(topic.ID, fmt.Sprint("question ", i))
			b.done(b.claim(topic.ID, sent.Turn.ID), fmt.Sprint("answer ", i))
		}
		newest := must[chat.Snapshot](b)(b.Snapshot(b.ctx, topic.ID, 4, ""))
		b.same("newest", []string{"question 1", "answer 1", "question 2", "answer 2"}, texts(newest.Messages))
		if !newest.HasMore || newest.Before != newest.Messages[0].ID {
			b.Errorf("more: %v %q", newest.HasMore, newest.Before)
		}
		rest := must[chat.Snapshot](b)(b.Snapshot(b.ctx, topic.ID, 4, newest.Before))
		b.same("rest", []string{"question 0", "answer 0"}, texts(rest.Messages))
		if rest.HasMore || rest.Before != "" {
			b.Errorf("more: %v %q", rest.HasMore, rest.Before)
		}
		all := must[chat.Snapshot](b)(b.Snapshot(b.ctx, topic.ID, 6, ""))
		if all.HasMore || len(all.Messages) != 6 || all.Revision != all.Topic.Revision || all.Revision != all.Status.Revision {
			b.Errorf("got %d messages, more %v", len(all.Messages), all.HasMore)
		}
		_, err := b.Snapshot(b.ctx, topic.ID, 4, "none")
		b.is(err, chat.ErrNotFound)
	},
	"the database answers a ping": func(b *bench) {
		if err := b.Ping(b.ctx); err != nil {
			b.Error(err)
		}
	},
}

func sameSet(b *bench, want, got []string) {
	b.Helper()
	seen := map[string]int{}
	for _, id := range got {
		seen[id]++
	}
	for _, id := range want {
		if seen[id] != 1 {
			b.Errorf("%s is listed %d times", id, seen[id])
		}
	}
	if len(got) != len(want) {
		b.Errorf("%d are listed, want %d", len(got), len(want))
	}
}
