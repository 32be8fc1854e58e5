//go:build chaos

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// person is who sends messages to a topic and looks after what became of
// them: stops turns, tries again what failed or was stopped, and edits,
// removes or sends what is queued. A topic has one, who does one thing after
// the other and knows how each ended, so that what must hold is exact.
type person struct {
	*chaos
	n        int // of the topic
	topic    string
	random   *rand.Rand
	messages []*said // in the order in which they were taken

	// stopped is what the calls were when the last stop was answered. Nobody
	// but the person lets them go on.
	stopped []string
}

// said is a message that was taken.
type said struct {
	id, text string
	queued   bool // for certain: the first try was answered so
	byHand   bool // it may have been sent by hand
	removed  bool
}

// act is what the person does until the weather ends.
func (p *person) act(ctx context.Context) {
	for pause(ctx, between(p.random, 50*time.Millisecond, 700*time.Millisecond)) && !p.t.Failed() {
		h := p.look()
		last := wireMessage{}
		if len(h.Messages) > 0 {
			last = h.Messages[len(h.Messages)-1]
		}
		dice := p.random.IntN(20)
		switch h.Status.Status {
		case chat.TopicIdle, chat.TopicDone:
			p.send("")
		case chat.TopicPending, chat.TopicStreaming:
			switch {
			case dice < 4:
				p.send("queue")
			case dice < 7:
				p.stop(ctx)
			}
		case chat.TopicAwaitingApproval:
			switch {
			case dice < 4:
				p.send("queue")
			case dice == 4:
				p.stop(ctx)
			case dice == 5:
				p.send("supersede")
			}
		case chat.TopicError, chat.TopicAborted:
			p.goOn(h, last, dice)
		}
	}
	p.held()
}

// goOn is what a person does with a topic that failed or was stopped.
func (p *person) goOn(h history, last wireMessage, dice int) {
	p.held()
	if len(h.Queued) > 0 && dice < 14 {
		id := h.Queued[p.random.IntN(len(h.Queued))].ID
		m := p.said(id)
		switch {
		case m == nil:
			p.t.Errorf("queue: nobody said %s, which is queued", id)
		case dice < 7:
			p.edit(m)
		case dice < 10:
			p.remove(m)
		default:
			p.stopped, m.byHand = nil, true
			r, _ := p.insist("POST", "/messages/"+id+"/send", nil)
			p.must("sending by hand", r.status == 202 && !queuedSays(r), r)
		}
		return
	}
	if dice%4 > 0 {
		p.stopped = nil
		r, again := p.insist("POST", "/messages/"+last.ID+"/retry", nil)
		p.must("retry", r.status == 202 || again && r.status == 409, r)
		return
	}
	p.send("")
}

// edit gives a queued message other words, and remove takes it back. Nothing
// must be able to send it meanwhile.
func (p *person) edit(m *said) {
	text := m.text + "e"
	r, _ := p.insist("PATCH", "/messages/"+m.id, map[string]any{"text": text})
	p.must("edit", r.status == 202 && queuedSays(r), r)
	m.text = text
}

func (p *person) remove(m *said) {
	r, again := p.insist("DELETE", "/messages/"+m.id, nil)
	p.must("removal", r.status == 204 || again && (r.status == 404 || r.status == 410), r)
	m.removed = true
}

// queueThree queues three messages behind a card that nobody decides, edits
// one and removes one.
func (p *person) queueThree() {
	n := len(p.messages)
	for range 3 {
		p.send("queue")
	}
	p.edit(p.messages[n+1])
	p.remove(p.messages[n+2])
}

// send says something new, in the way that is named.
func (p *person) send(when string) {
	if !p.calm.Load() && len(p.messages) >= chaosMessages {
		return
	}
	id := fmt.Sprintf("r%dt%dm%d", p.round, p.n, len(p.messages))
	body := map[string]any{"id": id, "text": id}
	if when != "" {
		body["whenBusy"] = when
	}
	p.stopped = nil
	r, again := p.insist("POST", "/messages", body)
	if when == "supersede" && r.status == 409 && !again {
		return // a step runs
	}
	if when == "supersede" && r.status == 409 {
		delete(body, "whenBusy") // whether it was taken is what the repetition finds out
		r, _ = p.insist("POST", "/messages", body)
	}
	p.must(cmp.Or(when, "sending"), r.status == 202, r)
	p.messages = append(p.messages, &said{id: id, text: id, queued: !again && queuedSays(r)})
}

// stop stops what the topic does. From its answer on no card is open and no
// call moves, whoever wakes meanwhile.
func (p *person) stop(ctx context.Context) {
	r, _ := p.insist("POST", "/stop", nil)
	p.must("stop", r.status == 200, r)
	h := p.look()
	if s := h.Status; s.Status == chat.TopicPending || s.Status == chat.TopicStreaming || s.PendingApprovals > 0 {
		p.t.Errorf("stop: it was answered, and the topic is %+v", s)
	}
	p.stopped = p.calls(h)
	for _, call := range p.stopped {
		if !strings.Contains(call, `"state":"output-`) {
			p.t.Errorf("stop: it was answered, and a call is %s", call)
		}
	}
	if p.random.IntN(3) == 0 {
		pause(ctx, chaosLease*3/2)
	}
}

// held says that since the last stop no call was begun, decided or ended.
func (p *person) held() {
	if p.stopped == nil || p.t.Failed() {
		return
	}
	if now := p.calls(p.look()); !slices.Equal(now, p.stopped) {
		p.t.Errorf("stop: the calls were %v when it was answered, and are %v", p.stopped, now)
	}
}

func (p *person) calls(h history) []string {
	calls := []string{}
	for _, m := range h.Messages {
		for _, c := range m.Parts.Calls() {
			calls = append(calls, string(mustJSON(p.t, c.Call)))
		}
	}
	return calls
}

func (p *person) said(id string) *said {
	for _, m := range p.messages {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (p *person) look() history {
	r, _ := p.insist("GET", "/messages?limit=200", nil)
	p.must("look", r.status == 200, r)
	var h history
	if r.status == 200 {
		r.into(p.t, &h)
	}
	return h
}

// insist is the person's.
func (p *person) insist(method, path string, body any) (r reply, again bool) {
	return p.chaos.insist(p.random, method, "/topics/"+p.topic+path, body)
}

// insist makes a request until it is answered, by whichever server. It also
// says whether an earlier try may have had its effect; by then it had it, or
// will not have any.
func (c *chaos) insist(random *rand.Rand, method, path string, body any) (r reply, again bool) {
	for until := time.Now().Add(2 * patience); time.Now().Before(until); {
		i := c.servers[random.IntN(len(c.servers))]
		r, err := c.ask(c.slow, i, method, path, body)
		if err == nil && r.status < 500 {
			return r, again
		}
		if method != "GET" {
			again = true
			if err := c.db.quiet(c.t.Context(), i.name); err != nil {
				c.t.Errorf("stuck: %v", err)
				break
			}
		}
		if !pause(c.t.Context(), 50*time.Millisecond) {
			break
		}
	}
	c.t.Errorf("stuck: no server answers %s %s", method, path)
	return reply{}, again
}

// must notes what the person did, and complains of an answer that cannot be.
func (p *person) must(doing string, ok bool, r reply) {
	p.mu.Lock()
	p.did[doing]++
	p.mu.Unlock()
	if !ok {
		p.t.Errorf("people: %s in %s was answered %d %s", doing, p.topic, r.status, r.body)
	}
}

func queuedSays(r reply) bool {
	var s sent
	return json.Unmarshal(r.body, &s) == nil && s.Queued
}

// checkQueue says that everything that was taken is there once, nothing is
// that was removed, and what was queued was sent in its order.
func (p *person) checkQueue() {
	p.t.Helper()
	h := p.look()
	at, times := map[string]int{}, map[string]int{}
	for k, m := range h.Messages {
		at[m.ID] = k
		times[m.ID]++
		if s := p.said(m.ID); s != nil && m.lastText() != s.text {
			p.t.Errorf("queue: %s says %q, and %q was said", m.ID, m.lastText(), s.text)
		}
	}
	for k, m := range p.messages {
		switch {
		case m.removed:
			if times[m.id] > 0 || len(p.asks(m.text)) > 0 {
				p.t.Errorf("queue: %s was removed, and is there %d times; the model was asked %d times", m.id, times[m.id], len(p.asks(m.text)))
			}
			continue
		case times[m.id] != 1:
			p.t.Errorf("queue: %s was taken, and is there %d times", m.id, times[m.id])
			continue
		case !m.queued || m.byHand:
			continue
		}
		for _, earlier := range p.messages[:k] {
			if !earlier.removed && at[earlier.id] > at[m.id] {
				p.t.Errorf("queue: %s was queued after %s was taken, and was sent before it", m.id, earlier.id)
			}
		}
	}
}
