package repository

import (
	"cmp"
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// EditMessage changes a queued message in place. Of a message that was sent
// it makes a sibling, with a turn of its own, and selects it.
func (s *Store) EditMessage(ctx context.Context, topicID, messageID string, m chat.NewMessage) (chat.Sent, chat.Change, error) {
	digest, err := prepareMessage(&m)
	if err != nil {
		return chat.Sent{}, chat.Change{}, err
	}
	return s.sending(ctx, "edit a message", topicID, func(ctx context.Context, t *topicTx) (chat.Sent, error) {
		row, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return chat.Sent{}, err
		}
		if chat.Role(row.Role) != chat.RoleUser {
			return chat.Sent{}, chat.Invalid("Only a person's message can be edited.")
		}
		if chat.MessageStatus(row.Status) == chat.MessageQueued {
			return t.editQueued(ctx, messageID, m)
		}
		if sent, repeated, err := t.repeated(ctx, m.ID, digest); err != nil || repeated {
			return sent, cmp.Or(err, errUnchanged)
		}
		if err := t.quiet(ctx); err != nil {
			return chat.Sent{}, err
		}
		if err := t.insertMessage(ctx, newMessage{
			id: m.ID, parentID: row.ParentID, role: chat.RoleUser, status: chat.MessageSuccess, parts: m.Parts, digest: digest, sentBy: m.By,
		}); err != nil {
			return chat.Sent{}, err
		}
		t.reset = true
		return t.sent(ctx, m.ID)
	})
}

// editQueued replaces what a queued message says, and with it who says it. It
// keeps its place.
func (t *topicTx) editQueued(ctx context.Context, messageID string, m chat.NewMessage) (chat.Sent, error) {
	if _, err := t.exec(ctx, `UPDATE messages SET sent_by = ? WHERE topic_id = ? AND id = ?`, clean(m.By), t.topic.ID, messageID); err != nil {
		return chat.Sent{}, fmt.Errorf("message %s: %w", messageID, err)
	}
	if err := t.dropParts(ctx, messageID, 0); err != nil {
		return chat.Sent{}, err
	}
	if err := t.insertParts(ctx, messageID, 0, m.Parts); err != nil {
		return chat.Sent{}, err
	}
	if err := t.setMessageStatus(ctx, messageID, chat.MessageQueued, nil); err != nil {
		return chat.Sent{}, err
	}
	t.messages = append(t.messages, messageID)
	return chat.Sent{Message: chat.Message{ID: messageID}, Queued: true}, nil
}

// quiet refuses what cannot be done while a turn of the topic runs.
func (t *topicTx) quiet(ctx context.Context) error {
	turns, err := t.openTurns(ctx)
	if err != nil {
		return err
	}
	if working(turns) {
		return chat.Conflict("A turn of this topic runs. Stop it first, or wait.")
	}
	return nil
}

// Regenerate answers a user's message again, as a sibling of the answer that
// is named, and selects the new one. A user's message may be named itself.
func (s *Store) Regenerate(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error) {
	return s.sending(ctx, "answer again", topicID, func(ctx context.Context, t *topicTx) (chat.Sent, error) {
		row, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return chat.Sent{}, err
		}
		if chat.MessageStatus(row.Status) == chat.MessageQueued {
			return chat.Sent{}, chat.Conflict("Message %s was not sent yet.", messageID)
		}
		question := row.ID
		if chat.Role(row.Role) == chat.RoleAssistant {
			question = row.ParentID
		}
		if err := t.quiet(ctx); err != nil {
			return chat.Sent{}, err
		}
		turn, err := t.answer(ctx, question)
		if err != nil {
			return chat.Sent{}, err
		}
		t.messages, t.reset = append(t.messages, turn.MessageID), true
		return chat.Sent{Message: chat.Message{ID: turn.MessageID}, Turn: turn.ref()}, nil
	})
}

// Retry queues a turn that ended in error or was stopped again, without the
// partial text of the step that broke, and selects it.
func (s *Store) Retry(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error) {
	return s.sending(ctx, "retry a turn", topicID, func(ctx context.Context, t *topicTx) (chat.Sent, error) {
		row, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return chat.Sent{}, err
		}
		turn, ok, err := t.turnOf(ctx, topicID, row.ID)
		if err != nil {
			return chat.Sent{}, err
		}
		if state := chat.TurnState(turn.State); !ok || state != chat.TurnFailed && state != chat.TurnAborted {
			return chat.Sent{}, chat.Conflict("Only a turn that failed or was stopped can be retried.")
		}
		if err := t.quiet(ctx); err != nil {
			return chat.Sent{}, err
		}
		if active, _, err := t.activeTurns(ctx); err != nil || len(active) > 0 {
			return chat.Sent{}, cmp.Or(err, chat.Conflict("The topic is busy: its turn waits for a decision."))
		}
		if turn.BrokenAt >= 0 {
			if err := t.dropParts(ctx, messageID, turn.BrokenAt); err != nil {
				return chat.Sent{}, err
			}
		}
		if _, err := t.exec(ctx, `
			UPDATE turns SET state = 'queued', owner = '', lease_until = NULL, steps = 0, first_output_at = NULL, broken_at = -1,
				stopped_at = NULL, updated_at = ?
			WHERE id = ?`, t.at, turn.ID); err != nil {
			return chat.Sent{}, fmt.Errorf("queue turn %s: %w", turn.ID, err)
		}
		turn.State = string(chat.TurnQueued)
		if err := t.setMessageStatus(ctx, messageID, chat.MessagePending, nil); err != nil {
			return chat.Sent{}, err
		}
		t.reset = t.topic.ActiveLeaf != messageID
		if err := t.setLeaf(ctx, messageID); err != nil {
			return chat.Sent{}, err
		}
		t.messages = append(t.messages, messageID)
		return chat.Sent{Message: chat.Message{ID: messageID}, Turn: turn.ref()}, nil
	})
}

// Select makes the branch through a message the active one, down to its
// newest leaf.
func (s *Store) Select(ctx context.Context, topicID, messageID string) (chat.Topic, chat.Change, error) {
	c, err := s.change(ctx, "select a branch", topicID, func(ctx context.Context, t *topicTx) error {
		row, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return err
		}
		if chat.MessageStatus(row.Status) == chat.MessageQueued {
			return chat.Conflict("Message %s was not sent yet.", messageID)
		}
		leaf, err := t.newestLeaf(ctx, messageID)
		if err != nil {
			return err
		}
		if leaf == t.topic.ActiveLeaf {
			return errUnchanged
		}
		if err := t.quiet(ctx); err != nil {
			return err
		}
		t.reset, t.changed = true, true
		return t.setLeaf(ctx, leaf)
	})
	switch {
	case err != nil:
		return chat.Topic{}, chat.Change{}, err
	case c.Topic == nil:
		topic, err := s.Topic(ctx, topicID)
		return topic, c, err
	}
	return *c.Topic, c, nil
}

// newestLeaf follows the newest children of a message down. Of "" it follows
// the newest root.
func (t *topicTx) newestLeaf(ctx context.Context, messageID string) (string, error) {
	var leaf string
	if err := t.get(ctx, &leaf, `
		WITH RECURSIVE down (id, depth) AS (
			SELECT CAST(? AS TEXT), 0
			UNION ALL
			SELECT (SELECT m.id FROM messages m
			        WHERE m.topic_id = ? AND m.parent_id = down.id AND m.status <> 'queued' AND m.deleted_at IS NULL
			        ORDER BY m.sequence DESC LIMIT 1), depth + 1
			FROM down WHERE id IS NOT NULL
		)
		SELECT id FROM down WHERE id IS NOT NULL ORDER BY depth DESC LIMIT 1`, messageID, t.topic.ID); err != nil {
		return "", fmt.Errorf("follow message %s: %w", messageID, err)
	}
	return leaf, nil
}

// DeleteMessage removes a message and all below it, ends their turns and
// closes their approvals. Tombstones stay.
func (s *Store) DeleteMessage(ctx context.Context, topicID, messageID string) (chat.Epochs, chat.Change, error) {
	var stopped chat.Epochs
	c, err := s.change(ctx, "delete a message", topicID, func(ctx context.Context, t *topicTx) error {
		root, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return err
		}
		var ids []string
		leafGone := false
		if err := t.all(ctx, &ids, `
			WITH RECURSIVE down (id) AS (
				SELECT CAST(? AS TEXT)
				UNION ALL
				SELECT m.id FROM down JOIN messages m ON m.topic_id = ? AND m.parent_id = down.id AND m.deleted_at IS NULL
			)
			SELECT id FROM down`, messageID, topicID); err != nil {
			return fmt.Errorf("read what is below message %s: %w", messageID, err)
		}
		for _, id := range ids {
			leafGone = leafGone || id == t.topic.ActiveLeaf
		}
		if stopped, err = t.bury(ctx, ids); err != nil {
			return err
		}
		t.removed, t.parts = ids, nil
		t.reset = chat.MessageStatus(root.Status) != chat.MessageQueued
		if !leafGone {
			return nil
		}
		leaf, err := t.newestLeaf(ctx, root.ParentID)
		if err != nil {
			return err
		}
		return t.setLeaf(ctx, leaf)
	})
	return stopped, c, err
}

// bury closes the approvals of messages, removes their turns and parts, and
// leaves tombstones. It gives the ids of the turns that were open.
func (t *topicTx) bury(ctx context.Context, ids []string) (open chat.Epochs, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := t.closeCalls(ctx, ids, chat.ResolutionCancelled); err != nil {
		return nil, err
	}
	turns, err := t.openTurns(ctx)
	if err != nil {
		return nil, err
	}
	open = chat.Epochs{}
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	for _, turn := range turns {
		if gone[turn.MessageID] {
			open[turn.ID] = turn.Epoch
		}
	}
	for _, query := range []string{
		`DELETE FROM turns WHERE topic_id = ? AND message_id IN (?)`,
		`DELETE FROM parts WHERE topic_id = ? AND message_id IN (?)`,
	} {
		if err := t.execIn(ctx, query, t.topic.ID, ids); err != nil {
			return nil, fmt.Errorf("remove what messages hold: %w", err)
		}
	}
	if err := t.execIn(ctx, `UPDATE messages SET deleted_at = ?, error = NULL, queue_position = NULL, updated_at = ?, revision = ? WHERE topic_id = ? AND id IN (?)`,
		t.at, t.at, t.revision(), t.topic.ID, ids); err != nil {
		return nil, fmt.Errorf("bury messages: %w", err)
	}
	return open, nil
}
