package service

import (
	"cmp"
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// CreateTopic makes a topic. One that starts from an assistant takes from it
// what the request left out.
func (s *Service) CreateTopic(ctx context.Context, t chat.NewTopic) (chat.Topic, error) {
	if err := s.checkServers(ctx, t.MCPServerIDs); err != nil {
		return chat.Topic{}, err
	}
	if t.AssistantID != "" {
		a, err := s.store.Assistant(ctx, t.AssistantID)
		if chat.Missing(err) {
			return chat.Topic{}, chat.Invalid("There is no assistant %s.", t.AssistantID)
		}
		if err != nil {
			return chat.Topic{}, err
		}
		t = a.Start(t)
	}
	t.Model = cmp.Or(t.Model, s.opt.DefaultModel)
	if err := s.opt.CheckModel(t.Model); err != nil {
		return chat.Topic{}, err
	}
	topic, change, err := s.store.CreateTopic(ctx, t)
	if err != nil {
		return chat.Topic{}, err
	}
	s.announce(ctx, change)
	return topic, nil
}

// Topic reads a topic with its status.
func (s *Service) Topic(ctx context.Context, topicID string) (chat.Topic, error) {
	return s.store.Topic(ctx, topicID)
}

// Topics lists topics, the last changed first.
func (s *Service) Topics(ctx context.Context, p chat.Page) ([]chat.Topic, string, error) {
	return s.store.Topics(ctx, p)
}

// UpdateTopic changes a topic's title, model or system prompt. They hold from
// the next turn on.
func (s *Service) UpdateTopic(ctx context.Context, topicID string, p chat.TopicPatch) (chat.Topic, error) {
	if p.Model != nil {
		if err := s.opt.CheckModel(*p.Model); err != nil {
			return chat.Topic{}, err
		}
	}
	topic, change, err := s.store.UpdateTopic(ctx, topicID, p)
	if err != nil {
		return chat.Topic{}, err
	}
	s.announce(ctx, change)
	return topic, nil
}

// DeleteTopic removes a topic. Its turns end and its approvals close.
func (s *Service) DeleteTopic(ctx context.Context, topicID string) error {
	stopped, change, err := s.store.DeleteTopic(ctx, topicID)
	if err != nil {
		return err
	}
	s.engine.Cancel(stopped)
	s.announce(ctx, change)
	return nil
}

// Status reads what a topic is doing.
func (s *Service) Status(ctx context.Context, topicID string) (chat.Status, error) {
	return s.store.Status(ctx, topicID)
}

// Messages reads the newest limit messages of the active branch, or those
// before the message named.
func (s *Service) Messages(ctx context.Context, topicID string, limit int, before string) (chat.Snapshot, error) {
	return s.store.Snapshot(ctx, topicID, limit, before)
}

// Tree reads the messages of all branches, parents before children.
func (s *Service) Tree(ctx context.Context, topicID string) ([]chat.Message, int64, error) {
	return s.store.Tree(ctx, topicID)
}
