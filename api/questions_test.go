package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

const aQuestion = "/topics/t1/messages/m1/questions/q1"

func TestAnswersAreTakenAsTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		body string
		want chat.Answer
	}{
		{`{"action":"accept","content":{ "n" : 12345678901234567890, "f": 1.10, "s": " <é\ud83d\ude00> " }}`, chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"n":12345678901234567890,"f":1.10,"s":" <é\ud83d\ude00> "}`)}},
		{`{"action":"accept","content":{}}`, chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{}`)}},
		{`{"action":"accept"}`, chat.Answer{Action: chat.AnswerAccept}},
		{`{"action":"decline"}`, chat.Answer{Action: chat.AnswerDecline}},
		{`{"action":"cancel"}`, chat.Answer{Action: chat.AnswerCancel}},
	} {
		got := b.do("POST", aQuestion, tt.body)
		if want := `{"questionId":"q1","outcome":"applied","answeredBy":"ada","answeredAt":"2026-11-30T12:00:00Z","revision":4}`; got.status != 200 || got.body != want {
			t.Errorf("%s: answered %d %s", tt.body, got.status, got.body)
		}
		if diff := cmp.Diff(tt.want, b.svc.answer); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", tt.body, diff)
		}
	}
	b.do("POST", aQuestion, `{"action":"cancel"}`, "Authorization", "Cookie: assent_session="+session, "Origin: "+b.url)
	if b.svc.by != (chat.Decider{Name: "ada", Via: chat.ViaWeb}) {
		t.Errorf("answered by %+v", b.svc.by)
	}
	if got := b.do("GET", "/questions", ""); !strings.Contains(got.body, `"message":"Where <to>?"`) || !strings.Contains(got.body, `"maximum":12345678901234567890`) || !strings.HasSuffix(got.body, `,"nextCursor":"more"}`) {
		t.Errorf("answered %s", got.body)
	}
}

func TestAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct{ body, detail string }{
		{`{}`, "action is required."},
		{`{"content":{}}`, "action is required."},
		{`{"action":""}`, "action is required."},
		{`{"action":"hunter2"}`, "action must be one of accept, decline, cancel."},
		{`{"action":true}`, "action must be a string."},
		{`{"action":null}`, "action must be a string."},
		{`{"action":"accept","content":null}`, "content must be an object."},
		{`{"action":"accept","content":"hunter2"}`, "content must be an object."},
		{`{"action":"accept","content":["hunter2"]}`, "content must be an object."},
		{`{"action":"decline","content":{"a":"hunter2"}}`, "content goes with the action accept only."},
		{`{"action":"cancel","content":{}}`, "content goes with the action accept only."},
		{`{"action":"accept","content":{"a":"hunter2","a":"x"}}`, `content cannot be used: its members name the key "/a" twice.`},
		{`{"action":"accept","content":` + strings.Repeat(`{"a":`, 70) + `"hunter2"` + strings.Repeat("}", 70) + `}`, "content cannot be used: its members nest deeper than 64 levels."},
		{`{"action":"accept","content":{"a":"\u0000"}}`, `The body holds the character \u0000, which cannot be stored.`},
		{`{"action":"accept","answer":{"a":"hunter2"}}`, "answer is not a member that this request has."},
		{`{"action":"accept","action":"decline"}`, "action is there twice."},
		{`["hunter2"]`, "The body must be an object."},
		{` `, "The body is empty; it must be a JSON object."},
	} {
		got := b.bad("POST", aQuestion, tt.body)
		if p := got.problem(t, 400); p["detail"] != tt.detail || strings.Contains(got.body, "hunter2") {
			t.Errorf("%.80s: %s, want %s", tt.body, got.body, tt.detail)
		}
	}
	for _, path := range []string{"/topics/t1/messages/m1/questions/%00", "/topics/t1/messages/m1/questions/a%20b", "/topics/t1/messages/%00/questions/q1", "/topics/%00/messages/m1/questions/q1", "/topics/t1/messages/m1/questions/" + strings.Repeat("a", 65)} {
		b.bad("POST", path, `{"action":"decline"}`).problem(t, 404)
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %s", call)
	}
}

func TestWhatBecomesOfAnAnswerThatComesTooLateOrIsWrong(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{chat.NotFound("There is no question q1."), 404, `{"type":"/problems/not-found","title":"Not found","status":404,"detail":"There is no question q1."}`},
		{chat.Conflict("The question was already answered (decline) by bob."), 409, `{"type":"/problems/conflict","title":"Conflict","status":409,"detail":"The question was already answered (decline) by bob."}`},
		{chat.Gone("The question is closed (cancelled): its call has ended."), 410, `{"type":"/problems/gone","title":"Gone","status":410,"detail":"The question is closed (cancelled): its call has ended."}`},
		{
			fmt.Errorf("validate: %w", &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/email", Message: "must be an e-mail address"}, {Message: "lacks name"}}}), 422,
			`{"type":"/problems/invalid-input","title":"Invalid input","status":422,"detail":"The answer breaks the question's schema: /email: must be an e-mail address; input: lacks name.","errors":[{"pointer":"/email","message":"must be an e-mail address"},{"pointer":"","message":"lacks name"}]}`,
		},
	} {
		b.svc.err = tt.err
		got := b.do("POST", aQuestion, `{"action":"accept","content":{"email":"x"}}`)
		if got.problem(t, tt.status); got.body != tt.body {
			t.Errorf("answered %s, want %s", got.body, tt.body)
		}
	}
}
