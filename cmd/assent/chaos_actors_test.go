//go:build chaos

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// asked is a request to the model: by which server and when, for which step,
// and the numbers of the requests whose answers it holds as the steps before.
type asked struct {
	n, step, server int
	at              time.Duration
	before          []int
}

// serial is the number that every call carries of the request that made it.
func serial(text string) int {
	base, _, _ := strings.Cut(text, "~")
	n, err := strconv.Atoi(base[strings.LastIndexByte(base, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}

// reply is what the model says: two gated calls and a free one, one more gated
// call, the end. It takes its time, so that the weather finds it speaking.
func (c *chaos) reply(server int, r llmtest.Request) llmtest.Turn {
	a, turn := asked{server: server, at: time.Since(c.began)}, ""
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			turn, a.before = m.Text(), nil
		case "assistant":
			if len(m.ToolCalls) > 0 {
				a.before = append(a.before, serial(m.ToolCalls[0].ID))
			}
		}
	}
	a.step = len(a.before)
	c.mu.Lock()
	c.count++
	n := c.count
	a.n = n
	c.asked[turn] = append(c.asked[turn], a)
	think := between(c.random, 0, 3*time.Second)
	c.mu.Unlock()
	if c.calm.Load() {
		think /= 50
	}
	gate := make(chan struct{})
	time.AfterFunc(think, func() { close(gate) })
	named := func(letter string) string { return fmt.Sprintf("%s.%s.%d", turn, letter, n) }
	switch a.step {
	case 0:
		return llmtest.Text("some ", "words ").Then(llmtest.Gate(gate)).Then(
			llmtest.Calls(call("note", named("a")), call("peek", named("b")), call("note", named("c"))))
	case 1:
		return llmtest.Text("more ").Then(llmtest.Gate(gate)).Then(llmtest.Calls(call("note", named("d"))))
	default:
		return llmtest.Text("the ").Then(llmtest.Gate(gate)).Then(llmtest.Text(fmt.Sprintf("end.%d", n)))
	}
}

// ask makes a request that may be lost at any moment.
func (c *chaos) ask(i *chaosServer, method, path string, body any) (reply, error) {
	base, token := i.at()
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{}, err
	}
	// Its only bound is the client's: a decision on its way when the weather ends is answered too.
	req, err := http.NewRequestWithContext(c.t.Context(), method, base+path, bytes.NewReader(raw))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw}, err
}

// chaosCard is a card that a decider saw; text is that of its call.
type chaosCard struct{ topic, id, text string }

// decideOn decides on cards that wait, and on some that were decided already.
func (c *chaos) decideOn(ctx context.Context, random *rand.Rand) {
	for pause(ctx, between(random, 100*time.Millisecond, 400*time.Millisecond)) {
		i := c.servers[random.IntN(len(c.servers))]
		topic := c.topics[random.IntN(len(c.topics))]
		if r, err := c.ask(i, "GET", "/topics/"+topic+"/approvals?state=pending", nil); err == nil && r.status == 200 {
			var list struct {
				Approvals []chat.ApprovalItem `json:"approvals"`
			}
			if err := json.Unmarshal(r.body, &list); err != nil {
				c.t.Error(err)
			}
			c.mu.Lock()
			for _, a := range list.Approvals {
				c.seen = append(c.seen, chaosCard{topic, a.ApprovalID, strings.TrimPrefix(a.ToolCallID, "call-")})
			}
			c.mu.Unlock()
		}
		c.mu.Lock()
		n := len(c.seen)
		var card chaosCard
		if n > 0 {
			card = c.seen[n-1-random.IntN(min(n, 12))] // a card is seen by several, and so raced for
		}
		c.mu.Unlock()
		if card.id == "" {
			continue
		}
		what := []string{"approve", "approve", "deny", "edit ~1", "edit ~2"}[random.IntN(5)]
		c.decideAt(c.servers[random.IntN(len(c.servers))], card, what)
	}
}

// op is a decision and what its decider was told.
type op struct {
	what, outcome string
	call, back    int64
}

const outcomeUnknown = "unknown"

// decideAt makes one decision and records how it went.
func (c *chaos) decideAt(i *chaosServer, card chaosCard, what string) string {
	body := map[string]any{"approvalId": card.id, "approved": what != "deny"}
	if mark, ok := strings.CutPrefix(what, "edit "); ok {
		body["updatedInput"] = map[string]any{"text": card.text + mark}
	}
	o := op{what: what, outcome: outcomeUnknown, call: int64(time.Since(c.began))}
	r, err := c.ask(i, "POST", "/topics/"+card.topic+"/approvals", body)
	o.back = int64(time.Since(c.began))
	switch {
	case err != nil || r.status >= 500:
		o.back = math.MaxInt64 // it may take effect at any time from now on, or never
	case r.status == 200:
		var d chat.Decided
		if err := json.Unmarshal(r.body, &d); err != nil || len(d.Results) != 1 {
			c.t.Errorf("deciding: %s", r.body)
			return ""
		}
		o.outcome = string(d.Results[0].Outcome)
	case r.status == 409:
		var p struct {
			Decision *struct{ Approved bool } `json:"decision"`
		}
		if err := json.Unmarshal(r.body, &p); err != nil || p.Decision == nil {
			c.t.Errorf("deciding: %s", r.body)
			return ""
		}
		o.outcome = fmt.Sprintf("conflict %v", p.Decision.Approved)
	case r.status == 410:
		o.outcome = "gone"
	default:
		c.t.Errorf("deciding: %d %s", r.status, r.body)
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[card.id] = append(c.ops[card.id], o)
	return o.outcome
}

// sendOn sends messages to a topic, each until it is taken, which has the
// effect of once.
func (c *chaos) sendOn(ctx context.Context, n int, topic string, random *rand.Rand) {
	for m := range chaosMessages {
		turn := fmt.Sprintf("r%dt%dm%d", c.round, n, m)
		for taken := false; !taken; {
			if !pause(ctx, between(random, 50*time.Millisecond, 500*time.Millisecond)) {
				return
			}
			i := c.servers[random.IntN(len(c.servers))]
			if r, err := c.ask(i, "GET", "/topics/"+topic+"/status", nil); err != nil || r.status != 200 || busy(r.body) {
				continue
			}
			r, err := c.ask(i, "POST", "/topics/"+topic+"/messages", map[string]any{"id": turn, "text": turn})
			taken = err == nil && r.status == 202
			if err == nil && !taken && r.status < 500 {
				c.t.Errorf("sending: %d %s", r.status, r.body)
				return
			}
		}
	}
}

func busy(body []byte) bool {
	var s chat.Status
	if json.Unmarshal(body, &s) != nil {
		return true
	}
	return len(s.ActiveExecutions) > 0 || len(s.AwaitingApprovalAnchors) > 0
}

// watch keeps a tab connected, now here and now there.
func (c *chaos) watch(ctx context.Context, b *tab, random *rand.Rand) {
	b.read = func(r io.Reader) io.Reader { return stalling{r, c, ctx, rand.New(rand.NewPCG(random.Uint64(), 0))} }
	by := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 2 * time.Second}}
	defer by.CloseIdleConnections()
	for ctx.Err() == nil {
		base, token := c.servers[random.IntN(len(c.servers))].at()
		b.mu.Lock()
		last := b.client.LastID
		if b.client.Reopen != "" {
			b.client.Reopen, last = "", ""
		}
		b.mu.Unlock()
		if b.dial(by, base, token, last) != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		until := time.Now().Add(between(random, time.Second, 6*time.Second))
		for stay := true; stay; {
			select {
			case <-b.done:
				stay = false
			default:
				b.mu.Lock()
				reopen := b.client.Reopen != ""
				b.mu.Unlock()
				late := !c.calm.Load() && time.Now().After(until)
				stay = !reopen && !late && pause(ctx, 50*time.Millisecond)
			}
		}
		b.leave()
	}
}

// stalling reads as a tab in the background does: at times not at all.
type stalling struct {
	r      io.Reader
	c      *chaos
	ctx    context.Context
	random *rand.Rand
}

func (s stalling) Read(p []byte) (int, error) {
	if !s.c.calm.Load() && s.random.IntN(20) == 0 {
		pause(s.ctx, between(s.random, 100*time.Millisecond, time.Second))
	}
	return s.r.Read(p)
}
