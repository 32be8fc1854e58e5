package live_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// world is a small database of topics: the truth that clients must reach. Its
// reads and announcements take (fake) time, so that everything can happen in
// between.
type world struct {
	mu       sync.Mutex
	topics   map[string]*place
	order    []string
	settings map[chat.SettingsKind]int // their versions

	rnd    *rand.Rand // guarded by mu
	slow   time.Duration
	broken int // of 100 reads, how many fail
}

// place is one topic of the world.
type place struct {
	snap    chat.Snapshot
	removed bool
	// The step that is being written: not committed, but shown.
	open  bool
	draft *chat.Draft
	// serial, if set, holds one token: who announces has to hold it from its
	// commit on, so that announcements are in order.
	serial chan struct{}
}

func newWorld(seed uint64, topics int, slow time.Duration, broken int, inOrder bool) *world {
	w := &world{topics: map[string]*place{}, settings: map[chat.SettingsKind]int{}, rnd: rand.New(rand.NewPCG(seed, 1)), slow: slow, broken: broken}
	for i := range topics {
		id := fmt.Sprintf("t%d", i)
		p := &place{snap: chat.Snapshot{Revision: 1, Topic: chat.Topic{ID: id, Title: "new", Revision: 1}}}
		if inOrder {
			p.serial = make(chan struct{}, 1)
		}
		w.topics[id] = p
		w.order = append(w.order, id)
	}
	return w
}

func (w *world) n(max int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(max)
}

// pause lets some time go by.
func (w *world) pause() {
	if w.slow > 0 {
		time.Sleep(time.Duration(w.n(int(w.slow))))
	}
}

// commit changes the topic and announces what fn says was changed, after a
// while. It returns when that is announced.
func (w *world) commit(h *live.Hub, id string, fn func(p *place, c *chat.Change)) int64 {
	w.mu.Lock()
	p := w.topics[id]
	w.mu.Unlock()
	if p.serial != nil {
		p.serial <- struct{}{}
		defer func() { <-p.serial }()
	}
	w.mu.Lock()
	if p.removed {
		w.mu.Unlock()
		return 0
	}
	c := chat.Change{TopicID: id, Revision: p.snap.Revision + 1}
	p.snap.Revision = c.Revision
	fn(p, &c)
	p.snap.Topic.Revision = c.Revision
	p.snap.Topic.Status = p.status()
	for i := range c.Messages {
		c.Messages[i].Parts = slices.Clone(c.Messages[i].Parts)
	}
	if c.Topic != nil {
		topic := p.snap.Topic
		c.Topic = &topic
	}
	w.mu.Unlock()
	w.pause()
	h.Publish(context.Background(), c)
	return c.Revision
}

// set changes settings, and tells that they changed after a while.
func (w *world) set(h *live.Hub, what chat.SettingsKind) {
	w.mu.Lock()
	w.settings[what]++
	w.mu.Unlock()
	w.pause()
	h.Settings(what)
}

// readSettings returns the version of the settings of the kind.
func (w *world) readSettings(what chat.SettingsKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings[what]
}

func (p *place) status() chat.Status {
	st := chat.StatusOf(p.snap.Topic.ID, p.snap.Revision, nil, len(p.snap.Queued), nil)
	if n := len(p.snap.Messages); n > 0 {
		switch p.snap.Messages[n-1].Status {
		case chat.MessagePending:
			st.Status = chat.TopicStreaming
		case chat.MessageSuccess:
			st.Status = chat.TopicDone
		case chat.MessageError, chat.MessageAborted, chat.MessageQueued:
			st.Status = chat.TopicError
		}
	}
	return st
}

// anchor is the message that is being filled, the last one.
func (p *place) anchor() *chat.Message {
	if n := len(p.snap.Messages); n > 0 && p.snap.Messages[n-1].Role == chat.RoleAssistant {
		return &p.snap.Messages[n-1]
	}
	return nil
}

func (w *world) read(id string) (chat.Snapshot, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.topics[id]
	if p == nil || p.removed {
		return chat.Snapshot{}, false
	}
	s := p.snap
	s.Status = p.status()
	s.Topic.Status = s.Status
	s.Messages = slices.Clone(s.Messages)
	for i := range s.Messages {
		s.Messages[i].Parts = slices.Clone(s.Messages[i].Parts)
	}
	s.Queued = slices.Clone(s.Queued)
	return s, true
}

func (w *world) fails() error {
	if w.broken > 0 && w.n(100) < w.broken {
		return fmt.Errorf("read: %w", chat.ErrUnavailable)
	}
	return nil
}

// Snapshot, Status and Topics are the hub's source.

func (w *world) Snapshot(_ context.Context, id string, _ int, _ string) (chat.Snapshot, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return chat.Snapshot{}, err
	}
	s, ok := w.read(id)
	w.pause()
	if !ok {
		return s, chat.NotFound("There is no topic %s.", id)
	}
	return s, nil
}

func (w *world) Status(_ context.Context, id string) (chat.Status, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return chat.Status{}, err
	}
	s, ok := w.read(id)
	w.pause()
	if !ok {
		return s.Status, chat.NotFound("There is no topic %s.", id)
	}
	return s.Status, nil
}

func (w *world) Topics(context.Context, chat.Page) ([]chat.Topic, string, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return nil, "", err
	}
	var topics []chat.Topic
	w.mu.Lock()
	for _, id := range w.order {
		if p := w.topics[id]; !p.removed {
			t := p.snap.Topic
			t.Status = p.status()
			topics = append(topics, t)
		}
	}
	w.mu.Unlock()
	w.pause()
	return topics, "", nil
}

// Topic, Revisions and SettingsMarks are what hubs of other processes look at.

func (w *world) Topic(_ context.Context, id string) (chat.Topic, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return chat.Topic{}, err
	}
	s, ok := w.read(id)
	w.pause()
	if !ok {
		return s.Topic, chat.Gone("There is no topic %s any more.", id)
	}
	return s.Topic, nil
}

func (w *world) Revisions(context.Context, []string, int) ([]chat.TopicRevision, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return nil, err
	}
	var rows []chat.TopicRevision
	w.mu.Lock()
	for _, id := range w.order {
		p := w.topics[id]
		rows = append(rows, chat.TopicRevision{TopicID: id, Revision: p.snap.Revision, Removed: p.removed})
	}
	w.mu.Unlock()
	w.pause()
	return rows, nil
}

func (w *world) SettingsMarks(context.Context) (map[chat.SettingsKind]string, error) {
	w.pause()
	if err := w.fails(); err != nil {
		return nil, err
	}
	marks := map[chat.SettingsKind]string{}
	for _, what := range kinds {
		marks[what] = fmt.Sprint(w.readSettings(what))
	}
	return marks, nil
}

// shown is the topic as every client must show it in the end: what is
// committed, and the text of the open step.
func (w *world) shown(id string) (chat.Snapshot, bool) {
	s, ok := w.read(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.topics[id]; ok && p.open {
		a := &s.Messages[len(s.Messages)-1]
		a.Parts = append(append(a.Parts, chat.StepStart{}), p.draft.Parts()...)
	}
	return s, ok
}
