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
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// ask makes a request that may be lost at any moment.
func (c *chaos) ask(by *http.Client, i *chaosServer, method, path string, body any) (reply, error) {
	base, token := i.at()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		content = bytes.NewReader(raw)
	}
	// Its only bound is the client's: a decision on its way when the weather ends is answered too.
	req, err := http.NewRequestWithContext(c.t.Context(), method, base+path, content)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := by.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw}, err
}

// chaosCard is a card that a decider saw; text is that of its call.
type chaosCard struct{ topic, id, text string }

// decideOn decides on cards that wait, and on some that were decided already.
func (c *chaos) decideOn(ctx context.Context, random *rand.Rand) {
	for pause(ctx, between(random, 100*time.Millisecond, 400*time.Millisecond)) {
		i := c.servers[random.IntN(len(c.servers))]
		topic := c.topics[random.IntN(len(c.topics))]
		if r, err := c.ask(c.client, i, "GET", "/topics/"+topic+"/approvals?state=pending", nil); err == nil && r.status == 200 {
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

const (
	outcomeUnknown = "unknown"
	outcomeGone    = "gone"
)

// decideAt makes one decision and records how it went.
func (c *chaos) decideAt(i *chaosServer, card chaosCard, what string) string {
	body := map[string]any{"approvalId": card.id, "approved": what != "deny"}
	if mark, ok := strings.CutPrefix(what, "edit "); ok {
		body["updatedInput"] = map[string]any{"text": card.text + mark}
	}
	o := op{what: what, outcome: outcomeUnknown, call: int64(time.Since(c.began))}
	r, err := c.ask(c.client, i, "POST", "/topics/"+card.topic+"/approvals", body)
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
		o.outcome = outcomeGone
	default:
		c.t.Errorf("deciding: %d %s", r.status, r.body)
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[card.id] = append(c.ops[card.id], o)
	return o.outcome
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
