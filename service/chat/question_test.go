package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

// running is a call that runs.
func running(t *testing.T) chat.ToolCall {
	t.Helper()
	call, err := chat.Start(decided(t, chat.Decision{Approved: true}), noon)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func asking(t *testing.T, call chat.ToolCall, id string) chat.ToolCall {
	t.Helper()
	next, err := chat.AskPerson(call, chat.Question{ID: id, Message: "Which?", Schema: json.RawMessage(`{"type":"object"}`)}, noon)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func answered(t *testing.T, call chat.ToolCall, id string, a chat.Answer) chat.ToolCall {
	t.Helper()
	next, effect, err := chat.AnswerQuestion(call, id, a, ada, later)
	if err != nil || effect != chat.EffectApplied {
		t.Fatalf("answer: %q, %v", effect, err)
	}
	return next
}

func TestAskPerson(t *testing.T) {
	t.Parallel()
	done := later
	run := running(t)
	call, err := chat.AskPerson(run, chat.Question{
		ID: "q1", Message: "Which?", Schema: json.RawMessage(`{}`), AskedAt: later.Add(time.Hour), Action: chat.AnswerAccept, Content: json.RawMessage(`{}`),
		AnsweredAt: &done, AnsweredBy: "eve", Via: chat.ViaAPI, Resolution: chat.ResolutionExpired,
	}, later)
	want := []chat.Question{{ID: "q1", Message: "Which?", Schema: json.RawMessage(`{}`), AskedAt: later}} // it begins without an answer
	if diff := cmp.Diff(want, call.ToolMetadata.Questions); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if q := call.OpenQuestion(); q == nil || q.ID != "q1" || !q.Open() {
		t.Errorf("the open question is %+v", q)
	}
	if run.OpenQuestion() != nil || len(run.ToolMetadata.Questions) != 0 {
		t.Error("the call that was given has changed")
	}
	call.OpenQuestion().Message = "Another?"
	if call.ToolMetadata.Questions[0].Message != "Which?" {
		t.Error("the open question is the call's own, and not a copy")
	}

	finished, _ := chat.Finish(run, chat.Result{Outcome: chat.OutcomeOK}, later)
	many := run
	for i := range 50 {
		id := fmt.Sprint("q", i)
		many = answered(t, asking(t, many, id), id, chat.Answer{Action: chat.AnswerDecline})
	}
	for name, c := range map[string]chat.ToolCall{
		"waits": waiting(), "was approved": decided(t, chat.Decision{Approved: true}), "has ended": finished, "asks already": call, "has asked too much": many, "is none": {},
	} {
		if next, err := chat.AskPerson(c, chat.Question{ID: "q2"}, later); !errors.Is(err, chat.ErrConflict) || cmp.Diff(c, next) != "" {
			t.Errorf("a call that %s: got %v", name, err)
		}
	}

	// Two that ask from the same state do not write into each other's.
	first := answered(t, call, "q1", chat.Answer{Action: chat.AnswerCancel})
	first.ToolMetadata.Questions = slices.Grow(first.ToolMetadata.Questions, 2)
	one, two := asking(t, first, "one"), asking(t, first, "two")
	if one.OpenQuestion().ID != "one" || two.OpenQuestion().ID != "two" || len(first.ToolMetadata.Questions) != 1 {
		t.Errorf("got %+v and %+v", one.OpenQuestion(), two.OpenQuestion())
	}
}

func TestQuestionsAreFoundOpenOrNot(t *testing.T) {
	t.Parallel()
	call := asking(t, answered(t, asking(t, running(t), "q1"), "q1", chat.Answer{Action: chat.AnswerDecline}), "q2")
	for i, id := range []string{"q1", "q2"} {
		q, ok := call.Question(id)
		if diff := cmp.Diff(call.ToolMetadata.Questions[i], q); diff != "" || !ok {
			t.Errorf("%s: %v (-want +got):\n%s", id, ok, diff)
		}
	}
	for name, c := range map[string]chat.ToolCall{"asks others": call, "asks nothing": running(t), "is none": {}} {
		for _, id := range []string{"q3", ""} {
			if q, ok := c.Question(id); ok || cmp.Diff(chat.Question{}, q) != "" {
				t.Errorf("a call that %s has question %q: %+v", name, id, q)
			}
		}
	}
}

func TestAnswerQuestion(t *testing.T) {
	t.Parallel()
	open := asking(t, running(t), "q1")
	yes := chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"n":12345678901234567890,"a":true}`)}
	accepted := answered(t, open, "q1", yes)
	want := chat.Question{
		ID: "q1", Message: "Which?", Schema: json.RawMessage(`{"type":"object"}`), AskedAt: noon,
		Action: chat.AnswerAccept, Content: yes.Content, AnsweredAt: &later, AnsweredBy: "ada", Via: chat.ViaAPI,
	}
	if diff := cmp.Diff([]chat.Question{want}, accepted.ToolMetadata.Questions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if accepted.OpenQuestion() != nil || accepted.State != open.State || open.OpenQuestion() == nil {
		t.Error("the call does not go on, or the one that was given has changed")
	}
	bare := answered(t, open, "q1", chat.Answer{Action: chat.AnswerAccept})
	declined := answered(t, open, "q1", chat.Answer{Action: chat.AnswerDecline, Content: json.RawMessage(`{"secret":1}`)})
	if declined.ToolMetadata.Questions[0].Content != nil {
		t.Error("content of what was declined is kept")
	}
	closed, ok := chat.CloseQuestion(open, later)
	if !ok {
		t.Fatal("not closed")
	}
	ended, _ := chat.Finish(open, chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "no"}, later)
	after, _ := chat.Finish(accepted, chat.Result{Outcome: chat.OutcomeOK}, later)
	second := asking(t, accepted, "q2")

	for _, tt := range []struct {
		name   string
		call   chat.ToolCall
		id     string
		a      chat.Answer
		effect chat.Effect
		err    error
	}{
		{"the same again", accepted, "q1", yes, chat.EffectAlreadySettled, nil},
		{"the same, written otherwise", accepted, "q1", chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(` {"a":true, "n":12345678901234567890}`)}, chat.EffectAlreadySettled, nil},
		{"the same after the call has ended", after, "q1", yes, chat.EffectAlreadySettled, nil},
		{"the same after another was asked", second, "q1", yes, chat.EffectAlreadySettled, nil},
		{"the same decline, with other content", declined, "q1", chat.Answer{Action: chat.AnswerDecline, Content: json.RawMessage(`1`)}, chat.EffectAlreadySettled, nil},
		{"nothing again", bare, "q1", chat.Answer{Action: chat.AnswerAccept}, chat.EffectAlreadySettled, nil},
		{"another digit", accepted, "q1", chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"n":12345678901234567891,"a":true}`)}, "", chat.ErrConflict},
		{"something after nothing", bare, "q1", yes, "", chat.ErrConflict},
		{"a decline after an answer", accepted, "q1", chat.Answer{Action: chat.AnswerDecline}, "", chat.ErrConflict},
		{"an answer after a decline", declined, "q1", yes, "", chat.ErrConflict},
		{"an answer to one that was closed", closed, "q1", yes, "", chat.ErrGone},
		{"a cancel of one that was closed", closed, "q1", chat.Answer{Action: chat.AnswerCancel}, "", chat.ErrGone},
		{"an answer after the call has ended", ended, "q1", yes, "", chat.ErrGone},
		{"another question", open, "q2", yes, "", chat.ErrNotFound},
		{"no question", waiting(), "q1", yes, "", chat.ErrNotFound},
		{"of no id", open, "", yes, "", chat.ErrNotFound},
		{"no action", open, "q1", chat.Answer{}, "", chat.ErrInvalid},
		{"another action", open, "q1", chat.Answer{Action: "yes"}, "", chat.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, effect, err := chat.AnswerQuestion(tt.call, tt.id, tt.a, chat.Decider{Name: "eve"}, later.Add(time.Hour))
			if effect != tt.effect || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v; want %q, %v", effect, err, tt.effect, tt.err)
			}
			if diff := cmp.Diff(tt.call, got); diff != "" {
				t.Errorf("the call changed: %s", diff)
			}
		})
	}
}

// A question does not outlive its call, however that ends.
func TestQuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	first := answered(t, asking(t, running(t), "q1"), "q1", chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{}`)})
	open := asking(t, first, "q2")
	for name, end := range map[string]func(chat.ToolCall) (chat.ToolCall, bool){
		"finished": func(c chat.ToolCall) (chat.ToolCall, bool) {
			return chat.Finish(c, chat.Result{Outcome: chat.OutcomeOK}, later)
		},
		"lost":   func(c chat.ToolCall) (chat.ToolCall, bool) { return chat.Lose(c, later) },
		"closed": func(c chat.ToolCall) (chat.ToolCall, bool) { return chat.Close(c, chat.ResolutionExpired, later) },
		"overruled": func(c chat.ToolCall) (chat.ToolCall, bool) {
			return chat.Overrule(c, chat.Judgement{Verdict: chat.VerdictDeny}, "No.", later)
		},
		"asked no more": func(c chat.ToolCall) (chat.ToolCall, bool) { return chat.CloseQuestion(c, later) },
	} {
		got, ok := end(open)
		if !ok || got.OpenQuestion() != nil {
			t.Errorf("%s: got %v, %+v", name, ok, got.OpenQuestion())
			continue
		}
		want := open.ToolMetadata.Questions[1]
		want.Action, want.Resolution, want.AnsweredAt = chat.AnswerCancel, chat.ResolutionCancelled, &later
		if diff := cmp.Diff([]chat.Question{first.ToolMetadata.Questions[0], want}, got.ToolMetadata.Questions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if open.OpenQuestion() == nil {
			t.Fatalf("%s: the call that was given has changed", name)
		}
		if again, ok := chat.CloseQuestion(got, later.Add(time.Hour)); ok || cmp.Diff(got, again) != "" {
			t.Errorf("%s: closed again", name)
		}
	}
	if got, ok := chat.CloseQuestion(first, later); ok || cmp.Diff(first, got) != "" {
		t.Error("an answer was closed")
	}
}

func TestQuestionsAsClientsSeeThem(t *testing.T) {
	t.Parallel()
	call := answered(t, asking(t, running(t), "q1"), "q1", chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"n":1e400}`)})
	closed, _ := chat.CloseQuestion(asking(t, call, "q2"), later)
	call = asking(t, closed, "q3")
	got, err := chat.Marshal(call.ToolMetadata.Questions)
	want := `[{"id":"q1","message":"Which?","schema":{"type":"object"},"askedAt":"2026-11-30T12:00:00Z","action":"accept","content":{"n":1e400},` +
		`"answeredAt":"2026-11-30T12:01:00Z","answeredBy":"ada","via":"api"},` +
		`{"id":"q2","message":"Which?","schema":{"type":"object"},"askedAt":"2026-11-30T12:00:00Z","action":"cancel","answeredAt":"2026-11-30T12:01:00Z","resolution":"cancelled"},` +
		`{"id":"q3","message":"Which?","schema":{"type":"object"},"askedAt":"2026-11-30T12:00:00Z"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	raw, err := chat.EncodePart(call)
	if err != nil {
		t.Fatal(err)
	}
	part, err := chat.DecodePart(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(call, part.(chat.ToolCall)); diff != "" {
		t.Errorf("after it was stored (-want +got):\n%s", diff)
	}
}
