package service

import (
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// Assistants lists the assistants, in the order of their names.
func (s *Service) Assistants(ctx context.Context) ([]chat.Assistant, error) {
	return s.store.Assistants(ctx)
}

// Assistant reads an assistant.
func (s *Service) Assistant(ctx context.Context, id string) (chat.Assistant, error) {
	return s.store.Assistant(ctx, id)
}

// CreateAssistant adds an assistant.
func (s *Service) CreateAssistant(ctx context.Context, n chat.NewAssistant) (chat.Assistant, error) {
	if n.Model != "" { // none is the default, whatever that is when a topic starts
		if err := s.opt.CheckModel(n.Model); err != nil {
			return chat.Assistant{}, err
		}
	}
	if err := s.checkServers(ctx, n.MCPServerIDs); err != nil {
		return chat.Assistant{}, err
	}
	made, err := s.store.CreateAssistant(ctx, n)
	if err != nil {
		return chat.Assistant{}, err
	}
	s.live.Settings(chat.SettingsAssistants)
	return made, nil
}

// UpdateAssistant changes an assistant. Its mode holds at once, also in topics
// that started from it.
func (s *Service) UpdateAssistant(ctx context.Context, id string, p chat.AssistantPatch) (chat.Assistant, error) {
	if p.Model != nil && *p.Model != "" {
		if err := s.opt.CheckModel(*p.Model); err != nil {
			return chat.Assistant{}, err
		}
	}
	if p.MCPServerIDs != nil {
		if err := s.checkServers(ctx, *p.MCPServerIDs); err != nil {
			return chat.Assistant{}, err
		}
	}
	changed, err := s.store.UpdateAssistant(ctx, id, p)
	if err != nil {
		return chat.Assistant{}, err
	}
	s.live.Settings(chat.SettingsAssistants)
	return changed, nil
}

// DeleteAssistant removes an assistant. Topics that started from it go on, and
// its mode goes on to hold for them.
func (s *Service) DeleteAssistant(ctx context.Context, id string) error {
	if err := s.store.DeleteAssistant(ctx, id); err != nil {
		return err
	}
	s.live.Settings(chat.SettingsAssistants)
	return nil
}
