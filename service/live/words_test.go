package live_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/bus/bustest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

func TestTextOfAnotherInstance(t *testing.T) {
	follow := func(t *testing.T, r *live.Reader, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, deltas(t, r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	t.Run("is told as it is here", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "a😀"))
			follow(t, r, "0/text/0/!", "1/text/0/a😀!")
			p.here.Delta(fence, text(1, 3, "b"))
			p.here.Progress(fence, 1, "3/10")
			follow(t, r, "1/text/3/b", "1/progress/0/3/10")
			p.here.End(fence)
			p.here.Delta(fence, text(1, 4, "c"))
			follow(t, r)
		})
	})
	t.Run("is repeated for one who comes late", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			long := strings.Repeat("é", 3000)
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, long))
			time.Sleep(time.Minute)
			r := p.there.Subscribe([]string{"a"}, false, "")
			defer r.Close()
			if n := strings.Count(allData(t, r), "é"); n != 3000 { // some with the snapshot, perhaps
				t.Errorf("%d characters came", n)
			}
			p.here.Delta(fence, text(1, 3000, "b"))
			follow(t, r, "1/text/3000/b")
			again := p.there.Subscribe([]string{"a"}, false, "")
			defer again.Close()
			if ev := wantNames(t, again, "snapshot"); !strings.Contains(string(ev[0].Data), long+"b") {
				t.Error("the snapshot lacks the text")
			}
			follow(t, r)
		})
	})
	t.Run("that was lost is asked for, by what follows or after a look", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "a"))
			follow(t, r, "0/text/0/!", "1/text/0/a!")
			p.network.Become(bustest.Faults{Drop: 100, Silent: 100})
			p.here.Delta(fence, text(1, 1, "b"))
			time.Sleep(time.Second)
			p.network.Become(bustest.Faults{})
			p.here.Delta(fence, text(1, 2, "c"))
			follow(t, r, "1/text/1/bc")
			p.network.Become(bustest.Faults{Drop: 100, Silent: 100})
			p.here.Delta(fence, text(1, 3, "d"))
			time.Sleep(time.Second)
			p.network.Become(bustest.Faults{})
			time.Sleep(20 * time.Second)
			follow(t, r, "1/text/3/d")
		})
	})
	t.Run("of a step that is asked again takes the place of the first", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "a"))
			follow(t, r, "0/text/0/!", "1/text/0/a!")
			p.here.End(fence)
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "b"))
			if got := deltas(t, r); got[0] != "snapshot" {
				t.Errorf("got %v", got)
			}
		})
	})
	t.Run("does not come back after its commit", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "a"))
			follow(t, r, "0/text/0/!", "1/text/0/a!")
			done := chat.Parts{chat.StepStart{}, chat.Text{Text: "a", State: "done"}}
			p.commit(func(c *chat.Change) {
				p.db.set(func() { p.db.parts = done })
				for i, part := range done {
					c.Parts = append(c.Parts, chat.PartChange{MessageID: "m", Epoch: 1, Position: i, Part: part})
				}
			}) // its End is lost with the process
			follow(t, r, "part", "part", "status")
			late := p.there.Subscribe([]string{"a"}, false, "")
			defer late.Close()
			if ev := wantNames(t, late, "snapshot"); strings.Count(string(ev[0].Data), `"text":"a"`) != 1 {
				t.Errorf("got %s", ev[0].Data)
			}
		})
	})
	t.Run("of an owner that has lost the turn is not told", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			next := fence
			next.Epoch = 2
			p.there.Begin(next, 1, 0)
			follow(t, r, "0/text/0/!")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, start(1, "ghost"))
			p.here.Progress(fence, 1, "ghost")
			follow(t, r)
		})
	})
	t.Run("whose beginning is too large is left to its commit", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			big := text(1, 0, "")
			big.Start = chat.Text{Text: strings.Repeat("x", live.MaxMessage)}
			p.here.Delta(fence, big)
			follow(t, r, "0/text/0/!")
			sent := p.bus.Sent()
			p.here.Delta(fence, text(1, 0, "more"))
			time.Sleep(time.Second)
			if n := p.bus.Sent() - sent; n > 1 { // what is said at a look
				t.Errorf("%d signals were sent", n)
			}
		})
	})
	t.Run("of a call keeps less of what its provider adds rather than nothing", func(t *testing.T) {
		two(t, func(t *testing.T, p *instances) {
			r := p.watch(false, "a")
			p.here.Begin(fence, 1, 0)
			p.here.Delta(fence, chat.Delta{Part: 1, Field: "input", Text: "{", Start: chat.ToolCall{
				Type: chat.DynamicTool, ToolCallID: "c", ToolName: "t", State: chat.CallInputStreaming,
				CallProviderMetadata: []byte(`{"x":"` + strings.Repeat("x", live.MaxMessage) + `"}`),
			}})
			follow(t, r, "0/text/0/!", "1/input/0/{!")
		})
	})
}
