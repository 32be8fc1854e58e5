package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// fencedChange is change for the owner of a turn. A topic that is gone has
// taken the turn with it.
func (s *Store) fencedChange(ctx context.Context, doing string, f chat.Fence, fn func(context.Context, *topicTx) error) (chat.Change, error) {
	c, err := s.change(ctx, doing, f.TopicID, fn)
	if chat.Missing(err) {
		return chat.Change{}, chat.ErrLost
	}
	return c, err
}

// writeTurn is the end of every fenced write: it changes the turn if the fence
// still holds, or is chat.ErrLost.
func (t *topicTx) writeTurn(ctx context.Context, f chat.Fence, set string, args ...any) error {
	args = append(args, t.at, f.TurnID, f.Epoch)
	n, err := t.exec(ctx, `UPDATE turns SET `+set+`, updated_at = ? WHERE id = ? AND epoch = ? AND state = 'running'`, args...)
	if err != nil {
		return fmt.Errorf("write turn %s: %w", f.TurnID, err)
	}
	if n == 0 {
		return chat.ErrLost
	}
	return nil
}

// FirstOutput records that the running step has shown something.
func (s *Store) FirstOutput(ctx context.Context, f chat.Fence) (chat.Change, error) {
	return s.fencedChange(ctx, "record the first output", f, func(ctx context.Context, t *topicTx) error {
		turn, err := t.fenced(ctx, f, chat.TurnRunning)
		if err != nil {
			return err
		}
		if !turn.FirstOutputAt.IsZero() {
			return errUnchanged
		}
		return t.writeTurn(ctx, f, `first_output_at = ?`, t.at)
	})
}

// CommitStep writes the parts of a complete step, whole. With Step.Done it
// ends the turn, and may send the next queued message. A step whose position
// is taken, or leaves a gap, is chat.ErrConflict: it was committed before.
func (s *Store) CommitStep(ctx context.Context, f chat.Fence, step chat.Step) (chat.Change, error) {
	return s.fencedChange(ctx, "commit a step", f, func(ctx context.Context, t *topicTx) error {
		if _, err := t.fenced(ctx, f, chat.TurnRunning); err != nil {
			return err
		}
		count, err := t.countParts(ctx, f.MessageID)
		if err != nil {
			return err
		}
		if count != step.Position {
			return chat.Conflict("Message %s has %d parts; a step cannot begin at %d.", f.MessageID, count, step.Position)
		}
		parts := step.Build(t.time())
		if err := t.insertParts(ctx, f.MessageID, step.Position, parts); err != nil {
			return err
		}
		for i, part := range parts {
			t.parts = append(t.parts, chat.PartChange{MessageID: f.MessageID, Epoch: f.Epoch, Position: step.Position + i, Part: part})
			if call, ok := part.(chat.ToolCall); ok { // a rule may have refused it
				record, err := t.audit(f.MessageID, chat.ToolCall{}, call)
				if err != nil {
					return err
				}
				if err := t.together(ctx, record); err != nil {
					return err
				}
			}
		}
		t.metadata = append(t.metadata, f.MessageID)
		if !step.Done {
			if err := t.setMessageStatus(ctx, f.MessageID, chat.MessagePending, nil); err != nil {
				return err
			}
			return t.writeTurn(ctx, f, `steps = steps + 1, first_output_at = NULL`)
		}
		if err := t.writeTurn(ctx, f, `steps = steps + 1, state = 'done', owner = '', lease_until = NULL`); err != nil {
			return err
		}
		if err := t.setMessageStatus(ctx, f.MessageID, chat.MessageSuccess, step.Notice); err != nil {
			return err
		}
		t.topic.LastCompletedAt = t.at
		if _, err := t.exec(ctx, `UPDATE topics SET last_completed_at = ? WHERE id = ?`, t.at, t.topic.ID); err != nil {
			return fmt.Errorf("record when the topic was done: %w", err)
		}
		return t.sendNext(ctx)
	})
}

// EditCalls applies edit to the calls of the anchor and gives them as they
// are then committed.
func (s *Store) EditCalls(ctx context.Context, f chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error) {
	var now []chat.PlacedCall
	c, err := s.fencedChange(ctx, "edit calls", f, func(ctx context.Context, t *topicTx) error {
		if _, err := t.fenced(ctx, f, chat.TurnRunning); err != nil {
			return err
		}
		calls, err := t.calls(ctx, f.MessageID)
		if err != nil {
			return err
		}
		changed := edit(positions(calls), t.time())
		for _, next := range changed {
			i, ok := at(calls, next.Position)
			if !ok {
				return fmt.Errorf("part %d of message %s is no tool call", next.Position, f.MessageID)
			}
			if err := t.writeCall(ctx, calls[i], next.Call); err != nil {
				return err
			}
			calls[i].call = next.Call
		}
		now = positions(calls)
		if len(changed) == 0 {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, chat.Change{}, err
	}
	return now, c, nil
}

// Park makes the turn wait if any of its committed calls is pending. The
// calls are read under the lock that a decision takes too: a decision is
// either seen here, or finds the turn waiting.
func (s *Store) Park(ctx context.Context, f chat.Fence) (bool, []chat.PlacedCall, chat.Change, error) {
	var calls []chat.PlacedCall
	c, err := s.fencedChange(ctx, "park a turn", f, func(ctx context.Context, t *topicTx) error {
		if _, err := t.fenced(ctx, f, chat.TurnRunning); err != nil {
			return err
		}
		placed, err := t.calls(ctx, f.MessageID)
		if err != nil {
			return err
		}
		calls = positions(placed)
		pending := false
		for _, p := range placed {
			pending = pending || p.call.Pending()
		}
		if !pending {
			return errUnchanged
		}
		t.metadata = append(t.metadata, f.MessageID)
		return t.writeTurn(ctx, f, `state = 'awaiting-approval', owner = '', lease_until = NULL, first_output_at = NULL`)
	})
	if err != nil {
		return false, nil, chat.Change{}, err
	}
	return c.Revision != 0, calls, c, nil
}

// Fail ends the turn in error. Its committed calls stay as they are; what is
// not settled is closed.
func (s *Store) Fail(ctx context.Context, f chat.Fence, position int, partial chat.Parts, why chat.TurnError) (chat.Change, error) {
	return s.fencedChange(ctx, "end a turn in error", f, func(ctx context.Context, t *topicTx) error {
		if _, err := t.fenced(ctx, f, chat.TurnRunning); err != nil {
			return err
		}
		brokenAt, err := t.replaceFrom(ctx, f.MessageID, position, partial)
		if err != nil {
			return err
		}
		if err := t.closeCalls(ctx, []string{f.MessageID}, chat.ResolutionCancelled); err != nil {
			return err
		}
		if err := t.setMessageStatus(ctx, f.MessageID, chat.MessageError, &why); err != nil {
			return err
		}
		t.messages = append(t.messages, f.MessageID)
		return t.writeTurn(ctx, f, `state = 'error', owner = '', lease_until = NULL, broken_at = ?`, brokenAt)
	})
}
