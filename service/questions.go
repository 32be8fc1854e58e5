package service

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/assent-chat/assent/service/chat"
)

// AnswerQuestion answers what a tool's server asked while the tool runs. The
// answer is committed, then the call goes on with it, wherever it runs. Giving
// the same answer again is harmless.
func (s *Service) AnswerQuestion(ctx context.Context, topicID, messageID, questionID string, a chat.Answer, by chat.Decider) (chat.Answered, error) {
	q, err := s.store.Question(ctx, topicID, messageID, questionID)
	if err != nil {
		return chat.Answered{}, err
	}
	if a.Action == chat.AnswerAccept && a.Content == nil {
		a.Content = json.RawMessage("{}")
	}
	if q.Open() && a.Action == chat.AnswerAccept && q.Schema != nil {
		if err := s.tools.Validate(chat.Tool{InputSchema: q.Schema}, a.Content); err != nil {
			return chat.Answered{}, err
		}
	}
	answered, change, err := s.store.AnswerQuestion(ctx, topicID, messageID, questionID, a, by)
	if err != nil {
		return chat.Answered{}, err
	}
	s.announce(ctx, change)
	if change.Revision > 0 {
		s.engine.Answered(questionID)
	}
	answered.Revision = cmp.Or(answered.Revision, change.Revision)
	return answered, nil
}

// Questions lists what tools that run wait to be told, the oldest first.
func (s *Service) Questions(ctx context.Context, p chat.Page) ([]chat.QuestionItem, string, error) {
	return s.store.Questions(ctx, p)
}
