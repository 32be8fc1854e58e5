package repository

import (
	"context"
	"errors"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// asked finds the call that asked a question, among the calls of a message.
func asked(calls []placed, questionID string) (placed, bool) {
	i := slices.IndexFunc(calls, func(c placed) bool {
		_, ok := c.call.Question(questionID)
		return ok
	})
	if i < 0 {
		return placed{}, false
	}
	return calls[i], true
}

// noQuestion says why there is no such question: questions are removed with
// their message.
func (t *tx) noQuestion(ctx context.Context, topicID, messageID, questionID string) error {
	if _, err := t.findMessage(ctx, topicID, messageID); err != nil {
		return err
	}
	return chat.NotFound("There is no question %s in message %s.", questionID, messageID)
}

// AnswerQuestion answers an open question of a message's calls. Of answers that
// race, one is applied; the others see it, whatever the process that they run
// in.
func (s *Store) AnswerQuestion(ctx context.Context, topicID, messageID, questionID string, a chat.Answer, by chat.Decider) (chat.Answered, chat.Change, error) {
	var out chat.Answered
	c, err := s.changeBy(ctx, "answer a question", topicID, `id, revision, updated_at`, func(ctx context.Context, t *topicTx) error {
		calls, err := t.calls(ctx, messageID)
		if err != nil {
			return err
		}
		was, ok := asked(calls, questionID)
		if !ok {
			return t.noQuestion(ctx, topicID, messageID, questionID)
		}
		call, effect, err := chat.AnswerQuestion(was.call, questionID, a, by, t.time())
		if err != nil {
			return err
		}
		out = chat.Answered{QuestionID: questionID, Outcome: effect, Revision: t.revision()}
		if q, ok := call.Question(questionID); ok && q.AnsweredAt != nil {
			out.AnsweredBy, out.AnsweredAt = q.AnsweredBy, *q.AnsweredAt
		}
		if effect != chat.EffectApplied {
			out.Revision = t.before()
			return errUnchanged
		}
		return t.writeCall(ctx, was, call)
	})
	if err != nil {
		return chat.Answered{}, chat.Change{}, err
	}
	return out, c, nil
}

// Question reads a question of a message's calls, open or not.
func (s *Store) Question(ctx context.Context, topicID, messageID, questionID string) (chat.Question, error) {
	var question chat.Question
	err := s.view(ctx, "read a question", func(ctx context.Context, t *tx) error {
		if _, err := t.readTopic(ctx, topicID); err != nil {
			return err
		}
		calls, err := t.callsOf(ctx, topicID, messageID)
		if err != nil {
			return err
		}
		was, ok := asked(calls, questionID)
		if !ok {
			return t.noQuestion(ctx, topicID, messageID, questionID)
		}
		question, _ = was.call.Question(questionID)
		return nil
	})
	return question, err
}

// Questions lists the open questions of all topics, the oldest first: a call
// does nothing else while it asks, so its part is as old as the question.
func (s *Store) Questions(ctx context.Context, p chat.Page) ([]chat.QuestionItem, string, error) {
	query, args := selectJudged+`WHERE p.question_id IS NOT NULL`, []any(nil)
	if p.Cursor != "" {
		after, err := readPlaceCursor(p.Cursor)
		if err != nil {
			return nil, "", err
		}
		query, args = query+` AND (p.updated_at, p.message_id, p.position) > (?, ?, ?)`, append(args, after...)
	}
	var rows []judgedRow
	err := s.view(ctx, "list the open questions", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, query+` ORDER BY p.updated_at, p.message_id, p.position LIMIT ?`, append(args, p.Limit+1)...)
	})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		last := rows[len(rows)-1]
		next = placeCursor(last.UpdatedAt, last.MessageID, last.Position)
	}
	items := make([]chat.QuestionItem, len(rows))
	for i, row := range rows {
		c, err := row.judged()
		if err != nil {
			return nil, "", err
		}
		q := c.Call.OpenQuestion()
		if q == nil {
			return nil, "", errors.New("list the open questions: a part has one by its column, and none by its payload")
		}
		m := toolOf(c.Call)
		items[i] = chat.QuestionItem{
			TopicID: c.TopicID, TopicTitle: c.TopicTitle, MessageID: c.AnchorID, ToolCallID: c.Call.ToolCallID, ToolName: c.Call.ToolName,
			Server: m.Server, Title: c.Call.Title, Question: *q,
		}
		if m.Title != "" {
			items[i].Title = m.Title
		}
	}
	return items, next, nil
}
