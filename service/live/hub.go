// Package live tells watching clients what happens in topics while it happens:
// committed changes, and the text that a model is writing now. Readers pull
// at their own pace; none of them can delay a turn, a decision or another
// reader.
//
// # Rings and places
//
// Every topic has a ring, a bounded log of encoded events, and there is one
// more for the statuses of all topics. A sequence number is hub-wide, so one
// number says where a reader stands on all its rings. A ring has a low-water
// mark: a reader below it has missed something and begins again, on that ring,
// with a snapshot.
//
// # Why nothing falls between a snapshot and the ring
//
// The hub's sequence number S is taken, and the live text copied, under the
// lock; only then is the snapshot read; what the reader gets is the snapshot,
// the copied text and every entry above S. A change is published after its
// commit. So a change whose entry is at or below S was committed before the
// read began and is in the snapshot, and a change whose entry is above S is
// delivered as an event. If it is in the snapshot as well, its revision is
// not above the snapshot's and it is left out. A reader that arrives while a
// read is under way may share it: it starts from the S of that read, and the
// ring still holds what came after (if it does not, the read is repeated).
//
// Live text has no revision, it is placed by epoch and position. The text of a
// step that the snapshot holds as committed, or whose turn has passed to
// another owner, is not added, and later deltas of that step are kept from the
// reader. Otherwise the copied text continues exactly where the entries above
// S go on, because what was waiting to be sent is flushed before S is taken.
//
// # Why changes may arrive out of order
//
// Two transactions of one topic are ordered by their revisions, but nothing
// orders the goroutines that announce them. A change below the newest one that
// was announced cannot be told in pieces any more: a message of an older
// revision could hide a newer part. It makes the topic's ring forget
// everything, so that every reader gets a snapshot, which is at least as new
// as both. This is rare, and always right.
//
// # Settings
//
// That settings changed is told in the ring of statuses, by a hint that says
// what to read again. No snapshot holds settings, so after a snapshot of all
// statuses a reader gets the hints that it has missed since it began, or since
// the ring left it behind.
//
// # Several instances
//
// Hubs of several processes tell each other, over a [Bus], what they announce
// and what their steps write. A bus may lose, repeat and reorder what it carries,
// so nothing of the above rests on it:
//
//   - A change is told in pieces only if it continues what all readers of the
//     topic have: its revision is the next one after [topic.known], which a
//     snapshot set and each change raises. One below is covered. One beyond a
//     gap, also a change of this instance, is told by a snapshot.
//   - A snapshot never moves what others are known to have: what it is ahead of
//     may still be on its way to them.
//   - What was lost without a trace is found by looking at the revisions in the
//     database. A topic is behind if it has not come as far as the look before
//     showed; what is only on its way has come that far by then.
//   - Text of a step is placed, as here, by epoch and position, and a step by the
//     number that its owner gave it. A piece that does not continue what is known
//     is left out, and the owner is asked to repeat the step. Owners also say from
//     time to time what they have written, so that an end that was lost is
//     noticed.
//   - A step is told with the newest revision that its owner had heard of. If
//     this hub has heard of a later one, the step may be over: then a snapshot
//     says whether it is. For the same reason a commit names the step that it
//     commits; if readers were shown another one in its place, they begin anew.
//
// A hub keeps up with the topics that somebody watches here, and those that
// somebody left within the last minute. Of others it forgets everything, and
// whoever comes begins with a snapshot.
package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// ErrClosed is returned by readers of a closed hub.
var ErrClosed = errors.New("the hub is closed")

// Source reads what is committed. A topic that does not exist is
// chat.ErrNotFound, one that was deleted chat.ErrGone; every other error is
// retried.
type Source interface {
	Snapshot(ctx context.Context, topicID string, limit int, before string) (chat.Snapshot, error)
	Status(ctx context.Context, topicID string) (chat.Status, error)
	Topics(ctx context.Context, p chat.Page) (topics []chat.Topic, next string, err error)
}

// Options sets the bounds of a hub. Zero values mean the defaults.
type Options struct {
	RingCount  int           // entries of a ring; 4096
	RingBytes  int           // bytes of a ring; 4 MiB
	BatchBytes int           // a reader's batch ends with the event that reaches this; 256 KiB
	FlushEvery time.Duration // how long text is gathered before it is sent; 40 ms
	Loads      int           // snapshots read at the same time; 4
	Messages   int           // newest messages of a snapshot; 50
	Logger     *slog.Logger  // nothing is logged without one
}

const (
	maxTopics     = 500              // of the snapshot of all statuses
	keepIdle      = time.Minute      // how long a ring without readers is kept
	readTimeout   = 10 * time.Second // of a snapshot
	statusTimeout = 2 * time.Second  // of a status: an announcement waits for it
	minBackOff    = 100 * time.Millisecond
	maxBackOff    = 5 * time.Second
)

// Hub holds the rings and the text of running steps. Its methods may be called
// at the same time from any number of goroutines.
type Hub struct {
	src        Source
	log        *slog.Logger
	ringCount  int
	ringBytes  int
	batchBytes int
	flushEvery time.Duration
	messages   int

	ctx    context.Context // of the hub's own goroutines, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	loads  chan struct{} // a slot for each snapshot that is being read
	retry  chan struct{} // wakes the goroutine that reads statuses again
	count  counters

	mu       sync.Mutex // nothing under it waits or does I/O
	epoch    string     // tells the ids of this hub from those of one before it
	seq      uint64
	statuses *topic
	topics   map[string]*topic
	dirty    map[string]int64 // topics whose status could not be read, and from which revision on it is wanted
	hints    map[chat.SettingsKind]*hint
	peers    *peers // nil while the hub is alone
}

// topic is what the hub knows of a topic, or of all statuses.
type topic struct {
	id        string // "*" for all statuses
	ring      ring
	subs      []*sub
	published int64 // newest revision that was announced
	floor     int64 // a snapshot below this revision is too old
	statusRev int64 // newest revision of a status in the ring
	topicRev  int64 // the same of what concerns those who watch all topics as well
	removed   bool
	turns     map[string]*turn
	loading   bool // a goroutine reads snapshots for those that wait
	touched   time.Time

	// With other instances, what the ring holds is told by all of them.
	followed    bool      // somebody watches, or did a moment ago
	known       int64     // every reader has or gets all changes up to here; 0 if that is not known yet
	statusKnown int64     // and the status of this revision, or of statusRev
	early       []int64   // changes that were told since, while it is not known
	wanted      time.Time // when the text of its steps was asked for
}

// New returns a running hub; Close ends it.
func New(src Source, o Options) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{
		src:        src,
		log:        o.Logger,
		ringCount:  cmp.Or(o.RingCount, 4096),
		ringBytes:  cmp.Or(o.RingBytes, 4<<20),
		batchBytes: cmp.Or(o.BatchBytes, 256<<10),
		flushEvery: cmp.Or(o.FlushEvery, 40*time.Millisecond),
		messages:   cmp.Or(o.Messages, 50),
		ctx:        ctx,
		cancel:     cancel,
		loads:      make(chan struct{}, cmp.Or(o.Loads, 4)),
		retry:      make(chan struct{}, 1),
		epoch:      strings.ToLower(rand.Text()[:8]),
		seq:        1, // 0 is no place
		topics:     map[string]*topic{},
		dirty:      map[string]int64{},
		hints:      map[chat.SettingsKind]*hint{},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.statuses = h.newTopic("*")
	h.wg.Go(h.run)
	return h
}

// Close ends the hub's goroutines and waits for them. Readers that wait, or
// come later, get ErrClosed.
func (h *Hub) Close() {
	h.mu.Lock() // so that no goroutine is started while they are waited for
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *Hub) newTopic(id string) *topic {
	return &topic{
		id:      id,
		ring:    ring{low: h.seq, maxCount: h.ringCount, maxBytes: h.ringBytes},
		turns:   map[string]*turn{},
		touched: time.Now(),
	}
}

// topic returns the topic, made anew if nobody has asked for it for a while.
func (h *Hub) topic(id string) *topic {
	t := h.topics[id]
	if t == nil {
		t = h.newTopic(id)
		h.topics[id] = t
	}
	t.touched = time.Now()
	return t
}

// touch marks the topic as used now.
func (h *Hub) touch(t *topic) { t.touched = time.Now() }

// append gives e the next sequence number and puts it into the rings.
func (h *Hub) append(e entry, rings ...*topic) {
	h.seq++
	e.seq = h.seq
	for _, t := range rings {
		t.ring.append(e)
		t.wake()
	}
}

// forget makes every reader of the topic begin with a snapshot.
func (h *Hub) forget(t *topic) {
	h.seq++ // above every reader's place
	t.ring.forget(h.seq)
	t.known, t.early = 0, nil
	if h.peers != nil && t == h.statuses {
		h.peers.based, h.peers.told = false, map[string]told{}
	}
	t.wake()
}

func (t *topic) wake() {
	for _, s := range t.subs {
		s.reader.poke()
	}
}

// run reads statuses again that could not be read, and drops idle topics.
func (h *Hub) run() {
	sweep := time.NewTicker(keepIdle / 2)
	defer sweep.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop()
	backOff := minBackOff
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-sweep.C:
			h.sweep(time.Now())
		case <-h.retry:
			again.Reset(backOff)
		case <-again.C:
			if h.readDirty() {
				backOff = minBackOff
			} else {
				backOff = min(2*backOff, maxBackOff)
				again.Reset(backOff)
			}
		}
	}
}

// sweep drops topics that nobody watches and in which nothing runs. Whoever
// comes back to one gets a snapshot, because its new ring starts at the
// present sequence number.
func (h *Hub) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, t := range h.topics {
		if len(t.subs) == 0 && !t.loading && !t.running() && now.Sub(t.touched) >= keepIdle {
			delete(h.topics, id)
		}
	}
}

func (t *topic) running() bool {
	for _, tn := range t.turns {
		if !tn.remote && (tn.step != nil || len(tn.progress) > 0) {
			return true
		}
	}
	return false
}
