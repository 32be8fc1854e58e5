package turn_test

import (
	"context"
	"sync"

	"github.com/assent-chat/assent/service/chat"
)

// recorder is a live log that counts.
type recorder struct {
	mu       sync.Mutex
	changes  []chat.Change
	deltas   int
	progress []string
	open     int
}

func (r *recorder) Begin(chat.Fence, int64, int) { r.mu.Lock(); r.open++; r.mu.Unlock() }
func (r *recorder) End(chat.Fence)               {}
func (r *recorder) Settings(chat.SettingsKind)   {}
func (r *recorder) Hint(chat.SettingsKind)       {}
func (r *recorder) Delta(chat.Fence, chat.Delta) { r.mu.Lock(); r.deltas++; r.mu.Unlock() }
func (r *recorder) Progress(_ chat.Fence, _ int, text string) {
	r.mu.Lock()
	r.progress = append(r.progress, text)
	r.mu.Unlock()
}
func (r *recorder) Publish(_ context.Context, c chat.Change) {
	r.mu.Lock()
	r.changes = append(r.changes, c)
	r.mu.Unlock()
}

func (r *recorder) resets() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.changes {
		if c.Reset {
			n++
		}
	}
	return n
}
