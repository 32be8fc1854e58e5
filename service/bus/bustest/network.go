// Package bustest has a bus between hubs of one process, for tests: it loses
// messages, repeats them, delays them and changes their order as it is told to.
package bustest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Faults says how bad a network is. The shares are of 100 messages.
type Faults struct {
	Drop, Repeat, Reorder int
	// Silent is how many of the losses nobody is told of.
	Silent int
	// Delay is how long a message takes at most.
	Delay time.Duration
}

// Network connects any number of members.
type Network struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	faults  Faults
	members []*Member
}

// New returns a network without members, whose faults follow from the seed.
func New(seed uint64, f Faults) *Network {
	return &Network{rnd: rand.New(rand.NewPCG(seed, 7)), faults: f}
}

// Become changes the faults from now on. Nobody is told.
func (n *Network) Become(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Join adds a member.
func (n *Network) Join() *Member {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &Member{network: n, wake: make(chan struct{}, 1)}
	n.members = append(n.members, m)
	return m
}

// Member is a bus, as one hub has it.
type Member struct {
	network *Network
	wake    chan struct{}
	// guarded by the network's lock:
	inbox  [][]byte
	missed bool
	sent   int
}

// Sent counts the messages that the member has sent.
func (m *Member) Sent() int {
	m.network.mu.Lock()
	defer m.network.mu.Unlock()
	return m.sent
}

func (m *Member) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Send hands a message to all members, this one too.
func (m *Member) Send(message []byte) {
	n := m.network
	n.mu.Lock()
	defer n.mu.Unlock()
	m.sent++
	chance := func(share int) bool { return share > 0 && n.rnd.IntN(100) < share }
	for _, to := range n.members {
		if chance(n.faults.Drop) {
			if !chance(n.faults.Silent) {
				to.missed = true
				to.poke()
			}
			continue
		}
		at := len(to.inbox)
		if chance(n.faults.Reorder) {
			at = n.rnd.IntN(at + 1)
		}
		to.inbox = slices.Insert(to.inbox, at, message)
		if chance(n.faults.Repeat) {
			to.inbox = append(to.inbox, message)
		}
		to.poke()
	}
}

// Receive delivers what arrives until ctx ends.
func (m *Member) Receive(ctx context.Context, deliver func([]byte), lost func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		for ctx.Err() == nil {
			message, missed := m.take()
			if missed {
				lost()
			}
			if message == nil {
				break
			}
			deliver(message)
		}
	}
}

// take waits as long as the network is slow, and takes the next message.
func (m *Member) take() (message []byte, missed bool) {
	n := m.network
	n.mu.Lock()
	var delay time.Duration
	if n.faults.Delay > 0 && len(m.inbox) > 0 {
		delay = time.Duration(n.rnd.Int64N(int64(n.faults.Delay)))
	}
	n.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	missed, m.missed = m.missed, false
	if len(m.inbox) > 0 {
		message, m.inbox = m.inbox[0], m.inbox[1:]
	}
	return message, missed
}
