package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// counter is a reader whose events are numbers.
type counter struct {
	ready func()
	took  func() // called when Take has looked, before it returns
	taken int64
	count atomic.Int64
}

func (c *counter) OnReady(f func()) { c.ready = f }

func (c *counter) Take(room []chat.LiveEvent) ([]chat.LiveEvent, error) {
	n := c.count.Load()
	if c.took != nil {
		c.took()
	}
	events := room[:0]
	for ; c.taken < n; c.taken++ {
		events = append(events, event("", "status", fmt.Sprint(c.taken+1)))
	}
	return events, nil
}

func (c *counter) Close() {}

func (c *counter) add() {
	c.count.Add(1)
	c.ready()
}

func numbered(n int64) string { return fmt.Sprintf("id: \ndata: %d\nevent: status\n\n", n) }

func TestStreamLosesNoWakeUp(t *testing.T) {
	serve := func(t *testing.T, c *counter) *http.Response {
		t.Helper()
		s := testStreamer()
		s.pingEvery = time.Hour // which wakes the handler, too
		return get(t, serveStreams(t, s, func(*http.Request) EventReader { return c }, false), "ada")
	}
	t.Run("that comes while the reader is asked and has nothing", func(t *testing.T) {
		c := &counter{}
		c.took = sync.OnceFunc(func() { c.add() })
		expect(t, serve(t, c).Body, numbered(1))
	})
	t.Run("that comes while the reader is asked and has something", func(t *testing.T) {
		c := &counter{}
		c.count.Store(1)
		c.took = sync.OnceFunc(func() { c.add(); c.add() })
		expect(t, serve(t, c).Body, numbered(1)+numbered(2)+numbered(3))
	})
	t.Run("that comes while the handler goes to rest", func(t *testing.T) {
		c := &counter{}
		c.count.Store(1)
		body := serve(t, c).Body
		for n := range int64(5000) { // the next comes at the instant that the one before is written
			expect(t, body, numbered(n+1))
			c.add()
		}
	})
	t.Run("of many at the same time", func(t *testing.T) {
		c := &counter{}
		c.count.Store(1)
		body := serve(t, c).Body
		expect(t, body, numbered(1))
		var all strings.Builder
		for n := range int64(800) {
			all.WriteString(numbered(n + 2))
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					c.add()
				}
			})
		}
		expect(t, body, all.String())
		wg.Wait()
	})
}

func TestStreamKeepsNoLargeRoom(t *testing.T) {
	c := &connection{}
	small := []chat.LiveEvent{event("1", "status", "{}")}
	c.keepRoom(small)
	if cap(c.batch) == 0 || small[0].Data != nil {
		t.Errorf("room for %d is kept, with %v", cap(c.batch), small[0])
	}
	c.keepRoom(make([]chat.LiveEvent, roomEvents+1))
	if c.batch != nil {
		t.Errorf("room for %d is kept", cap(c.batch))
	}
}
