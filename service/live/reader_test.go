package live_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// looker looks only when it is told to.
type looker struct {
	*live.Reader
	told chan struct{}
}

func newLooker(r *live.Reader) looker {
	l := looker{r, make(chan struct{}, 100)}
	r.OnReady(func() { l.told <- struct{}{} })
	l.told <- struct{}{} // once by itself
	return l
}

// look takes until nobody tells it to, when everything rests.
func (l looker) look() (batches []string, err error) {
	for synctest.Wait(); len(l.told) > 0; synctest.Wait() {
		<-l.told
		events, err := l.Take(nil)
		if err != nil {
			return batches, err
		}
		if len(events) > 0 {
			batches = append(batches, names(events))
		}
	}
	return batches, nil
}

func TestReaderTellsWhenThereIsMore(t *testing.T) {
	want := func(t *testing.T, l looker, want ...string) {
		t.Helper()
		got, err := l.look()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	ended := func(t *testing.T, l looker) {
		t.Helper()
		if got, err := l.look(); !errors.Is(err, live.ErrClosed) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	t.Run("a snapshot, and an event", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe([]string{"a"}, false, ""))
			defer l.Close()
			want(t, l, "snapshot")
			h.Publish(t.Context(), renamed("a", 2))
			want(t, l, "topic")
			h.Publish(t.Context(), renamed("b", 2))
			want(t, l)
		})
	})
	t.Run("what a batch has left", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{BatchBytes: 1}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe([]string{"a"}, false, ""))
			defer l.Close()
			want(t, l, "snapshot")
			for rev := range int64(3) {
				h.Publish(t.Context(), renamed("a", rev+2))
			}
			for len(l.told) > 1 {
				<-l.told // as if they had come while it was busy
			}
			want(t, l, "topic", "topic", "topic")
		})
	})
	t.Run("snapshots that a batch has left", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{BatchBytes: 1}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe([]string{"a", "b"}, false, ""))
			defer l.Close()
			if _, err := l.Take(nil); err != nil { // has them read
				t.Fatal(err)
			}
			synctest.Wait()
			for len(l.told) > 1 {
				<-l.told
			}
			want(t, l, "snapshot", "snapshot")
		})
	})
	t.Run("the end of the reader", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe([]string{"a"}, false, ""))
			want(t, l, "snapshot")
			l.Close()
			ended(t, l)
		})
	})
	t.Run("the end of the hub", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe([]string{"a"}, false, ""))
			defer l.Close()
			want(t, l, "snapshot")
			h.Close()
			ended(t, l)
		})
	})
}

func TestTakeUsesTheRoom(t *testing.T) {
	inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
		r := h.Subscribe([]string{"a"}, false, "")
		defer r.Close()
		wantNames(t, r, "snapshot")
		h.Publish(t.Context(), renamed("a", 2))
		room := make([]chat.LiveEvent, 1, 4)
		events, err := r.Take(room)
		if err != nil || names(events) != "topic" || &events[0] != &room[0] {
			t.Errorf("got %s, %v", names(events), err)
		}
	})
}
