package mcp

import (
	"context"
	"fmt"
	"sync"
)

// callTrace follows one call through the messages that carry it. A nil trace,
// of a message that belongs to none, takes everything.
type callTrace struct {
	cancel context.CancelCauseFunc // ends the call

	mu       sync.Mutex
	reached  int    // messages that may have reached the server
	answered bool   // by the server itself, to the last of them
	why      string // there is no answer, if the way to the server said so
	forget   func()
}

type traceKey struct{}

func traceOf(ctx context.Context) *callTrace {
	t, _ := ctx.Value(traceKey{}).(*callTrace)
	return t
}

// sent says that a message of the call is about to be written. What forget
// does is done when the call is over.
func (t *callTrace) sent(forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered, t.why, t.forget = false, "", forget
}

// arrived says that the message may have reached the server.
func (t *callTrace) arrived() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached++
}

// turnedAway takes back an arrival: the server had nothing to do with it.
func (t *callTrace) turnedAway() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached--
}

// answer says that an answer to the message has come.
func (t *callTrace) answer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = true
}

// noAnswer says why there is none.
func (t *callTrace) noAnswer(why string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = why
}

// broken ends the call whose answer was cut off: the server is most likely
// gone, and the SDK would wait for seconds to find out.
func (t *callTrace) broken(err error) {
	if t != nil {
		t.cancel(fmt.Errorf("the connection broke: %w", err))
	}
}

// over ends the trace.
func (t *callTrace) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forget != nil {
		t.forget()
	}
}

// end tells what became of the call: whether nothing of it reached the server,
// whether the server itself answered, and, if it did not, why, as far as that
// is known.
func (t *callTrace) end() (neverBegan, answered bool, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reached == 0, t.answered, t.why
}
