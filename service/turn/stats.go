package turn

import "sync/atomic"

// Stats says what an engine runs, and what it has done since it was made.
type Stats struct {
	Running   int   // turns that run here now
	Claimed   int64 // turns that were claimed here, those that went on after a wait among them
	TakenOver int64 // of these, those that another owner had left running
	Lost      int64 // turns that a heartbeat found stopped or taken over elsewhere
	Unbeaten  int64 // heartbeats that could not be written
}

// counters are what Stats tells, but for what runs now.
type counters struct{ claimed, takenOver, lost, unbeaten atomic.Int64 }

// Stats may be called at any time.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	running := len(e.runs)
	e.mu.Unlock()
	return Stats{
		Running: running, Claimed: e.count.claimed.Load(), TakenOver: e.count.takenOver.Load(),
		Lost: e.count.lost.Load(), Unbeaten: e.count.unbeaten.Load(),
	}
}
