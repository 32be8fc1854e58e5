package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// Status derives what a topic is doing from its rows. It is one statement, so
// that it is of one instant without a transaction: every change that is
// announced reads it once.
func (s *Store) Status(ctx context.Context, topicID string) (chat.Status, error) {
	var status chat.Status
	err := s.read.look(ctx, "read a status", func(ctx context.Context, t *tx) error {
		rows, err := t.readStatuses(ctx, []string{topicID})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return t.noTopic(ctx, topicID)
		}
		status = statusOf(rows)
		return nil
	})
	return status, err
}

// statusRow is a topic and one of its turns, if it has one at the end of the
// active branch.
type statusRow struct {
	TopicID         string  `db:"topic_id"`
	Revision        int64   `db:"revision"`
	LastCompletedAt instant `db:"last_completed_at"`
	Queued          int     `db:"queued"`
	ID              *string `db:"id"`
	MessageID       *string `db:"message_id"`
	State           *string `db:"state"`
	Output          instant `db:"first_output_at"`
	Pending         int     `db:"pending"`
	Questions       int     `db:"questions"`
}

// readStatuses reads what the statuses of topics follow from.
func (t *tx) readStatuses(ctx context.Context, topicIDs []string) ([]statusRow, error) {
	var rows []statusRow
	if err := t.allIn(ctx, &rows, `
		SELECT o.id AS topic_id, o.revision, o.last_completed_at, t.id, t.message_id, t.state, t.first_output_at,
			(SELECT count(*) FROM messages q WHERE q.topic_id = o.id AND q.status = 'queued' AND q.deleted_at IS NULL) AS queued,
			(SELECT count(*) FROM parts p
			 WHERE p.topic_id = t.topic_id AND p.message_id = t.message_id AND p.tool_call_id IS NOT NULL AND p.state = 'approval-requested') AS pending,
			(SELECT count(*) FROM parts p
			 WHERE p.topic_id = t.topic_id AND p.message_id = t.message_id AND p.tool_call_id IS NOT NULL AND p.question_id IS NOT NULL) AS questions
		FROM topics o
		LEFT JOIN messages m ON m.topic_id = o.id AND m.id = o.active_leaf
		LEFT JOIN turns t ON t.topic_id = o.id AND t.group_id = m.group_id
		WHERE o.id IN (?) AND o.deleted_at IS NULL ORDER BY t.created_at, t.id`, topicIDs); err != nil {
		return nil, fmt.Errorf("read the statuses of topics: %w", err)
	}
	return rows, nil
}

// statusOf is the status of one topic, of which there is at least one row.
func statusOf(rows []statusRow) chat.Status {
	var views []chat.TurnView
	for _, r := range rows {
		if r.ID != nil {
			views = append(views, chat.TurnView{
				ID: *r.ID, MessageID: *r.MessageID, State: chat.TurnState(*r.State), HasOutput: !r.Output.IsZero(), Pending: r.Pending, Questions: r.Questions,
			})
		}
	}
	topic := rows[0]
	return chat.StatusOf(topic.TopicID, topic.Revision, views, topic.Queued, topic.LastCompletedAt.ptr())
}

// withStatus is a topic with its status.
func (t *tx) withStatus(ctx context.Context, row topicRow) (chat.Topic, error) {
	topics, err := t.withStatuses(ctx, []topicRow{row})
	if err != nil {
		return chat.Topic{}, err
	}
	return topics[0], nil
}

// withStatuses derives the statuses of topics with one statement however many
// there are.
func (t *tx) withStatuses(ctx context.Context, rows []topicRow) ([]chat.Topic, error) {
	if len(rows) == 0 {
		return []chat.Topic{}, nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	found, err := t.readStatuses(ctx, ids)
	if err != nil {
		return nil, err
	}
	of := map[string][]statusRow{}
	for _, r := range found {
		of[r.TopicID] = append(of[r.TopicID], r)
	}
	topics := make([]chat.Topic, len(rows))
	for i, row := range rows {
		topic, err := row.topic()
		if err != nil {
			return nil, err
		}
		if len(of[row.ID]) == 0 {
			return nil, fmt.Errorf("read the status of topic %s: it is not there", row.ID)
		}
		topic.Status = statusOf(of[row.ID])
		topics[i] = topic
	}
	return topics, nil
}
