package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/bus/bustest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// local is an instance's ear.
type local struct {
	mu    sync.Mutex
	heard []string
}

func (l *local) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, what)
}

// all is what was heard since it was asked last.
func (l *local) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	slices.Sort(heard)
	return heard
}

func (l *local) Wake()                                  { l.note("wake") }
func (l *local) Cancel(stopped chat.Epochs)             { l.note(fmt.Sprint("cancel ", stopped)) }
func (l *local) Answered(questionID string)             { l.note("answered " + questionID) }
func (l *local) SettingsChanged(what chat.SettingsKind) { l.note("settings " + string(what)) }

// shared is a database of one topic, as two instances see it.
type shared struct {
	mu       sync.Mutex
	revision int64
	removed  bool
	title    string
	parts    chat.Parts
	marks    map[chat.SettingsKind]string
	broken   bool
	reads    int           // of snapshots
	slow     time.Duration // a snapshot, after it was read
}

func (s *shared) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *shared) at(id string) (chat.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken:
		return chat.Snapshot{}, chat.ErrUnavailable
	case s.removed:
		return chat.Snapshot{}, chat.Gone("It is gone.")
	}
	snap := one(id, s.revision, s.parts...)
	snap.Topic.Title, snap.Topic.Status = s.title, snap.Status
	return snap, nil
}

func (s *shared) Snapshot(_ context.Context, id string, _ int, _ string) (chat.Snapshot, error) {
	var slow time.Duration
	s.set(func() { s.reads++; slow = s.slow })
	snap, err := s.at(id)
	time.Sleep(slow)
	return snap, err
}

func (s *shared) Status(_ context.Context, id string) (chat.Status, error) {
	snap, err := s.at(id)
	return snap.Status, err
}

func (s *shared) Topic(_ context.Context, id string) (chat.Topic, error) {
	snap, err := s.at(id)
	return snap.Topic, err
}

func (s *shared) Topics(context.Context, chat.Page) ([]chat.Topic, string, error) {
	snap, err := s.at("a")
	if errors.Is(err, chat.ErrGone) {
		return nil, "", nil
	}
	return []chat.Topic{snap.Topic}, "", err
}

func (s *shared) Revisions(context.Context, []string, int) ([]chat.TopicRevision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, chat.ErrUnavailable
	}
	return []chat.TopicRevision{{TopicID: "a", Revision: s.revision, Removed: s.removed}}, nil
}

func (s *shared) SettingsMarks(context.Context) (map[chat.SettingsKind]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks := map[chat.SettingsKind]string{}
	for what, mark := range s.marks {
		marks[what] = mark
	}
	return marks, nil
}

// instances are two hubs on one database.
type instances struct {
	t           *testing.T
	db          *shared
	network     *bustest.Network
	here, there *live.Hub
	bus         *bustest.Member // of here
	ear         *local          // of there
}

// two runs fn with two hubs of which the first looks are over.
func two(t *testing.T, fn func(t *testing.T, p *instances)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &instances{t: t, db: &shared{revision: 1}, network: bustest.New(1, bustest.Faults{}), ear: &local{}}
		p.here, p.there = live.New(p.db, live.Options{}), live.New(p.db, live.Options{})
		defer p.here.Close()
		defer p.there.Close()
		p.bus = p.network.Join()
		p.here.Join(p.bus, p.db, &local{})
		p.there.Join(p.network.Join(), p.db, p.ear)
		synctest.Wait()
		p.ear.all()
		fn(t, p)
	})
}

// commit makes a change on the first instance.
func (p *instances) commit(f func(c *chat.Change)) {
	p.db.mu.Lock()
	p.db.revision++
	c := chat.Change{TopicID: "a", Revision: p.db.revision}
	p.db.mu.Unlock()
	f(&c)
	p.here.Publish(p.t.Context(), c)
}

func (p *instances) rename(title string) {
	p.commit(func(c *chat.Change) {
		p.db.set(func() { p.db.title = title })
		c.Topic = &chat.Topic{ID: "a", Title: title, Revision: c.Revision}
	})
}

func (p *instances) watch(statuses bool, topics ...string) *live.Reader {
	r := p.there.Subscribe(topics, statuses, "")
	p.t.Cleanup(r.Close)
	wantNames(p.t, r, "snapshot")
	return r
}

// all is what comes within a second, by name.
func all(t *testing.T, r *live.Reader) string {
	t.Helper()
	return names(gather(t, r))
}

// allData is what comes within a second.
func allData(t *testing.T, r *live.Reader) string {
	t.Helper()
	var data strings.Builder
	for _, ev := range gather(t, r) {
		data.Write(ev.Data)
	}
	return data.String()
}

func gather(t *testing.T, r *live.Reader) (events []chat.LiveEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for {
		some, err := r.Next(ctx)
		if err != nil {
			return events
		}
		events = append(events, some...)
	}
}

func TestChangesOfAnotherInstance(t *testing.T) {
	t.Run("are told in pieces, and by one read", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r, list := p.watch(false, "a"), p.watch(true)
			reads := p.db.reads
			for i := range 5 {
				p.rename(fmt.Sprint(i))
				if got := all(t, r); got != "topic status" {
					t.Errorf("got %s", got)
				}
				if got := all(t, list); got != "topic status" {
					t.Errorf("got %s for the list", got)
				}
			}
			time.Sleep(time.Minute)
			if got := all(t, r) + all(t, list); got != "" || p.db.reads != reads {
				t.Errorf("got %s, and %d snapshots, later", got, p.db.reads-reads)
			}
		})
	})
	t.Run("that are too large for a signal are told by a snapshot", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r, list := p.watch(false, "a"), p.watch(true)
			p.commit(func(c *chat.Change) {
				c.Parts = []chat.PartChange{{MessageID: "m", Epoch: 1, Part: chat.Text{Text: strings.Repeat("x", live.MaxMessage)}}}
			})
			if got := all(t, r); got != "snapshot" && got != "snapshot status" {
				t.Errorf("got %s", got)
			}
			if got := all(t, list); got != "status" {
				t.Errorf("got %s for the list", got)
			}
			p.rename(strings.Repeat("x", live.MaxMessage)) // as seldom as a large system prompt
			if got := all(t, list); got != "topic status" && got != "status topic" {
				t.Errorf("got %s for the list", got)
			}
		})
	})
	t.Run("after one that was lost are told by a snapshot", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.network.Become(bustest.Faults{Drop: 100, Silent: 100})
			p.rename("lost")
			p.network.Become(bustest.Faults{})
			p.rename("heard")
			if got := all(t, r); !strings.HasPrefix(got, "snapshot") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("after one that was lost while a snapshot was read have it read again", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			p.db.slow = time.Second
			r := p.there.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			if _, err := r.Take(nil); err != nil { // has it read
				t.Fatal(err)
			}
			synctest.Wait()
			p.network.Become(bustest.Faults{Drop: 100, Silent: 100})
			p.rename("lost")
			p.network.Become(bustest.Faults{})
			p.rename("heard")
			if first := wantNames(t, r, "snapshot"); !strings.Contains(string(first[0].Data), `"revision":3`) {
				t.Errorf("the first snapshot is %s", first[0].Data)
			}
		})
	})
	t.Run("that are lost are found by a look", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r, list := p.watch(false, "a"), p.watch(true)
			p.network.Become(bustest.Faults{Drop: 100, Silent: 100})
			p.rename("lost")
			time.Sleep(10 * time.Second)
			if got := all(t, r); !strings.HasPrefix(got, "snapshot") {
				t.Errorf("got %s", got)
			}
			if got := all(t, list); got != "topic status" {
				t.Errorf("got %s for the list", got)
			}
		})
	})
	t.Run("that are lost are found soon if the bus says so", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.network.Become(bustest.Faults{Drop: 100})
			p.rename("lost")
			time.Sleep(time.Second)
			if got := all(t, r); !strings.HasPrefix(got, "snapshot") {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("come again, and change nothing", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r, list := p.watch(false, "a"), p.watch(true)
			p.network.Become(bustest.Faults{Repeat: 100})
			p.rename("once")
			if got := all(t, r) + "|" + all(t, list); got != "topic status|topic status" {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("cost no read where nobody watches", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			p.rename("new")
			p.watch(false, "a")
			reads := p.db.reads
			p.rename("newer")
			time.Sleep(time.Minute)
			if p.db.reads != reads {
				t.Errorf("%d snapshots were read", p.db.reads-reads)
			}
		})
	})
	t.Run("made while nobody watched are not missed by one who comes back", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.there.Subscribe([]string{"a"}, false, "")
			id := lastID(wantNames(t, r, "snapshot"))
			r.Close()
			p.rename("within a minute")
			time.Sleep(time.Second)
			r = p.there.Subscribe([]string{"a"}, false, id)
			if got := all(t, r); got != "topic status" {
				t.Errorf("got %s", got)
			}
			r.Close()
			time.Sleep(3 * time.Minute)
			r = p.there.Subscribe([]string{"a"}, false, id)
			defer r.Close()
			wantNames(t, r, "snapshot")
		})
	})
	t.Run("remove a topic once, heard or not", func(t *testing.T) {
		for _, drop := range []int{0, 100} {
			two(t, func(t *testing.T, p *instances) {
				r, list := p.watch(false, "a"), p.watch(true)
				p.network.Become(bustest.Faults{Drop: drop, Silent: 100, Repeat: 50})
				p.commit(func(c *chat.Change) {
					p.db.set(func() { p.db.removed = true })
					c.TopicRemoved = true
				})
				time.Sleep(5 * time.Minute)
				if got := all(t, r) + "|" + all(t, list); got != "topic.removed|topic.removed" {
					t.Errorf("with %d %% lost: got %s", drop, got)
				}
			})
		}
	})
	t.Run("are found when the database is back", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			list := p.watch(true)
			p.network.Become(bustest.Faults{Drop: 100})
			p.rename("lost")
			p.db.set(func() { p.db.broken = true })
			time.Sleep(time.Minute)
			p.db.set(func() { p.db.broken = false })
			time.Sleep(10 * time.Second)
			if got := all(t, list); got != "topic status" {
				t.Errorf("got %s", got)
			}
		})
	})
}

func TestWhatOtherInstancesDo(t *testing.T) {
	two(t, func(t *testing.T, p *instances) {
		list := p.watch(true)
		heard := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, p.ear.all()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		p.here.Cancel(chat.Epochs{"t": 3})
		p.here.Cancel(nil)
		p.here.Answered("q")
		heard("answered q", "cancel map[t:3]")
		for range 20 {
			p.here.Wake()
		}
		heard() // the instance itself is to take the turn
		time.Sleep(time.Second)
		heard("wake")
		p.here.Wake()
		time.Sleep(time.Second)
		heard("wake")

		p.here.Settings(chat.SettingsRules)
		wantNames(t, list, "settings")
		heard("settings rules")
		p.here.Hint(chat.SettingsServers)
		if got := all(t, list); got != "" {
			t.Errorf("a hint of another instance: %s", got)
		}
		heard()

		p.db.set(func() { p.db.marks = map[chat.SettingsKind]string{chat.SettingsServers: "1"} }) // unheard
		time.Sleep(10 * time.Second)
		wantNames(t, list, "settings")
		heard("settings mcp-servers")
	})
}

// noise is a bus on which anybody says anything.
type noise struct{ say chan []byte }

func (n noise) Send([]byte) {}
func (n noise) Receive(ctx context.Context, deliver func([]byte), lost func()) {
	for {
		select {
		case m := <-n.say:
			deliver(m)
		case <-ctx.Done():
			return
		}
	}
}

func TestAHubTakesNoHarmFromWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &shared{revision: 1}
		h := live.New(db, live.Options{})
		defer h.Close()
		bus := noise{make(chan []byte)}
		h.Join(bus, db, &local{})
		r := h.Subscribe([]string{"a"}, true, "")
		defer r.Close()
		_ = all(t, r)
		for _, m := range []string{
			``, `{`, `[]`, `{"is":"future","by":"x"}`, `{"is":"status","by":"x","topic":"a","rev":9}`, `{"is":"text","by":"x"}`,
			`{"is":"text","by":"x","topic":"a","turn":"t","msg":"m","epoch":1,"step":5,"begin":true,"start":{"no":"type"}}`,
			`{"is":"text","by":"x","topic":"a","turn":"t","msg":"m","epoch":1,"step":5,"part":-4,"field":"text"}`,
			`{"is":"end","by":"x","topic":"none"}`, `{"is":"want","by":"x","topic":"none"}`, `{"is":"steps","by":"x","steps":[{}]}`,
			`{"is":"progress","by":"x","topic":"none"}`,
		} {
			bus.say <- []byte(m)
		}
		synctest.Wait()
		if got := all(t, r); got != "" {
			t.Errorf("got %s", got)
		}
	})
}
