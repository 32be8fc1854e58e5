package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

type questionAnswer struct {
	Action  chat.AnswerAction `json:"action" validate:"required,oneof=accept decline cancel"`
	Content json.RawMessage   `json:"content"`
}

type questionList struct {
	Questions []chat.QuestionItem `json:"questions"`
	Next      string              `json:"nextCursor,omitempty"`
}

func decodeAnswer(w http.ResponseWriter, r *http.Request) (chat.Answer, error) {
	in, err := decode[questionAnswer](w, r, maxSettingsBody)
	if err != nil {
		return chat.Answer{}, err
	}
	answer := chat.Answer{Action: in.Action}
	switch {
	case in.Content == nil:
		return answer, nil
	case in.Content[0] != '{':
		return chat.Answer{}, malformed("/content", "must be an object")
	case in.Action != chat.AnswerAccept:
		return chat.Answer{}, malformed("/content", "goes with the action accept only")
	}
	// It is kept as text, not as values: every digit reaches the tool.
	if answer.Content, err = chat.CheckInput(string(in.Content)); err != nil {
		return chat.Answer{}, malformed("/content", "cannot be used: "+strings.Replace(err.Error(), "the arguments", "its members", 1))
	}
	return answer, nil
}

func (a *API) answerQuestion(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := messageID(r)
	if err != nil {
		return err
	}
	question := chi.URLParam(r, "questionId")
	if !isID(question) {
		return chat.NotFound("There is no such question.")
	}
	answer, err := decodeAnswer(w, r)
	if err != nil {
		return err
	}
	answered, err := a.svc.AnswerQuestion(r.Context(), topic, message, question, answer, decider(r))
	if e, ok := errors.AsType[*chat.InputError](err); ok {
		p := problemFor(err)
		p.Detail = strings.Replace(sentence(e.Error()), "The input breaks the tool's schema", "The answer breaks the question's schema", 1)
		return p
	}
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, answered)
}

func (a *API) listQuestions(w http.ResponseWriter, r *http.Request) error {
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	questions, next, err := a.svc.Questions(r.Context(), page)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, questionList{notNil(questions), next})
}
