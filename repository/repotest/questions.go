package repotest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// editCall applies fn to a call of a running turn.
func (b *bench) editCall(f claimed, id string, fn func(chat.ToolCall, time.Time) (chat.ToolCall, error)) chat.Change {
	b.Helper()
	_, c, err := b.EditCalls(b.ctx, f.Fence, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
		for _, c := range calls {
			if c.Call.ToolCallID != id {
				continue
			}
			next, err := fn(c.Call, at)
			if err != nil {
				b.Fatal(err)
			}
			return []chat.PlacedCall{{Position: c.Position, Call: next}}
		}
		b.Fatalf("there is no call %s", id)
		return nil
	})
	return must[chat.Change](b)(c, err)
}

// ask has a call that runs ask a question.
func (b *bench) ask(f claimed, callID, questionID string) chat.Change {
	b.Helper()
	return b.editCall(f, callID, func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
		return chat.AskPerson(c, chat.Question{ID: questionID, Message: "Which?", Schema: json.RawMessage(`{"type":"object"}`)}, at)
	})
}

// asked is a topic with a turn that runs two calls, of which the first has
// asked a question.
func (b *bench) asked(questionID string) (chat.Topic, claimed) {
	b.Helper()
	topic, f := b.start()
	must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(time.Time) chat.Parts { return chat.Parts{allowed("one"), allowed("two")} }}))
	for _, id := range []string{"one", "two"} {
		b.editCall(f, id, chat.Start)
	}
	b.ask(f, "one", questionID)
	return topic, f
}

func (b *bench) answer(topicID, messageID, questionID string, a chat.Answer) chat.Answered {
	b.Helper()
	got, _, err := b.AnswerQuestion(b.ctx, topicID, messageID, questionID, a, ada)
	return must[chat.Answered](b)(got, err)
}

func (b *bench) questions() []chat.QuestionItem {
	b.Helper()
	items, next, err := b.Questions(b.ctx, chat.Page{Limit: 100})
	if err != nil || next != "" {
		b.Fatal(next, err)
	}
	return items
}

// closed checks that a question was closed with its call.
func (b *bench) closed(topicID, messageID, questionID string) {
	b.Helper()
	if q := must[chat.Question](b)(b.Question(b.ctx, topicID, messageID, questionID)); q.Open() || q.Resolution == "" || q.AnsweredAt == nil {
		b.Errorf("the question is %+v", q)
	}
	b.none(topicID)
	_, _, err := b.AnswerQuestion(b.ctx, topicID, messageID, questionID, accept(`{}`), ada)
	b.is(err, chat.ErrGone)
}

// none checks that no question is open, in no column and in no count.
func (b *bench) none(topicID string) {
	b.Helper()
	b.same("questions", []chat.QuestionItem{}, b.questions())
	b.same("in the column", "0", b.text(`SELECT CAST(count(question_id) AS text) FROM parts`))
	if topicID != "" {
		b.same("in the status", 0, b.status(topicID).OpenQuestions)
	}
}

func accept(content string) chat.Answer {
	return chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(content)}
}

var questionTests = map[string]func(*bench){
	"a question of a call that runs is kept, listed and counted until it is answered": func(b *bench) {
		topic, f := b.asked("q")
		part := b.calls(topic.ID, f.MessageID)[0]
		want := chat.Question{ID: "q", Message: "Which?", Schema: json.RawMessage(`{"type":"object"}`), AskedAt: part.ToolMetadata.Questions[0].AskedAt}
		b.same("question", want, must[chat.Question](b)(b.Question(b.ctx, topic.ID, f.MessageID, "q")))
		if want.AskedAt.IsZero() || b.status(topic.ID).OpenQuestions != 1 {
			b.Errorf("asked at %v, status %+v", want.AskedAt, b.status(topic.ID))
		}
		b.same("listed", []chat.QuestionItem{
			{TopicID: topic.ID, MessageID: f.MessageID, ToolCallID: "one", ToolName: "files__write", Server: "files", Question: want},
		}, b.questions())
		b.ask(f, "two", "p")
		topics, _, err := b.Topics(b.ctx, chat.Page{Limit: 10})
		if err != nil || len(topics) != 1 || topics[0].Status.OpenQuestions != 2 {
			b.Errorf("got %+v, %v", topics, err)
		}

		before := b.status(topic.ID).Revision
		content := `{"n":9007199254740993,"a":"\u0000"}`
		got, c, err := b.AnswerQuestion(b.ctx, topic.ID, f.MessageID, "q", accept(content), ada)
		if err != nil || got.AnsweredAt.IsZero() || got.Revision != before+1 || got.Revision != c.Revision {
			b.Fatalf("got %+v, %+v, %v", got, c, err)
		}
		b.same("answer", chat.Answered{QuestionID: "q", Outcome: chat.EffectApplied, AnsweredBy: "ada", AnsweredAt: got.AnsweredAt, Revision: c.Revision}, got)
		part = b.calls(topic.ID, f.MessageID)[0]
		b.same("told", []chat.PartChange{{MessageID: f.MessageID, Epoch: f.Epoch, Position: 0, Part: part}}, c.Parts)
		want.Action, want.Content, want.AnsweredBy, want.Via, want.AnsweredAt = chat.AnswerAccept, json.RawMessage(content), "ada", chat.ViaAPI, &got.AnsweredAt
		b.same("answered", want, part.ToolMetadata.Questions[0])
		b.same("open", 1, b.status(topic.ID).OpenQuestions)
		b.answer(topic.ID, f.MessageID, "p", chat.Answer{Action: chat.AnswerDecline})
		b.none(topic.ID)
		b.ask(f, "one", "r") // one after another
		b.same("open again", 1, b.status(topic.ID).OpenQuestions)
	},
	"the same answer again changes nothing and answers the same, another is a conflict": func(b *bench) {
		topic, f := b.asked("q")
		want := b.answer(topic.ID, f.MessageID, "q", accept(`{"a":1,"b":2}`))
		want.Outcome = chat.EffectAlreadySettled
		got, c, err := b.AnswerQuestion(b.ctx, topic.ID, f.MessageID, "q", accept(`{"b":2, "a":1}`), grace)
		if err != nil {
			b.Fatal(err)
		}
		b.same("again", want, got)
		b.unchanged(topic.ID, c)
		for _, other := range []chat.Answer{accept(`{"a":2}`), {Action: chat.AnswerDecline}, {Action: chat.AnswerCancel}} {
			_, _, err := b.AnswerQuestion(b.ctx, topic.ID, f.MessageID, "q", other, grace)
			b.is(err, chat.ErrConflict)
		}
		b.same("revision", want.Revision, b.status(topic.ID).Revision)
	},
	"of two answers that race one wins": func(b *bench) {
		for range rounds {
			topic, f := b.asked("q")
			var errs [2]error
			var got [2]chat.Answered
			answer := func(i int) func() {
				return func() {
					got[i], _, errs[i] = b.AnswerQuestion(b.ctx, topic.ID, f.MessageID, "q", accept(fmt.Sprint(`{"n":`, i, `}`)), chat.Decider{Name: fmt.Sprint(i)})
				}
			}
			atOnce(answer(0), answer(1))
			winner, loser := 0, errs[1]
			if errs[0] != nil {
				winner, loser = 1, errs[0]
			}
			if errs[winner] != nil {
				b.Fatal(errs)
			}
			b.is(loser, chat.ErrConflict)
			q := b.calls(topic.ID, f.MessageID)[0].ToolMetadata.Questions[0]
			if q.AnsweredBy != fmt.Sprint(winner) || string(q.Content) != fmt.Sprint(`{"n":`, winner, `}`) || got[winner].Outcome != chat.EffectApplied {
				b.Fatalf("stored %+v, answered %+v", q, got)
			}
		}
	},
	"an answer that races with the end of its call is applied, or finds the question closed": func(b *bench) {
		for range rounds {
			topic, f := b.asked("q")
			var err error
			atOnce(
				func() { _, _, err = b.AnswerQuestion(b.ctx, topic.ID, f.MessageID, "q", accept(`{}`), ada) },
				func() {
					if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
						b.Error(err)
					}
				},
			)
			q := must[chat.Question](b)(b.Question(b.ctx, topic.ID, f.MessageID, "q"))
			if err != nil {
				b.is(err, chat.ErrGone)
			}
			if q.Open() || (err == nil) != (q.Action == chat.AnswerAccept) {
				b.Fatalf("stored %+v, %v", q, err)
			}
			b.none(topic.ID)
		}
	},
	"a question is closed when its call ends": func(b *bench) {
		topic, f := b.asked("q")
		b.editCall(f, "one", func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
			next, _ := chat.Finish(c, chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`1`)}, at)
			return next, nil
		})
		b.closed(topic.ID, f.MessageID, "q")
	},
	"a question is closed when the turn is stopped": func(b *bench) {
		topic, f := b.asked("q")
		if _, _, err := b.Stop(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		b.closed(topic.ID, f.MessageID, "q")
	},
	"a question is closed when the turn fails": func(b *bench) {
		topic, f := b.asked("q")
		b.fail(f)
		b.closed(topic.ID, f.MessageID, "q")
	},
	"a question is closed when its owner is dead and another takes the turn": func(b *bench) {
		topic, f := b.asked("q")
		b.run(`UPDATE turns SET lease_until = created_at`)
		next := b.claim(topic.ID, f.TurnID)
		if next.Epoch == f.Epoch {
			b.Error("the turn was not taken over")
		}
		b.closed(topic.ID, f.MessageID, "q")
		if c := b.calls(topic.ID, f.MessageID)[0]; c.ToolMetadata.Outcome != chat.OutcomeUnknown {
			b.Errorf("the call is %+v", c)
		}
	},
	"a question goes with its message, and with its topic": func(b *bench) {
		topic, f := b.asked("q")
		if _, _, err := b.DeleteMessage(b.ctx, topic.ID, f.MessageID); err != nil {
			b.Fatal(err)
		}
		b.none(topic.ID)
		other, g := b.asked("p")
		if _, _, err := b.DeleteTopic(b.ctx, other.ID); err != nil {
			b.Fatal(err)
		}
		b.none("")
		for _, gone := range [][3]string{{topic.ID, f.MessageID, "q"}, {other.ID, g.MessageID, "p"}} {
			_, _, err := b.AnswerQuestion(b.ctx, gone[0], gone[1], gone[2], accept(`{}`), ada)
			b.is(err, chat.ErrGone)
			_, err = b.Question(b.ctx, gone[0], gone[1], gone[2])
			b.is(err, chat.ErrGone)
		}
	},
	"a question that is not there is not found": func(b *bench) {
		topic, f := b.asked("q")
		other, g := b.asked("p")
		for _, none := range [][3]string{
			{topic.ID, f.MessageID, "none"}, {topic.ID, "none", "q"}, {"none", f.MessageID, "q"}, {other.ID, f.MessageID, "q"}, {other.ID, g.MessageID, "q"},
		} {
			_, _, err := b.AnswerQuestion(b.ctx, none[0], none[1], none[2], accept(`{}`), ada)
			b.is(err, chat.ErrNotFound)
			_, err = b.Question(b.ctx, none[0], none[1], none[2])
			b.is(err, chat.ErrNotFound)
		}
		b.same("open", 2, len(b.questions()))
	},
	"open questions are listed, the oldest first, page by page": func(b *bench) {
		var want []string
		for i := range 5 {
			id := fmt.Sprint("q", i)
			b.asked(id)
			want = append(want, id)
		}
		var got []string
		var last time.Time
		cursor := ""
		for range 10 {
			items, next, err := b.Questions(b.ctx, chat.Page{Limit: 2, Cursor: cursor})
			if err != nil || len(items) > 2 {
				b.Fatal(len(items), err)
			}
			for _, item := range items {
				if item.Question.AskedAt.Before(last) {
					b.Errorf("%s is older than the one before it", item.Question.ID)
				}
				last = item.Question.AskedAt
				got = append(got, item.Question.ID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		sameSet(b, want, got)
		_, _, err := b.Questions(b.ctx, chat.Page{Limit: 1, Cursor: "!"})
		b.is(err, chat.ErrMalformed)
	},
}
