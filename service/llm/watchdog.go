package llm

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// watchdog ends a model call that has gone silent. It waits once for the first
// byte, then anew after each.
type watchdog struct {
	ctx    context.Context // of the request: ends when the caller's does, or on silence
	cancel context.CancelFunc
	timer  *time.Timer
	header time.Duration
	idle   time.Duration
	// patience is how long a silence may be at present.
	patience time.Duration
	heard    atomic.Bool
	silent   atomic.Bool
}

func watch(ctx context.Context, header, idle time.Duration) *watchdog {
	w := &watchdog{header: header, idle: idle, patience: idle}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.timer = time.AfterFunc(header, func() {
		w.silent.Store(true)
		w.cancel()
	})
	return w
}

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel()
}

// hear says that the provider is alive.
func (w *watchdog) hear() {
	w.heard.Store(true)
	w.timer.Reset(w.patience)
}

// allow sets how long a silence may be from now on, and begins anew.
func (w *watchdog) allow(d time.Duration) {
	w.patience = d
	w.timer.Reset(d)
}

// fired tells of the silence that ended the call, or gives nil.
func (w *watchdog) fired() *chat.ModelError {
	switch {
	case !w.silent.Load():
		return nil
	case w.heard.Load():
		return &chat.ModelError{
			Kind: chat.ModelIncomplete, Cause: context.DeadlineExceeded,
			Message: "The provider went silent for " + w.idle.String() + " in the middle of its reply.",
		}
	default:
		return &chat.ModelError{
			Kind: chat.ModelNetwork, Cause: context.DeadlineExceeded,
			Message: "The provider did not begin to answer within " + w.header.String() + ".",
		}
	}
}

// reader tells the watchdog of every byte and remembers the error that ended
// the stream: the decoder does not tell all of them apart from a clean end.
type reader struct {
	r   io.Reader
	w   *watchdog
	err error
}

// Read fills p up to the end of a line, if it can: the decoder looks at all it
// has of an event whenever there is more, which would take very long if a large
// event came in the small pieces in which the network brings it.
func (r *reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		more, err := r.r.Read(p[n:])
		got := p[n : n+more]
		n += more
		if more > 0 {
			r.w.hear()
		}
		if err != nil {
			r.err = err
			return n, err
		}
		if more == 0 || bytes.IndexByte(got, '\n') >= 0 || bytes.IndexByte(got, '\r') >= 0 {
			break
		}
	}
	return n, nil
}
