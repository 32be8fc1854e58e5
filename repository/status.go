package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// Status derives what a topic is doing from its rows.
func (s *Store) Status(ctx context.Context, topicID string) (chat.Status, error) {
	var status chat.Status
	err := s.view(ctx, "read a status", func(ctx context.Context, t *tx) error {
		row, err := t.readTopic(ctx, topicID)
		if err != nil {
			return err
		}
		topic, err := t.withStatus(ctx, row)
		status = topic.Status
		return err
	})
	return status, err
}

// withStatus is a topic with its status.
func (t *tx) withStatus(ctx context.Context, row topicRow) (chat.Topic, error) {
	topics, err := t.withStatuses(ctx, []topicRow{row})
	if err != nil {
		return chat.Topic{}, err
	}
	return topics[0], nil
}

// withStatuses derives the statuses of topics with the same few statements
// however many there are.
func (t *tx) withStatuses(ctx context.Context, rows []topicRow) ([]chat.Topic, error) {
	if len(rows) == 0 {
		return []chat.Topic{}, nil
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	var turns []struct {
		TopicID   string  `db:"topic_id"`
		ID        string  `db:"id"`
		MessageID string  `db:"message_id"`
		State     string  `db:"state"`
		Output    instant `db:"first_output_at"`
		Pending   int     `db:"pending"`
		Questions int     `db:"questions"`
	}
	if err := t.allIn(ctx, &turns, `
		SELECT t.topic_id, t.id, t.message_id, t.state, t.first_output_at,
			(SELECT count(*) FROM parts p
			 WHERE p.topic_id = t.topic_id AND p.message_id = t.message_id AND p.tool_call_id IS NOT NULL AND p.state = 'approval-requested') AS pending,
			(SELECT count(*) FROM parts p
			 WHERE p.topic_id = t.topic_id AND p.message_id = t.message_id AND p.question_id IS NOT NULL) AS questions
		FROM topics o
		JOIN messages m ON m.topic_id = o.id AND m.id = o.active_leaf
		JOIN turns t ON t.topic_id = o.id AND t.group_id = m.group_id
		WHERE o.id IN (?) ORDER BY t.created_at, t.id`, ids); err != nil {
		return nil, fmt.Errorf("read the turns of topics: %w", err)
	}
	var queued []struct {
		TopicID string `db:"topic_id"`
		N       int    `db:"n"`
	}
	if err := t.allIn(ctx, &queued, `
		SELECT topic_id, count(*) AS n FROM messages
		WHERE topic_id IN (?) AND status = 'queued' AND deleted_at IS NULL GROUP BY topic_id`, ids); err != nil {
		return nil, fmt.Errorf("count queued messages: %w", err)
	}

	views := map[string][]chat.TurnView{}
	for _, v := range turns {
		views[v.TopicID] = append(views[v.TopicID], chat.TurnView{
			ID: v.ID, MessageID: v.MessageID, State: chat.TurnState(v.State), HasOutput: !v.Output.IsZero(), Pending: v.Pending, Questions: v.Questions,
		})
	}
	waiting := map[string]int{}
	for _, q := range queued {
		waiting[q.TopicID] = q.N
	}
	topics := make([]chat.Topic, len(rows))
	for i, row := range rows {
		topic, err := row.topic()
		if err != nil {
			return nil, err
		}
		topic.Status = chat.StatusOf(row.ID, row.Revision, views[row.ID], waiting[row.ID], row.LastCompletedAt.ptr())
		topics[i] = topic
	}
	return topics, nil
}
