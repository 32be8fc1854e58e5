package repository

import (
	"cmp"
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// CreateTopic stores a topic at revision 1.
func (s *Store) CreateTopic(ctx context.Context, n chat.NewTopic) (chat.Topic, chat.Change, error) {
	id, err := newID()
	if err != nil {
		return chat.Topic{}, chat.Change{}, err
	}
	servers, err := serverIDs(n.MCPServerIDs)
	if err != nil {
		return chat.Topic{}, chat.Change{}, err
	}
	var topic chat.Topic
	err = s.write.run(ctx, s.write.dialect.write, "create a topic", func(ctx context.Context, t *tx) error {
		var row topicRow
		if err := t.get(ctx, &row, `
			INSERT INTO topics (id, title, model, system_prompt, mode, assistant_id, mcp_server_ids, revision, created_at, updated_at)
			SELECT ?, ?, ?, ?, ?, ?, ?, 1, now.at, now.at FROM (SELECT {now} AS at) AS now
			RETURNING `+topicColumns, id, n.Title, n.Model, n.SystemPrompt, cmp.Or(n.Mode, chat.ModeDefault), n.AssistantID, servers); err != nil {
			return err
		}
		topic, err = t.withStatus(ctx, row)
		return err
	})
	if err != nil {
		return chat.Topic{}, chat.Change{}, err
	}
	return topic, chat.Change{TopicID: id, Revision: topic.Revision, Topic: &topic}, nil
}

// Topic reads a topic and its status.
func (s *Store) Topic(ctx context.Context, topicID string) (chat.Topic, error) {
	var topic chat.Topic
	err := s.view(ctx, "read a topic", func(ctx context.Context, t *tx) error {
		row, err := t.readTopic(ctx, topicID)
		if err != nil {
			return err
		}
		topic, err = t.withStatus(ctx, row)
		return err
	})
	return topic, err
}

// Topics lists topics, the last changed first, each with its status.
func (s *Store) Topics(ctx context.Context, p chat.Page) ([]chat.Topic, string, error) {
	query, args := `SELECT `+topicColumns+` FROM topics WHERE deleted_at IS NULL`, []any(nil)
	if p.Cursor != "" {
		at, id, err := readCursor(p.Cursor)
		if err != nil {
			return nil, "", err
		}
		query, args = query+` AND (updated_at, id) < (?, ?)`, append(args, at, id)
	}
	query, args = query+` ORDER BY updated_at DESC, id DESC LIMIT ?`, append(args, p.Limit+1)

	var topics []chat.Topic
	next := ""
	err := s.view(ctx, "list topics", func(ctx context.Context, t *tx) error {
		var rows []topicRow
		if err := t.all(ctx, &rows, query, args...); err != nil {
			return err
		}
		next = ""
		if len(rows) > p.Limit {
			rows = rows[:p.Limit]
			last := rows[len(rows)-1]
			next = cursor(last.UpdatedAt, last.ID)
		}
		var err error
		topics, err = t.withStatuses(ctx, rows)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return topics, next, nil
}

// UpdateTopic changes what a patch names. A patch that changes nothing gives
// a Change of revision 0.
func (s *Store) UpdateTopic(ctx context.Context, topicID string, p chat.TopicPatch) (chat.Topic, chat.Change, error) {
	c, err := s.change(ctx, "change a topic", topicID, func(ctx context.Context, t *topicTx) error {
		next := t.topic
		set(&next.Title, p.Title)
		set(&next.Model, p.Model)
		set(&next.SystemPrompt, p.SystemPrompt)
		if p.Mode != nil {
			next.Mode = string(*p.Mode)
		}
		if next.Title == t.topic.Title && next.Model == t.topic.Model && next.SystemPrompt == t.topic.SystemPrompt &&
			next.Mode == t.topic.Mode {
			return errUnchanged
		}
		t.topic, t.changed = next, true
		_, err := t.exec(ctx, `UPDATE topics SET title = ?, model = ?, system_prompt = ?, mode = ? WHERE id = ?`,
			next.Title, next.Model, next.SystemPrompt, next.Mode, topicID)
		return err
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

func set(member, value *string) {
	if value != nil {
		*member = *value
	}
}

// DeleteTopic ends the topic's turns, closes its approvals and removes what
// it holds. The record of its decisions stays, and so do its ids.
func (s *Store) DeleteTopic(ctx context.Context, topicID string) (chat.Epochs, chat.Change, error) {
	var stopped chat.Epochs
	c, err := s.change(ctx, "delete a topic", topicID, func(ctx context.Context, t *topicTx) error {
		var ids []string
		if err := t.all(ctx, &ids, `SELECT id FROM messages WHERE topic_id = ? AND deleted_at IS NULL`, topicID); err != nil {
			return err
		}
		var err error
		if stopped, err = t.bury(ctx, ids); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `
			UPDATE topics SET deleted_at = ?, title = '', system_prompt = '', mcp_server_ids = NULL, active_leaf = '' WHERE id = ?`,
			t.at, topicID); err != nil {
			return err
		}
		t.deleted, t.parts = true, nil
		return nil
	})
	return stopped, c, err
}
