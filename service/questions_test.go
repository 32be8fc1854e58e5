package service_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

// questioned is a topic whose call runs and asks something.
func questioned(t *testing.T, svc *service.Service, store *repository.Store, schema string) chat.Fence {
	t.Helper()
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil {
		t.Fatal(err)
	}
	f := claim(t, svc, store, topic.ID)
	commit(t, store, f, func(at time.Time) chat.ToolCall {
		call := chat.ToolCall{
			Type: chat.DynamicTool, ToolName: "s__t", ToolCallID: "c", State: chat.CallInputAvailable, Input: json.RawMessage(`{}`),
			ToolMetadata: &chat.ToolMetadata{Server: "s", ServerID: "s", Tool: "t", Verdict: chat.VerdictAllow},
		}
		if call, err = chat.Start(call, at); err != nil {
			t.Error(err)
		}
		q := chat.Question{ID: "q", Message: "Which?"}
		if schema != "" {
			q.Schema = json.RawMessage(schema)
		}
		if call, err = chat.AskPerson(call, q, at); err != nil {
			t.Error(err)
		}
		return call
	})
	return f
}

func TestAnAnswerGoesToTheCallThatAsked(t *testing.T) {
	t.Parallel()
	accept := func(content string) chat.Answer {
		return chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(content)}
	}
	for _, tt := range []struct {
		name, schema string
		answer       chat.Answer
		content      string
	}{
		{"what was asked for", `{}`, accept(`{"n":12345678901234567890}`), `{"n":12345678901234567890}`},
		{"nothing, which is an empty object", `{}`, chat.Answer{Action: chat.AnswerAccept}, `{}`},
		{"what no schema says", "", accept(`{"bad":1}`), `{"bad":1}`},
		{"no", `{}`, chat.Answer{Action: chat.AnswerDecline}, ""},
		{"no choice", `{}`, chat.Answer{Action: chat.AnswerCancel}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, store, told := newService(t)
			f := questioned(t, svc, store, tt.schema)
			if items, _, err := svc.Questions(t.Context(), chat.Page{Limit: 10}); err != nil || len(items) != 1 || items[0].Question.ID != "q" || items[0].TopicID != f.TopicID {
				t.Errorf("got %+v, %v", items, err)
			}
			told.changes = nil
			got, err := svc.AnswerQuestion(t.Context(), f.TopicID, f.MessageID, "q", tt.answer, ada)
			if err != nil || got.QuestionID != "q" || got.Outcome != chat.EffectApplied || got.AnsweredBy != "ada" || got.AnsweredAt.IsZero() {
				t.Fatalf("got %+v, %v", got, err)
			}
			if len(told.changes) != 1 || told.changes[0].Revision != got.Revision || !slices.Equal(told.answered, []string{"q"}) {
				t.Errorf("watchers were told %+v, and the engine of %v; the answer is revision %d", told.changes, told.answered, got.Revision)
			}
			q, err := store.Question(t.Context(), f.TopicID, f.MessageID, "q")
			if err != nil || q.Action != tt.answer.Action || string(q.Content) != tt.content {
				t.Errorf("stored is %s %s, %v", q.Action, q.Content, err)
			}
			if items, _, err := svc.Questions(t.Context(), chat.Page{Limit: 10}); err != nil || len(items) != 0 {
				t.Errorf("still open: %+v, %v", items, err)
			}
			// The same again is harmless, and nobody is told.
			again, err := svc.AnswerQuestion(t.Context(), f.TopicID, f.MessageID, "q", tt.answer, ada)
			if err != nil || again.Outcome != chat.EffectAlreadySettled || again.AnsweredBy != "ada" || again.Revision != got.Revision || len(told.answered) != 1 {
				t.Errorf("again: %+v, %v; the engine was told of %v", again, err, told.answered)
			}
		})
	}
}

func TestAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	f := questioned(t, svc, store, `{}`)
	bad := chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"bad":1}`)}
	refuse := func(what string, topic, message, question string, a chat.Answer, want error) {
		t.Helper()
		told.changes = nil
		if _, err := svc.AnswerQuestion(t.Context(), topic, message, question, a, ada); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
		if told.changes != nil {
			t.Errorf("%s: watchers were told of %+v", what, told.changes)
		}
	}
	var wrong *chat.InputError
	if _, err := svc.AnswerQuestion(t.Context(), f.TopicID, f.MessageID, "q", bad, ada); !errors.As(err, &wrong) || wrong.Problems[0].Pointer != "/bad" {
		t.Errorf("against the schema: got %v", err)
	}
	refuse("another question", f.TopicID, f.MessageID, "none", bad, chat.ErrNotFound)
	refuse("another message", f.TopicID, "none", "q", bad, chat.ErrNotFound)
	refuse("another topic", "none", f.MessageID, "q", bad, chat.ErrNotFound)
	refuse("no action", f.TopicID, f.MessageID, "q", chat.Answer{}, chat.ErrInvalid)
	if len(told.answered) != 0 {
		t.Errorf("the engine was told of %v", told.answered)
	}
	if _, err := svc.AnswerQuestion(t.Context(), f.TopicID, f.MessageID, "q", chat.Answer{Action: chat.AnswerDecline}, ada); err != nil {
		t.Fatal(err)
	}
	// Answered already: that is what is said, whatever the schema says.
	refuse("another answer", f.TopicID, f.MessageID, "q", bad, chat.ErrConflict)
	if len(told.answered) != 1 {
		t.Errorf("the engine was told of %v", told.answered)
	}

	stopped := questioned(t, svc, store, `{}`)
	if _, err := svc.Stop(t.Context(), stopped.TopicID); err != nil {
		t.Fatal(err)
	}
	for _, a := range []chat.Answer{bad, {Action: chat.AnswerAccept}, {Action: chat.AnswerCancel}} {
		refuse("after a stop", stopped.TopicID, stopped.MessageID, "q", a, chat.ErrGone)
	}
	deleted := questioned(t, svc, store, `{}`)
	if err := svc.DeleteTopic(t.Context(), deleted.TopicID); err != nil {
		t.Fatal(err)
	}
	refuse("after the topic was deleted", deleted.TopicID, deleted.MessageID, "q", bad, chat.ErrGone)
}
