package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/turn"
)

var which = chat.Question{Message: "Which?", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}

// asksOnce makes every call ask one question, and end with what it heard.
func (b *bench) asksOnce() {
	b.asking = func(ctx context.Context, ask ask) chat.Result {
		a, err := ask(ctx, which)
		return heard(ctx, a, err)
	}
}

func heard(ctx context.Context, a chat.Answer, err error) chat.Result {
	switch {
	case ctx.Err() != nil:
		return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "The outcome is unknown."}
	case err != nil:
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "Nobody answered."}
	}
	output, err := chat.Marshal(string(a.Action) + string(a.Content))
	if err != nil {
		panic(err)
	}
	return chat.Result{Outcome: chat.OutcomeOK, Output: output}
}

// open waits for the open question of a topic.
func (b *bench) open(topic string) (messageID string, q chat.Question) {
	b.t.Helper()
	eventually(b.t, func() bool {
		s, err := b.store.Snapshot(b.t.Context(), topic, 10, "")
		if err != nil {
			b.t.Fatal(err)
		}
		last := s.Messages[len(s.Messages)-1]
		messageID = last.ID
		for _, c := range last.Parts.Calls() {
			if found := c.Call.OpenQuestion(); found != nil {
				q = *found
				return true
			}
		}
		return false
	}, func() string { return "no question is open" })
	return messageID, q
}

// answer answers the open question of a topic and tells nobody.
func (b *bench) answer(topic string, a chat.Answer) chat.Question {
	b.t.Helper()
	messageID, q := b.open(topic)
	got, _, err := b.store.AnswerQuestion(b.t.Context(), topic, messageID, q.ID, a, by)
	if err != nil || got.Outcome != chat.EffectApplied {
		b.t.Fatalf("the answer gave %+v, %v", got, err)
	}
	return q
}

func (b *bench) call(m chat.Message) (chat.ToolCall, []chat.Question) {
	b.t.Helper()
	calls := m.Parts.Calls()
	if len(calls) != 1 {
		b.t.Fatalf("%d calls in %+v", len(calls), m.Parts)
	}
	return calls[0].Call, calls[0].Call.ToolMetadata.Questions
}

func TestACallGoesOnWithTheAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]chat.Answer{
		"Accept":  {Action: chat.AnswerAccept, Content: json.RawMessage(`{"a":"left"}`)},
		"Decline": {Action: chat.AnswerDecline},
		"Cancel":  {Action: chat.AnswerCancel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.opt.Poll = time.Hour // the word alone wakes it
			b.asksOnce()
			b.start()
			topic := b.send("p/m")
			q := b.answer(topic, answer)
			b.engine.Answered(q.ID)
			call, questions := b.call(b.until(topic, chat.TopicDone))
			want, err := chat.Marshal(string(answer.Action) + string(answer.Content))
			if err != nil {
				t.Fatal(err)
			}
			if call.State != chat.CallOutputAvailable || string(call.Output) != string(want) || b.ran.Load() != 1 {
				t.Errorf("after %d runs the call is %s with %s, want %s", b.ran.Load(), call.State, call.Output, want)
			}
			asked := which
			asked.ID, asked.Action, asked.Content, asked.AnsweredBy, asked.Via = q.ID, answer.Action, answer.Content, by.Name, by.Via
			if diff := cmp.Diff([]chat.Question{asked}, questions, cmpopts.IgnoreFields(chat.Question{}, "AskedAt", "AnsweredAt")); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			if len(q.ID) < 20 || q.AskedAt.IsZero() {
				t.Errorf("asked as %+v", q)
			}
			if !b.live.announced(func(c chat.ToolCall) bool { return c.OpenQuestion() != nil && c.OpenQuestion().ID == q.ID }) {
				t.Error("the question was not announced")
			}
			b.engine.Answered(q.ID) // late, and of nothing that waits here
			b.engine.Answered("unknown")
		})
	}
}

// announced reports whether a call was announced as a part.
func (r *recorder) announced(is func(chat.ToolCall) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.changes {
		for _, p := range c.Parts {
			if call, ok := p.Part.(chat.ToolCall); ok && is(call) {
				return true
			}
		}
	}
	return false
}

func TestALostWordOfAnAnswerIsMadeGoodByThePoll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asksOnce()
	b.start()
	topic := b.send("p/m")
	b.answer(topic, chat.Answer{Action: chat.AnswerDecline})
	if call, _ := b.call(b.until(topic, chat.TopicDone)); string(call.Output) != `"decline"` {
		t.Errorf("got %s %s", call.State, call.Output)
	}
}

func TestADatabaseThatIsAwayWhileACallAsks(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"before", "after"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.asking = func(ctx context.Context, ask ask) chat.Result {
				b.store.mu.Lock()
				b.store.before = map[string]int{"Question": 2} // while it looks for the answer
				if kind == "before" {
					b.store.before["EditCalls"] = 2
				} else {
					b.store.after = map[string]int{"EditCalls": 2}
				}
				b.store.mu.Unlock()
				a, err := ask(ctx, which)
				return heard(ctx, a, err)
			}
			b.start()
			topic := b.send("p/m")
			b.answer(topic, chat.Answer{Action: chat.AnswerDecline})
			call, questions := b.call(b.until(topic, chat.TopicDone))
			if string(call.Output) != `"decline"` || len(questions) != 1 {
				t.Errorf("got %s %s after %d questions", call.State, call.Output, len(questions))
			}
			b.store.mu.Lock()
			defer b.store.mu.Unlock()
			if left := b.store.before["Question"]; left != 0 {
				t.Errorf("%d of the reads did not fail", left)
			}
		})
	}
}

func TestACallAsksOneThingAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refused := make(chan error, 1)
	b.asking = func(ctx context.Context, ask ask) chat.Result {
		first, err := ask(ctx, which)
		if err != nil {
			return heard(ctx, first, err)
		}
		ended := make(chan struct{})
		defer func() { <-ended }()
		go func() {
			defer close(ended)
			b.open(b.topicOf(t)) // the second, below
			_, err := ask(ctx, which)
			refused <- err
		}()
		a, err := ask(ctx, chat.Question{Message: "Sure?"})
		return heard(ctx, a, err)
	}
	b.start()
	topic := b.send("p/m")
	b.engine.Answered(b.answer(topic, chat.Answer{Action: chat.AnswerAccept}).ID)
	if err := <-refused; !errors.Is(err, chat.ErrConflict) {
		t.Errorf("a question beside another gave %v", err)
	}
	b.engine.Answered(b.answer(topic, chat.Answer{Action: chat.AnswerDecline}).ID)
	call, questions := b.call(b.until(topic, chat.TopicDone))
	if string(call.Output) != `"decline"` || len(questions) != 2 || questions[0].ID == questions[1].ID || questions[1].Message != "Sure?" {
		t.Errorf("got %s after %+v", call.Output, questions)
	}
}

// topicOf finds the only topic.
func (b *bench) topicOf(t *testing.T) string {
	topics, _, err := b.store.Topics(t.Context(), chat.Page{Limit: 2})
	if err != nil || len(topics) != 1 {
		t.Errorf("topics %v, %v", topics, err)
		return ""
	}
	return topics[0].ID
}

func TestAQuestionThatItsServerTakesBackIsClosedAndTheCallGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	takeBack := make(chan context.CancelFunc, 1)
	b.asking = func(ctx context.Context, ask ask) chat.Result {
		asking, cancel := context.WithCancel(ctx)
		takeBack <- cancel
		_, err := ask(asking, which)
		_, again := ask(asking, which) // with a context that has ended nothing is asked
		if !errors.Is(err, context.Canceled) || !errors.Is(again, context.Canceled) {
			t.Errorf("the question ended with %v, the next with %v", err, again)
		}
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"without"`)}
	}
	b.start()
	topic := b.send("p/m")
	messageID, q := b.open(topic)
	(<-takeBack)()
	call, questions := b.call(b.until(topic, chat.TopicDone))
	if string(call.Output) != `"without"` || len(questions) != 1 || questions[0].Resolution != chat.ResolutionCancelled {
		t.Errorf("got %s after %+v", call.Output, questions)
	}
	if _, _, err := b.store.AnswerQuestion(t.Context(), topic, messageID, q.ID, chat.Answer{Action: chat.AnswerDecline}, by); !errors.Is(err, chat.ErrGone) {
		t.Errorf("a late answer gave %v", err)
	}
}

func TestAQuestionThatOutlivesItsCallEndsWithoutTheTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ended := make(chan error, 1)
	b.asking = func(ctx context.Context, ask ask) chat.Result {
		go func() {
			_, err := ask(context.WithoutCancel(ctx), which)
			ended <- err
		}()
		b.open(b.topicOf(t))
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"without"`)}
	}
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		if n == 1 {
			callTool(emit, "c", `{}`)
			return nil
		}
		if err := <-ended; err == nil || errors.Is(err, chat.ErrLost) {
			t.Errorf("the question ended with %v", err)
		}
		return ctx.Err()
	}
	b.start()
	call, questions := b.call(b.until(b.send("p/m"), chat.TopicDone))
	if string(call.Output) != `"without"` || len(questions) != 1 || questions[0].Resolution != chat.ResolutionCancelled {
		t.Errorf("got %s after %+v", call.Output, questions)
	}
}

func TestAStopEndsAnOpenQuestion(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"Told": true, "FoundOut": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.opt.Poll = time.Hour
			if !told {
				b.opt.Poll, b.opt.Heartbeat = 10*time.Millisecond, time.Hour // the poll finds out first
			}
			ended := make(chan error, 1)
			b.asking = func(ctx context.Context, ask ask) chat.Result {
				a, err := ask(ctx, which)
				<-ctx.Done()
				ended <- err
				return heard(ctx, a, err)
			}
			b.start()
			topic := b.send("p/m")
			b.open(topic)
			stopped, _, err := b.store.Stop(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if told {
				b.engine.Cancel(stopped)
			}
			if err := <-ended; err == nil {
				t.Error("the question was answered")
			}
			b.stop()
			call, questions := b.call(b.until(topic, chat.TopicAborted))
			if call.ToolMetadata.Outcome != chat.OutcomeUnknown || len(questions) != 1 || questions[0].Open() || questions[0].Resolution == "" {
				t.Errorf("got %+v after %+v", call.ToolMetadata.Outcome, questions)
			}
		})
	}
}

func TestAShutdownEndsAnOpenQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ShutdownGrace = time.Millisecond
	b.asksOnce()
	b.start()
	topic := b.send("p/m")
	b.open(topic)
	b.stop()
	b.start()
	call, questions := b.call(b.until(topic, chat.TopicDone))
	if call.ToolMetadata.Outcome != chat.OutcomeUnknown || b.ran.Load() != 1 || len(questions) != 1 || questions[0].Resolution != chat.ResolutionCancelled {
		t.Errorf("after %d runs got %+v after %+v", b.ran.Load(), call.ToolMetadata.Outcome, questions)
	}
}

func TestATurnThatIsTakenOverAsksNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Lease, b.opt.Heartbeat = 50*time.Millisecond, 10*time.Millisecond
	ended := make(chan error, 2)
	b.asking = func(ctx context.Context, ask ask) chat.Result {
		_, err := ask(ctx, which)
		ended <- err
		<-ctx.Done() // that the turn is lost ends the call as well
		_, err = ask(context.Background(), chat.Question{Message: "Still there?"})
		ended <- err
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"of the first owner"`)}
	}
	b.start()
	topic := b.send("p/m")
	_, q := b.open(topic)
	b.store.mu.Lock()
	b.store.mute = true // the first owner's heartbeats are not heard
	b.store.mu.Unlock()
	first := b.stop

	second := turn.New(b.store.Store, b, b, b.policy, &b.live, turn.Options{Poll: 10 * time.Millisecond, Lease: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { second.Run(ctx); close(done) }()
	m := b.until(topic, chat.TopicDone)
	for range 2 {
		if err := <-ended; !errors.Is(err, chat.ErrLost) {
			t.Errorf("the first owner's question ended with %v", err)
		}
	}
	first()
	cancel()
	<-done
	after := b.until(topic, chat.TopicDone)
	call, questions := b.call(after)
	if call.ToolMetadata.Outcome != chat.OutcomeUnknown || len(questions) != 1 || questions[0].ID != q.ID || questions[0].Resolution != chat.ResolutionCancelled {
		t.Errorf("got %+v after %+v", call.ToolMetadata.Outcome, questions)
	}
	if after.Revision != m.Revision || b.ran.Load() != 1 {
		t.Errorf("the lost owner changed the message: revision %d became %d, after %d runs", m.Revision, after.Revision, b.ran.Load())
	}
}
