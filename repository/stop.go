package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Stop ends the open turns at the end of the active branch, and those of
// other branches that run. What waits in another branch stays as it is.
func (s *Store) Stop(ctx context.Context, topicID string) (chat.Epochs, chat.Change, error) {
	var stopped chat.Epochs
	c, err := s.change(ctx, "stop", topicID, func(ctx context.Context, t *topicTx) error {
		stopped = chat.Epochs{}
		turns, others, err := t.activeTurns(ctx)
		if err != nil {
			return err
		}
		for _, turn := range others {
			if working([]turnRow{turn}) {
				turns = append(turns, turn)
			}
		}
		if len(turns) == 0 {
			return errUnchanged
		}
		for _, turn := range turns {
			if err := t.abort(ctx, turn, chat.ResolutionCancelled); err != nil {
				return err
			}
			stopped[turn.ID] = turn.Epoch
		}
		return nil
	})
	if err != nil {
		return nil, chat.Change{}, err
	}
	return stopped, c, nil
}

// KeepPartial adds the partial text of a step to a turn that was stopped
// while the owner of the fence ran it, and lets go of the turn.
func (s *Store) KeepPartial(ctx context.Context, f chat.Fence, position int, partial chat.Parts) (chat.Change, error) {
	return s.fencedChange(ctx, "keep the text of a stopped turn", f, func(ctx context.Context, t *topicTx) error {
		if _, err := t.fenced(ctx, f, chat.TurnAborted); err != nil {
			return err
		}
		brokenAt, err := t.replaceFrom(ctx, f.MessageID, position, partial)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, `UPDATE turns SET owner = '', broken_at = ?, updated_at = ? WHERE id = ? AND epoch = ? AND state = 'aborted' AND owner <> ''`,
			brokenAt, t.at, f.TurnID, f.Epoch)
		if err != nil {
			return fmt.Errorf("let go of turn %s: %w", f.TurnID, err)
		}
		if n == 0 {
			return chat.ErrLost
		}
		t.messages = append(t.messages, f.MessageID)
		return t.setMessageStatus(ctx, f.MessageID, chat.MessageAborted, nil)
	})
}

// replaceFrom puts partial text in the place of what is at a position and
// beyond. It gives the position from which a retry drops it, -1 if there is
// nothing to drop. If calls were committed there, then the step was committed
// and its owner did not hear of it: it stays, and the text is in it already.
func (t *topicTx) replaceFrom(ctx context.Context, messageID string, position int, partial chat.Parts) (int, error) {
	if position < 0 {
		return 0, fmt.Errorf("text of message %s cannot be kept at %d", messageID, position)
	}
	count, err := t.countParts(ctx, messageID)
	if err != nil {
		return 0, err
	}
	calls, err := t.calls(ctx, messageID)
	if err != nil {
		return 0, err
	}
	for _, c := range calls {
		if c.position >= position {
			return -1, nil
		}
	}
	if position < count {
		if err := t.dropParts(ctx, messageID, position); err != nil {
			return 0, err
		}
	}
	position = min(position, count) // positions have no gaps
	if len(partial) == 0 {
		return -1, nil
	}
	return position, t.insertParts(ctx, messageID, position, partial)
}

// closeTimeout bounds the wait for the topic of one stopped turn.
const closeTimeout = time.Second

// CloseStopped takes the epoch from the owners of stopped turns that have not
// let go of them within grace. Their messages are told anew: what such an owner
// was streaming will not be kept.
func (s *Store) CloseStopped(ctx context.Context, grace time.Duration) ([]chat.Change, error) {
	var rows []struct {
		ID      string `db:"id"`
		TopicID string `db:"topic_id"`
	}
	err := s.read.look(ctx, "look for stopped turns", func(ctx context.Context, t *tx) error {
		return t.all(ctx, &rows, `
			SELECT id, topic_id FROM turns
			WHERE owner <> '' AND state = 'aborted' AND stopped_at <= {now-?} LIMIT 100`, grace.Milliseconds())
	})
	if err != nil {
		return nil, err
	}
	var changes []chat.Change
	var errs []error // of one turn; the others do not wait for it
	for _, row := range rows {
		bounded, cancel := context.WithTimeout(ctx, closeTimeout)
		c, err := s.change(bounded, "close a stopped turn", row.TopicID, func(ctx context.Context, t *topicTx) error {
			var turn turnRow
			ok, err := t.find(ctx, &turn, `
				UPDATE turns SET epoch = epoch + 1, owner = '', updated_at = ?
				WHERE id = ? AND owner <> '' AND state = 'aborted' AND stopped_at <= {now-?}
				RETURNING `+turnColumns, t.at, row.ID, grace.Milliseconds())
			if err != nil {
				return fmt.Errorf("close turn %s: %w", row.ID, err)
			}
			if !ok {
				return errUnchanged
			}
			t.messages = append(t.messages, turn.MessageID)
			if _, err := t.exec(ctx, `UPDATE messages SET epoch = ?, updated_at = ?, revision = ? WHERE topic_id = ? AND id = ?`,
				turn.Epoch, t.at, t.revision(), t.topic.ID, turn.MessageID); err != nil {
				return fmt.Errorf("close message %s: %w", turn.MessageID, err)
			}
			return nil
		})
		cancel()
		switch {
		case chat.Missing(err): // the topic was deleted
		case err != nil:
			errs = append(errs, err)
		case c.Revision > 0:
			changes = append(changes, c)
		}
	}
	return changes, errors.Join(errs...)
}

// endLeases lets every turn be claimed at once. It is for the start of the
// only process that serves a file: whoever held a lease is dead.
func (s *Store) endLeases(ctx context.Context) error {
	err := s.write.run(ctx, s.write.dialect.write, "end the leases of a dead process", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE turns SET lease_until = {now} WHERE state = 'running'`)
		return err
	})
	if err != nil {
		return err
	}
	// Stopped turns are closed as CloseStopped does, but nobody is there to be told.
	return s.write.run(ctx, s.write.dialect.write, "close stopped turns", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE turns SET epoch = epoch + 1, owner = '' WHERE owner <> '' AND state = 'aborted'`)
		return err
	})
}
