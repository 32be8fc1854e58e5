package bus

import (
	"testing"
	"testing/synctest"
	"time"
)

// silent is a bus without a database, in the bubble of a test.
func silent(t *testing.T) *Postgres {
	return &Postgres{seal: testSealer(t, 1), name: "instance", wake: make(chan struct{}, 1), heardOther: time.Now()}
}

func (b *Postgres) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

func TestNothingIsSentWhileNobodyElseIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := silent(t)
		b.heardOneself()
		b.Send([]byte("at first others may be there"))
		time.Sleep(presence)
		b.heardOneself()
		b.Send([]byte("nobody hears this"))
		if n := b.queued(); n != 1 {
			t.Errorf("%d messages wait, want 1", n)
		}
		if s := b.Stats(); s.Unsent != 1 || !s.Alone {
			t.Errorf("got %+v", s)
		}
	})
}

func TestWhoComesIsToldThatSomethingWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := silent(t)
		time.Sleep(presence)
		b.heardOneself()
		b.heardAnother()
		if b.dropped {
			t.Error("nothing was left unsaid, and it says so")
		}
		time.Sleep(presence)
		b.heardOneself()
		b.Send([]byte("nobody hears this"))
		b.heardAnother()
		if !b.dropped || len(b.wake) != 1 {
			t.Error("the newcomer is not told that it has missed something")
		}
		b.Send([]byte("this"))
		if n := b.queued(); n != 1 {
			t.Errorf("%d messages wait, want 1", n)
		}
	})
}

func TestWhoHearsNotEvenItselfKeepsTalking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := silent(t)
		b.heardOneself()
		time.Sleep(2 * presence)
		b.Send([]byte("others may hear this"))
		b.heardOneself()
		b.unsure() // a loss: who was there may have been missed
		b.Send([]byte("and this"))
		time.Sleep(presence / 2)
		b.heardOneself()
		b.Send([]byte("and this, too"))
		if n := b.queued(); n != 3 || b.Stats().Alone {
			t.Errorf("%d messages wait, want 3", n)
		}
	})
}
