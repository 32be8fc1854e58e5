package turn_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// faulty is a real store whose answers can get lost.
type faulty struct {
	*repository.Store
	mu     sync.Mutex
	before map[string]int // how many calls of a method fail before they are made
	after  map[string]int // how many calls are made and their answer lost
	mute   bool           // heartbeats are not written
}

func (f *faulty) fail(kind string, method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := f.before
	if kind == "after" {
		counts = f.after
	}
	if counts[method] > 0 {
		counts[method]--
		return fmt.Errorf("%s: %w", method, chat.ErrUnavailable)
	}
	return nil
}

func (f *faulty) EditCalls(ctx context.Context, fence chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error) {
	if err := f.fail("before", "EditCalls"); err != nil {
		return nil, chat.Change{}, err
	}
	calls, change, err := f.Store.EditCalls(ctx, fence, edit)
	if change.Revision > 0 { // only answers that say something are worth losing
		if err := f.fail("after", "EditCalls"); err != nil {
			return nil, chat.Change{}, err
		}
	}
	return calls, change, err
}

func (f *faulty) CommitStep(ctx context.Context, fence chat.Fence, s chat.Step) (chat.Change, error) {
	if err := f.fail("before", "CommitStep"); err != nil {
		return chat.Change{}, err
	}
	change, err := f.Store.CommitStep(ctx, fence, s)
	if err := f.fail("after", "CommitStep"); err != nil {
		return chat.Change{}, err
	}
	return change, err
}

func (f *faulty) Park(ctx context.Context, fence chat.Fence) (bool, []chat.PlacedCall, chat.Change, error) {
	parked, calls, change, err := f.Store.Park(ctx, fence)
	if err := f.fail("after", "Park"); err != nil {
		return false, nil, chat.Change{}, err
	}
	return parked, calls, change, err
}

func (f *faulty) Heartbeat(ctx context.Context, owner string, turns chat.Epochs, lease time.Duration) (chat.Epochs, error) {
	f.mu.Lock()
	mute := f.mute
	f.mu.Unlock()
	if mute {
		return nil, chat.ErrUnavailable
	}
	return f.Store.Heartbeat(ctx, owner, turns, lease)
}

func (f *faulty) Question(ctx context.Context, topicID, messageID, questionID string) (chat.Question, error) {
	if err := f.fail("before", "Question"); err != nil {
		return chat.Question{}, err
	}
	return f.Store.Question(ctx, topicID, messageID, questionID)
}
