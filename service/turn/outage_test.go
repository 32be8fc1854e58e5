package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/turn"
)

// runEngine runs an engine on any store until the test ends.
func (b *bench) runEngine(store turn.Store, hub turn.Live) {
	ctx, cancel := context.WithCancel(context.Background())
	b.engine = turn.New(store, b, b, b.policy, hub, b.opt)
	done := make(chan struct{})
	go func(e *turn.Engine) { e.Run(ctx); close(done) }(b.engine)
	b.t.Cleanup(func() { cancel(); <-done })
}

// deafClaim makes the first claim and loses its answer.
type deafClaim struct {
	*faulty
	n atomic.Int32
}

func (c *deafClaim) Claim(ctx context.Context, cand chat.Candidate, owner string, lease time.Duration) (chat.Work, chat.Change, bool, error) {
	w, change, ok, err := c.faulty.Claim(ctx, cand, owner, lease)
	if ok && err == nil && c.n.Add(1) == 1 {
		return chat.Work{}, chat.Change{}, false, fmt.Errorf("claim: commit: %w", chat.ErrUnavailable)
	}
	return w, change, ok, err
}

func TestAClaimWhoseAnswerIsLostLapsesAndIsClaimedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Lease, b.opt.Heartbeat = 200*time.Millisecond, 60*time.Millisecond
	b.runEngine(&deafClaim{faulty: b.store}, &b.live)
	m := b.until(b.send("p/m"), chat.TopicDone)
	if m.Epoch != 2 || b.ran.Load() != 1 {
		t.Errorf("epoch %d, the tool ran %d times", m.Epoch, b.ran.Load())
	}
}

// lateCancel tells the engine of a stop when it is let.
type lateCancel struct {
	*turn.Engine
	committed, let chan struct{}
}

func (l lateCancel) Cancel(stopped chat.Epochs) {
	close(l.committed)
	<-l.let
	l.Engine.Cancel(stopped)
}

func TestALateWordOfAStopDoesNotEndTheRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	running, goOn := make(chan struct{}), make(chan struct{})
	b.model = func(ctx context.Context, _ int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		emit(chat.StreamEvent{Kind: chat.StreamText, Text: "words"})
		close(running)
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
		}
	}
	engine := turn.New(b.store, b, b, b.policy, &b.live, b.opt)
	b.engine = engine // not running yet: the turn is queued when it is stopped
	topic := b.send("p/m")
	late := lateCancel{engine, make(chan struct{}), make(chan struct{})}
	svc := service.New(service.Deps{Store: b.store.Store, Engine: late, Live: &b.live}, service.Options{})
	stopped := make(chan error, 1)
	go func() {
		_, err := svc.Stop(context.Background(), topic)
		stopped <- err
	}()
	<-late.committed
	m := b.until(topic, chat.TopicAborted)
	b.retry(topic, m.ID)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { engine.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	<-running
	close(late.let)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	close(goOn)
	if m := b.until(topic, chat.TopicDone); len(m.Parts) != 2 || b.asked.Load() != 1 {
		t.Errorf("got %+v, asked %d times", m.Parts, b.asked.Load())
	}
}

// mutedRead loses the answer of the first edit that changed nothing.
type mutedRead struct {
	*faulty
	n atomic.Int32
}

func (c *mutedRead) EditCalls(ctx context.Context, f chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error) {
	calls, change, err := c.faulty.EditCalls(ctx, f, edit)
	if err == nil && change.Revision == 0 && c.n.Add(1) == 1 {
		return nil, chat.Change{}, fmt.Errorf("edit: %w", chat.ErrUnavailable)
	}
	return calls, change, err
}

func TestALostAnswerStarvesNoTab(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	again := make(chan struct{})
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		if n == 1 {
			callTool(emit, "c", `{}`)
			return nil
		}
		close(again)
		<-ctx.Done() // it thinks for long, and nothing is committed meanwhile
		return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
	}
	hub := live.New(b.store.Store, live.Options{})
	t.Cleanup(hub.Close)
	b.runEngine(&mutedRead{faulty: b.store}, hub)
	topic := b.send("p/m")
	<-again
	ready := make(chan struct{}, 1)
	r := hub.Subscribe([]string{topic}, false, "")
	defer r.Close()
	r.OnReady(func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	var names []string
	eventually(t, func() bool {
		events, err := r.Take(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			names = append(names, ev.Name)
		}
		return len(names) > 0
	}, func() string { return "a new tab gets nothing" })
	if names[0] != "snapshot" {
		t.Errorf("got %v", names)
	}
}

// hung takes one finished write and answers when its context ends.
type hung struct {
	*faulty
	n atomic.Int32
}

func (h *hung) EditCalls(ctx context.Context, f chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error) {
	calls, change, err := h.faulty.EditCalls(ctx, f, edit)
	if err == nil && change.Revision > 0 && h.n.Add(1) == 2 { // the result of the first call
		return nil, chat.Change{}, fmt.Errorf("edit calls: %w", context.DeadlineExceeded)
	}
	return calls, change, err
}

func TestAResultIsKeptWhenTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.runEngine(&hung{faulty: b.store}, &b.live)
	m := b.until(b.send("p/m"), chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; c.State != chat.CallOutputAvailable || b.ran.Load() != 1 {
		t.Errorf("got %s after %d runs", c.State, b.ran.Load())
	}
}

func TestDeletedTopicsAreOverForThoseWhoWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hub := live.New(b.store.Store, live.Options{})
	t.Cleanup(hub.Close)
	topic, _, err := b.store.CreateTopic(t.Context(), chat.NewTopic{Model: "p/m"})
	if err != nil {
		t.Fatal(err)
	}
	_, change, err := b.store.DeleteTopic(t.Context(), topic.ID)
	if err != nil {
		t.Fatal(err)
	}
	r := hub.Subscribe([]string{topic.ID}, true, "") // between the check and the deletion
	defer r.Close()
	r.OnReady(func() {})
	removed := false
	eventually(t, func() bool {
		events, err := r.Take(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			removed = removed || ev.Name == "topic.removed" && strings.Contains(string(ev.Data), topic.ID)
		}
		return removed
	}, func() string { return "the reader was never told" })
	hub.Publish(t.Context(), change) // late news of it leaves nothing to be retried
}

func TestAPanicInOneCallEndsTheTurnAndNotTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.run
	b.run = func(ctx context.Context, in json.RawMessage, progress func(string)) chat.Result {
		if b.ran.Load() == 1 {
			panic(errors.New("a fault beside the tool"))
		}
		return good(ctx, in, progress)
	}
	b.start()
	m := b.until(b.send("p/m"), chat.TopicError)
	if c := m.Parts.Calls()[0].Call; c.ToolMetadata.Outcome != chat.OutcomeUnknown {
		t.Errorf("got %+v", c)
	}
	b.until(b.send("p/m"), chat.TopicDone)
}
