package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// turnRow is a row of turns as it is read.
type turnRow struct {
	ID            string  `db:"id"`
	TopicID       string  `db:"topic_id"`
	MessageID     string  `db:"message_id"`
	GroupID       string  `db:"group_id"`
	Model         string  `db:"model"`
	State         string  `db:"state"`
	Owner         string  `db:"owner"`
	Epoch         int64   `db:"epoch"`
	Steps         int     `db:"steps"`
	FirstOutputAt instant `db:"first_output_at"`
	BrokenAt      int     `db:"broken_at"`
}

const turnColumns = `id, topic_id, message_id, group_id, model, state, owner, epoch, steps, first_output_at, broken_at`

func (r turnRow) turn() chat.Turn {
	return chat.Turn{
		ID: r.ID, TopicID: r.TopicID, MessageID: r.MessageID, GroupID: r.GroupID, Model: r.Model, State: chat.TurnState(r.State),
		Owner: r.Owner, Epoch: r.Epoch, Steps: r.Steps, FirstOutputAt: r.FirstOutputAt.ptr(), BrokenAt: r.BrokenAt,
	}
}

func (r turnRow) ref() *chat.TurnRef {
	return &chat.TurnRef{ID: r.ID, MessageID: r.MessageID, State: chat.TurnState(r.State)}
}

// openTurns reads the turns of the topic that have work before them, the
// oldest first.
func (t *topicTx) openTurns(ctx context.Context) ([]turnRow, error) {
	var rows []turnRow
	if err := t.all(ctx, &rows, `
		SELECT `+turnColumns+` FROM turns
		WHERE topic_id = ? AND state IN ('queued', 'running', 'awaiting-approval') ORDER BY created_at, id`, t.topic.ID); err != nil {
		return nil, fmt.Errorf("read the open turns: %w", err)
	}
	return rows, nil
}

// activeTurns splits the open turns of the topic into those that answer at
// the end of the active branch, and those of other branches.
func (t *topicTx) activeTurns(ctx context.Context) (active, others []turnRow, err error) {
	rows, err := t.openTurns(ctx)
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	group, err := t.activeGroup(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		if row.GroupID == group {
			active = append(active, row)
		} else {
			others = append(others, row)
		}
	}
	return active, others, nil
}

// activeGroup is the group of the active leaf, "" if no turn ends there.
func (t *topicTx) activeGroup(ctx context.Context) (string, error) {
	var group string
	if t.topic.ActiveLeaf == "" {
		return "", nil
	}
	if _, err := t.find(ctx, &group, `SELECT group_id FROM messages WHERE topic_id = ? AND id = ?`, t.topic.ID, t.topic.ActiveLeaf); err != nil {
		return "", fmt.Errorf("read the active leaf: %w", err)
	}
	return group, nil
}

// working reports whether a turn is queued or running.
func working(rows []turnRow) bool {
	for _, row := range rows {
		if s := chat.TurnState(row.State); s == chat.TurnQueued || s == chat.TurnRunning {
			return true
		}
	}
	return false
}

// fenced reads the turn of a fence, or is chat.ErrLost.
func (t *topicTx) fenced(ctx context.Context, f chat.Fence, state chat.TurnState) (turnRow, error) {
	var row turnRow
	ok, err := t.find(ctx, &row, `SELECT `+turnColumns+` FROM turns WHERE id = ? AND topic_id = ?`, f.TurnID, f.TopicID)
	if err != nil {
		return row, fmt.Errorf("read turn %s: %w", f.TurnID, err)
	}
	if !ok || row.Epoch != f.Epoch || chat.TurnState(row.State) != state || row.MessageID != f.MessageID {
		return row, chat.ErrLost
	}
	return row, nil
}

// turnOf finds the turn that fills an assistant message.
func (t *tx) turnOf(ctx context.Context, topicID, messageID string) (turnRow, bool, error) {
	var row turnRow
	ok, err := t.find(ctx, &row, `SELECT `+turnColumns+` FROM turns WHERE topic_id = ? AND message_id = ?`, topicID, messageID)
	if err != nil {
		return row, false, fmt.Errorf("read the turn of message %s: %w", messageID, err)
	}
	return row, ok, nil
}

// answer adds an assistant message below the user's message, the turn that
// fills it, and selects it.
func (t *topicTx) answer(ctx context.Context, userMessageID string) (turnRow, error) {
	var ids [3]string
	for i := range ids {
		id, err := newID()
		if err != nil {
			return turnRow{}, err
		}
		ids[i] = id
	}
	turn := turnRow{
		ID: ids[0], TopicID: t.topic.ID, MessageID: ids[1], GroupID: ids[2], Model: t.topic.Model,
		State: string(chat.TurnQueued), BrokenAt: -1,
	}
	if err := t.insertMessage(ctx, newMessage{
		id: turn.MessageID, parentID: userMessageID, groupID: turn.GroupID, role: chat.RoleAssistant,
		model: turn.Model, status: chat.MessagePending, turnID: turn.ID,
	}); err != nil {
		return turn, err
	}
	if _, err := t.exec(ctx, `
		INSERT INTO turns (id, topic_id, message_id, group_id, model, state, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, 'queued', ?, ?)`,
		turn.ID, turn.TopicID, turn.MessageID, turn.GroupID, turn.Model, t.at, t.at); err != nil {
		return turn, fmt.Errorf("insert turn %s: %w", turn.ID, err)
	}
	return turn, t.setLeaf(ctx, turn.MessageID)
}

// abort ends a turn, settles its calls and marks its message. A running
// turn keeps its owner and epoch, so that the owner can add its partial text.
func (t *topicTx) abort(ctx context.Context, turn turnRow, why chat.Resolution) error {
	owner := ""
	if chat.TurnState(turn.State) == chat.TurnRunning {
		owner = turn.Owner
	}
	n, err := t.exec(ctx, `
		UPDATE turns SET state = 'aborted', owner = ?, lease_until = NULL, first_output_at = NULL, stopped_at = ?, updated_at = ?
		WHERE id = ? AND epoch = ? AND state = ?`, owner, t.at, t.at, turn.ID, turn.Epoch, turn.State)
	if err == nil && n != 1 {
		err = fmt.Errorf("it is not %s any more", turn.State)
	}
	if err != nil {
		return fmt.Errorf("end turn %s: %w", turn.ID, err)
	}
	if err := t.closeCalls(ctx, []string{turn.MessageID}, why); err != nil {
		return err
	}
	t.metadata = append(t.metadata, turn.MessageID)
	return t.setMessageStatus(ctx, turn.MessageID, chat.MessageAborted, nil)
}
