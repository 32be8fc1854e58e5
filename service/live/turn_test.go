package live_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

var fence = chat.Fence{TopicID: "a", TurnID: "t", MessageID: "m", Epoch: 1}

func text(part, offset int, s string) chat.Delta {
	return chat.Delta{Part: part, Field: "text", Offset: offset, Text: s}
}

func start(part int, s string) chat.Delta {
	d := text(part, 0, s)
	d.Start = chat.Text{State: "streaming"}
	return d
}

// deltas reads what comes within a second, as "part/field/offset/text" and "!"
// for a start; other events by their names.
func deltas(t *testing.T, r *live.Reader) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var got []string
	for {
		events, err := r.Next(ctx)
		if err != nil {
			return got
		}
		for _, ev := range events {
			if ev.Name != "delta" {
				got = append(got, ev.Name)
				continue
			}
			var d struct {
				Part, Offset json.Number
				Field, Text  string
				Start        json.RawMessage
			}
			if err := json.Unmarshal(ev.Data, &d); err != nil {
				t.Fatal(err)
			}
			s := strings.Join([]string{d.Part.String(), d.Field, d.Offset.String(), d.Text}, "/")
			if d.Start != nil {
				s += "!"
			}
			got = append(got, s)
		}
	}
}

func TestDeltas(t *testing.T) {
	bg := context.Background()
	for name, c := range map[string]struct {
		do   func(h *live.Hub)
		want []string
	}{
		"are merged": {func(h *live.Hub) {
			h.Delta(fence, start(1, "a"))
			h.Delta(fence, text(1, 1, "😀"))
			h.Delta(fence, text(1, 3, "b"))
		}, []string{"0/text/0/!", "1/text/0/a😀b!"}},
		"are merged for a while only": {func(h *live.Hub) {
			h.Delta(fence, start(1, "a"))
			time.Sleep(39 * time.Millisecond)
			h.Delta(fence, text(1, 1, "b"))
			time.Sleep(2 * time.Millisecond)
			h.Delta(fence, text(1, 2, "c"))
		}, []string{"0/text/0/!", "1/text/0/ab!", "1/text/2/c"}},
		"are sent before those of another part": {func(h *live.Hub) {
			h.Delta(fence, start(1, "a"))
			h.Delta(fence, chat.Delta{Part: 2, Field: "input", Start: chat.ToolCall{State: chat.CallInputStreaming}})
			h.Delta(fence, text(1, 1, "b"))
			h.Delta(fence, chat.Delta{Part: 2, Field: "input", Text: "{"})
		}, []string{"0/text/0/!", "1/text/0/a!", "2/input/0/!", "1/text/1/b", "2/input/0/{"}},
		"are sent before a change": {func(h *live.Hub) {
			h.Delta(fence, start(1, "a"))
			h.Publish(bg, renamed("a", 2))
		}, []string{"0/text/0/!", "1/text/0/a!", "topic"}},
		"are sent before the step ends, and none after": {func(h *live.Hub) {
			h.Delta(fence, start(1, "a"))
			h.End(fence)
			h.Delta(fence, text(1, 1, "b"))
			h.End(fence)
			h.Publish(bg, renamed("a", 2))
		}, []string{"0/text/0/!", "1/text/0/a!", "topic"}},
		"that do not continue are left out": {func(h *live.Hub) {
			h.Delta(fence, text(1, 0, "no start"))
			h.Delta(fence, start(2, "too far"))
			h.Delta(fence, start(-1, "before"))
			h.Delta(fence, start(1, "a"))
			h.Delta(fence, start(1, "again"))
			h.Delta(fence, text(1, 2, "gap"))
			h.Delta(fence, text(1, 0, "a"))
			h.Delta(fence, chat.Delta{Part: 1, Field: "output", Offset: 1})
			h.Delta(chat.Fence{TopicID: "unknown"}, start(1, "x"))
			h.Delta(fence, text(1, 1, "b"))
		}, []string{"0/text/0/!", "1/text/0/ab!"}},
		"of another epoch are left out": {func(h *live.Hub) {
			old, later := fence, fence
			old.Epoch, later.Epoch = 0, 2
			h.Delta(fence, start(1, "a"))
			h.Delta(old, text(1, 1, "old"))
			h.Delta(later, text(1, 1, "new"))
			h.End(old)
			h.Begin(old, 1, 0)
			h.Delta(fence, text(1, 1, "b"))
		}, []string{"0/text/0/!", "1/text/0/ab!"}},
		"of a turn that another owner has taken over stop": {func(h *live.Hub) {
			later := fence
			later.Epoch = 2
			h.Delta(fence, start(1, "a"))
			h.Begin(later, 1, 0)
			h.Delta(fence, text(1, 1, "b"))
			h.Delta(later, start(1, "c"))
		}, []string{"0/text/0/!", "0/text/0/!", "1/text/0/c!"}},
		"of a call's progress are sent now and then, the last in any case": {func(h *live.Hub) {
			old, later := fence, fence
			old.Epoch, later.Epoch = 0, 2
			h.End(fence)
			for _, s := range []string{"1/9", "2/9", "3/9"} {
				h.Progress(fence, 0, s)
			}
			h.Progress(old, 0, "old")
			time.Sleep(50 * time.Millisecond)
			h.Progress(fence, 0, "4/9")
			h.Publish(bg, renamed("a", 2))
			h.Progress(later, 0, "again")
		}, []string{"0/text/0/!", "0/progress/0/3/9", "0/progress/0/4/9", "topic", "0/progress/0/again"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
				r := h.Subscribe([]string{"a"}, false, "")
				defer r.Close()
				wantNames(t, r, "snapshot")
				h.Begin(fence, 1, 0)
				c.do(h)
				if diff := cmp.Diff(c.want, deltas(t, r)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// partsOf are the parts of the message in a snapshot.
func partsOf(t *testing.T, ev chat.LiveEvent) chat.Parts {
	t.Helper()
	var s struct{ Messages []struct{ Parts chat.Parts } }
	if err := json.Unmarshal(ev.Data, &s); err != nil {
		t.Fatal(err)
	}
	return s.Messages[0].Parts
}

func TestSnapshotHoldsLiveText(t *testing.T) {
	written := chat.Parts{
		chat.StepStart{}, chat.Reasoning{Text: "hm", State: "streaming"}, chat.Text{Text: "ab", State: "streaming"},
		chat.ToolCall{Type: chat.DynamicTool, ToolCallID: "c", State: chat.CallInputStreaming, RawInput: "{"},
	}
	write := func(h *live.Hub, base int) {
		h.Begin(fence, 1, base)
		h.Delta(fence, chat.Delta{Part: base + 1, Field: "text", Text: "hm", Start: chat.Reasoning{State: "streaming"}})
		h.Delta(fence, start(base+2, "a"))
		h.Delta(fence, text(base+2, 1, "b"))
		h.Delta(fence, chat.Delta{Part: base + 3, Field: "input", Text: "{", Start: chat.ToolCall{Type: chat.DynamicTool, ToolCallID: "c", State: chat.CallInputStreaming}})
	}
	t.Run("and the deltas go on from it", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			write(h, 0)
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			if diff := cmp.Diff(written, partsOf(t, wantNames(t, r, "snapshot")[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			h.Delta(fence, chat.Delta{Part: 3, Field: "input", Offset: 1, Text: "}"})
			if diff := cmp.Diff([]string{"3/input/1/}"}, deltas(t, r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
	for name, change := range map[string]func(s *chat.Snapshot){
		"but not of a step that it holds as committed": func(s *chat.Snapshot) { s.Messages[0].Parts = written[:1] },
		"but not of an owner before its own":           func(s *chat.Snapshot) { s.Messages[0].Epoch = 2 },
		"but not of a turn that has ended":             func(s *chat.Snapshot) { s.Messages[0].Status = chat.MessageAborted },
		"but not of a message that it does not hold":   func(s *chat.Snapshot) { s.Messages[0].ID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			snap := one("a", 1)
			change(&snap)
			inBubble(t, &source{snapshot: func(string) (chat.Snapshot, error) { return snap, nil }}, live.Options{}, func(t *testing.T, h *live.Hub) {
				write(h, 0)
				r := h.Subscribe([]string{"a"}, false, "")
				defer r.Close()
				got := partsOf(t, wantNames(t, r, "snapshot")[0])
				if want := append(chat.Parts{}, snap.Messages[0].Parts...); !cmp.Equal(want, got) {
					t.Errorf("got %v, want %v", got, want)
				}
				h.Delta(fence, chat.Delta{Part: 3, Field: "input", Offset: 1, Text: "}"})
				if got := deltas(t, r); got != nil {
					t.Errorf("and then came %v", got)
				}
			})
		})
	}
	t.Run("a step that is asked for again replaces what was shown", func(t *testing.T) {
		inBubble(t, &source{}, live.Options{}, func(t *testing.T, h *live.Hub) {
			r := h.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			wantNames(t, r, "snapshot")
			for _, end := range []bool{true, false} {
				write(h, 0)
				if end {
					h.End(fence)
				}
				next(t, r)
				h.Begin(fence, 1, 0)
				if diff := cmp.Diff(written[:1], partsOf(t, wantNames(t, r, "snapshot")[0])); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				h.End(chat.Fence{TopicID: "a", TurnID: "t", Epoch: 1})
				h.Begin(fence, 1, 7) // elsewhere, so that the next round begins anew
				next(t, r)
			}
		})
	})
}
