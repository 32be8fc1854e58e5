package turn

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Answered tells the engine that a question was answered. If the call that
// asked it runs here, it goes on; a word that is lost is made good by the
// poll.
func (e *Engine) Answered(questionID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wake := e.questions[questionID]; wake != nil {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// listen makes the engine's word of a question's answer arrive on a channel.
func (e *Engine) listen(questionID string) (wake <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.questions[questionID] = c
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.questions, questionID)
	}
}

var errClosed = errors.New("the question was closed without an answer")

// put asks the person a question of the call at a position, which runs here,
// and waits for the answer. If ctx ends first the question is closed.
func (r *run) put(ctx context.Context, position int, q chat.Question) (chat.Answer, error) {
	if err := ctx.Err(); err != nil {
		return chat.Answer{}, err
	}
	q.ID = rand.Text()
	wake, end := r.e.listen(q.ID)
	defer end()
	var refusal error
	calls, err := r.editAt(position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		if _, asked := question(call, q.ID); asked { // an earlier try was committed, its answer lost
			return call, false
		}
		next, err := chat.AskPerson(call, q, at)
		refusal = err
		return next, err == nil
	})
	if err == nil {
		err = refusal
	}
	if errors.Is(err, chat.ErrLost) { // the heartbeat would find out later
		r.cancel(errStopped)
	}
	if err != nil {
		return chat.Answer{}, err
	}
	poll := time.NewTicker(r.e.opt.Poll)
	defer poll.Stop()
	for {
		if now, ok := questionAt(calls, position, q.ID); !ok || now.Resolution != "" {
			return chat.Answer{}, errClosed
		} else if !now.Open() {
			return chat.Answer{Action: now.Action, Content: now.Content}, nil
		}
		select {
		case <-ctx.Done():
			r.takeBack(position, q.ID)
			return chat.Answer{}, ctx.Err()
		case <-wake:
		case <-poll.C:
		}
		switch now, err := r.committed(ctx); {
		case err == nil:
			calls = now
		case errors.Is(err, chat.ErrLost):
			r.cancel(errStopped)
			return chat.Answer{}, err
		case ctx.Err() == nil:
			r.log.WarnContext(ctx, "the answer to a question cannot be read; trying again", slog.Any("error", err))
		}
	}
}

// takeBack closes a question that nobody waits for any more.
func (r *run) takeBack(position int, id string) {
	_, err := r.editAt(position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		if q, asked := question(call, id); call.State.Settled() || !asked || !q.Open() {
			return call, false
		}
		return chat.CloseQuestion(call, at)
	})
	if err != nil && !errors.Is(err, chat.ErrLost) { // it ends with its call at the latest
		r.log.WarnContext(r.ctx, "a question was not closed", slog.Any("error", err))
	}
}

// committed reads the anchor's calls, once.
func (r *run) committed(ctx context.Context) ([]chat.PlacedCall, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	calls, _, err := r.e.store.EditCalls(ctx, r.fence, func([]chat.PlacedCall, time.Time) []chat.PlacedCall { return nil })
	return calls, err
}

// question finds a question of a call.
func question(call chat.ToolCall, id string) (chat.Question, bool) {
	if call.ToolMetadata != nil {
		for _, q := range call.ToolMetadata.Questions {
			if q.ID == id {
				return q, true
			}
		}
	}
	return chat.Question{}, false
}

func questionAt(calls []chat.PlacedCall, position int, id string) (chat.Question, bool) {
	for _, c := range calls {
		if c.Position == position {
			return question(c.Call, id)
		}
	}
	return chat.Question{}, false
}

// stopwatch ends a run that takes too long. It stands still while the person
// is asked: how long that takes is not the tool's doing.
type stopwatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration
	since   time.Time // when it was let run last
	waiting int       // questions that are open
}

// newStopwatch calls end when the time is over, unless it is stopped before.
func newStopwatch(limit time.Duration, end func()) *stopwatch {
	return &stopwatch{timer: time.AfterFunc(limit, end), left: limit, since: time.Now()}
}

func (w *stopwatch) stop() { w.pause() }

func (w *stopwatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting++; w.waiting == 1 && w.timer.Stop() {
		w.left -= time.Since(w.since)
	}
}

func (w *stopwatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting--; w.waiting == 0 {
		w.since = time.Now()
		w.timer.Reset(max(w.left, 0))
	}
}
