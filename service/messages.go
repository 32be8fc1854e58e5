package service

import (
	"cmp"
	"context"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

const titleLength = 60 // in runes: one line of the topic list

// Send stores a person's message and starts the turn that answers it, or
// queues it while the topic is busy. What a message says decides nothing:
// approvals are decided by Decide alone.
func (s *Service) Send(ctx context.Context, topicID string, m chat.NewMessage) (chat.Sent, error) {
	m.WhenBusy = cmp.Or(m.WhenBusy, chat.WhenBusyQueue)
	m.Title = titleOf(m.Parts)
	return s.sent(ctx, func() (chat.Sent, chat.Change, error) { return s.store.Send(ctx, topicID, m) })
}

// EditMessage changes a queued message in place, or answers a changed copy of
// a message that was sent, on a branch of its own.
func (s *Service) EditMessage(ctx context.Context, topicID, messageID string, m chat.NewMessage) (chat.Sent, error) {
	return s.sent(ctx, func() (chat.Sent, chat.Change, error) { return s.store.EditMessage(ctx, topicID, messageID, m) })
}

// SendQueued sends a queued message now.
func (s *Service) SendQueued(ctx context.Context, topicID, messageID string) (chat.Sent, error) {
	return s.sent(ctx, func() (chat.Sent, chat.Change, error) { return s.store.SendQueued(ctx, topicID, messageID) })
}

// Regenerate answers again, on a branch of its own.
func (s *Service) Regenerate(ctx context.Context, topicID, messageID string) (chat.Sent, error) {
	return s.sent(ctx, func() (chat.Sent, chat.Change, error) { return s.store.Regenerate(ctx, topicID, messageID) })
}

// Retry goes on with a turn that failed or was stopped, from its last
// committed step: what was decided and what has run stays.
func (s *Service) Retry(ctx context.Context, topicID, messageID string) (chat.Sent, error) {
	return s.sent(ctx, func() (chat.Sent, chat.Change, error) { return s.store.Retry(ctx, topicID, messageID) })
}

func (s *Service) sent(ctx context.Context, op func() (chat.Sent, chat.Change, error)) (chat.Sent, error) {
	sent, change, err := op()
	if err != nil {
		return chat.Sent{}, err
	}
	s.announce(ctx, change)
	if sent.Turn != nil {
		s.engine.Wake()
	}
	return sent, nil
}

// DeleteMessage removes a message and all that follows from it.
func (s *Service) DeleteMessage(ctx context.Context, topicID, messageID string) error {
	stopped, change, err := s.store.DeleteMessage(ctx, topicID, messageID)
	if err != nil {
		return err
	}
	s.engine.Cancel(stopped)
	s.announce(ctx, change)
	return nil
}

// Select makes the branch through a message the active one.
func (s *Service) Select(ctx context.Context, topicID, messageID string) (chat.Topic, error) {
	topic, change, err := s.store.Select(ctx, topicID, messageID)
	if err != nil {
		return chat.Topic{}, err
	}
	s.announce(ctx, change)
	return topic, nil
}

// Stop ends what the topic is doing, in any state, and settles its calls. It
// returns the status after it. Stopping an idle topic changes nothing.
func (s *Service) Stop(ctx context.Context, topicID string) (chat.Status, error) {
	stopped, change, err := s.store.Stop(ctx, topicID)
	if err != nil {
		return chat.Status{}, err
	}
	s.engine.Cancel(stopped)
	s.announce(ctx, change)
	return s.store.Status(ctx, topicID)
}

// titleOf makes a title of the first line that a message says.
func titleOf(parts chat.Parts) string {
	for _, p := range parts {
		t, ok := p.(chat.Text)
		if !ok {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(t.Text), "\n")
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		if r := []rune(line); len(r) > titleLength {
			line = strings.TrimSpace(string(r[:titleLength-1])) + "…"
		}
		return line
	}
	return ""
}
