package repository

import (
	"context"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// EditPending applies edit to those calls of the approvals that wait, and lets
// a turn go on that waits for nothing any more. The record of an approval whose
// place another took says that it was superseded.
func (s *Store) EditPending(ctx context.Context, topicID string, approvalIDs []string, edit chat.CallEdit) (chat.Change, error) {
	return s.editPending(ctx, topicID, approvalIDs, func(context.Context, *topicTx) (chat.CallEdit, error) { return edit, nil })
}

// SettlePending is EditPending for an edit that depends on the policy: it is
// that of the transaction, and until the commit nobody changes the switches of
// the server.
func (s *Store) SettlePending(ctx context.Context, topicID string, approvalIDs []string, serverID string, edit chat.PolicyEdit) (chat.Change, error) {
	return s.editPending(ctx, topicID, approvalIDs, func(ctx context.Context, t *topicTx) (chat.CallEdit, error) {
		p, err := t.readPolicy(ctx, topicID, serverID, `{for share}`)
		return func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) { return edit(p, call, at) }, err
	})
}

func (s *Store) editPending(ctx context.Context, topicID string, approvalIDs []string, prepare func(context.Context, *topicTx) (chat.CallEdit, error)) (chat.Change, error) {
	if len(approvalIDs) == 0 {
		return chat.Change{TopicID: topicID}, nil
	}
	return s.changeBy(ctx, "edit calls that wait", topicID, `id, revision, updated_at`, func(ctx context.Context, t *topicTx) error {
		rows, err := t.anchorsOf(ctx, approvalIDs)
		if err != nil {
			return err
		}
		edit, err := prepare(ctx, t)
		if err != nil {
			return err
		}
		pending := map[string]int{} // by anchor
		for _, row := range rows {
			if chat.CallState(row.State) == chat.CallApprovalRequested {
				pending[row.MessageID]++
			}
		}
		var writes []statement
		var anchors []callRow // of which calls were changed
		for _, row := range rows {
			if chat.CallState(row.State) != chat.CallApprovalRequested || row.ApprovalID == nil || !slices.Contains(approvalIDs, *row.ApprovalID) {
				continue
			}
			was, err := row.placed()
			if err != nil {
				return err
			}
			next, changed := edit(was.call, t.time())
			if !changed {
				continue
			}
			write, err := t.callWrites(was, next)
			if err != nil {
				return err
			}
			writes = append(writes, write...)
			if !next.Pending() {
				pending[row.MessageID]--
			}
			if len(anchors) == 0 || anchors[len(anchors)-1].MessageID != row.MessageID { // they stand in the order of their messages
				anchors = append(anchors, row)
			}
		}
		if len(writes) == 0 {
			return errUnchanged
		}
		for _, anchor := range anchors {
			if pending[anchor.MessageID] == 0 {
				writes = append(writes, t.goOn(anchor.TurnID, nil))
			}
		}
		return t.together(ctx, writes)
	})
}

// PendingCalls lists the calls that wait, of all topics, the oldest first.
func (s *Store) PendingCalls(ctx context.Context, p chat.Page) ([]chat.JudgedCall, string, error) {
	query, args := `
		SELECT p.topic_id, t.title, t.model, p.message_id, p.position, p.updated_at, p.payload, p.requested_at
		FROM parts p JOIN topics t ON t.id = p.topic_id
		WHERE p.state = 'approval-requested'`, []any(nil)
	if p.Cursor != "" {
		after, err := readPlaceCursor(p.Cursor)
		if err != nil {
			return nil, "", err
		}
		query, args = query+` AND (p.requested_at, p.message_id, p.position) > (?, ?, ?)`, append(args, after...)
	}
	var rows []struct {
		judgedRow
		RequestedAt instant `db:"requested_at"`
	}
	err := s.view(ctx, "list the calls that wait", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, query+` ORDER BY p.requested_at, p.message_id, p.position LIMIT ?`, append(args, p.Limit+1)...)
	})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		last := rows[len(rows)-1]
		next = placeCursor(last.RequestedAt, last.MessageID, last.Position)
	}
	calls := make([]chat.JudgedCall, len(rows))
	for i, row := range rows {
		if calls[i], err = row.judged(); err != nil {
			return nil, "", err
		}
	}
	return calls, next, nil
}

// Expired lists approvals whose time is over, by the clock of the database, the
// first to end first.
func (s *Store) Expired(ctx context.Context, n int) ([]chat.ApprovalRef, error) {
	var rows []struct {
		TopicID    string `db:"topic_id"`
		ApprovalID string `db:"approval_id"`
	}
	err := s.view(ctx, "list the approvals that have expired", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, `
			SELECT topic_id, approval_id FROM parts
			WHERE state = 'approval-requested' AND expires_at IS NOT NULL AND expires_at <= {now} ORDER BY expires_at LIMIT ?`, n)
	})
	if err != nil {
		return nil, err
	}
	refs := make([]chat.ApprovalRef, len(rows))
	for i, row := range rows {
		refs[i] = chat.ApprovalRef{TopicID: row.TopicID, ApprovalID: row.ApprovalID}
	}
	return refs, nil
}
