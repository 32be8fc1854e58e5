package repository

import (
	"context"
	"fmt"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// Decide applies all decisions or none. Of decisions that race, one is
// applied; the others see it, whatever the process that they run in. The
// transaction that leaves nothing pending queues a turn that waits, and no
// other does. What it costs does not depend on what else the message holds.
func (s *Store) Decide(ctx context.Context, topicID string, ds []chat.Decision, by chat.Decider) (chat.Decided, chat.Change, error) {
	if len(ds) == 0 {
		return chat.Decided{}, chat.Change{}, chat.Malformed("There is no decision in the request.")
	}
	seen := make(map[string]bool, len(ds))
	for _, d := range ds {
		if seen[d.ApprovalID] {
			return chat.Decided{}, chat.Change{}, chat.Malformed("Approval %s is named twice.", d.ApprovalID)
		}
		seen[d.ApprovalID] = true
	}

	var out chat.Decided
	c, err := s.changeBy(ctx, "decide", topicID, `id, revision, updated_at`, func(ctx context.Context, t *topicTx) error {
		var err error
		out, err = t.decide(ctx, s.keys, ds, by)
		return err
	})
	s.decisions.count(ds, out, err)
	if err != nil {
		return chat.Decided{}, chat.Change{}, err
	}
	return out, c, nil
}

func (t *topicTx) decide(ctx context.Context, k *keys, ds []chat.Decision, by chat.Decider) (chat.Decided, error) {
	ids := make([]string, len(ds))
	for i, d := range ds {
		ids[i] = d.ApprovalID
	}
	rows, err := t.anchorsOf(ctx, ids)
	if err != nil {
		return chat.Decided{}, err
	}
	byID := make(map[string]callRow, len(rows))
	pending, turns := map[string]int{}, map[string]string{} // by anchor
	for _, row := range rows {
		turns[row.MessageID] = row.TurnID
		if row.ApprovalID != nil {
			byID[*row.ApprovalID] = row
		}
		if chat.CallState(row.State) == chat.CallApprovalRequested {
			pending[row.MessageID]++
		}
	}

	out := chat.Decided{Continuation: chat.ContinuationNone, Revision: t.before()}
	var writes []statement
	var failed []chat.BatchItem
	var remembered []chat.ToolCall
	var anchors []string // in the order of the decisions
	last := ""
	for _, d := range ds {
		was, call, effect, err := t.apply(ctx, byID, d, by)
		if err != nil {
			if !chat.Refused(err) {
				return chat.Decided{}, err
			}
			failed = append(failed, chat.BatchItem{ApprovalID: d.ApprovalID, Err: err})
			continue
		}
		if last = was.messageID; !slices.Contains(anchors, last) {
			anchors = append(anchors, last)
		}
		if effect == chat.EffectApplied && len(failed) == 0 {
			write, err := t.callWrites(was, call)
			if err != nil {
				return chat.Decided{}, err
			}
			writes = append(writes, write...)
			pending[was.messageID]--
		}
		if effect == chat.EffectApplied && call.Approval.Remember == chat.RememberAlwaysAllow {
			remembered = append(remembered, call)
		}
		result := chat.DecisionResult{ApprovalID: d.ApprovalID, Outcome: effect, DecidedBy: call.Approval.DecidedBy}
		if call.Approval.DecidedAt != nil {
			result.DecidedAt = *call.Approval.DecidedAt
		}
		out.Results = append(out.Results, result)
	}
	if len(remembered) > 0 {
		refused, err := t.remember(ctx, k, remembered, by)
		if err != nil {
			return chat.Decided{}, err
		}
		failed = append(failed, refused...)
	}
	if len(failed) > 0 {
		return chat.Decided{}, &chat.BatchError{Items: failed}
	}
	for _, n := range pending {
		out.Pending += n
	}
	if len(writes) == 0 {
		return out, errUnchanged
	}
	out.Revision = t.revision()
	queued := make(map[string]*int64, len(anchors))
	for _, anchor := range anchors {
		if pending[anchor] == 0 {
			queued[anchor] = new(int64)
			writes = append(writes, t.goOn(turns[anchor], queued[anchor]))
		}
	}
	if err := t.together(ctx, writes); err != nil {
		return chat.Decided{}, err
	}
	switch n := queued[last]; {
	case n == nil:
		out.Continuation = chat.ContinuationWaiting
	case *n == 0:
		out.Continuation = chat.ContinuationRunning
	default:
		out.Continuation = chat.ContinuationScheduled
	}
	return out, nil
}

// anchorsOf reads the calls of all messages that the approvals are of.
// Only what is asked about is read whole: another call's output may be large.
// The topic is compared here and not in the query, where it would offer the
// planner a way through all parts of the topic. An approval is of one message,
// so only of several is it to be said that no message is wanted twice.
func (t *topicTx) anchorsOf(ctx context.Context, ids []string) ([]callRow, error) {
	asked := `parts`
	if len(ids) > 1 {
		asked = `(SELECT DISTINCT topic_id, message_id FROM parts WHERE approval_id IN (?))`
	}
	query, args := `
		SELECT p.topic_id, p.message_id, p.position, p.state, p.approval_id,
			CASE WHEN p.approval_id IN (?) THEN p.payload ELSE '' END AS payload, m.epoch, m.turn_id
		FROM `+asked+` q
		JOIN messages m ON m.topic_id = q.topic_id AND m.id = q.message_id
		JOIN parts p ON p.topic_id = q.topic_id AND p.message_id = q.message_id
		WHERE p.tool_call_id IS NOT NULL`, []any{ids, ids}
	if len(ids) == 1 {
		query += ` AND q.approval_id IN (?)`
	}
	var rows []callRow
	if err := t.allIn(ctx, &rows, query+` ORDER BY p.message_id, p.position`, args...); err != nil {
		return nil, fmt.Errorf("read the calls: %w", err)
	}
	return slices.DeleteFunc(rows, func(r callRow) bool { return r.TopicID != t.topic.ID }), nil
}

// apply finds the call of a decision and applies it, without writing.
func (t *topicTx) apply(ctx context.Context, byID map[string]callRow, d chat.Decision, by chat.Decider) (placed, chat.ToolCall, chat.Effect, error) {
	row, ok := byID[d.ApprovalID]
	if !ok {
		return placed{}, chat.ToolCall{}, "", t.noApproval(ctx, t.topic.ID, d.ApprovalID)
	}
	if d.AnchorID != "" && d.AnchorID != row.MessageID {
		return placed{}, chat.ToolCall{}, "", chat.NotFound("There is no approval %s in message %s.", d.ApprovalID, d.AnchorID)
	}
	was, err := row.placed()
	if err != nil {
		return placed{}, chat.ToolCall{}, "", err
	}
	call, effect, err := chat.Decide(was.call, d, by, t.time())
	return was, call, effect, err
}

// noApproval says why there is no such approval: the record outlives the
// message that it was asked in.
func (t *tx) noApproval(ctx context.Context, topicID, approvalID string) error {
	var id string
	switch gone, err := t.find(ctx, &id, `SELECT id FROM decisions WHERE approval_id = ? AND topic_id = ?`, approvalID, topicID); {
	case err != nil:
		return fmt.Errorf("approval %s: %w", approvalID, err)
	case gone:
		return chat.Gone("Approval %s is closed; nothing can be decided any more.", approvalID)
	}
	return chat.NotFound("There is no approval %s in this topic.", approvalID)
}

// goOn moves a turn on if it waits. That is a compare-and-set: whoever comes
// second changes nothing.
func (t *topicTx) goOn(turnID string, queued *int64) statement {
	return statement{
		doing: "queue turn " + turnID,
		query: `UPDATE turns SET state = 'queued', updated_at = ? WHERE id = ? AND state = 'awaiting-approval'`, // one that waits shows nothing
		args:  []any{t.at, turnID},
		rows:  queued,
	}
}
