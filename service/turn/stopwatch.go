package turn

import (
	"sync"
	"time"
)

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

// stop is a pause that nothing ends: a question that is still open when its
// call returns will resume once, and that must not start the time again.
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
