package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// maxTried is the largest part that a rule is tried on. What is larger is
// passed over: fifty calls must not fill the memory.
const maxTried = 256 << 10

type judgedRow struct {
	TopicID   string  `db:"topic_id"`
	Title     string  `db:"title"`
	Model     string  `db:"model"`
	MessageID string  `db:"message_id"`
	Position  int     `db:"position"`
	UpdatedAt instant `db:"updated_at"`
	Payload   string  `db:"payload"`
}

func (r judgedRow) judged() (chat.JudgedCall, error) {
	part, err := partRow{MessageID: r.MessageID, Position: r.Position, Payload: r.Payload}.part()
	if err != nil {
		return chat.JudgedCall{}, err
	}
	call, ok := part.(chat.ToolCall)
	if !ok {
		return chat.JudgedCall{}, fmt.Errorf("part %d of message %s is no tool call", r.Position, r.MessageID)
	}
	return chat.JudgedCall{TopicID: r.TopicID, TopicTitle: r.Title, TopicModel: r.Model, AnchorID: r.MessageID, At: r.UpdatedAt.Time, Call: call}, nil
}

// JudgedCalls reads the newest n calls on which a verdict was given, of all
// topics, the newest first. It looks at no more than twice as many calls. They
// are found through their turns, whose ids sort by time: an index on the calls
// themselves would have to be written by every decision.
func (s *Store) JudgedCalls(ctx context.Context, n int) ([]chat.JudgedCall, error) {
	var rows []judgedRow
	err := s.view(ctx, "read the last calls", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, `
			SELECT p.topic_id, t.title, t.model, p.message_id, p.position, p.updated_at,
				CASE WHEN octet_length(p.payload) <= ? THEN p.payload ELSE '' END AS payload
			FROM turns u
			JOIN parts p ON p.topic_id = u.topic_id AND p.message_id = u.message_id
			JOIN topics t ON t.id = p.topic_id
			WHERE p.tool_call_id IS NOT NULL ORDER BY u.id DESC, p.position DESC LIMIT ?`, maxTried, 2*n)
	})
	if err != nil {
		return nil, err
	}
	var calls []chat.JudgedCall
	for _, row := range rows {
		if row.Payload == "" {
			continue
		}
		c, err := row.judged()
		if err != nil {
			return nil, err
		}
		if m := c.Call.ToolMetadata; m == nil || m.Verdict == "" {
			continue // it could not be run, whatever a rule said
		}
		if calls = append(calls, c); len(calls) == n {
			break
		}
	}
	return calls, nil
}

const selectJudged = `
	SELECT p.topic_id, t.title, t.model, p.message_id, p.position, p.updated_at, p.payload
	FROM parts p JOIN topics t ON t.id = p.topic_id `

// ApprovalCall reads the call of an approval in any topic. One of a deleted
// message is chat.ErrGone.
func (s *Store) ApprovalCall(ctx context.Context, approvalID string) (chat.JudgedCall, error) {
	return s.judgedCall(ctx, func(ctx context.Context, t *tx, row *judgedRow) error {
		ok, err := t.find(ctx, row, selectJudged+`WHERE p.approval_id = ?`, approvalID)
		if err != nil || ok {
			return err
		}
		var topicID string
		switch gone, err := t.find(ctx, &topicID, `SELECT topic_id FROM decisions WHERE approval_id = ?`, approvalID); {
		case err != nil:
			return err
		case gone:
			return chat.Gone("The call of approval %s was deleted.", approvalID)
		}
		return chat.NotFound("There is no approval %s.", approvalID)
	})
}

// TopicCall reads a call of a topic; of several that share the id, which
// models do in different messages, the newest.
func (s *Store) TopicCall(ctx context.Context, topicID, toolCallID string) (chat.JudgedCall, error) {
	return s.judgedCall(ctx, func(ctx context.Context, t *tx, row *judgedRow) error {
		if _, err := t.readTopic(ctx, topicID); err != nil {
			return err
		}
		ok, err := t.find(ctx, row, selectJudged+`
			WHERE p.topic_id = ? AND p.tool_call_id = ? ORDER BY p.message_id DESC, p.position DESC LIMIT 1`, topicID, clean(toolCallID))
		if err == nil && !ok {
			err = chat.NotFound("There is no such call in this topic.")
		}
		return err
	})
}

func (s *Store) judgedCall(ctx context.Context, find func(context.Context, *tx, *judgedRow) error) (chat.JudgedCall, error) {
	var row judgedRow
	err := s.view(ctx, "read a call", func(ctx context.Context, t *tx) error { return find(ctx, t, &row) })
	if err != nil {
		return chat.JudgedCall{}, err
	}
	return row.judged()
}
