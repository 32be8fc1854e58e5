package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// TopicPolicy reads what a verdict in the topic depends on, in one state: with
// the switches of a tool server, unless its id is "" or nothing is stored of
// it. The mode of an assistant holds also when the assistant was deleted.
func (s *Store) TopicPolicy(ctx context.Context, topicID, serverID string) (chat.TopicPolicy, error) {
	var p chat.TopicPolicy
	err := s.view(ctx, "read the policy", func(ctx context.Context, t *tx) error {
		var err error
		p, err = t.readPolicy(ctx, topicID, serverID, "")
		return err
	})
	return p, err
}

// readPolicy is TopicPolicy, with a lock on the row of the server if that is
// asked for.
func (t *tx) readPolicy(ctx context.Context, topicID, serverID, lock string) (chat.TopicPolicy, error) {
	var topic struct {
		ID            string  `db:"id"`
		Title         string  `db:"title"`
		Model         string  `db:"model"`
		Mode          string  `db:"mode"`
		AssistantMode *string `db:"assistant_mode"`
	}
	ok, err := t.find(ctx, &topic, `
		SELECT t.id, t.title, t.model, t.mode, a.mode AS assistant_mode
		FROM topics t LEFT JOIN assistants a ON a.id = t.assistant_id WHERE t.id = ? AND t.deleted_at IS NULL`, topicID)
	if err != nil {
		return chat.TopicPolicy{}, fmt.Errorf("topic %s: %w", topicID, err)
	}
	if !ok {
		return chat.TopicPolicy{}, t.noTopic(ctx, topicID)
	}
	p := chat.TopicPolicy{Topic: chat.TopicFacts{ID: topic.ID, Title: topic.Title, Model: topic.Model}, Modes: []chat.Mode{chat.Mode(topic.Mode)}}
	if topic.AssistantMode != nil {
		p.Modes = append(p.Modes, chat.Mode(*topic.AssistantMode))
	}
	if p.Rules, err = t.readRules(ctx, `deleted_at IS NULL AND enabled`); err != nil || serverID == "" {
		return p, err
	}
	p.Switches, p.ServerDisabled, err = t.readSwitches(ctx, serverID, lock)
	return p, err
}
