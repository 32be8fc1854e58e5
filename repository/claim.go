package repository

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Claimable lists up to n turns that are queued, or running with a lease that
// is over, the longest waiting first. It locks nothing: Claim finds out.
func (s *Store) Claimable(ctx context.Context, n int) ([]chat.Candidate, error) {
	var rows []struct {
		ID      string `db:"id"`
		TopicID string `db:"topic_id"`
	}
	err := s.read.look(ctx, "look for turns", func(ctx context.Context, t *tx) error {
		return t.all(ctx, &rows, `
			SELECT id, topic_id FROM turns
			WHERE state IN ('queued', 'running') AND (state = 'queued' OR lease_until <= {now}) ORDER BY updated_at LIMIT ?`, n)
	})
	if err != nil {
		return nil, err
	}
	candidates := make([]chat.Candidate, len(rows))
	for i, row := range rows {
		candidates[i] = chat.Candidate{TopicID: row.TopicID, TurnID: row.ID}
	}
	return candidates, nil
}

// Claim makes owner the owner of a turn, and reads all that it needs to go
// on. Of owners that race, one is told true. If the turn was running, what its
// dead owner had started is settled as of unknown outcome.
func (s *Store) Claim(ctx context.Context, c chat.Candidate, owner string, lease time.Duration) (chat.Work, chat.Change, bool, error) {
	var work chat.Work
	change, err := s.change(ctx, "claim a turn", c.TopicID, func(ctx context.Context, t *topicTx) error {
		var was turnRow
		ok, err := t.find(ctx, &was, `SELECT `+turnColumns+` FROM turns WHERE id = ? AND topic_id = ?`, c.TurnID, c.TopicID)
		if err != nil {
			return fmt.Errorf("read turn %s: %w", c.TurnID, err)
		}
		if !ok {
			return errUnchanged
		}
		var turn turnRow
		ok, err = t.find(ctx, &turn, `
			UPDATE turns SET state = 'running', owner = ?, lease_until = {now+?}, epoch = epoch + 1, first_output_at = NULL, updated_at = ?
			WHERE id = ? AND epoch = ? AND (state = 'queued' OR state = 'running' AND lease_until <= {now})
			RETURNING `+turnColumns, owner, lease.Milliseconds(), t.at, was.ID, was.Epoch)
		if err != nil {
			return fmt.Errorf("claim turn %s: %w", c.TurnID, err)
		}
		if !ok {
			return errUnchanged
		}
		if _, err := t.exec(ctx, `UPDATE messages SET epoch = ?, status = 'pending', updated_at = ?, revision = ? WHERE topic_id = ? AND id = ?`,
			turn.Epoch, t.at, t.revision(), t.topic.ID, turn.MessageID); err != nil {
			return fmt.Errorf("claim message %s: %w", turn.MessageID, err)
		}
		if chat.TurnState(was.State) == chat.TurnRunning {
			calls, err := t.unsettledCalls(ctx, []string{turn.MessageID})
			if err != nil {
				return err
			}
			if err := t.settle(ctx, calls, chat.Lose); err != nil {
				return err
			}
			t.messages = append(t.messages, turn.MessageID)
		} else {
			t.metadata = append(t.metadata, turn.MessageID)
		}
		work, err = t.work(ctx, turn)
		work.TakenOver = chat.TurnState(was.State) == chat.TurnRunning
		return err
	})
	switch {
	case chat.Missing(err): // the topic was deleted
		return chat.Work{}, chat.Change{TopicID: c.TopicID}, false, nil
	case err != nil:
		return chat.Work{}, chat.Change{}, false, err
	case change.Revision == 0:
		return chat.Work{}, change, false, nil
	}
	return work, change, true, nil
}

// work reads what a turn goes on from.
func (t *topicTx) work(ctx context.Context, turn turnRow) (chat.Work, error) {
	topic, err := t.topic.topic()
	if err != nil {
		return chat.Work{}, err
	}
	rows, err := t.branch(ctx, t.topic.ID, turn.MessageID, unlimited)
	if err != nil {
		return chat.Work{}, err
	}
	messages, err := t.withParts(ctx, t.topic.ID, rows)
	if err != nil {
		return chat.Work{}, err
	}
	if len(messages) == 0 {
		return chat.Work{}, fmt.Errorf("message %s of turn %s is not there", turn.MessageID, turn.ID)
	}
	last := len(messages) - 1
	return chat.Work{Topic: topic, Turn: turn.turn(), History: messages[:last], Anchor: messages[last]}, nil
}

// Heartbeat renews the leases of those of the given turns that owner runs, and
// gives their epochs. A turn that was claimed by owner and is not among them
// keeps the lease that it has.
//
// One whose row another transaction holds is renewed after the others, which
// must not wait for it, if it can be had within a tenth of the lease: the owner
// stands in the queue for it before those who would claim it.
func (s *Store) Heartbeat(ctx context.Context, owner string, turns chat.Epochs, lease time.Duration) (chat.Epochs, error) {
	if len(turns) == 0 {
		return chat.Epochs{}, nil
	}
	ids := slices.Collect(maps.Keys(turns))
	var renewed []string
	var rows []struct {
		ID    string `db:"id"`
		Epoch int64  `db:"epoch"`
	}
	err := s.spare.run(ctx, s.spare.dialect.write, "renew leases", func(ctx context.Context, t *tx) error {
		renewed, rows = nil, nil
		if err := t.allIn(ctx, &renewed, `
			UPDATE turns SET lease_until = {now+?}
			WHERE id IN (SELECT id FROM turns WHERE owner = ? AND state = 'running' AND id IN (?) {skip locked}) RETURNING id`,
			lease.Milliseconds(), owner, ids); err != nil {
			return err
		}
		return t.allIn(ctx, &rows, `SELECT id, epoch FROM turns WHERE owner = ? AND state = 'running' AND id IN (?)`, owner, ids)
	})
	if err != nil {
		return nil, err
	}
	owned := make(chat.Epochs, len(rows))
	var left []string
	for _, row := range rows {
		owned[row.ID] = row.Epoch
		if !slices.Contains(renewed, row.ID) {
			left = append(left, row.ID)
		}
	}
	slices.Sort(left) // in one order, so that two heartbeats cannot lock each other out
	for _, id := range left {
		s.renewLocked(ctx, owner, id, lease)
	}
	return owned, nil
}

// renewLocked renews a lease as soon as others let go of the row, if they do in
// time. If not, the next heartbeat tries again.
func (s *Store) renewLocked(ctx context.Context, owner, turnID string, lease time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lease/10)
	defer cancel()
	_ = s.spare.run(ctx, s.spare.dialect.write, "renew a lease", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `UPDATE turns SET lease_until = {now+?} WHERE owner = ? AND state = 'running' AND id = ?`, lease.Milliseconds(), owner, turnID)
		return err
	})
}

// LetGo ends the leases of owner, but for those of the turns to keep: anyone can
// claim its turns at once. One whose row another transaction holds keeps the
// lease that it has.
func (s *Store) LetGo(ctx context.Context, owner string, keep ...string) error {
	if len(keep) == 0 {
		keep = []string{""} // an empty list is no SQL, and no turn has this id
	}
	return s.spare.run(ctx, s.spare.dialect.write, "let go of turns", func(ctx context.Context, t *tx) error {
		return t.execIn(ctx, `
			UPDATE turns SET lease_until = {now}
			WHERE id IN (SELECT id FROM turns WHERE owner = ? AND owner <> '' AND state = 'running' AND id NOT IN (?) {skip locked})`, owner, keep)
	})
}
