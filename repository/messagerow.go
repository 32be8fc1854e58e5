package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// messageRow is a row of messages as it is read.
type messageRow struct {
	TopicID    string  `db:"topic_id"`
	ID         string  `db:"id"`
	ParentID   string  `db:"parent_id"`
	GroupID    string  `db:"group_id"`
	Role       string  `db:"role"`
	Model      string  `db:"model"`
	SentBy     string  `db:"sent_by"`
	Status     string  `db:"status"`
	TurnID     string  `db:"turn_id"`
	Epoch      int64   `db:"epoch"`
	Error      *string `db:"error"`
	BodyDigest string  `db:"body_digest"`
	CreatedAt  instant `db:"created_at"`
	UpdatedAt  instant `db:"updated_at"`
	Revision   int64   `db:"revision"`
	DeletedAt  instant `db:"deleted_at"`
}

const messageColumns = `m.topic_id, m.id, m.parent_id, m.group_id, m.role, m.model, m.sent_by, m.status, m.turn_id, m.epoch, m.error,
	m.body_digest, m.created_at, m.updated_at, m.revision, m.deleted_at`

// message is the message without its parts.
func (r messageRow) message() (chat.Message, error) {
	m := chat.Message{
		ID: r.ID, TopicID: r.TopicID, ParentID: r.ParentID, GroupID: r.GroupID, Role: chat.Role(r.Role),
		Status: chat.MessageStatus(r.Status), Model: r.Model, SentBy: r.SentBy, TurnID: r.TurnID, Epoch: r.Epoch,
		CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time, Revision: r.Revision,
	}
	if r.Error != nil {
		if err := json.Unmarshal([]byte(*r.Error), &m.Error); err != nil {
			return chat.Message{}, fmt.Errorf("why message %s failed: %w", r.ID, err)
		}
	}
	return m, nil
}

// partRow is a row of parts as it is read.
type partRow struct {
	MessageID string  `db:"message_id"`
	Position  int     `db:"position"`
	Payload   string  `db:"payload"`
	UpdatedAt instant `db:"updated_at"`
	Revision  int64   `db:"revision"`
}

func (r partRow) part() (chat.Part, error) {
	p, err := chat.DecodePart([]byte(r.Payload))
	if err != nil {
		return nil, fmt.Errorf("part %d of message %s: %w", r.Position, r.MessageID, err)
	}
	return p, nil
}

// findMessage reads a message that is not deleted. A deleted one is
// chat.ErrGone.
func (t *tx) findMessage(ctx context.Context, topicID, id string) (messageRow, error) {
	var row messageRow
	ok, err := t.find(ctx, &row, `SELECT `+messageColumns+` FROM messages m WHERE m.topic_id = ? AND m.id = ?`, topicID, id)
	switch {
	case err != nil:
		return row, fmt.Errorf("message %s: %w", id, err)
	case !ok:
		return row, chat.NotFound("There is no message %s in this topic.", id)
	case !row.DeletedAt.IsZero():
		return row, chat.Gone("Message %s was deleted.", id)
	}
	return row, nil
}

// readMessageRows reads messages in the order of ids.
func (t *tx) readMessageRows(ctx context.Context, topicID string, ids []string) ([]messageRow, error) {
	var found []messageRow
	if err := t.allIn(ctx, &found, `SELECT `+messageColumns+` FROM messages m WHERE m.topic_id = ? AND m.id IN (?)`, topicID, ids); err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	byID := make(map[string]messageRow, len(found))
	for _, row := range found {
		byID[row.ID] = row
	}
	rows := make([]messageRow, 0, len(ids))
	for _, id := range ids {
		row, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("message %s of topic %s is not there", id, topicID)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readMessages reads messages with their parts, in the order of ids.
func (t *tx) readMessages(ctx context.Context, topicID string, ids []string) ([]chat.Message, error) {
	rows, err := t.readMessageRows(ctx, topicID, ids)
	if err != nil {
		return nil, err
	}
	return t.withParts(ctx, topicID, rows)
}

// withParts reads the parts of messages. A message is as new as its newest
// part: a decision writes the part alone.
func (t *tx) withParts(ctx context.Context, topicID string, rows []messageRow) ([]chat.Message, error) {
	messages := make([]chat.Message, len(rows))
	index := make(map[string]int, len(rows))
	ids := make([]string, len(rows))
	for i, row := range rows {
		m, err := row.message()
		if err != nil {
			return nil, err
		}
		m.Parts = chat.Parts{}
		messages[i], index[m.ID], ids[i] = m, i, m.ID
	}
	if len(ids) == 0 {
		return messages, nil
	}
	var parts []partRow
	if err := t.allIn(ctx, &parts, `
		SELECT message_id, position, payload, updated_at, revision FROM parts
		WHERE topic_id = ? AND message_id IN (?) ORDER BY message_id, position`, topicID, ids); err != nil {
		return nil, fmt.Errorf("read parts: %w", err)
	}
	for _, row := range parts {
		p, err := row.part()
		if err != nil {
			return nil, err
		}
		m := &messages[index[row.MessageID]]
		m.Parts = append(m.Parts, p)
		if row.Revision > m.Revision {
			m.Revision, m.UpdatedAt = row.Revision, row.UpdatedAt.Time
		}
	}
	return messages, nil
}

// newMessage is what a message begins with.
type newMessage struct {
	id, parentID, groupID, model, turnID, digest, sentBy string
	role                                                 chat.Role
	status                                               chat.MessageStatus
	parts                                                chat.Parts
}

func (t *topicTx) insertMessage(ctx context.Context, m newMessage) error {
	sequence := t.sequence()
	var queue *int64
	if m.status == chat.MessageQueued {
		queue = &sequence
	}
	if _, err := t.exec(ctx, `
		INSERT INTO messages (topic_id, id, parent_id, group_id, role, model, sent_by, status, turn_id, body_digest, queue_position, sequence, created_at, updated_at, revision)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.topic.ID, m.id, m.parentID, m.groupID, m.role, m.model, clean(m.sentBy), m.status, m.turnID, m.digest, queue, sequence,
		t.at, t.at, t.revision()); err != nil {
		return fmt.Errorf("insert message %s: %w", m.id, err)
	}
	return t.insertParts(ctx, m.id, 0, m.parts)
}

// insertParts adds parts to a message, from the position on.
func (t *topicTx) insertParts(ctx context.Context, messageID string, position int, parts chat.Parts) error {
	for i, p := range parts {
		payload, err := encodePart(p)
		if err != nil {
			return fmt.Errorf("part %d of message %s: %w", position+i, messageID, err)
		}
		c := callColumnsOf(p, t.at)
		if _, err := t.exec(ctx, `
			INSERT INTO parts (topic_id, message_id, position, type, state, tool_call_id, approval_id, question_id, requested_at, expires_at, updated_at, revision, payload)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			t.topic.ID, messageID, position+i, clean(p.PartType()), c.state, c.toolCallID, c.approvalID, c.questionID, c.requestedAt,
			c.expiresAt, t.at, t.revision(), payload); err != nil {
			return fmt.Errorf("insert part %d of message %s: %w", position+i, messageID, err)
		}
	}
	return nil
}

// callColumns are the columns that only a tool call has.
type callColumns struct {
	state                  string
	toolCallID, approvalID *string
	questionID             *string // of the open question
	requestedAt, expiresAt instant
}

func callColumnsOf(p chat.Part, at instant) callColumns {
	call, ok := p.(chat.ToolCall)
	if !ok {
		return callColumns{}
	}
	id := clean(call.ToolCallID)
	c := callColumns{state: string(call.State), toolCallID: &id}
	if a := call.Approval; a != nil {
		c.approvalID = &a.ID
		if c.requestedAt = instantOf(a.RequestedAt); c.requestedAt.IsZero() {
			c.requestedAt = at
		}
		c.expiresAt = instantOf(a.ExpiresAt)
	}
	if q := call.OpenQuestion(); q != nil {
		c.questionID = &q.ID
	}
	return c
}

// asksAs reports whether what is asked of a person, and since when, is the same.
func (c callColumns) asksAs(d callColumns) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return same(c.approvalID, d.approvalID) && same(c.questionID, d.questionID) &&
		c.requestedAt.Equal(d.requestedAt.Time) && c.expiresAt.Equal(d.expiresAt.Time)
}

// encodePart is a part as it is stored. Bytes that are not UTF-8, which JSON
// takes in strings and PostgreSQL does not, are replaced.
func encodePart(p chat.Part) (string, error) {
	raw, err := chat.EncodePart(p)
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(raw), "\ufffd"), nil
}

// clean makes a text of a model or a tool storable: PostgreSQL refuses U+0000
// and what is not UTF-8, and no such text may break a turn.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// setMessageStatus writes the status of a message, and why if it failed.
func (t *topicTx) setMessageStatus(ctx context.Context, messageID string, status chat.MessageStatus, why *chat.TurnError) error {
	var text *string
	if why != nil {
		raw, err := chat.Marshal(why)
		if err != nil {
			return fmt.Errorf("why message %s failed: %w", messageID, err)
		}
		valid := strings.ToValidUTF8(string(raw), "\ufffd")
		text = &valid
	}
	n, err := t.exec(ctx, `UPDATE messages SET status = ?, error = ?, updated_at = ?, revision = ? WHERE topic_id = ? AND id = ?`,
		status, text, t.at, t.revision(), t.topic.ID, messageID)
	if err == nil && n != 1 {
		err = errors.New("it is not there")
	}
	if err != nil {
		return fmt.Errorf("write the status of message %s: %w", messageID, err)
	}
	return nil
}

// countParts is the number of committed parts, and so the next position.
func (t *topicTx) countParts(ctx context.Context, messageID string) (int, error) {
	var n int
	if err := t.get(ctx, &n, `SELECT count(*) FROM parts WHERE topic_id = ? AND message_id = ?`, t.topic.ID, messageID); err != nil {
		return 0, fmt.Errorf("count the parts of message %s: %w", messageID, err)
	}
	return n, nil
}

// dropParts removes the parts of a message from the position on.
func (t *topicTx) dropParts(ctx context.Context, messageID string, position int) error {
	if _, err := t.exec(ctx, `DELETE FROM parts WHERE topic_id = ? AND message_id = ? AND position >= ?`,
		t.topic.ID, messageID, position); err != nil {
		return fmt.Errorf("remove parts of message %s: %w", messageID, err)
	}
	return nil
}
