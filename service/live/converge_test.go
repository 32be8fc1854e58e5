package live_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/bus/bustest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/live/livetest"
)

// writer runs turns in one topic, as the engine does.
type writer struct {
	w     *world
	hubs  []*live.Hub
	h     *live.Hub // where the turn runs now
	topic string
	turns int
	epoch int64
}

func (x *writer) fence(message string) chat.Fence {
	return chat.Fence{TopicID: x.topic, TurnID: "turn-" + message, MessageID: message, Epoch: x.epoch}
}

// move has the next claim made by any of the hubs.
func (x *writer) move() { x.h = any1(x.w, x.hubs) }

func any1(w *world, hubs []*live.Hub) *live.Hub { return hubs[w.n(len(hubs))] }

// ask adds a question and the message that will answer it, and claims it.
func (x *writer) ask() (string, int64) {
	x.move()
	x.turns++
	id := fmt.Sprintf("%s-m%d", x.topic, x.turns)
	x.w.commit(x.h, x.topic, func(p *place, c *chat.Change) {
		parent := ""
		if n := len(p.snap.Messages); n > 0 {
			parent = p.snap.Messages[n-1].ID
		}
		q := chat.Message{ID: id + "q", TopicID: x.topic, ParentID: parent, Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "?"}}, Status: chat.MessageSuccess, Revision: c.Revision}
		a := chat.Message{ID: id, TopicID: x.topic, ParentID: q.ID, Role: chat.RoleAssistant, Status: chat.MessagePending, Revision: c.Revision}
		p.snap.Messages = append(p.snap.Messages, q, a)
		c.Messages = []chat.Message{q, a}
	})
	return id, x.claim()
}

// claim raises the epoch of the last message and announces the message anew.
func (x *writer) claim() int64 {
	return x.w.commit(x.h, x.topic, func(p *place, c *chat.Change) {
		x.epoch++
		p.open = false
		a := p.anchor()
		a.Epoch, a.Revision = x.epoch, c.Revision
		c.Messages = []chat.Message{*a}
	})
}

// step writes one step and ends it in one of the ways that a step can end. It
// reports whether the turn goes on.
func (x *writer) step(message string, revision int64) (int64, bool) {
	f := x.fence(message)
	base := x.begin(f, revision)
	draft := x.text(f, base)
	switch x.w.n(10) {
	case 0: // the reply was cut: asked again in the same place
		x.h.End(f)
		x.begin(f, revision)
		draft = x.text(f, base)
	case 1: // another process takes over; this one does not know yet
		old := x.h
		x.move()
		revision = x.claim()
		old.Delta(f, chat.Delta{Part: base + 1, Field: "text", Offset: 0, Text: "ghost", Start: chat.Text{State: "streaming"}})
		old.Begin(f, revision, base)
		old.End(f)
		return revision, true
	case 2: // fails; its text is kept
		x.w.commit(x.h, x.topic, func(p *place, c *chat.Change) {
			p.open = false
			a := p.anchor()
			a.Parts, a.Status, a.Revision = append(a.Parts, draft.Text()...), chat.MessageError, c.Revision
			c.Messages = []chat.Message{*a}
		})
		x.h.End(f)
		return 0, false
	}
	done := x.w.n(3) == 0
	endFirst := x.w.n(2) == 0
	revision = x.w.commit(x.h, x.topic, func(p *place, c *chat.Change) {
		p.open = false
		a := p.anchor()
		parts := append(chat.Parts{chat.StepStart{}}, draft.Complete(nil)...)
		for i, part := range parts {
			c.Parts = append(c.Parts, chat.PartChange{MessageID: message, Epoch: x.epoch, Position: base + i, Part: part})
		}
		a.Parts, a.Revision = append(a.Parts, parts...), c.Revision
		if done {
			a.Status = chat.MessageSuccess
		}
		meta := *a
		meta.Parts = nil
		c.Metadata = []chat.Message{meta}
		if endFirst {
			x.h.End(f)
		}
	})
	x.h.End(f)
	for range x.w.n(3) {
		x.h.Progress(f, base, fmt.Sprint(x.w.n(100)))
		x.w.pause()
	}
	return revision, !done
}

func (x *writer) begin(f chat.Fence, revision int64) int {
	x.w.mu.Lock()
	p := x.w.topics[x.topic]
	base := len(p.anchor().Parts)
	p.open, p.draft = true, &chat.Draft{}
	x.w.mu.Unlock()
	x.h.Begin(f, revision, base)
	return base
}

func (x *writer) text(f chat.Fence, base int) *chat.Draft {
	pieces := []string{"a", "é", "😀", "word ", "", "{", "\n"}
	kinds := []chat.StreamKind{chat.StreamText, chat.StreamText, chat.StreamReasoning, chat.StreamToolStart, chat.StreamToolInput, chat.StreamToolInput}
	x.w.mu.Lock()
	draft := x.w.topics[x.topic].draft
	x.w.mu.Unlock()
	for i := range x.w.n(12) {
		ev := chat.StreamEvent{Kind: kinds[x.w.n(len(kinds))], Index: x.w.n(2), ID: fmt.Sprint("c", i), Name: "tool", Text: pieces[x.w.n(len(pieces))]}
		x.w.mu.Lock()
		d, ok := draft.Apply(ev)
		x.w.mu.Unlock()
		if ok {
			d.Part += base + 1
			x.h.Delta(f, d)
		}
		x.w.pause()
	}
	return draft
}

func (x *writer) run(steps int, finish bool) {
	for steps > 0 {
		message, revision := x.ask()
		for goOn := true; goOn && steps > 0; steps-- {
			revision, goOn = x.step(message, revision)
		}
		if steps == 0 && !finish { // one more, left open
			x.w.commit(x.h, x.topic, func(p *place, c *chat.Change) {
				a := p.anchor()
				a.Status, a.Revision = chat.MessagePending, c.Revision
				meta := *a
				meta.Parts = nil
				c.Metadata = []chat.Message{meta}
			})
			revision = x.claim()
			f := x.fence(message)
			x.text(f, x.begin(f, revision))
		}
	}
}

// person does what people do while a turn runs, announced from goroutines of
// their own.
func person(w *world, hubs []*live.Hub, topic string, acts int, wg *sync.WaitGroup) {
	for i := range acts {
		w.pause()
		act, h := w.n(5), any1(w, hubs)
		wg.Go(func() {
			w.commit(h, topic, func(p *place, c *chat.Change) {
				switch act {
				case 0:
					p.snap.Topic.Title = fmt.Sprint("title ", i)
					c.Topic = &p.snap.Topic
				case 1: // a decision on a committed part
					for m := range p.snap.Messages {
						msg := &p.snap.Messages[m]
						for j, part := range msg.Parts {
							if call, ok := part.(chat.ToolCall); ok && call.State != chat.CallOutputDenied {
								call.State = chat.CallOutputDenied
								parts := append(chat.Parts{}, msg.Parts...)
								parts[j] = call
								msg.Parts, msg.Revision = parts, c.Revision
								c.Parts = append(c.Parts, chat.PartChange{MessageID: msg.ID, Epoch: msg.Epoch, Position: j, Part: call})
								meta := *msg
								meta.Parts = nil
								c.Metadata = append(c.Metadata, meta)
								return
							}
						}
					}
				case 2:
					q := chat.Message{ID: fmt.Sprintf("%s-q%d", topic, i), TopicID: topic, Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "later"}}, Status: chat.MessageQueued, Revision: c.Revision}
					p.snap.Queued = append(p.snap.Queued, q)
					c.Messages = []chat.Message{q}
				case 3:
					if len(p.snap.Queued) > 0 {
						c.Removed = []string{p.snap.Queued[0].ID}
						p.snap.Queued = append([]chat.Message{}, p.snap.Queued[1:]...)
					}
				case 4: // another branch: all but the end is different
					if n := len(p.snap.Messages); n > 4 {
						p.snap.Messages = append([]chat.Message{}, p.snap.Messages[2:]...)
					}
					c.Reset = true
				}
			})
		})
	}
}

// owner changes settings, now and then or many times in a row.
func owner(w *world, hubs []*live.Hub, acts int) {
	for range acts {
		what, h := kinds[w.n(len(kinds))], any1(w, hubs)
		for range 1 + w.n(3)*w.n(10) {
			w.set(h, what)
		}
		w.pause()
	}
}

var kinds = []chat.SettingsKind{chat.SettingsServers, chat.SettingsRules, chat.SettingsAssistants}

// tab is a client that reads, sleeps, leaves and comes back.
type tab struct {
	w        *world
	h        *live.Hub
	topics   []string
	statuses bool
	client   livetest.Client
	settings map[chat.SettingsKind]int // as last read
	heard    map[chat.SettingsKind]int // hints, up to the last reading
	reopened []string                  // why it asked again
	problem  string
}

func (b *tab) run(ctx context.Context) {
	r := b.h.Subscribe(b.topics, b.statuses, "")
	b.readSettings(true)
	defer func() { r.Close() }()
	for {
		events, err := r.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			b.problem = err.Error()
			return
		}
		take := len(events)
		hangUp := b.w.n(20) == 0
		if hangUp { // in the middle of a batch
			take = b.w.n(take + 1)
		}
		for _, ev := range events[:take] {
			if err := b.client.Apply(ev); err != nil {
				b.problem = err.Error()
				return
			}
			b.readSettings(false)
		}
		switch {
		case b.client.Reopen != "":
			b.reopened = append(b.reopened, b.client.Reopen)
			b.client.Reopen = ""
			b.client.LastID = ""
			fallthrough
		case hangUp:
			if b.w.n(5) == 0 {
				b.client.LastID = []string{"", "rubbish", "-1", "0.0.0", b.client.LastID + "x"}[b.w.n(5)]
			}
			r.Close()
			b.w.pause()
			r = b.h.Subscribe(b.topics, b.statuses, b.client.LastID)
			b.readSettings(true)
		}
		b.w.pause()
	}
}

// readSettings reads all settings, or those that were said to have changed.
func (b *tab) readSettings(all bool) {
	for _, what := range kinds {
		if n := b.client.Settings[what]; all || n > b.heard[what] {
			b.settings[what], b.heard[what] = b.w.readSettings(what), n
		}
	}
}

// check compares the client with the truth, shown by a client that has only
// just come.
func (b *tab) check() string {
	if b.problem != "" {
		return b.problem
	}
	for _, id := range b.topics {
		var fresh livetest.Client
		s, _ := b.w.shown(id)
		data, err := chat.Marshal(struct {
			chat.Snapshot
			TopicID string `json:"topicId"`
		}{s, id})
		if err != nil {
			return err.Error()
		}
		if err := fresh.Apply(chat.LiveEvent{Name: "snapshot", Data: data}); err != nil {
			return err.Error()
		}
		got, want := b.client.Topics[id], fresh.Topics[id]
		if got == nil {
			return "no snapshot of " + id
		}
		want.Topic = got.Topic // only told of when it changes; its title is looked at
		if got.Topic.Title != s.Topic.Title {
			return fmt.Sprintf("title %q, want %q", got.Topic.Title, s.Topic.Title)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(livetest.Topic{}, livetest.Message{}),
			cmpopts.IgnoreFields(livetest.Topic{}, "Progress"), cmpopts.EquateEmpty()); diff != "" {
			return id + " differs (-want +got):\n" + diff
		}
	}
	if b.statuses {
		for _, id := range b.w.order {
			s, _ := b.w.read(id)
			if diff := cmp.Diff(s.Status, b.client.Statuses[id], cmpopts.EquateEmpty()); diff != "" {
				return "status of " + id + " (-want +got):\n" + diff
			}
			if b.client.Titles[id] != s.Topic.Title {
				return fmt.Sprintf("title of %s in the list is %q, want %q", id, b.client.Titles[id], s.Topic.Title)
			}
		}
		for _, what := range kinds {
			if got, want := b.settings[what], b.w.readSettings(what); got != want {
				return fmt.Sprintf("settings %s are at version %d, want %d", what, got, want)
			}
		}
	} else if n := b.client.Events["settings"]; n > 0 {
		return fmt.Sprintf("%d settings events for one who does not watch all", n)
	}
	return ""
}

// TestConvergence is the promise of the package: whatever happens while tabs
// are connected, slow, or away, in the end they show what is committed and
// what is being written, without ever having asked twice.
func TestConvergence(t *testing.T) {
	// Under the race detector a hundred worlds are played, and not a thousand:
	// Go 1.26's detector was seen to crash in its own code after some hundred
	// thousand goroutines in bubbles. "make test" plays the thousand without it.
	if !testing.Short() && !raceEnabled {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) { converge(t, rt, 1, bustest.Faults{}) })
}

// TestConvergenceOfSeveral is the same promise for tabs of several instances,
// between which messages are lost, repeated, late and out of order.
func TestConvergenceOfSeveral(t *testing.T) {
	if !testing.Short() && !raceEnabled {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		converge(t, rt, rapid.IntRange(2, 3).Draw(rt, "hubs"), bustest.Faults{
			Drop:    rapid.SampledFrom([]int{0, 0, 5, 30, 100}).Draw(rt, "drop"),
			Silent:  rapid.SampledFrom([]int{0, 50, 100}).Draw(rt, "silent"),
			Repeat:  rapid.SampledFrom([]int{0, 20}).Draw(rt, "repeat"),
			Reorder: rapid.SampledFrom([]int{0, 0, 20}).Draw(rt, "reorder"),
			Delay:   time.Duration(rapid.SampledFrom([]int{0, 5, 100}).Draw(rt, "delay")) * time.Millisecond,
		})
	})
}

func converge(t *testing.T, rt *rapid.T, instances int, faults bustest.Faults) {
	var (
		seed    = rapid.Uint64().Draw(rt, "seed")
		topics  = rapid.IntRange(1, 3).Draw(rt, "topics")
		tabs    = rapid.IntRange(1, 4).Draw(rt, "tabs")
		steps   = rapid.IntRange(1, 6).Draw(rt, "steps")
		acts    = rapid.IntRange(0, 8).Draw(rt, "acts")
		slow    = time.Duration(rapid.SampledFrom([]int{0, 1, 30, 200}).Draw(rt, "slow")) * time.Millisecond
		broken  = rapid.SampledFrom([]int{0, 0, 30}).Draw(rt, "broken")
		ring    = rapid.SampledFrom([]int{3, 20, 4096}).Draw(rt, "ring")
		batch   = rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(rt, "batch")
		inOrder = rapid.Bool().Draw(rt, "inOrder")
		finish  = rapid.Bool().Draw(rt, "finish")
	)
	var problems []string
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, topics, slow, broken, inOrder)
		network := bustest.New(seed, faults)
		hubs := make([]*live.Hub, instances)
		locals := make([]*local, instances)
		for i := range hubs {
			hubs[i], locals[i] = live.New(w, live.Options{RingCount: ring, BatchBytes: batch}), &local{}
			if instances > 1 {
				hubs[i].Join(network.Join(), w, locals[i])
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		var readers, writers sync.WaitGroup
		all := make([]*tab, tabs)
		for i := range all {
			all[i] = &tab{
				w: w, h: any1(w, hubs), topics: w.order[:1+w.n(topics)], statuses: w.n(2) == 0,
				settings: map[chat.SettingsKind]int{}, heard: map[chat.SettingsKind]int{},
			}
			readers.Go(func() { time.Sleep(time.Duration(i) * slow); all[i].run(ctx) })
		}
		for _, id := range w.order {
			writers.Go(func() { (&writer{w: w, hubs: hubs, topic: id}).run(steps, finish) })
			writers.Go(func() { person(w, hubs, id, acts, &writers) })
		}
		writers.Go(func() { owner(w, hubs, acts) })
		writers.Wait()
		network.Become(bustest.Faults{})
		time.Sleep(10 * time.Minute) // everything is sent, read, tried again
		cancel()
		readers.Wait()
		for _, h := range hubs {
			h.Close()
		}
		for i, b := range all {
			if p := b.check(); p != "" {
				problems = append(problems, fmt.Sprintf("tab %d: %s", i, p))
			}
			if inOrder && len(b.reopened) > 0 {
				problems = append(problems, fmt.Sprintf("tab %d had to ask again: %s", i, b.reopened))
			}
		}
	})
	for _, p := range problems {
		rt.Error(p)
	}
}
