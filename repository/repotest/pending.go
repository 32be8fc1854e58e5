package repotest

import (
	"fmt"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

func same(c chat.ToolCall, _ time.Time) (chat.ToolCall, bool) { return c, false }

func again(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
	return chat.Ask(c, "again-"+c.Approval.ID, at), true
}

func settleInvalid(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
	c.Approval = nil
	return chat.Finish(c, chat.Result{Outcome: chat.OutcomeInvalid, ErrorText: "no"}, at)
}

func allow(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
	return chat.AllowByRule(c, chat.Judgement{Verdict: chat.VerdictAllow, Rule: chat.ByAutoApprove, Why: "It may."}, at)
}

// editPending is EditPending that does not fail.
func (b *bench) editPending(topicID string, edit chat.CallEdit, approvals ...string) chat.Change {
	b.Helper()
	c, err := b.EditPending(b.ctx, topicID, approvals, edit)
	return must[chat.Change](b)(c, err)
}

func (b *bench) unchanged(topicID string, c chat.Change) {
	b.Helper()
	b.same("change", chat.Change{TopicID: topicID}, c)
}

var pendingTests = map[string]func(*bench){
	"an approval that is asked again is closed under its old id and waits under the new one": func(b *bench) {
		topic, f, approvals := b.waiting(2)
		before := b.status(topic.ID).Revision
		b.unchanged(topic.ID, b.editPending(topic.ID, same, approvals...))
		b.unchanged(topic.ID, b.editPending(topic.ID, again))
		c := b.editPending(topic.ID, again, approvals[0])
		if c.Revision != before+1 || len(c.Parts) != 1 || c.Parts[0].MessageID != f.MessageID || c.Parts[0].Epoch != f.Epoch {
			b.Errorf("got %+v", c)
		}
		for _, d := range []chat.Decision{yes(approvals[0]), no(approvals[0])} {
			_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{d}, ada)
			b.is(err, chat.ErrGone)
		}
		b.unchanged(topic.ID, b.editPending(topic.ID, again, approvals[0], "none"))
		d := b.decide(topic.ID, yes("again-"+approvals[0]), yes(approvals[1]))
		b.same("continuation", chat.ContinuationScheduled, d.Continuation)
		b.unchanged(topic.ID, b.editPending(topic.ID, again, approvals[1])) // it waits no more
		entries, _, err := b.Audit(b.ctx, topic.ID, chat.Page{Limit: 10})
		if err != nil || len(entries) != 3 || entries[2].Resolution != chat.ResolutionSuperseded || entries[2].ApprovalID != approvals[0] {
			b.Errorf("got %+v, %v", entries, err)
		}
	},
	"a turn goes on when the last that waits is settled by an edit, in one revision": func(b *bench) {
		topic, f, approvals := b.waiting(3)
		b.editPending(topic.ID, settleInvalid, approvals[0])
		b.state(topic.ID, chat.TopicAwaitingApproval)
		b.same("not yet", []string{}, b.claimable())
		before := b.status(topic.ID).Revision
		c := b.editPending(topic.ID, allow, approvals[1], approvals[2])
		if c.Revision != before+1 || len(c.Parts) != 2 {
			b.Errorf("got %+v", c)
		}
		b.same("claimable", []string{f.TurnID}, b.claimable())
		b.state(topic.ID, chat.TopicPending)
		for _, id := range approvals[1:] {
			e, ok := b.auditOf(id)
			if !ok || !e.Approved || e.DecidedBy != chat.ByAutoApprove || e.Via != chat.ViaRule || e.Resolution != "" {
				b.Errorf("audit: %+v", e)
			}
		}
		if e, ok := b.auditOf(approvals[0]); !ok || e.Resolution != chat.ResolutionSuperseded {
			b.Errorf("audit: %+v", e)
		}
	},
	"an edit may go across branches, and each turn goes on for itself": func(b *bench) {
		topic, f, old := b.waiting(1)
		sent, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		g := b.claim(topic.ID, sent.Turn.ID)
		approvals := b.asking(g, 2)
		b.park(g)
		b.editPending(topic.ID, allow, approvals[0], old[0])
		b.same("claimable", []string{f.TurnID}, b.claimable())
		b.editPending(topic.ID, allow, approvals...)
		sameSet(b, []string{f.TurnID, g.TurnID}, b.claimable())
	},
	"the approvals whose time is over are listed, the first to end first, by the clock of the database": func(b *bench) {
		topic, f := b.start()
		until := func(c chat.ToolCall, end time.Time) chat.ToolCall {
			a := *c.Approval
			a.ExpiresAt = &end
			c.Approval = &a
			return c
		}
		refs := func(ids ...string) []chat.ApprovalRef {
			refs := []chat.ApprovalRef{}
			for _, id := range ids {
				refs = append(refs, chat.ApprovalRef{TopicID: topic.ID, ApprovalID: id})
			}
			return refs
		}
		expired := func(n int) []chat.ApprovalRef {
			b.Helper()
			return must[[]chat.ApprovalRef](b)(b.Expired(b.ctx, n))
		}
		must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) (parts chat.Parts) {
			for i, life := range []time.Duration{0, -time.Minute, time.Hour, -time.Hour} {
				c := chat.Ask(call(fmt.Sprint("call-", i)), fmt.Sprint("approval-", i), at)
				if life != 0 {
					c = until(c, at.Add(life))
				}
				parts = append(parts, c)
			}
			return parts
		}}))
		b.park(f)
		b.same("as they were asked for", refs("approval-3", "approval-1"), expired(10))
		b.same("one of them", refs("approval-3"), expired(1))

		longer := func(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) { return until(c, at.Add(time.Hour)), true }
		shorter := func(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) { return until(c, at), true }
		b.editPending(topic.ID, longer, "approval-3")
		b.same("when one has longer", refs("approval-1"), expired(10))
		b.editPending(topic.ID, shorter, "approval-0", "approval-2")
		b.same("when others have not", 3, len(expired(10)))
		b.editPending(topic.ID, chat.Expire, "approval-0", "approval-1", "approval-3")
		b.same("when two are closed", refs("approval-2"), expired(10))
		for id, want := range map[string]chat.Resolution{"approval-0": chat.ResolutionExpired, "approval-1": chat.ResolutionExpired} {
			if e, ok := b.auditOf(id); !ok || e.Approved || e.Resolution != want {
				b.Errorf("audit: %+v", e)
			}
		}
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes("approval-2")}, ada)
		b.is(err, chat.ErrGone)
		b.same("when nothing is decided", refs("approval-2"), expired(10))
		b.editPending(topic.ID, longer, "approval-2")
		b.decide(topic.ID, yes("approval-2"), no("approval-3"))
		b.run(`UPDATE parts SET expires_at = requested_at WHERE state <> 'approval-requested'`)
		b.same("when all is decided", refs(), expired(10))
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
	"calls of other topics stay as they are": func(b *bench) {
		topic, _, _ := b.waiting(1)
		other, f, others := b.waiting(1)
		b.unchanged(topic.ID, b.editPending(topic.ID, allow, others...))
		if !b.calls(other.ID, f.MessageID)[0].Pending() {
			b.Error("it was settled")
		}
		if _, _, err := b.DeleteTopic(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		for id, want := range map[string]error{topic.ID: chat.ErrGone, "none": chat.ErrNotFound} {
			_, err := b.EditPending(b.ctx, id, others, allow)
			b.is(err, want)
		}
	},
	"an edit of a turn that runs is seen by it": func(b *bench) {
		topic, f := b.start()
		approvals := b.asking(f, 1)
		b.editPending(topic.ID, allow, approvals...)
		parked, calls, _, err := b.Park(b.ctx, f.Fence)
		if parked || err != nil || len(calls) != 1 || !calls[0].Call.Runnable() {
			b.Errorf("park: %v, %+v, %v", parked, calls, err)
		}
	},
	"what the policy of the transaction does not allow stays as it is": func(b *bench) {
		topic, f, approvals := b.waitingFor("workspace", "write_file")
		want := b.message(topic.ID, f.MessageID)
		var seen []chat.TopicPolicy
		passes := func(p chat.TopicPolicy, c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
			seen = append(seen, p)
			if p.Switches == nil || !p.Switches.Policy("write_file").Allows() {
				return c, false
			}
			return allow(c, at)
		}
		for _, serverID := range []string{"workspace", "none", ""} {
			c, err := b.SettlePending(b.ctx, topic.ID, approvals, serverID, passes)
			b.unchanged(topic.ID, must[chat.Change](b)(c, err))
		}
		b.same("message", want, b.message(topic.ID, f.MessageID))
		b.same("claimable", []string{}, b.claimable())
		if len(seen) != 3 || seen[0].Switches == nil || seen[1].Switches != nil || seen[2].Switches != nil || seen[0].Topic.ID != topic.ID || len(seen[0].Modes) != 1 {
			b.Errorf("it was given %+v", seen)
		}
		b.edit("workspace", chat.MCPServerPatch{AutoApproveTools: &[]string{"write_file"}})
		rule := must[chat.Rule](b)(b.CreateRule(b.ctx, chat.NewRule{Name: "ask", Verdict: chat.VerdictAsk, Expression: "true", Enabled: true}, ada))
		c, err := b.SettlePending(b.ctx, topic.ID, approvals, "workspace", passes)
		if err != nil || c.Revision == 0 {
			b.Errorf("got %+v, %v", c, err)
		}
		if p := seen[len(seen)-1]; len(p.Rules) != 1 || p.Rules[0].ID != rule.ID {
			b.Errorf("it was given %+v", p)
		}
		b.same("claimable, then", []string{f.TurnID}, b.claimable())
	},
	"nobody changes the switches while an edit relies on them": func(b *bench) {
		topic, _, approvals := b.waitingFor("workspace", "write_file")
		held := false
		_, err := b.SettlePending(b.ctx, topic.ID, approvals, "workspace", func(_ chat.TopicPolicy, c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
			held = b.held("workspace")
			return allow(c, at)
		})
		if err != nil || !held || b.held("workspace") {
			b.Errorf("held while it is relied on: %v, after: %v, %v", held, b.held("workspace"), err)
		}
	},
	"what is settled by switches was settled before they were taken back": func(b *bench) {
		for round := range rounds {
			tool := fmt.Sprint("tool ", round)
			b.edit("workspace", chat.MCPServerPatch{AutoApproveTools: &[]string{tool}})
			topic, f, approvals := b.waitingFor("workspace", tool)
			atOnce(
				func() {
					if _, err := b.SettlePending(b.ctx, topic.ID, approvals, "workspace", func(p chat.TopicPolicy, c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
						if !p.Switches.Policy(tool).AutoApprove {
							return c, false
						}
						return allow(c, at)
					}); err != nil {
						b.Error(err)
					}
				},
				func() {
					if _, err := b.UpdateMCPServer(b.ctx, "workspace", patched(chat.MCPServerPatch{AutoApproveTools: &[]string{}}), grace); err != nil {
						b.Error(err)
					}
				},
				func() {
					if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err != nil {
						b.is(err, chat.ErrConflict)
					}
				},
			)
			c := b.calls(topic.ID, f.MessageID)[0]
			if c.Pending() || !c.Approval.Granted() {
				b.Fatalf("got %+v", c.Approval)
			}
			if _, ok := b.auditOf(approvals[0]); !ok {
				b.Fatal("it is not on record")
			}
			b.same("claimable for one turn", f.TurnID, b.claim(topic.ID, f.TurnID).TurnID)
		}
	},
	"the calls that wait are listed, the oldest first, page by page": func(b *bench) {
		var want []string
		var first chat.Topic
		for i := range 3 {
			topic, _, approvals := b.waitingFor("workspace", "write_file", "delete_file")
			if want = append(want, approvals...); i == 0 {
				first = topic
			}
		}
		b.decide(first.ID, no(want[1]))
		want = append(want[:1:1], want[2:]...)
		var got []string
		cursor := ""
		for range 10 {
			calls, next, err := b.PendingCalls(b.ctx, chat.Page{Limit: 2, Cursor: cursor})
			if err != nil || len(calls) > 2 {
				b.Fatal(len(calls), err)
			}
			for _, c := range calls {
				got = append(got, c.Call.Approval.ID)
				b.same("call", must[chat.JudgedCall](b)(b.ApprovalCall(b.ctx, c.Call.Approval.ID)), c)
			}
			if cursor = next; next == "" {
				break
			}
		}
		b.same("approvals", want, got)
		for _, cursor := range []string{"!", "bm90IGEgY3Vyc29y"} {
			_, _, err := b.PendingCalls(b.ctx, chat.Page{Limit: 1, Cursor: cursor})
			b.is(err, chat.ErrMalformed)
		}
		if _, _, err := b.DeleteTopic(b.ctx, first.ID); err != nil {
			b.Fatal(err)
		}
		calls, next, err := b.PendingCalls(b.ctx, chat.Page{Limit: 10})
		if err != nil || len(calls) != 4 || next != "" {
			b.Errorf("after a topic was deleted: %d, %q, %v", len(calls), next, err)
		}
	},
}
