package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// Send stores a user's message. If nothing runs or waits at the end of the
// active branch, it is put there and the turn that answers it is queued;
// else WhenBusy says what becomes of it.
func (s *Store) Send(ctx context.Context, topicID string, m chat.NewMessage) (chat.Sent, chat.Change, error) {
	digest, err := prepareMessage(&m)
	if err != nil {
		return chat.Sent{}, chat.Change{}, err
	}
	return s.sending(ctx, "send a message", topicID, func(ctx context.Context, t *topicTx) (chat.Sent, error) {
		if sent, repeated, err := t.repeated(ctx, m.ID, digest); err != nil || repeated {
			return sent, cmp.Or(err, errUnchanged)
		}
		active, others, err := t.activeTurns(ctx)
		if err != nil {
			return chat.Sent{}, err
		}
		if len(active) > 0 {
			switch m.WhenBusy {
			case chat.WhenBusyReject:
				return chat.Sent{}, chat.Conflict("The topic is busy: its turn runs, or waits for a decision.")
			case chat.WhenBusySupersede:
				if working(active) || working(others) {
					return chat.Sent{}, chat.Conflict("A turn of this topic runs; only one that waits can be superseded.")
				}
				for _, turn := range active {
					if err := t.abort(ctx, turn, chat.ResolutionSuperseded); err != nil {
						return chat.Sent{}, err
					}
				}
			case chat.WhenBusyQueue, "":
				return t.enqueue(ctx, m, digest)
			}
		}
		if err := t.title(ctx, m.Title); err != nil {
			return chat.Sent{}, err
		}
		if err := t.insertMessage(ctx, newMessage{
			id: m.ID, parentID: t.topic.ActiveLeaf, role: chat.RoleUser, status: chat.MessageSuccess, parts: m.Parts, digest: digest, sentBy: m.By,
		}); err != nil {
			return chat.Sent{}, err
		}
		return t.sent(ctx, m.ID)
	})
}

// sending is change for the operations that answer with what was sent: the
// message is read from the change, or from the repeated answer.
func (s *Store) sending(ctx context.Context, doing, topicID string, fn func(context.Context, *topicTx) (chat.Sent, error)) (chat.Sent, chat.Change, error) {
	var sent chat.Sent
	c, err := s.change(ctx, doing, topicID, func(ctx context.Context, t *topicTx) error {
		var err error
		if sent, err = fn(ctx, t); err != nil || sent.Message.Role != "" {
			return err
		}
		sent.Revision = t.revision()
		messages, err := t.readMessages(ctx, topicID, []string{sent.Message.ID})
		if err != nil {
			return err
		}
		sent.Message = messages[0]
		return nil
	})
	if err != nil {
		return chat.Sent{}, chat.Change{}, err
	}
	return sent, c, nil
}

// sent answers a message that stands in the tree, and announces both.
func (t *topicTx) sent(ctx context.Context, messageID string) (chat.Sent, error) {
	turn, err := t.answer(ctx, messageID)
	if err != nil {
		return chat.Sent{}, err
	}
	t.messages = append(t.messages, messageID, turn.MessageID)
	return chat.Sent{Message: chat.Message{ID: messageID}, Turn: turn.ref()}, nil
}

func prepareMessage(m *chat.NewMessage) (digest string, err error) {
	body, err := chat.Marshal(m.Parts)
	if err != nil {
		return "", chat.Malformed("The parts of the message are not valid: %v.", err)
	}
	if m.ID == "" {
		if m.ID, err = newID(); err != nil {
			return "", err
		}
	}
	return chat.Digest(body), nil
}

// repeated finds the message of an id that was used before: with the same
// body it is the answer again, as it stands now.
func (t *topicTx) repeated(ctx context.Context, id, digest string) (chat.Sent, bool, error) {
	row, err := t.findMessage(ctx, t.topic.ID, id)
	switch {
	case errors.Is(err, chat.ErrNotFound):
		return chat.Sent{}, false, nil
	case err != nil:
		return chat.Sent{}, false, err
	case row.BodyDigest != digest:
		return chat.Sent{}, false, chat.Conflict("There is another message %s in this topic.", id)
	}
	sent, err := t.sentBefore(ctx, row)
	return sent, err == nil, err
}

// sentBefore is the answer to a message that was stored by an earlier request.
func (t *topicTx) sentBefore(ctx context.Context, row messageRow) (chat.Sent, error) {
	messages, err := t.withParts(ctx, t.topic.ID, []messageRow{row})
	if err != nil {
		return chat.Sent{}, err
	}
	sent := chat.Sent{
		Message: messages[0], Queued: chat.MessageStatus(row.Status) == chat.MessageQueued, Repeated: true, Revision: t.before(),
	}
	if sent.Queued {
		return sent, nil
	}
	var turn turnRow
	ok, err := t.find(ctx, &turn, `
		SELECT `+turnColumns+` FROM turns
		WHERE topic_id = ? AND message_id = (
			SELECT id FROM messages WHERE topic_id = ? AND parent_id = ? AND deleted_at IS NULL AND role = 'assistant' ORDER BY sequence LIMIT 1)`,
		t.topic.ID, t.topic.ID, row.ID)
	if err != nil {
		return chat.Sent{}, fmt.Errorf("read the turn that answers message %s: %w", row.ID, err)
	}
	if ok {
		sent.Turn = turn.ref()
	}
	return sent, nil
}

// enqueue stores a message that is sent when the turns before it are done.
func (t *topicTx) enqueue(ctx context.Context, m chat.NewMessage, digest string) (chat.Sent, error) {
	if err := t.title(ctx, m.Title); err != nil {
		return chat.Sent{}, err
	}
	if err := t.insertMessage(ctx, newMessage{
		id: m.ID, role: chat.RoleUser, status: chat.MessageQueued, parts: m.Parts, digest: digest, sentBy: m.By,
	}); err != nil {
		return chat.Sent{}, err
	}
	t.messages = append(t.messages, m.ID)
	return chat.Sent{Message: chat.Message{ID: m.ID}, Queued: true}, nil
}

// title names a topic that has no name yet.
func (t *topicTx) title(ctx context.Context, title string) error {
	if title == "" || t.topic.Title != "" {
		return nil
	}
	t.topic.Title, t.changed = title, true
	if _, err := t.exec(ctx, `UPDATE topics SET title = ? WHERE id = ?`, title, t.topic.ID); err != nil {
		return fmt.Errorf("name the topic: %w", err)
	}
	return nil
}

// SendQueued sends a queued message now. Of one that was sent before, it
// gives the answer again.
func (s *Store) SendQueued(ctx context.Context, topicID, messageID string) (chat.Sent, chat.Change, error) {
	return s.sending(ctx, "send a queued message", topicID, func(ctx context.Context, t *topicTx) (chat.Sent, error) {
		row, err := t.findMessage(ctx, topicID, messageID)
		if err != nil {
			return chat.Sent{}, err
		}
		if chat.Role(row.Role) != chat.RoleUser {
			return chat.Sent{}, chat.Conflict("Message %s is not a queued one.", messageID)
		}
		if chat.MessageStatus(row.Status) != chat.MessageQueued {
			sent, err := t.sentBefore(ctx, row)
			return sent, cmp.Or(err, errUnchanged)
		}
		active, _, err := t.activeTurns(ctx)
		if err != nil {
			return chat.Sent{}, err
		}
		if len(active) > 0 {
			return chat.Sent{}, chat.Conflict("The topic is busy: its turn runs, or waits for a decision.")
		}
		return t.sendQueued(ctx, messageID)
	})
}

// sendQueued puts a queued message at the end of the active branch.
func (t *topicTx) sendQueued(ctx context.Context, messageID string) (chat.Sent, error) {
	n, err := t.exec(ctx, `
		UPDATE messages SET status = 'success', parent_id = ?, sequence = ?, queue_position = NULL, updated_at = ?, revision = ?
		WHERE topic_id = ? AND id = ? AND status = 'queued' AND deleted_at IS NULL`,
		t.topic.ActiveLeaf, t.sequence(), t.at, t.revision(), t.topic.ID, messageID)
	if err == nil && n != 1 {
		err = errors.New("it is not queued")
	}
	if err != nil {
		return chat.Sent{}, fmt.Errorf("send message %s: %w", messageID, err)
	}
	return t.sent(ctx, messageID)
}

// sendNext sends the first queued message, now that a turn is done, if nothing
// is open at the end of the active branch and nothing ended badly there: after
// an error or a stop, what is queued stays until a person sends it.
func (t *topicTx) sendNext(ctx context.Context) error {
	group, err := t.activeGroup(ctx)
	if err != nil {
		return err
	}
	var id string
	ok, err := t.find(ctx, &id, `SELECT id FROM turns WHERE topic_id = ? AND group_id = ? AND state <> 'done' LIMIT 1`, t.topic.ID, group)
	if err != nil {
		return fmt.Errorf("find what is not done: %w", err)
	}
	if ok {
		return nil
	}
	ok, err = t.find(ctx, &id, `
		SELECT id FROM messages WHERE topic_id = ? AND status = 'queued' AND deleted_at IS NULL ORDER BY queue_position LIMIT 1`, t.topic.ID)
	if err != nil {
		return fmt.Errorf("find the next queued message: %w", err)
	}
	if !ok {
		return nil
	}
	_, err = t.sendQueued(ctx, id)
	return err
}
