package repotest

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

var listTests = map[string]func(*bench){
	"the inbox lists what waits, the oldest first, page by page": func(b *bench) {
		var want []string
		var topics []chat.Topic
		for range 3 {
			topic, _, approvals := b.waiting(2)
			topics = append(topics, topic)
			want = append(want, approvals...)
		}
		b.decide(topics[1].ID, yes(want[2]))
		settled := want[2]
		want = append(want[:2:2], want[3:]...)

		list := func(f chat.ApprovalFilter) (got []chat.ApprovalItem) {
			b.Helper()
			cursor := ""
			for page := 0; page < 10; page++ {
				items, next, err := b.Approvals(b.ctx, f, chat.Page{Limit: 2, Cursor: cursor})
				if err != nil {
					b.Fatal(err)
				}
				if len(items) > 2 {
					b.Fatalf("a page of %d", len(items))
				}
				got = append(got, items...)
				if cursor = next; next == "" {
					return got
				}
			}
			b.Fatal("the list does not end")
			return nil
		}
		approvals := func(items []chat.ApprovalItem) (ids []string) {
			for _, item := range items {
				ids = append(ids, item.ApprovalID)
			}
			return ids
		}
		pending := list(chat.ApprovalFilter{Pending: true})
		sameSet(b, want, approvals(pending))
		for i := 1; i < len(pending); i++ {
			if pending[i].RequestedAt.Before(*pending[i-1].RequestedAt) {
				b.Errorf("item %d is older than the one before it", i)
			}
		}
		sameSet(b, []string{settled}, approvals(list(chat.ApprovalFilter{Settled: true})))
		sameSet(b, append(want, settled), approvals(list(chat.ApprovalFilter{})))
		one := list(chat.ApprovalFilter{TopicID: topics[1].ID})
		sameSet(b, []string{settled, want[2]}, approvals(one))
		for _, item := range one {
			stored := must[chat.ToolCall](b)(b.Call(b.ctx, topics[1].ID, item.ApprovalID))
			b.same("item", chat.ApprovalItem{
				ApprovalID: stored.Approval.ID, TopicID: topics[1].ID, AnchorID: item.AnchorID, ToolCallID: stored.ToolCallID, ToolName: stored.ToolName,
				Server: "files", Title: "Write a file", Input: stored.Input, State: stored.State, Approval: *stored.Approval, RequestedAt: stored.Approval.RequestedAt,
			}, item)
		}
		for _, cursor := range []string{"!", "bm90IGEgY3Vyc29y", "eCB5"} {
			_, _, err := b.Approvals(b.ctx, chat.ApprovalFilter{}, chat.Page{Limit: 1, Cursor: cursor})
			b.is(err, chat.ErrMalformed)
		}
	},
	"the record lists decisions, the newest first, page by page": func(b *bench) {
		topic, _, approvals := b.waiting(3)
		for _, id := range approvals {
			b.decide(topic.ID, yes(id))
		}
		other, _, others := b.waiting(1)
		b.decide(other.ID, no(others[0]))
		var got []string
		var last time.Time
		cursor := ""
		for page := 0; page < 10; page++ {
			entries, next, err := b.Audit(b.ctx, "", chat.Page{Limit: 2, Cursor: cursor})
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range entries {
				if !last.IsZero() && e.DecidedAt.After(last) {
					b.Errorf("approval %s is newer than the one before it", e.ApprovalID)
				}
				last = e.DecidedAt
				got = append(got, e.ApprovalID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		sameSet(b, append(approvals, others...), got)
		entries, _, err := b.Audit(b.ctx, other.ID, chat.Page{Limit: 10})
		if err != nil || len(entries) != 1 || entries[0].ApprovalID != others[0] || entries[0].ExecutedInput != nil {
			b.Errorf("%+v, %v", entries, err)
		}
		_, _, err = b.Audit(b.ctx, "", chat.Page{Limit: 1, Cursor: "!"})
		b.is(err, chat.ErrMalformed)
	},
}

var tokenTests = map[string]func(*bench){
	"a token is found by its digest and kind, until it is deleted": func(b *bench) {
		k := chat.Token{Digest: "d", Kind: chat.TokenBearer, Principal: "ada"}
		for range 2 {
			if err := b.PutToken(b.ctx, k, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.same("token", k, must[chat.Token](b)(b.FindToken(b.ctx, "d", chat.TokenBearer)))
		_, err := b.FindToken(b.ctx, "d", chat.TokenSession)
		b.is(err, chat.ErrNotFound)
		_, err = b.TakeToken(b.ctx, "d", chat.TokenLogin)
		b.is(err, chat.ErrNotFound)
		for range 2 {
			if err := b.DeleteToken(b.ctx, "d"); err != nil {
				b.Fatal(err)
			}
		}
		_, err = b.FindToken(b.ctx, "d", chat.TokenBearer)
		b.is(err, chat.ErrNotFound)
	},
	"a token that has expired is not there": func(b *bench) {
		for digest, life := range map[string]time.Duration{"old": -time.Millisecond, "new": time.Hour} {
			if err := b.PutToken(b.ctx, chat.Token{Digest: digest, Kind: chat.TokenSession, Principal: "ada"}, life); err != nil {
				b.Fatal(err)
			}
		}
		_, err := b.FindToken(b.ctx, "old", chat.TokenSession)
		b.is(err, chat.ErrNotFound)
		_, err = b.TakeToken(b.ctx, "old", chat.TokenSession)
		b.is(err, chat.ErrNotFound)
		if _, err := b.TakeToken(b.ctx, "new", chat.TokenSession); err != nil {
			b.Error(err)
		}
	},
}

var byteTests = map[string]func(*bench){
	"what a tool says is kept: NUL, numbers digit for digit, key order, twice-named keys": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		b.decide(topic.ID, yes(approvals[0]))
		f = b.claim(topic.ID, f.TurnID)
		output := json.RawMessage(`{"z":"a\u0000b\ud800","n":9007199254740993,"a":1.0,"a":1e400}`)
		_, _, err := b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			next, _ := chat.Finish(calls[0].Call, chat.Result{Outcome: chat.OutcomeOK, Output: output}, at)
			return []chat.PlacedCall{{Position: calls[0].Position, Call: next}}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.same("output", string(output), string(b.calls(topic.ID, f.MessageID)[0].Output))
	},
	"text that no database takes breaks no turn": func(b *bench) {
		topic, f := b.start()
		bad := call("id\x00\xff")
		bad.ToolName, bad.Input = "to\x00ol", json.RawMessage("{\"p\":\"\xff\"}")
		bad.ToolMetadata.Server = "se\x00rver"
		_, err := b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
			return chat.Parts{chat.Text{Text: "a\x00b\xff"}, chat.Ask(bad, "bad-"+topic.ID, at), chat.Other{Type: "data-x", Raw: json.RawMessage("{\"type\":\"data-x\",\"v\":\"\xfe\"}")}}
		}})
		if err != nil {
			b.Fatal(err)
		}
		b.decide(topic.ID, yes("bad-"+topic.ID))
		if got := b.message(topic.ID, f.MessageID).Parts[0].(chat.Text).Text; !strings.HasPrefix(got, "a\x00b") {
			b.Errorf("text %q", got)
		}
		if entry, ok := b.auditOf("bad-" + topic.ID); !ok || entry.Server != "se\ufffdrver" {
			b.Errorf("recorded %+v", entry)
		}
	},
	"an id that cannot be stored is malformed or not found": func(b *bench) {
		_, err := b.Topic(b.ctx, "a\x00b")
		if !errors.Is(err, chat.ErrMalformed) && !errors.Is(err, chat.ErrNotFound) {
			b.Errorf("got %v", err)
		}
		sent, _, err := b.Send(b.ctx, b.topic().ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "a\x00b"}}})
		if err != nil {
			b.Fatal(err)
		}
		b.same("text", "a\x00b", texts([]chat.Message{sent.Message})[0])
	},
	"every kind of part comes back as it went": func(b *bench) {
		parts := chat.Parts{
			chat.Text{Text: "é 🙂 <b>", State: "done", ProviderMetadata: json.RawMessage(`{"x":{"b":1,"a":2}}`)},
			chat.Reasoning{ID: "r", Text: "hm"}, chat.File{MediaType: "image/png", URL: "data:image/png;base64,AA==", Filename: "a.png"},
			chat.StepStart{}, chat.Other{Type: "data-x", Raw: json.RawMessage(`{"type":"data-x","n":1.50}`)},
		}
		topic := b.topic()
		sent, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: parts})
		if err != nil {
			b.Fatal(err)
		}
		b.same("parts", parts, b.message(topic.ID, sent.Message.ID).Parts)
	},
}
