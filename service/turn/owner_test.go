package turn_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/turn"
)

func TestShutdownCutsTheStreamAndAnotherEngineAsksAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	streaming := make(chan struct{})
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		emit(chat.StreamEvent{Kind: chat.StreamText, Text: "half"})
		if n == 1 {
			close(streaming)
			<-ctx.Done()
			return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
		}
		return nil
	}
	b.start()
	topic := b.send("p/m")
	<-streaming
	b.stop()
	b.start() // claims at once: the lease of a minute was given back
	m := b.until(topic, chat.TopicDone)
	if len(m.Parts) != 2 || m.Epoch != 2 {
		t.Errorf("got %+v of epoch %d", m.Parts, m.Epoch)
	}
}

func TestShutdownWaitsForACallAndKeepsItsResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ShutdownGrace = time.Minute
	running, release := make(chan struct{}), make(chan struct{})
	b.run = func(ctx context.Context, _ json.RawMessage, _ func(string)) chat.Result {
		close(running)
		select {
		case <-release:
			return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"kept"`)}
		case <-ctx.Done():
			return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "cut"}
		}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	close(release)
	<-stopped
	b.start()
	m := b.until(topic, chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; string(c.Output) != `"kept"` || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
}

func TestShutdownThatCannotWaitSaysUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ShutdownGrace = time.Millisecond
	running := make(chan struct{})
	b.run = func(ctx context.Context, _ json.RawMessage, _ func(string)) chat.Result {
		close(running)
		<-ctx.Done()
		return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "The outcome is unknown."}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	b.stop()
	b.start()
	m := b.until(topic, chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; c.ToolMetadata.Outcome != chat.OutcomeUnknown || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
}

func TestEachTurnIsGivenBackAsSoonAsNothingOfItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Lease, b.opt.Heartbeat, b.opt.ShutdownGrace = time.Hour, time.Hour, time.Hour
	streaming, calling, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.model = func(ctx context.Context, n int, p chat.Prompt, emit func(chat.StreamEvent)) error {
		switch n {
		case 1:
			callTool(emit, "c", `{}`)
		case 2:
			close(streaming)
			<-ctx.Done()
			return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
		default:
			emit(chat.StreamEvent{Kind: chat.StreamText, Text: "ok"})
		}
		return nil
	}
	b.run = func(context.Context, json.RawMessage, func(string)) chat.Result {
		close(calling)
		<-release
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"kept"`)}
	}
	var second *turn.Engine
	b.opt.GivenBack = func() { second.Wake() }
	second = turn.New(b.store.Store, b, b, b.policy, &b.live, turn.Options{Poll: time.Hour, Lease: time.Hour})
	b.start()
	calls := b.send("p/m")
	<-calling
	streams := b.send("p/m")
	<-streaming
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { second.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	b.until(streams, chat.TopicDone) // although the other's call still runs, under a lease of an hour
	select {
	case <-stopped:
		t.Error("the first did not wait for its call")
	default:
	}
	close(release)
	<-stopped
	if m := b.until(calls, chat.TopicDone); string(m.Parts.Calls()[0].Call.Output) != `"kept"` || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", m.Parts, b.ran.Load())
	}
}

func TestAnOwnerThatLostItsLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Lease, b.opt.Heartbeat = 50*time.Millisecond, 10*time.Millisecond
	running, release := make(chan struct{}), make(chan struct{})
	b.run = func(context.Context, json.RawMessage, func(string)) chat.Result {
		if b.ran.Load() == 1 {
			close(running)
			<-release // it does not hear of anything, as a frozen process does not
		}
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"of the first owner"`)}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	b.store.mu.Lock()
	b.store.mute = true // the first owner's heartbeats are not heard
	b.store.mu.Unlock()
	first := b.stop

	second := turn.New(b.store.Store, b, b, b.policy, &b.live, turn.Options{Poll: 10 * time.Millisecond, Lease: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { second.Run(ctx); close(done) }()
	m := b.until(topic, chat.TopicDone)
	close(release)
	first()
	cancel()
	<-done
	after := b.until(topic, chat.TopicDone)
	c := after.Parts.Calls()[0].Call
	if c.ToolMetadata.Outcome != chat.OutcomeUnknown || c.Output != nil || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
	if after.Revision != m.Revision {
		t.Errorf("the lost owner changed the message: revision %d became %d", m.Revision, after.Revision)
	}
}

func TestAStoppedTurnIsLetGoWithItsWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	streaming := make(chan struct{})
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		emit(chat.StreamEvent{Kind: chat.StreamText, Text: "words"})
		callTool(emit, "c", `{}`)
		close(streaming)
		<-ctx.Done()
		return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
	}
	b.start()
	topic := b.send("p/m")
	<-streaming
	// Nobody tells the engine: its heartbeat finds out, as on another instance.
	if _, _, err := b.store.Stop(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	var m chat.Message
	eventually(t, func() bool { m = b.until(topic, chat.TopicAborted); return len(m.Parts) > 0 }, func() string { return "the words were not kept" })
	if len(m.Parts) != 2 || len(m.Parts.Calls()) != 0 || b.ran.Load() != 0 {
		t.Errorf("got %+v", m.Parts)
	}
}
