package bus

import "time"

// presence is how long an instance counts as there after it was last heard: it
// says something every three seconds.
const presence = 3*beatEvery + beatEvery/2

// aloneNow reports that nobody else is there: for a while this instance has
// heard itself, so that its ears are good, and nobody else. It is called with
// the lock held.
func (b *Postgres) aloneNow() bool {
	now := time.Now()
	return now.Sub(b.heardSelf) < presence && now.Sub(b.heardOther) >= presence
}

// heardOneself notes that the connection that listens does.
func (b *Postgres) heardOneself() {
	b.mu.Lock()
	b.heardSelf = time.Now()
	b.mu.Unlock()
}

// heardAnother notes that another instance is there. One that is new has missed
// what was not sent for want of anybody: it is told so at once, and looks.
func (b *Postgres) heardAnother() {
	b.mu.Lock()
	b.heardOther = time.Now()
	missed := b.unsaid
	b.unsaid = false
	b.dropped = b.dropped || missed
	b.mu.Unlock()
	if missed {
		b.wakeUp()
	}
}

// unsure forgets who was there or not: notifications may have been missed.
func (b *Postgres) unsure() {
	b.mu.Lock()
	b.heardSelf, b.heardOther = time.Time{}, time.Now()
	b.mu.Unlock()
}

func (b *Postgres) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
