//go:build chaos

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// still is a turn whose owner is frozen at a known point. Another server takes
// the turn over while the owner stands still, and waits at a gate; then the
// owner wakes, and tries to write what it had in hand. Heartbeats are held up
// meanwhile, so that the owner does not hear that it was replaced before it has
// tried.
type still struct {
	*chaos
	point int
	name  string // of the turn, which is its message
	id    string // of the turn
	owner *chaosServer
	free  chan struct{} // closed: those who took over go on
}

// The points at which owners are frozen.
const (
	inStream = iota // the model speaks
	inCall          // a tool runs
	inWrite         // the result of a tool is being written: the topic's row is locked
	inStop          // the model speaks, and the turn is stopped by another server
)

// standStill plays a turn whose owner is frozen at the point.
func (c *chaos) standStill(point int) {
	c.t.Helper()
	s := &still{chaos: c, point: point, name: fmt.Sprintf("r%dt%dp%dstill", c.round, chaosTopics, point), free: make(chan struct{})}
	owners := make(chan struct{}) // closed: the owner's own stream goes on
	inTool := point == inCall || point == inWrite
	c.mu.Lock()
	c.scripts[s.name] = func(a chaosAsk) llmtest.Turn {
		gate := s.free
		if a.n == c.asks(s.name)[0].n {
			gate = owners
		}
		named := fmt.Sprintf("%s.a.%d", s.name, a.n)
		switch {
		case a.step == 0 && inTool:
			return llmtest.Calls(call("peek", named, `"hold":true`))
		case a.step == 0:
			return llmtest.Text("some ").Then(llmtest.Gate(gate)).Then(llmtest.Calls(call("peek", named)))
		default:
			return llmtest.Text("the ").Then(llmtest.Gate(gate)).Then(llmtest.Text(fmt.Sprintf("end.%d", a.n)))
		}
	}
	c.mu.Unlock()
	s.id = c.say(c.scripted, s.name)
	first := s.first()
	s.owner = c.servers[first.server]
	c.from(c.servers[(first.server+1)%len(c.servers)])
	held := fmt.Sprintf("%s.a.%d", s.name, first.n)
	switch point {
	case inStream:
		c.until(c.scripted, chat.TopicStreaming)
		s.freeze()
		s.taken(0)
		s.unchanged(func() { s.wake(func() { close(owners) }) })
	case inCall:
		s.started(held)
		s.freeze()
		s.taken(1)
		s.unchanged(func() { s.wake(func() { c.probe.release(c.t, held) }) })
	case inWrite:
		s.started(held)
		topic := s.hold(`SELECT 1 FROM topics WHERE id = '` + c.scripted + `' FOR UPDATE`)
		c.probe.release(c.t, held)
		s.sessions("its result", `wait_event_type = 'Lock' AND query LIKE '%UPDATE topics%'`)
		s.freeze()
		topic() // to the owner, which does not know
		s.sessions("the lock", `state = 'idle in transaction'`)
		s.taken(1)
		s.unchanged(func() { s.wake(func() {}) })
	case inStop:
		c.until(c.scripted, chat.TopicStreaming)
		s.freeze()
		c.want(200, "POST", "/topics/"+c.scripted+"/stop", nil)
		s.wake(func() { close(owners) })
		m := c.last(c.scripted)
		if n := len(m.Parts.Calls()); n > 0 || m.Metadata.Status != chat.MessageAborted {
			c.t.Errorf("woken: %s was frozen, its turn was stopped, and it has %d calls and is %s", s.owner.name, n, m.Metadata.Status)
		}
		c.surely(202, "POST", "/topics/"+c.scripted+"/messages/"+m.ID+"/retry", nil)
	}
	close(s.free)
	c.until(c.scripted, chat.TopicDone)
	if inTool {
		for _, p := range c.last(c.scripted).Parts.Calls() {
			if p.Call.ToolMetadata.Outcome != chat.OutcomeUnknown {
				c.t.Errorf("woken: the outcome of %s is %q, of which its owner was not heard", p.Call.ToolCallID, p.Call.ToolMetadata.Outcome)
			}
		}
	}
}

// first is the first request of the turn.
func (s *still) first() chaosAsk {
	s.t.Helper()
	s.eventually(func() bool { return len(s.asks(s.name)) > 0 }, func() string { return "stuck without weather: the model is not asked" })
	return s.asks(s.name)[0]
}

func (s *still) started(text string) {
	s.t.Helper()
	s.eventually(func() bool { return s.probe.starts(s.t, text) > 0 }, func() string { return "stuck without weather: the tool is not run" })
}

func (s *still) freeze() {
	s.t.Helper()
	if err := s.owner.signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
}

// taken waits until another server has asked for the step, and shows it.
func (s *still) taken(step int) {
	s.t.Helper()
	s.eventually(func() bool {
		for _, a := range s.asks(s.name) {
			if a.step == step && s.servers[a.server] != s.owner {
				return s.status(s.scripted).Status == chat.TopicStreaming
			}
		}
		return false
	}, func() string {
		return fmt.Sprintf("stuck: nobody takes over from %s, which is frozen (point %d)", s.owner.name, s.point)
	})
}

// hold locks something until it is told to let go.
func (s *still) hold(statement string) (release func()) {
	s.t.Helper()
	tx, err := s.db.BeginTx(s.t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(s.t.Context(), statement)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		if err := tx.Rollback(); err != nil {
			s.t.Error(err)
		}
	}
}

// sessions waits until a session of the owner is as it is said.
func (s *still) sessions(what, condition string) {
	s.t.Helper()
	s.eventually(func() bool { return s.session(s.owner.name, condition) }, func() string {
		return fmt.Sprintf("the owner never came to %s (point %d)", what, s.point)
	})
}

// wake lets the owner go on with what it had in hand, and sees it try to write.
func (s *still) wake(let func()) {
	s.t.Helper()
	topic := s.hold(`SELECT 1 FROM topics WHERE id = '` + s.scripted + `' FOR UPDATE`)
	beats := s.hold(`LOCK TABLE turns IN SHARE MODE`)
	let()
	if err := s.owner.signal(syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
	s.sessions("write", `wait_event_type = 'Lock' AND query LIKE '%UPDATE topics%'`)
	topic()
	s.wait(300 * time.Millisecond) // for what a fence must not let through to come about
	beats()
	if err := s.db.quiet(context.WithoutCancel(s.t.Context()), s.owner.name); err != nil {
		s.t.Error(err)
	}
}

// unchanged says that nothing comes of the owner's waking: the turn has
// another owner.
func (s *still) unchanged(wake func()) {
	s.t.Helper()
	before, status := s.committed(s.scripted)
	asks := len(s.asks(s.name))
	claims, _ := s.claims(s.id)
	wake()
	after, statusAfter := s.committed(s.scripted)
	if now, _ := s.claims(s.id); now != claims {
		s.t.Logf("the turn was taken over again: this machine was too slow for a lease of %v", chaosLease)
		return
	}
	if diff := cmp.Diff(before, after) + cmp.Diff(status, statusAfter); diff != "" {
		s.t.Errorf("woken: %s was frozen, was replaced, and changed this (point %d): %s", s.owner.name, s.point, diff)
	}
	for _, a := range s.asks(s.name)[asks:] {
		if s.servers[a.server] == s.owner {
			s.t.Errorf("woken: %s was frozen, was replaced, and asked the model for step %d", s.owner.name, a.step)
		}
	}
}
