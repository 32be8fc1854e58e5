package turn

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
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
// and waits for the answer. If ctx ends first the question is closed. While it
// waits it only reads: many may wait for long.
func (r *run) put(ctx context.Context, position int, q chat.Question) (chat.Answer, error) {
	if err := ctx.Err(); err != nil {
		return chat.Answer{}, err
	}
	q.ID = rand.Text()
	wake, end := r.e.listen(q.ID)
	defer end()
	var refusal error
	_, err := r.editAt(position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		if _, asked := call.Question(q.ID); asked { // an earlier try was committed, its answer lost
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
	defer r.await(position)()
	poll := time.NewTicker(r.e.opt.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			r.takeBack(position, q.ID)
			return chat.Answer{}, ctx.Err()
		case <-wake:
		case <-poll.C:
		}
		now, err := r.readQuestion(ctx, q.ID)
		switch {
		case err == nil && now.Resolution != "", chat.Missing(err):
			return chat.Answer{}, r.closed()
		case err == nil && !now.Open():
			return chat.Answer{Action: now.Action, Content: now.Content}, nil
		case err != nil && ctx.Err() == nil:
			r.log.WarnContext(ctx, "the answer to a question cannot be read; trying again", slog.Any("error", err))
		}
	}
}

// closed says why a question of ours is no longer open. Its turn was stopped,
// taken over or deleted, which the fence knows before the heartbeat does; or
// else its call has ended.
func (r *run) closed() error {
	_, err := r.edit(func([]chat.PlacedCall, time.Time) []chat.PlacedCall { return nil })
	if errors.Is(err, chat.ErrLost) {
		r.cancel(errStopped)
		return err
	}
	return errClosed
}

// takeBack closes a question that nobody waits for any more.
func (r *run) takeBack(position int, id string) {
	_, err := r.editAt(position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		if q, asked := call.Question(id); call.State.Settled() || !asked || !q.Open() {
			return call, false
		}
		return chat.CloseQuestion(call, at)
	})
	if err != nil && !errors.Is(err, chat.ErrLost) { // it ends with its call at the latest
		r.log.WarnContext(r.ctx, "a question was not closed", slog.Any("error", err))
	}
}

func (r *run) readQuestion(ctx context.Context, id string) (chat.Question, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return r.e.store.Question(ctx, r.fence.TopicID, r.fence.MessageID, id)
}
