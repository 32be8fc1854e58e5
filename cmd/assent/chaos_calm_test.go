//go:build chaos

package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// settle waits until nothing moves, decides what still waits and sends what is
// still queued, which must be possible, and so on until every topic is at its
// end.
func (c *chaos) settle() {
	c.t.Helper()
	for range chaosMessages * 6 {
		moved := false
		for n, topic := range c.topics {
			var s chat.Status
			c.eventually(func() bool {
				s = c.status(topic)
				return s.Status != chat.TopicPending && s.Status != chat.TopicStreaming && (s.Status != chat.TopicDone || s.QueuedMessages == 0)
			}, func() string { return fmt.Sprintf("stuck after the weather: %+v", s) })
			switch {
			case s.Status == chat.TopicAwaitingApproval:
				cards := c.pending(topic)
				if len(cards) == 0 {
					c.t.Fatalf("stuck after the weather, nothing to decide: %+v", s)
				}
				for _, a := range cards {
					// A decision that was lost in the weather may have come before it.
					if o := c.decideAt(c.servers[0], chaosCard{topic, a.ApprovalID, ""}, "approve"); o == outcomeGone {
						c.t.Fatal("stuck after the weather: a card that waits is gone")
					}
				}
				moved = true
			case s.QueuedMessages > 0: // after a stop or an error
				id := c.history(topic).Queued[0].ID
				c.surely(202, "POST", "/topics/"+topic+"/messages/"+id+"/send", nil)
				if m := c.people[n].said(id); m != nil {
					m.byHand = true
				}
				moved = true
			}
		}
		if !moved {
			return
		}
	}
	c.t.Fatal("stuck after the weather: the topics never come to an end")
}

// surely makes a request that can be repeated, until it is answered.
func (c *chaos) surely(status int, method, path string, body any) reply {
	c.t.Helper()
	r, _ := c.insist(c.dice(diceCalm, 0), method, path, body)
	if r.status != status {
		c.t.Fatalf("%s %s: got %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// say sends a message that starts a turn, and gives the turn's id.
func (c *chaos) say(topic, text string) string {
	c.t.Helper()
	var s sent
	c.surely(202, "POST", "/topics/"+topic+"/messages", map[string]any{"id": text, "text": text}).into(c.t, &s)
	if s.Turn == nil {
		c.t.Fatalf("stuck without weather: %s starts nothing: %+v", text, s)
	}
	return s.Turn.ID
}

// newTopic makes a topic. Another may be made in vain.
func (c *chaos) newTopic() string {
	c.t.Helper()
	var topic chat.Topic
	c.surely(201, "POST", "/topics", map[string]any{"title": "bad weather"}).into(c.t, &topic)
	return topic.ID
}

// patient reads again where a server cannot answer: a connection that the
// weather broke may be noticed long after it.
type patient struct{ http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for range 100 {
		resp, err := p.RoundTripper.RoundTrip(r)
		if err != nil || r.Method != "GET" || resp.StatusCode != http.StatusServiceUnavailable || !pause(r.Context(), 50*time.Millisecond) {
			return resp, err
		}
		_ = resp.Body.Close()
	}
	return p.RoundTripper.RoundTrip(r)
}

// quietly plays one more turn in every topic, with messages queued behind it.
// Without weather each step must be asked for once, however many decide at once
// and wherever.
func (c *chaos) quietly() {
	c.t.Helper()
	turns, ids := make([]string, len(c.topics)), make([]string, len(c.topics))
	for n, topic := range c.topics {
		turns[n] = fmt.Sprintf("r%dt%dcalm", c.round, n)
		ids[n] = c.say(topic, turns[n])
	}
	for step := range 2 {
		var wg sync.WaitGroup
		for n, topic := range c.topics {
			c.until(topic, chat.TopicAwaitingApproval)
			if step == 0 {
				c.people[n].queueThree()
			}
			for _, a := range c.pending(topic) {
				for k := range 2 * len(c.servers) {
					wg.Go(func() {
						c.decideAt(c.servers[k%len(c.servers)], chaosCard{topic, a.ApprovalID, ""}, "approve")
					})
				}
			}
		}
		wg.Wait()
		for _, turn := range turns {
			c.eventually(func() bool { return len(c.asks(turn)) > step+1 }, func() string {
				return "stuck without weather: the turn does not go on after step " + strconv.Itoa(step)
			})
		}
	}
	c.settle() // what was queued meanwhile follows
	for n := range c.topics {
		if _, takeovers := c.claims(ids[n]); takeovers > 0 {
			c.t.Logf("turn %s was taken over without weather: this machine was too slow for a lease of %v", turns[n], chaosLease)
			continue
		}
		steps := map[int]int{}
		for _, a := range c.asks(turns[n]) {
			steps[a.step]++
		}
		for step, times := range steps {
			if times != 1 {
				c.t.Errorf("continuations: step %d of %s was asked for %d times without weather", step, turns[n], times)
			}
		}
	}
}
