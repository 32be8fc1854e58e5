package live

import "sync/atomic"

// Stats says what a hub holds, and what it has done since it was made.
type Stats struct {
	Readers   int   // subscriptions that are open now, one for each topic and reader
	TooLarge  int64 // signals that did not fit: others read the state instead
	Losses    int64 // times that the bus said that something may have been missed
	Healed    int64 // topics of which something had been missed without a word
	Snapshots int64 // states that were read for readers that began, or began anew
}

// counters are what Stats tells, but for what there is now.
type counters struct{ tooLarge, losses, healed, snapshots atomic.Int64 }

// Stats may be called at any time.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	readers := len(h.statuses.subs)
	for _, t := range h.topics {
		readers += len(t.subs)
	}
	h.mu.Unlock()
	return Stats{
		Readers: readers, TooLarge: h.count.tooLarge.Load(),
		Losses: h.count.losses.Load(), Healed: h.count.healed.Load(), Snapshots: h.count.snapshots.Load(),
	}
}
