package turn_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// answered answers the open question of a topic and tells the engine.
func (b *bench) answered(topic string) {
	b.t.Helper()
	b.engine.Answered(b.answer(topic, chat.Answer{Action: chat.AnswerDecline}).ID)
}

func TestOpenQuestionsHoldUpNoOtherTopic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.MaxTurns, b.opt.Poll = 2, time.Hour // that there is room is told
	b.asksOnce()
	const topics = 5
	b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		if n <= topics {
			callTool(emit, "c", `{}`)
		}
		return nil
	}
	b.start()
	var ids []string
	for range topics {
		ids = append(ids, b.send("p/m"))
	}
	for _, id := range ids {
		b.open(id)
	}
	for _, id := range ids {
		b.answered(id)
	}
	for _, id := range ids {
		if call, _ := b.call(b.until(id, chat.TopicDone)); string(call.Output) != `"decline"` {
			t.Errorf("got %s %s", call.State, call.Output)
		}
	}
}

// benchInBubble is a bench in which time passes only when nothing is done.
func benchInBubble(t *testing.T) *bench {
	b := newBench(t)
	b.opt.MaxTurns, b.opt.Poll, b.opt.Heartbeat, b.opt.Lease = 1, time.Hour, time.Minute, time.Hour
	return b
}

// settled checks the state in which a topic is when all has happened that can.
func (b *bench) settled(topic string, want chat.TopicState, when string) {
	b.t.Helper()
	time.Sleep(30 * time.Second)
	synctest.Wait()
	if s, err := b.store.Status(b.t.Context(), topic); err != nil || s.Status != want {
		b.t.Fatalf("%s the topic is %s, %v, want %s", when, s.Status, err, want)
	}
}

func TestATurnWhoseCallsDoNotAllAskTakesItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchInBubble(t)
		b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
			if n == 1 {
				callTool(emit, "c", `{}`)
				callTool(emit, "cc", `{}`)
			}
			return nil
		}
		var calls atomic.Int32
		works, goesOn := make(chan struct{}), make(chan struct{})
		b.asking = func(ctx context.Context, ask ask) chat.Result {
			until := works
			if calls.Add(1) > 1 {
				until = goesOn
				for range 2 {
					if a, err := ask(ctx, which); err != nil {
						return heard(ctx, a, err)
					}
				}
			}
			select {
			case <-until:
			case <-ctx.Done():
			}
			return chat.Result{Outcome: chat.OutcomeOK}
		}
		b.start()
		first := b.send("p/m")
		b.open(first)
		second := b.send("p/m")
		b.settled(second, chat.TopicPending, "while a call of the other turn works")
		b.answered(first)
		b.settled(second, chat.TopicPending, "after an answer")
		close(works)
		b.settled(second, chat.TopicDone, "when the other turn only asks")
		b.answered(first)
		third := b.send("p/m")
		b.settled(third, chat.TopicPending, "while the call works with its answers")
		close(goesOn)
		b.settled(first, chat.TopicDone, "at last")
		b.settled(third, chat.TopicDone, "at last")
	})
}

func TestTurnsThatWaitForAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchInBubble(t)
		b.asksOnce()
		const most = 16
		b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
			if n != most+1 { // the second step of the turn that is answered below
				callTool(emit, "c", `{}`)
			}
			return nil
		}
		b.start()
		var ids []string
		for range most + 2 {
			ids = append(ids, b.send("p/m"))
			time.Sleep(time.Second) // one is begun after the other
		}
		open := func() []chat.QuestionItem {
			t.Helper()
			items, _, err := b.store.Questions(t.Context(), chat.Page{Limit: 100})
			if err != nil || len(items) != most {
				t.Fatalf("%d questions are open, want %d: %v", len(items), most, err)
			}
			return items
		}
		b.settled(ids[most], chat.TopicPending, "beside so many that wait")
		topic := open()[0].TopicID
		b.answered(topic)
		b.settled(topic, chat.TopicDone, "after the answer")
		open()
	})
}
