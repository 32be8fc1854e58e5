package bus

import (
	"sync/atomic"
	"time"
)

// Stats says how a bus is doing, and what it has done since it was opened.
type Stats struct {
	Up       bool  // its last notification was sent, and a recent one of its own was heard
	Alone    bool  // no other instance is there
	Sent     int64 // messages that were handed to the database
	Batches  int64 // notifications that carried them, signs of life among them
	Received int64 // messages of other instances
	Unsent   int64 // messages that nobody was there to hear
	Dropped  int64 // messages that were given up: the queue was full, or the database away
	Foreign  int64 // notifications that were not made with this key
}

// counters are what Stats tells.
type counters struct{ sent, batches, received, unsent, dropped, foreign atomic.Int64 }

// Stats may be called at any time.
func (b *Postgres) Stats() Stats {
	b.mu.Lock()
	up := !b.failing && time.Since(b.heardSelf) < presence
	alone := b.aloneNow()
	b.mu.Unlock()
	return Stats{
		Up: up, Alone: alone, Sent: b.count.sent.Load(), Batches: b.count.batches.Load(), Received: b.count.received.Load(),
		Unsent: b.count.unsent.Load(), Dropped: b.count.dropped.Load(), Foreign: b.count.foreign.Load(),
	}
}
