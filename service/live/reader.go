package live

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// Reader follows any number of topics, and all statuses. One goroutine at a
// time may call Take; the other methods may be called from any.
type Reader struct {
	hub     *Hub
	subs    []*sub
	watched string // last part of the reader's ids
	closed  bool
	ready   func()      // tells the caller to look
	detach  func() bool // from the end of the hub
	// Room that one batch after the other uses.
	heads [][]entry
	seqs  []uint64
}

// subState says how a subscription stands to its ring.
type subState int

const (
	waiting subState = iota // for a snapshot
	ready                   // the snapshot is there and goes out next
	live                    // follows the ring
	missing                 // there is no such topic
	over                    // its removal has been told
)

// sub is a reader's subscription to one ring.
type sub struct {
	reader *Reader
	topic  *topic
	index  int // in the topic's list
	state  subState
	pos    uint64    // what the reader has of the ring; while it has no place there, where it had one or began
	snap   *snapshot // of a ready one
	known  bool      // the client has been told of the topic
	// What the last snapshot held, or does not go on with.
	revision int64
	skip     map[*step]bool
}

// Subscribe starts a reader of the topics, and if statuses is set of all
// statuses. It goes on after lastID if that is where an earlier reader of this
// hub stood and nothing has been missed since, and begins with snapshots
// otherwise; lastID may be anything. The reader must be closed.
func (h *Hub) Subscribe(topics []string, statuses bool, lastID string) *Reader {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	r := &Reader{hub: h, watched: watched(topics, statuses), ready: func() {}}
	r.detach = context.AfterFunc(h.ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		r.poke()
	})

	h.mu.Lock()
	defer h.mu.Unlock()
	at, known := h.parse(lastID)
	if statuses {
		r.watch(h.statuses, at.seq, known && at.heldStatuses())
	}
	for _, id := range topics {
		r.watch(h.topic(id), at.seq, known && (at.watched == r.watched || at.held(id)))
	}
	return r
}

// watch subscribes to the ring of t, from seq on if the client held it there.
func (r *Reader) watch(t *topic, seq uint64, held bool) {
	r.hub.follow(t)
	s := &sub{reader: r, topic: t, index: len(t.subs), pos: r.hub.seq}
	if held && t.ring.low <= seq {
		s.state, s.pos, s.known = live, seq, true
	}
	t.subs = append(t.subs, s)
	r.subs = append(r.subs, s)
}

// Close ends the subscription: Take returns ErrClosed from now on.
func (r *Reader) Close() {
	r.detach()
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for _, s := range r.subs {
		list := s.topic.subs
		last := list[len(list)-1]
		list[s.index], last.index = last, s.index
		list[len(list)-1] = nil
		s.topic.subs = list[:len(list)-1]
		r.hub.touch(s.topic)
	}
	r.poke()
}

// OnReady has f called whenever Take may have something that it had not
// before, be it events or an error, and also when it had not. Whoever calls
// Take once after OnReady, and after each call of f that began after their
// last Take did, misses nothing. f is called by whoever makes the news, which
// may be Take itself, under the hub's lock: it must not wait, and must not call
// the reader or the hub.
func (r *Reader) OnReady(f func()) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	r.ready = f
}

// poke is called under the hub's lock.
func (r *Reader) poke() { r.ready() }

// Take returns all that is new, in order, or nothing: it does not wait. A
// batch that reaches the hub's bound on bytes ends there, and the function
// given to OnReady is called for the rest. The batch lies in room if there is
// enough, and what was in room is lost. The error is chat.ErrNotFound if the
// only topic that is watched does not exist, and ErrClosed once the reader or
// the hub is closed. A source that cannot be read is no error: there will be
// more when it can.
func (r *Reader) Take(room []chat.LiveEvent) ([]chat.LiveEvent, error) {
	events, err := r.gather(room)
	if err == nil && len(events) == 0 && r.hub.ctx.Err() != nil {
		err = ErrClosed
	}
	return events, err
}

// gather takes what there is, of all rings at the same instant.
func (r *Reader) gather(room []chat.LiveEvent) ([]chat.LiveEvent, error) {
	h := r.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	events := room[:0]
	r.seqs = r.seqs[:0]
	size := 0
	take := func(name string, data []byte, seq uint64) {
		events = append(events, chat.LiveEvent{Name: name, Data: data})
		r.seqs = append(r.seqs, seq)
		size += len(data)
	}

	cut := false    // more is there than one batch takes
	whole := true   // every subscription follows its ring
	var high uint64 // a place below it is none: a snapshot is newer
	for _, s := range r.subs {
		s.fall()
		switch s.state {
		case missing:
			if !s.known && len(r.subs) == 1 {
				return nil, chat.NotFound("There is no topic %s.", s.topic.id)
			}
			take("topic.removed", removed(s.topic.id, s.topic.floor), 0)
			s.state = over
		case ready:
			if size >= h.batchBytes {
				whole, cut = false, true
				break
			}
			take("snapshot", s.snap.data, 0)
			if s.topic == h.statuses {
				for _, e := range h.hintsWithin(s.pos, s.snap.from) {
					take(e.name, e.data, 0)
				}
			}
			s.state, s.pos, s.known = live, s.snap.from, true
			s.revision, s.skip = s.snap.revision, maps.Clone(s.snap.skip)
			s.snap = nil // its data is large and not needed again
		case waiting:
			whole = false
			h.load(s.topic)
		case live, over:
		}
		if s.state == live {
			high = max(high, s.pos)
		}
	}

	if r.merge(&size, take) {
		cut = true
	}
	for _, s := range r.subs {
		if s.skips(cut) { // who comes back is not known to skip anything
			whole = false
		}
	}
	if cut {
		r.poke()
	}
	if len(events) == 0 {
		return nil, nil
	}
	if whole {
		if !cut { // the reader has all there is, and need not stay where its last event was
			r.seqs[len(events)-1] = h.seq
		}
		r.number(events, high)
	}
	return events, nil
}

// fall makes a subscription that its ring has left behind wait for a snapshot.
func (s *sub) fall() {
	switch s.state {
	case live:
		if s.pos >= s.topic.ring.low {
			return
		}
	case ready:
		if s.snap.from >= s.topic.ring.low {
			return
		}
	case waiting, missing, over:
		return
	}
	s.state, s.snap = waiting, nil
}

// merge takes the events of all rings that the reader follows, in the order of
// their sequence numbers. It reports whether it stopped at the bound on bytes.
func (r *Reader) merge(size *int, take func(name string, data []byte, seq uint64)) (cut bool) {
	h := r.hub
	r.heads = r.heads[:0]
	for _, s := range r.subs {
		if s.state == live {
			r.heads = append(r.heads, s.topic.ring.after(s.pos))
		} else {
			r.heads = append(r.heads, nil)
		}
	}
	defer clear(r.heads) // holds no entries that the rings have dropped
	end := h.seq
	for {
		next := -1
		for i, head := range r.heads {
			if len(head) > 0 && (next < 0 || head[0].seq < r.heads[next][0].seq) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		e := r.heads[next][0]
		if *size >= h.batchBytes {
			cut, end = true, e.seq-1
			break
		}
		wanted := false
		for i, head := range r.heads { // one event may lie in two rings
			if len(head) > 0 && head[0].seq == e.seq {
				r.heads[i] = head[1:]
				wanted = wanted || r.subs[i].wants(e)
			}
		}
		if wanted {
			take(e.name, e.data, e.seq)
		}
	}
	for _, s := range r.subs {
		if s.state == live {
			s.pos = max(s.pos, end)
		}
	}
	return cut
}

// skips reports whether text is still kept from the reader. When all has been
// taken, that is so while one of the steps in question goes on.
func (s *sub) skips(cut bool) bool {
	if !cut {
		for st := range s.skip {
			if s.topic.turns[st.turn.id] != st.turn || st.turn.step != st {
				delete(s.skip, st)
			}
		}
	}
	return len(s.skip) > 0
}

// wants reports whether the event is not in the snapshot already.
func (s *sub) wants(e entry) bool {
	if e.step != nil {
		return !s.skip[e.step]
	}
	return e.revision == 0 || e.revision > s.revision
}

// number gives the events their ids: where the reader stands after each. An
// event below high has none, because a snapshot before it is newer.
func (r *Reader) number(events []chat.LiveEvent, high uint64) {
	var ids strings.Builder
	ids.Grow(len(events) * (len(r.hub.epoch) + len(r.watched) + 12))
	ends := make([]int, 0, 16)
	var number [20]byte
	for _, seq := range r.seqs {
		if seq >= high && seq > 0 {
			ids.WriteString(r.hub.epoch)
			ids.WriteByte('.')
			ids.Write(strconv.AppendUint(number[:0], seq, 10))
			ids.WriteByte('.')
			ids.WriteString(r.watched)
		}
		ends = append(ends, ids.Len())
	}
	all, from := ids.String(), 0
	for i, end := range ends {
		events[i].ID = all[from:end]
		from = end
	}
}
