package repotest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

var decideTests = map[string]func(*bench){
	"several calls are decided one by one, and the last decision lets the turn go on": func(b *bench) {
		topic, f, approvals := b.waiting(3)
		for i, id := range []string{approvals[2], approvals[0], approvals[1]} {
			d, c, err := b.Decide(b.ctx, topic.ID, []chat.Decision{{ApprovalID: id, Approved: i != 1, AnchorID: f.MessageID}}, ada)
			if err != nil {
				b.Fatal(err)
			}
			want := chat.ContinuationWaiting
			if i == 2 {
				want = chat.ContinuationScheduled
			}
			if d.Pending != 2-i || d.Continuation != want || d.Revision != c.Revision || d.Results[0].Outcome != chat.EffectApplied || d.Results[0].DecidedBy != "ada" {
				b.Fatalf("decision %d: %+v", i, d)
			}
			if len(c.Parts) != 1 || c.Parts[0].Epoch != f.Epoch || c.Parts[0].MessageID != f.MessageID || len(c.Messages)+len(c.Metadata) != 0 {
				b.Fatalf("told %+v", c)
			}
			b.same("stored", c.Parts[0].Part, b.message(topic.ID, f.MessageID).Parts[c.Parts[0].Position])
			b.same("message revision", c.Revision, b.message(topic.ID, f.MessageID).Revision)
			if i < 2 {
				b.state(topic.ID, chat.TopicAwaitingApproval)
			}
		}
		b.state(topic.ID, chat.TopicPending)
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
	"a decision while the turn runs is seen by it": func(b *bench) {
		topic, f := b.start()
		approvals := b.asking(f, 2)
		b.same("first", chat.ContinuationWaiting, b.decide(topic.ID, yes(approvals[0])).Continuation)
		b.same("last", chat.ContinuationRunning, b.decide(topic.ID, yes(approvals[1])).Continuation)
		parked, calls, _, err := b.Park(b.ctx, f.Fence)
		if parked || err != nil || len(calls) != 2 || !calls[0].Call.Runnable() || !calls[1].Call.Runnable() {
			b.Errorf("park: %v, %+v, %v", parked, calls, err)
		}
	},
	"the same decision again changes nothing and answers the same": func(b *bench) {
		topic, _, approvals := b.waiting(2)
		first := b.decide(topic.ID, yes(approvals[0]))
		d, c, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, chat.Decider{Name: "bob", Via: chat.ViaWeb})
		if err != nil || c.Revision != 0 {
			b.Fatalf("%+v, %v", c, err)
		}
		want := chat.Decided{
			Results: []chat.DecisionResult{{ApprovalID: approvals[0], Outcome: chat.EffectAlreadySettled, DecidedBy: "ada", DecidedAt: first.Results[0].DecidedAt}},
			Pending: 1, Continuation: chat.ContinuationNone, Revision: first.Revision,
		}
		b.same("answer", want, d)
		b.same("revision", first.Revision, b.status(topic.ID).Revision)
	},
	"another decision learns of the first": func(b *bench) {
		topic, _, approvals := b.waiting(1)
		d := b.decide(topic.ID, chat.Decision{ApprovalID: approvals[0], Reason: " no! "})
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, chat.Decider{Name: "bob"})
		var decided *chat.DecidedError
		if !errors.As(err, &decided) {
			b.Fatalf("got %v", err)
		}
		b.same("error", &chat.DecidedError{
			ApprovalID: approvals[0], Reason: " no! ", DecidedBy: "ada", Via: chat.ViaAPI, DecidedAt: d.Results[0].DecidedAt,
		}, decided)
	},
	"an approval that is unknown, of another topic or of another message is not found": func(b *bench) {
		topic, _, approvals := b.waiting(1)
		other, _, others := b.waiting(1)
		for _, d := range []chat.Decision{yes("none"), yes(others[0]), {ApprovalID: approvals[0], Approved: true, AnchorID: "none"}} {
			_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{d}, ada)
			b.is(err, chat.ErrNotFound)
		}
		b.decide(other.ID, yes(others[0])) // it is on record now, and still of another topic
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(others[0])}, ada)
		b.is(err, chat.ErrNotFound)
		_, err = b.Call(b.ctx, topic.ID, others[0])
		b.is(err, chat.ErrNotFound)
		b.state(topic.ID, chat.TopicAwaitingApproval)
	},
	"a request without decisions, or with one named twice, is malformed": func(b *bench) {
		topic, _, approvals := b.waiting(1)
		_, _, err := b.Decide(b.ctx, topic.ID, nil, ada)
		b.is(err, chat.ErrMalformed)
		_, _, err = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0]), yes(approvals[0])}, ada)
		b.is(err, chat.ErrMalformed)
		b.state(topic.ID, chat.TopicAwaitingApproval)
	},
	"an edit is what runs, and the record keeps both": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		edited := json.RawMessage(`{"path":"b","n":9007199254740993}`)
		b.decide(topic.ID, chat.Decision{ApprovalID: approvals[0], Approved: true, UpdatedInput: edited, Reason: "only b"})
		got := b.calls(topic.ID, f.MessageID)[0]
		b.same("input", string(edited), string(got.Input))
		b.same("original", `{"path":"a"}`, string(got.Approval.OriginalInput))
		entry, _ := b.auditOf(approvals[0])
		want := chat.AuditEntry{
			ID: entry.ID, ApprovalID: approvals[0], TopicID: topic.ID, AnchorID: f.MessageID, ToolCallID: "call-0", ToolName: "files__write", Server: "files",
			Approved: true, Reason: "only b", DecidedBy: "ada", Via: chat.ViaAPI, DecidedAt: *got.Approval.DecidedAt,
			OriginalInput: json.RawMessage(`{"path":"a"}`), ExecutedInput: edited, InputDigest: chat.Digest(edited),
		}
		b.same("record", want, entry)
	},
	"the call of an approval is read as it is stored": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		b.same("call", b.calls(topic.ID, f.MessageID)[0], must[chat.ToolCall](b)(b.Call(b.ctx, topic.ID, approvals[0])))
		_, err := b.Call(b.ctx, topic.ID, "none")
		b.is(err, chat.ErrNotFound)
	},
	"an approval id is used once": func(b *bench) {
		_, f := b.start()
		approvals := b.asking(f, 1)
		_, err := b.CommitStep(b.ctx, f.Fence, chat.Step{Position: 2, Build: func(at time.Time) chat.Parts {
			return chat.Parts{chat.Ask(call("c"), approvals[0], at)}
		}})
		if err == nil {
			b.Error("a second call has the same approval")
		}
	},
	"a decision in an old branch leaves the active one alone": func(b *bench) {
		topic, f, approvals := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		b.done(b.claim(topic.ID, sent.Turn.ID), "again")
		b.state(topic.ID, chat.TopicDone)
		if d := b.decide(topic.ID, yes(approvals[0])); d.Continuation != chat.ContinuationScheduled {
			b.Errorf("%+v", d)
		}
		b.state(topic.ID, chat.TopicDone)
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
}

var batchTests = map[string]func(*bench){
	"a batch is applied whole, in one revision": func(b *bench) {
		topic, _, approvals := b.waiting(3)
		before := b.status(topic.ID).Revision
		d := b.decide(topic.ID, yes(approvals[0]), no(approvals[1]), yes(approvals[2]))
		if d.Pending != 0 || d.Continuation != chat.ContinuationScheduled || d.Revision != before+1 || len(d.Results) != 3 {
			b.Errorf("%+v", d)
		}
	},
	"a batch with one that cannot be applied changes nothing and names each": func(b *bench) {
		topic, f, approvals := b.waiting(4)
		b.decide(topic.ID, yes(approvals[0]), yes(approvals[1]))
		before := b.message(topic.ID, f.MessageID)
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[2]), no(approvals[0]), yes(approvals[1]), yes("none"), yes(approvals[3])}, ada)
		var batch *chat.BatchError
		if !errors.As(err, &batch) || !errors.Is(err, chat.ErrConflict) || len(batch.Items) != 2 {
			b.Fatalf("got %v", err)
		}
		b.same("first", approvals[0], batch.Items[0].ApprovalID)
		b.is(batch.Items[0].Err, chat.ErrConflict)
		b.same("second", "none", batch.Items[1].ApprovalID)
		b.is(batch.Items[1].Err, chat.ErrNotFound)
		b.same("message", before, b.message(topic.ID, f.MessageID))
		if _, ok := b.auditOf(approvals[2]); ok {
			b.Error("a decision that was not applied is on record")
		}
	},
	"a batch of repeats and new ones applies the new ones": func(b *bench) {
		topic, _, approvals := b.waiting(2)
		b.decide(topic.ID, yes(approvals[0]))
		d := b.decide(topic.ID, yes(approvals[1]), yes(approvals[0]))
		if d.Results[0].Outcome != chat.EffectApplied || d.Results[1].Outcome != chat.EffectAlreadySettled || d.Continuation != chat.ContinuationScheduled {
			b.Errorf("%+v", d)
		}
		if again := b.decide(topic.ID, yes(approvals[1]), yes(approvals[0])); again.Continuation != chat.ContinuationNone || again.Revision != d.Revision {
			b.Errorf("again: %+v", again)
		}
	},
	"a batch may go across branches": func(b *bench) {
		topic, f, old := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		g := b.claim(topic.ID, sent.Turn.ID)
		approvals := b.asking(g, 2)
		b.park(g)
		d := b.decide(topic.ID, yes(approvals[0]), yes(old[0]))
		if d.Pending != 1 || d.Continuation != chat.ContinuationScheduled {
			b.Errorf("%+v", d)
		}
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
}
