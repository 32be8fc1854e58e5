package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ turn.Live = (*live.Hub)(nil)

// source answers with what its functions say, and else with topics that exist
// at revision 1 and hold one message "m" of epoch 1 that is being filled.
type source struct {
	snapshot func(id string) (chat.Snapshot, error)
	status   func(id string) (chat.Status, error)
	topics   func() ([]chat.Topic, string, error)
	reads    atomic.Int64
}

func one(id string, revision int64, parts ...chat.Part) chat.Snapshot {
	return chat.Snapshot{
		Topic: chat.Topic{ID: id, Revision: revision}, Revision: revision, Status: chat.StatusOf(id, revision, nil, 0, nil),
		Messages: []chat.Message{{ID: "m", TopicID: id, Role: chat.RoleAssistant, Status: chat.MessagePending, Epoch: 1, Parts: parts}},
	}
}

func (s *source) Snapshot(_ context.Context, id string, _ int, _ string) (chat.Snapshot, error) {
	s.reads.Add(1)
	if s.snapshot != nil {
		return s.snapshot(id)
	}
	return one(id, 1), nil
}

func (s *source) Status(_ context.Context, id string) (chat.Status, error) {
	if s.status != nil {
		return s.status(id)
	}
	return chat.Status{}, chat.NotFound("There is no status.")
}

func (s *source) Topics(context.Context, chat.Page) ([]chat.Topic, string, error) {
	if s.topics != nil {
		return s.topics()
	}
	return nil, "", nil
}

// inBubble runs fn with a hub that is closed in the end.
func inBubble(t *testing.T, src live.Source, o live.Options, fn func(t *testing.T, h *live.Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := live.New(src, o)
		defer h.Close()
		fn(t, h)
	})
}

// next returns the next batch, or fails the test if none comes for an hour.
func next(t *testing.T, r *live.Reader) []chat.LiveEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	events, err := r.Next(ctx)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return events
}

// quiet fails the test if something comes within a minute.
func quiet(t *testing.T, r *live.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if events, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, %v", names(events), err)
	}
}

func names(events []chat.LiveEvent) string {
	list := make([]string, len(events))
	for i, ev := range events {
		list[i] = ev.Name
	}
	return strings.Join(list, " ")
}

func wantNames(t *testing.T, r *live.Reader, want string) []chat.LiveEvent {
	t.Helper()
	events := next(t, r)
	if got := names(events); got != want {
		t.Fatalf("got events %q, want %q", got, want)
	}
	return events
}

func lastID(events []chat.LiveEvent) string { return events[len(events)-1].ID }

// renamed is a change of the topic itself.
func renamed(id string, revision int64) chat.Change {
	return chat.Change{TopicID: id, Revision: revision, Topic: &chat.Topic{ID: id, Revision: revision}}
}

func TestSubscribe(t *testing.T) {
	bg := context.Background()
	t.Run("begins with a snapshot, then follows", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			first := wantNames(t, r, "snapshot")
			want := `{"topicId":"a","revision":1,"topic":{"id":"a","title":"","model":"","mode":"","revision":1,"status":{"topicId":"","revision":0,"status":"","activeExecutions":null,"awaitingApprovalAnchors":null,"pendingApprovals":0,"openQuestions":0,"queuedMessages":0},"createdAt":"0001-01-01T00:00:00Z","updatedAt":"0001-01-01T00:00:00Z"},` +
				`"messages":[{"id":"m","role":"assistant","parts":[],"metadata":{"status":"pending","epoch":1,"createdAt":"0001-01-01T00:00:00Z","updatedAt":"0001-01-01T00:00:00Z","revision":0}}],"queued":[],` +
				`"status":{"topicId":"a","revision":1,"status":"idle","activeExecutions":[],"awaitingApprovalAnchors":[],"pendingApprovals":0,"openQuestions":0,"queuedMessages":0},"hasMore":false}`
			if diff := cmp.Diff(want, string(first[0].Data)); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
			h.Publish(bg, chat.Change{
				TopicID: "a", Revision: 2, Removed: []string{"x"},
				Messages: []chat.Message{{ID: "n", Role: chat.RoleUser}},
				Metadata: []chat.Message{{ID: "m", Role: chat.RoleAssistant}},
				Parts:    []chat.PartChange{{MessageID: "m", Epoch: 1, Position: 0, Part: chat.Text{Text: "<&>"}}},
				Topic:    &chat.Topic{ID: "a"},
			})
			events := wantNames(t, r, "message.removed message message part topic")
			if got, want := string(events[0].Data), `{"topicId":"a","revision":2,"messageId":"x"}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := string(events[2].Data); strings.Contains(got, `"parts"`) {
				t.Errorf("a change of metadata brings parts: %s", got)
			}
			if got, want := string(events[3].Data), `{"topicId":"a","revision":2,"messageId":"m","epoch":1,"position":0,"part":{"type":"text","text":"<&>"}}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	})
	t.Run("a change without a revision changed nothing", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, true, "")
			defer r.Close()
			for n := 0; n < 2; {
				n += len(next(t, r)) // snapshots, together or one by one
			}
			h.Publish(bg, renamed("a", 0))
			quiet(t, r)
		})
	})
	t.Run("goes on where it was", func(t *testing.T) {
		var revision atomic.Int64
		revision.Store(5)
		src := &source{snapshot: func(id string) (chat.Snapshot, error) { return one(id, revision.Load()), nil }}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			id := lastID(wantNames(t, r, "snapshot"))
			h.Publish(bg, renamed("a", 6))
			events := wantNames(t, r, "topic")
			h.Publish(bg, renamed("a", 7))
			revision.Store(7)
			r.Close()

			for from, want := range map[string]string{id: "topic topic", lastID(events): "topic"} {
				r := h.Subscribe([]string{"a"}, false, from)
				wantNames(t, r, want)
				r.Close()
			}
			for _, from := range []string{"", "x", "..", id + ".", "-" + id, strings.Replace(id, ".", ".9", 1)} {
				r := h.Subscribe([]string{"a"}, false, from)
				wantNames(t, r, "snapshot")
				r.Close()
			}
		})
	})
	t.Run("a topic that was not watched before begins with a snapshot", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			b := h.Subscribe([]string{"b"}, false, "")
			defer b.Close()
			id := lastID(wantNames(t, r, "snapshot"))
			r.Close()
			r = h.Subscribe([]string{"a", "b"}, true, id)
			defer r.Close()
			h.Publish(bg, renamed("a", 2)) // to be seen, though the snapshots take a while
			seen := map[string]int{}
			for seen["snapshot *"] == 0 || seen["snapshot b"] == 0 {
				for _, ev := range next(t, r) {
					var e struct{ TopicID string }
					if err := json.Unmarshal(ev.Data, &e); err != nil {
						t.Fatal(err)
					}
					seen[ev.Name+" "+e.TopicID]++
				}
			}
			if diff := cmp.Diff(map[string]int{"snapshot *": 1, "snapshot b": 1, "topic a": 1}, seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
	t.Run("many topics resume as a whole", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			var topics []string
			for i := range 20 {
				topics = append(topics, fmt.Sprint("topic", i))
			}
			r := h.Subscribe(topics, false, "")
			id, count := "", 0
			for count < 20 {
				events := next(t, r)
				id, count = lastID(events), count+len(events)
			}
			r.Close()
			r = h.Subscribe(topics, false, id)
			quiet(t, r)
			r.Close()
			r = h.Subscribe(topics[1:], false, id)
			defer r.Close()
			if got := next(t, r); got[0].Name != "snapshot" {
				t.Errorf("another set goes on with %s", names(got))
			}
		})
	})
	t.Run("no frame has an id before everything is there", func(t *testing.T) {
		slow := &source{snapshot: func(id string) (chat.Snapshot, error) {
			if id == "b" {
				time.Sleep(time.Second)
			}
			return one(id, 1), nil
		}}
		inBubble(t, slow, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a", "b"}, false, "")
			defer r.Close()
			if id := lastID(wantNames(t, r, "snapshot")); id != "" {
				t.Errorf("the first snapshot has the id %q", id)
			}
			h.Publish(bg, renamed("a", 2))
			if id := lastID(wantNames(t, r, "topic")); id != "" {
				t.Errorf("an event before the second snapshot has the id %q", id)
			}
			if id := lastID(wantNames(t, r, "snapshot")); id == "" {
				t.Error("there is no id when all is there")
			}
		})
	})
	t.Run("readers of a topic share a read", func(t *testing.T) {
		src := &source{snapshot: func(id string) (chat.Snapshot, error) { time.Sleep(time.Second); return one(id, 1), nil }}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			done := make(chan struct{})
			for range 50 {
				go func() {
					r := h.Subscribe([]string{"a"}, false, "")
					defer r.Close()
					wantNames(t, r, "snapshot")
					done <- struct{}{}
				}()
			}
			for range 50 {
				<-done
			}
			if n := src.reads.Load(); n != 1 {
				t.Errorf("the source was read %d times", n)
			}
		})
	})
	t.Run("few snapshots are read at the same time", func(t *testing.T) {
		var now, most atomic.Int64
		src := &source{snapshot: func(id string) (chat.Snapshot, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return one(id, 1), nil
		}}
		inBubble(t, src, live.Options{Loads: 2}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a", "b", "c", "d", "e"}, false, "")
			defer r.Close()
			for n := 0; n < 5; {
				n += len(next(t, r))
			}
			if most.Load() != 2 {
				t.Errorf("%d were read at once", most.Load())
			}
		})
	})
}

func TestSnapshotsInsteadOfEvents(t *testing.T) {
	bad := chat.Message{ID: "x", Parts: chat.Parts{chat.Other{Type: "data-x", Raw: json.RawMessage("{")}}}
	bg := context.Background()
	for name, c := range map[string]struct {
		options live.Options
		before  int64
		change  func(h *live.Hub)
	}{
		"a change that cannot be told in pieces": {change: func(h *live.Hub) { h.Publish(bg, chat.Change{TopicID: "a", Revision: 9, Reset: true}) }},
		"a change that comes late": {change: func(h *live.Hub) {
			h.Publish(bg, renamed("a", 9))
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 8})
		}},
		"a change that cannot be encoded": {change: func(h *live.Hub) {
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 9, Parts: []chat.PartChange{{MessageID: "m", Part: chat.Other{Type: "data-x", Raw: json.RawMessage("{")}}}})
		}},
		"a message that cannot be encoded": {change: func(h *live.Hub) {
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 9, Messages: []chat.Message{bad}})
		}},
		"a topic's time that has no year to write": {change: func(h *live.Hub) {
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 9, Topic: &chat.Topic{CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}})
		}},
		"metadata that cannot be encoded": {change: func(h *live.Hub) {
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 9, Metadata: []chat.Message{{CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}})
		}},
		"text that cannot be encoded": {change: func(h *live.Hub) {
			f := chat.Fence{TopicID: "a", TurnID: "t", MessageID: "m", Epoch: 1}
			h.Begin(f, 9, 0)
			h.Delta(f, chat.Delta{Part: 1, Field: "text", Start: chat.Other{Type: "data-x", Raw: json.RawMessage("{")}})
			h.End(f)
		}},
		"a ring that has too many entries": {options: live.Options{RingCount: 2}, change: func(h *live.Hub) {
			for rev := range int64(3) {
				h.Publish(bg, renamed("a", rev+7))
			}
		}},
		"a ring that has too many bytes": {options: live.Options{RingBytes: 1000}, change: func(h *live.Hub) {
			for rev := range int64(3) {
				h.Publish(bg, renamed("a", rev+7))
			}
		}},
		"an event that no ring can hold": {options: live.Options{RingBytes: 10}, change: func(h *live.Hub) { h.Publish(bg, renamed("a", 9)) }},
	} {
		t.Run(name, func(t *testing.T) {
			revision := int64(1)
			src := &source{snapshot: func(id string) (chat.Snapshot, error) { return one(id, revision), nil }}
			inBubble(t, src, c.options, func(t *testing.T, h *live.Hub) {
				r := h.Subscribe([]string{"a"}, false, "")
				defer r.Close()
				wantNames(t, r, "snapshot")
				revision = 9
				c.change(h)
				if events := next(t, r); events[0].Name != "snapshot" || !strings.Contains(string(events[0].Data), `"revision":9`) {
					t.Errorf("got %s", names(events))
				}
			})
		})
	}
	t.Run("one that is older than what was announced is read again", func(t *testing.T) {
		revision := int64(1)
		src := &source{}
		src.snapshot = func(id string) (chat.Snapshot, error) {
			if src.reads.Load() > 3 {
				revision = 2
			}
			return one(id, revision), nil
		}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			h.Publish(bg, renamed("a", 2))
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			if got := string(wantNames(t, r, "snapshot")[0].Data); !strings.Contains(got, `"revision":2`) {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("a ring that nobody watches is dropped", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			id := lastID(wantNames(t, r, "snapshot"))
			r.Close()
			h.Publish(bg, renamed("a", 2))
			time.Sleep(30 * time.Second)
			r = h.Subscribe([]string{"a"}, false, id)
			wantNames(t, r, "topic")
			r.Close()
			time.Sleep(2 * time.Minute)
			r = h.Subscribe([]string{"a"}, false, id)
			defer r.Close()
			wantNames(t, r, "snapshot")
		})
	})
}

func TestReaderEnds(t *testing.T) {
	t.Run("with its context", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			wantNames(t, r, "snapshot")
			quiet(t, r)
		})
	})
	t.Run("when it is closed", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe(nil, true, "")
			wantNames(t, r, "snapshot")
			go func() { time.Sleep(time.Second); r.Close(); r.Close() }()
			if _, err := r.Next(t.Context()); !errors.Is(err, live.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("when the hub is closed", func(t *testing.T) {
		hang := &source{snapshot: func(id string) (chat.Snapshot, error) { return chat.Snapshot{}, chat.ErrUnavailable }}
		inBubble(t, hang, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			go func() { time.Sleep(time.Minute); h.Close() }()
			if _, err := r.Next(t.Context()); !errors.Is(err, live.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestSourceThatFails(t *testing.T) {
	bg := context.Background()
	t.Run("is waited for", func(t *testing.T) {
		src := &source{}
		src.snapshot = func(id string) (chat.Snapshot, error) {
			if src.reads.Load() < 5 {
				return chat.Snapshot{}, fmt.Errorf("read: %w", chat.ErrUnavailable)
			}
			return one(id, 1), nil
		}
		lists := 0
		src.topics = func() ([]chat.Topic, string, error) {
			if lists++; lists < 3 {
				return nil, "", chat.ErrUnavailable
			}
			return []chat.Topic{{ID: "a"}}, "more", nil
		}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, true, "")
			defer r.Close()
			list := wantNames(t, r, "snapshot")
			if got := string(list[0].Data); !strings.HasPrefix(got, `{"topicId":"*","revision":0,"topics":[{"id":"a"`) || !strings.HasSuffix(got, `"complete":false}`) {
				t.Errorf("got %s", got)
			}
			wantNames(t, r, "snapshot")
		})
	})
	t.Run("with what cannot be encoded is a source that fails", func(t *testing.T) {
		src := &source{}
		src.snapshot = func(id string) (chat.Snapshot, error) {
			if src.reads.Load() == 1 {
				return one(id, 1, chat.Other{Type: "data-x", Raw: json.RawMessage("{")}), nil
			}
			return one(id, 1), nil
		}
		lists := 0
		src.topics = func() ([]chat.Topic, string, error) {
			if lists++; lists == 1 {
				return []chat.Topic{{CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}, "", nil
			}
			return nil, "", nil
		}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, true, "")
			defer r.Close()
			for n := 0; n < 2; {
				n += len(next(t, r))
			}
		})
	})
	t.Run("is not asked for ever for one who has left", func(t *testing.T) {
		src := &source{snapshot: func(string) (chat.Snapshot, error) { return chat.Snapshot{}, chat.ErrUnavailable }}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			quiet(t, r)
			r.Close()
			time.Sleep(time.Minute)
			n := src.reads.Load()
			time.Sleep(time.Hour)
			if src.reads.Load() != n {
				t.Error("it is asked still")
			}
		})
	})
	t.Run("a status is announced as soon as it can be read", func(t *testing.T) {
		calls := 0
		src := &source{status: func(id string) (chat.Status, error) {
			if calls++; calls < 6 {
				return chat.Status{}, chat.ErrUnavailable
			}
			return chat.Status{TopicID: id, Revision: 2}, nil
		}}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a", "b"}, true, "")
			defer r.Close()
			for n := 0; n < 3; {
				n += len(next(t, r))
			}
			ctx, cancel := context.WithCancel(bg)
			cancel() // what is committed is announced all the same
			h.Publish(ctx, chat.Change{TopicID: "a", Revision: 2})
			h.Publish(ctx, chat.Change{TopicID: "b", Revision: 2})
			h.Publish(ctx, chat.Change{TopicID: "c", Revision: 2, TopicRemoved: true})
			for n, want := 0, 3; n < want; {
				n += len(next(t, r)) // two statuses, each once although it lies in two rings
			}
			quiet(t, r)
		})
	})
	t.Run("a status older than the change is not announced", func(t *testing.T) {
		var revision atomic.Int64
		src := &source{status: func(id string) (chat.Status, error) { return chat.Status{TopicID: id, Revision: revision.Load()}, nil }}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			wantNames(t, r, "snapshot")
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 2})
			quiet(t, r)
			revision.Store(2)
			wantNames(t, r, "status")
		})
	})
}

func TestTopicThatIsGone(t *testing.T) {
	bg := context.Background()
	none := &source{snapshot: func(id string) (chat.Snapshot, error) {
		if id == "a" {
			return one(id, 1), nil
		}
		return chat.Snapshot{}, fmt.Errorf("read: %w", chat.ErrNotFound)
	}}
	t.Run("is not found, if nothing else is watched", func(t *testing.T) {
		inBubble(t, none, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"x"}, false, "")
			defer r.Close()
			if _, err := r.Next(t.Context()); !errors.Is(err, chat.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("is told to be removed, if more is watched", func(t *testing.T) {
		inBubble(t, none, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a", "x"}, false, "")
			defer r.Close()
			got := map[string]int{}
			for len(got) < 2 {
				for _, ev := range next(t, r) {
					got[ev.Name]++
				}
			}
			if diff := cmp.Diff(map[string]int{"snapshot": 1, "topic.removed": 1}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			quiet(t, r)
		})
	})
	t.Run("is announced to those who watch it and to those who watch all", func(t *testing.T) {
		inBubble(t, none, live.Options{}, func(t *testing.T, h *live.Hub) {
			for _, r := range []*live.Reader{h.Subscribe([]string{"a"}, false, ""), h.Subscribe(nil, true, "")} {
				defer r.Close()
				wantNames(t, r, "snapshot")
				defer wantNames(t, r, "topic.removed")
			}
			h.Publish(bg, chat.Change{TopicID: "a", Revision: 2, TopicRemoved: true})
		})
	})
}

func TestBatchesAreBounded(t *testing.T) {
	inBubble(t, &source{}, live.Options{BatchBytes: 1}, func(t *testing.T, h *live.Hub) {
		r := h.Subscribe([]string{"a"}, false, "")
		wantNames(t, r, "snapshot")
		for rev := range int64(3) {
			h.Publish(context.Background(), renamed("a", rev+2))
		}
		seen := map[string]bool{}
		var id string
		for range 3 {
			id = lastID(wantNames(t, r, "topic"))
			seen[id] = true
		}
		if len(seen) != 3 || seen[""] {
			t.Errorf("the ids are %v", seen)
		}
		r.Close()
		r = h.Subscribe([]string{"a"}, false, id)
		defer r.Close()
		quiet(t, r)
	})
}
