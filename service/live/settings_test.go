package live_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// told are the data of the settings events that come until it is quiet for a
// minute, and the names of all other events.
func told(t *testing.T, l looker) []string {
	t.Helper()
	var got []string
	take := func() {
		for synctest.Wait(); len(l.told) > 0; synctest.Wait() {
			<-l.told
			events, err := l.Take(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				if ev.Name == "settings" {
					got = append(got, string(ev.Data))
				} else {
					got = append(got, ev.Name)
				}
			}
		}
	}
	take()
	time.Sleep(time.Minute)
	take()
	return got
}

func TestSettings(t *testing.T) {
	const servers, rules = `{"changed":"mcp-servers"}`, `{"changed":"rules"}`
	want := func(t *testing.T, l looker, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, told(t, l)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	t.Run("are told to those who watch all statuses, and to no others", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			all := newLooker(h.Subscribe(nil, true, ""))
			defer all.Close()
			both := newLooker(h.Subscribe([]string{"a"}, true, ""))
			defer both.Close()
			one := newLooker(h.Subscribe([]string{"a"}, false, ""))
			defer one.Close()
			for l, n := range map[looker]int{all: 1, both: 2, one: 1} {
				if got := told(t, l); len(got) != n || strings.Contains(fmt.Sprint(got), "changed") {
					t.Fatalf("began with %v", got)
				}
			}
			h.Settings(chat.SettingsServers)
			h.Settings(chat.SettingsRules)
			h.Settings(chat.SettingsAssistants)
			want(t, all, servers, rules, `{"changed":"assistants"}`)
			want(t, both, servers, rules, `{"changed":"assistants"}`)
			want(t, one)
		})
	})
	t.Run("the first change is told at once, those that follow closely as one", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe(nil, true, ""))
			defer l.Close()
			want(t, l, "snapshot")
			h.Settings(chat.SettingsServers)
			if got, err := l.look(); err != nil || len(got) != 1 {
				t.Fatalf("got %v, %v before time went by", got, err)
			}
			for range 100 {
				h.Settings(chat.SettingsServers)
			}
			want(t, l, servers)
			h.Settings(chat.SettingsServers)
			want(t, l, servers)
		})
	})
	t.Run("a kind that changes all the time holds up none", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			l := newLooker(h.Subscribe(nil, true, ""))
			defer l.Close()
			want(t, l, "snapshot")
			begun := time.Now()
			n := 0
			for time.Since(begun) < 10250*time.Millisecond { // into the middle of what is joined
				h.Settings(chat.SettingsServers)
				time.Sleep(time.Millisecond)
				n++
			}
			h.Settings(chat.SettingsRules)
			got := told(t, l)
			if len(got) < 2 || len(got) > n/100 {
				t.Errorf("%d changes were told %d times", n, len(got))
			}
			if diff := cmp.Diff([]string{rules, servers}, got[len(got)-2:]); diff != "" {
				t.Errorf("in the end (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("have an id to go on from", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, true, "")
			for n := 0; n < 2; {
				n += len(next(t, r))
			}
			h.Settings(chat.SettingsServers)
			first := lastID(wantNames(t, r, "settings"))
			h.Settings(chat.SettingsRules)
			second := lastID(wantNames(t, r, "settings"))
			h.Publish(t.Context(), renamed("a", 2))
			wantNames(t, r, "topic")
			r.Close()
			if first == "" || second == "" || first == second {
				t.Fatalf("the ids are %q and %q", first, second)
			}
			for id, events := range map[string]string{first: "settings topic", second: "topic"} {
				again := h.Subscribe([]string{"a"}, true, id)
				wantNames(t, again, events)
				again.Close()
			}
		})
	})
	t.Run("one who has fallen off hears of what it missed", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{RingCount: 2}, func(t *testing.T, h *live.Hub) {
			h.Settings(chat.SettingsAssistants)
			synctest.Wait()
			l := newLooker(h.Subscribe(nil, true, ""))
			defer l.Close()
			want(t, l, "snapshot")
			h.Settings(chat.SettingsRules)
			h.Settings(chat.SettingsServers)
			for rev := range int64(3) {
				h.Publish(t.Context(), renamed("a", rev+2))
			}
			want(t, l, "snapshot", servers, rules)
			want(t, l)
		})
	})
	t.Run("one who begins hears of what changes while its snapshot is read", func(t *testing.T) {
		src := &source{}
		inBubble(t, src, live.Options{}, func(t *testing.T, h *live.Hub) {
			free := make(chan struct{})
			src.topics = func() ([]chat.Topic, string, error) { <-free; return nil, "", nil }
			first := newLooker(h.Subscribe(nil, true, ""))
			defer first.Close()
			if got, err := first.look(); err != nil || len(got) > 0 { // its snapshot is being read
				t.Fatalf("got %v, %v", got, err)
			}
			h.Settings(chat.SettingsRules)
			second := newLooker(h.Subscribe(nil, true, "")) // after the rules
			defer second.Close()
			h.Settings(chat.SettingsServers)
			close(free)
			want(t, first, "snapshot", rules, servers)
			// It shares the snapshot; to be told of the rules is needless, and harmless.
			want(t, second, "snapshot", rules, servers)
		})
	})
	t.Run("what changes between the beginning and the reading of the snapshot is told", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			h.Settings(chat.SettingsRules)
			l := newLooker(h.Subscribe(nil, true, ""))
			defer l.Close()
			h.Settings(chat.SettingsServers) // nothing was taken, and so nothing read, yet
			want(t, l, "snapshot", servers)
		})
	})
	t.Run("on a closed hub nobody waits for more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := live.New(&source{}, live.Options{})
			l := newLooker(h.Subscribe(nil, true, ""))
			want(t, l, "snapshot")
			h.Settings(chat.SettingsServers)
			h.Settings(chat.SettingsServers) // is still to be told when the hub closes
			h.Close()
			h.Settings(chat.SettingsRules)
			time.Sleep(time.Minute)
			late := newLooker(h.Subscribe(nil, true, ""))
			for name, l := range map[string]looker{"watched before": l, "comes late": late} {
				if got, err := l.look(); !errors.Is(err, live.ErrClosed) {
					t.Errorf("one who %s: got %v, %v", name, got, err)
				}
				if events, err := l.Take(nil); !errors.Is(err, live.ErrClosed) || len(events) > 0 {
					t.Errorf("one who %s, again: got %v, %v", name, events, err)
				}
			}
		})
	})
}
