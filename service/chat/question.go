package chat

import (
	"encoding/json"
	"time"
)

// Question is what a tool's server asks of the person while the tool runs
// (MCP calls it elicitation). It stands in the call's metadata, and is
// answered in place: the call goes on with the answer. It ends with its call;
// a question whose call has ended was answered, or was closed unanswered.
type Question struct {
	ID      string `json:"id"` // unguessable
	Message string `json:"message"`
	// Schema is the JSON Schema of the answer's content: a flat object of
	// texts, numbers, truths and choices. Absent if only a yes or no is asked.
	Schema  json.RawMessage `json:"schema,omitempty"`
	AskedAt time.Time       `json:"askedAt"`
	// Action is the answer; absent while the question is open.
	Action     AnswerAction    `json:"action,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"` // of AnswerAccept: an object
	AnsweredAt *time.Time      `json:"answeredAt,omitempty"`
	AnsweredBy string          `json:"answeredBy,omitempty"`
	Via        Via             `json:"via,omitempty"`
	// Resolution says why a question was closed without an answer.
	Resolution Resolution `json:"resolution,omitempty"`
}

// AnswerAction says what the person did with a question.
type AnswerAction string

// The answers to a question, as MCP names them.
const (
	AnswerAccept  AnswerAction = "accept"  // here is what was asked for
	AnswerDecline AnswerAction = "decline" // the person says no
	AnswerCancel  AnswerAction = "cancel"  // the person did not choose, or nobody can any more
)

// Answer answers a question.
type Answer struct {
	Action  AnswerAction
	Content json.RawMessage // of AnswerAccept: an object, or nil for none
}

// Open reports whether the question waits for an answer.
func (q Question) Open() bool { return q.Action == "" }

// Question finds a question of the call, open or not.
func (c ToolCall) Question(id string) (Question, bool) {
	for _, q := range c.meta().Questions {
		if q.ID == id {
			return q, true
		}
	}
	return Question{}, false
}

// OpenQuestion is the question of the call that waits for an answer, or nil.
// A call has one at most.
func (c ToolCall) OpenQuestion() *Question {
	for _, q := range c.meta().Questions {
		if q.Open() {
			return &q
		}
	}
	return nil
}

// maxQuestions bounds what one call may ask.
const maxQuestions = 50

// AskPerson returns the call with an open question. Only a call that runs can
// ask, and it asks one thing at a time.
func AskPerson(call ToolCall, q Question, at time.Time) (ToolCall, error) {
	switch {
	case !call.Started() || call.State.Settled():
		return call, Conflict("Call %s does not run, so it cannot ask anything.", call.ToolCallID)
	case call.OpenQuestion() != nil:
		return call, Conflict("Call %s has asked a question already.", call.ToolCallID)
	case len(call.meta().Questions) >= maxQuestions:
		return call, Conflict("Call %s has asked %d questions, which is enough.", call.ToolCallID, maxQuestions)
	}
	q.AskedAt = at
	q.Action, q.Content, q.AnsweredAt, q.AnsweredBy, q.Via, q.Resolution = "", nil, nil, "", "", ""
	return call.withMeta(func(m *ToolMetadata) { m.Questions = append(m.Questions[:len(m.Questions):len(m.Questions)], q) }), nil
}

// AnswerQuestion returns the call with a question of it answered. An equal
// answer that was given before changes nothing; a different one is
// ErrConflict, one that is none of the answers ErrInvalid, and a question that
// was closed ErrGone.
func AnswerQuestion(call ToolCall, id string, a Answer, by Decider, at time.Time) (ToolCall, Effect, error) {
	switch a.Action {
	case AnswerAccept, AnswerDecline, AnswerCancel:
	default: // also none at all, which would leave the question open
		return call, "", Invalid("The action must be %q, %q or %q.", AnswerAccept, AnswerDecline, AnswerCancel)
	}
	for i, q := range call.meta().Questions {
		if q.ID != id {
			continue
		}
		switch {
		case q.Resolution != "":
			return call, "", Gone("The question is closed (%s): its call has ended.", q.Resolution)
		case q.Open():
			q.Action, q.Content = a.Action, nil
			if a.Action == AnswerAccept {
				q.Content = a.Content
			}
			q.AnsweredAt, q.AnsweredBy, q.Via = &at, by.Name, by.Via
			return call.withQuestion(i, q), EffectApplied, nil
		case q.Action == a.Action && (a.Action != AnswerAccept || sameJSON(q.Content, a.Content)):
			return call, EffectAlreadySettled, nil
		default:
			return call, "", Conflict("The question was already answered (%s) by %s.", q.Action, q.AnsweredBy)
		}
	}
	return call, "", NotFound("There is no question %s.", id)
}

// CloseQuestion returns the call with its open question closed unanswered, or
// unchanged with false if it has none.
func CloseQuestion(call ToolCall, at time.Time) (ToolCall, bool) {
	for i, q := range call.meta().Questions {
		if q.Open() {
			q.Action, q.Resolution, q.AnsweredAt = AnswerCancel, ResolutionCancelled, &at
			return call.withQuestion(i, q), true
		}
	}
	return call, false
}

func (c ToolCall) withQuestion(i int, q Question) ToolCall {
	return c.withMeta(func(m *ToolMetadata) {
		m.Questions = append([]Question{}, m.Questions...)
		m.Questions[i] = q
	})
}

// QuestionItem is an open question where it stands, as the inbox lists it.
type QuestionItem struct {
	TopicID    string   `json:"topicId"`
	TopicTitle string   `json:"topicTitle"`
	MessageID  string   `json:"messageId"`
	ToolCallID string   `json:"toolCallId"`
	ToolName   string   `json:"toolName"`
	Server     string   `json:"server,omitempty"`
	Title      string   `json:"title,omitempty"`
	Question   Question `json:"question"`
}

// Answered says what became of an answer.
type Answered struct {
	QuestionID string    `json:"questionId"`
	Outcome    Effect    `json:"outcome"`
	AnsweredBy string    `json:"answeredBy"`
	AnsweredAt time.Time `json:"answeredAt"`
	Revision   int64     `json:"revision"`
}
