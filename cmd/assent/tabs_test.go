package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live/livetest"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// tab is a browser's tab as far as the server can tell: it follows
// docs/events.md to the letter.
type tab struct {
	w      *world
	on     *world // the server that it is, or was, connected to
	topics []string
	read   func(io.Reader) io.Reader // how the tab reads; nil is at once

	mu     sync.Mutex
	client livetest.Client
	broken error
	close  context.CancelFunc
	done   chan struct{}
}

// open connects a tab to topics and all statuses, at the given last id.
func (w *world) open(lastID string, read func(io.Reader) io.Reader, topics ...string) *tab {
	w.t.Helper()
	b := &tab{w: w, topics: topics, read: read}
	b.connect(lastID)
	w.t.Cleanup(b.leave)
	return b
}

// connect stays with the tab's server for as long as that runs.
func (b *tab) connect(lastID string) {
	b.w.t.Helper()
	if b.on == nil || !b.on.running() {
		b.on, _ = b.w.next()
	}
	if err := b.dial(http.DefaultClient, b.on.base, b.w.token, lastID); err != nil {
		b.w.t.Fatal(err)
	}
}

// dial connects to the server at base. After an error there is nothing to leave.
func (b *tab) dial(by *http.Client, base, token, lastID string) error {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/events?topic="+strings.Join(b.topics, "&topic="), nil)
	if err != nil {
		cancel()
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := by.Do(req)
	if err != nil {
		cancel()
		return fmt.Errorf("open a tab: %w", err)
	}
	if resp.StatusCode != 200 {
		cancel()
		return errors.Join(fmt.Errorf("open a tab: %s", resp.Status), resp.Body.Close())
	}
	b.close, b.done = cancel, make(chan struct{})
	body := io.Reader(resp.Body)
	if b.read != nil {
		body = b.read(body)
	}
	go func(done chan struct{}) {
		defer close(done)
		defer resp.Body.Close()
		var ev chat.LiveEvent
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				ev.Name = value
			case "data":
				ev.Data = []byte(value)
			case "id":
				ev.ID = value
			case "id:":
				ev.ID = ""
			case "":
				if ev.Data != nil {
					b.mu.Lock()
					if err := b.client.Apply(ev); err != nil {
						b.broken = err
					}
					b.mu.Unlock()
				}
				ev = chat.LiveEvent{}
			}
		}
	}(b.done)
	return nil
}

func (b *tab) leave() {
	b.close()
	<-b.done
}

// lastID is where the tab stands.
func (b *tab) lastID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client.LastID
}

// topic is what the tab shows of a topic: its parts, and what it is doing.
func (b *tab) topic(id string) (parts string, status chat.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		b.w.t.Errorf("the stream breaks the contract: %v", b.broken)
	}
	t := b.client.Topics[id]
	if t == nil {
		return "", chat.Status{}
	}
	var all strings.Builder
	for _, m := range t.Messages {
		fmt.Fprintf(&all, "%s %s %s\n", m.ID, m.Metadata.Status, mustJSON(b.w.t, m.Parts))
	}
	for _, m := range t.Queued {
		fmt.Fprintf(&all, "queued %s\n", m.ID)
	}
	return all.String(), t.Status
}

// cards counts the cards with buttons that the tab shows of a topic.
func (b *tab) cards(id string) int {
	parts, _ := b.topic(id)
	return strings.Count(parts, `"state":"approval-requested"`)
}

// committed is what every tab must show in the end.
func (w *world) committed(topic string) (string, chat.Status) {
	h := w.history(topic)
	var all strings.Builder
	for _, m := range h.Messages {
		fmt.Fprintf(&all, "%s %s %s\n", m.ID, m.Metadata.Status, mustJSON(w.t, m.Parts))
	}
	for _, m := range h.Queued {
		fmt.Fprintf(&all, "queued %s\n", m.ID)
	}
	return all.String(), h.Status
}

// converge waits until a tab shows what is committed.
func (b *tab) converge(topic string) {
	b.w.t.Helper()
	var diff string
	b.w.eventually(func() bool {
		want, wantStatus := b.w.committed(topic)
		got, gotStatus := b.topic(topic)
		diff = cmp.Diff(want, got) + cmp.Diff(wantStatus, gotStatus)
		return diff == ""
	}, func() string { return "the tab did not converge: " + diff })
}

func TestEveryTabShowsEachDecisionAndTheNextCard(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Calls(call("note", "c")), llmtest.Text("ok"))
		w.start()
		topic := w.topic()
		tabs := []*tab{w.open("", nil, topic), w.open("", nil, topic), w.open("", nil, topic)}
		w.send(topic, "go")
		for step, decide := range []func(){
			func() {},
			func() { w.deny(topic, "a", "no") },
			func() { w.approve(topic, "b") },
			func() { w.approve(topic, "c") },
		} {
			decide()
			want := []int{2, 1, 1, 0}[step]
			for i, b := range tabs {
				w.eventually(func() bool { return b.cards(topic) == want && (step != 2 || w.status(topic).PendingApprovals == 1) }, func() string {
					parts, status := b.topic(topic)
					return fmt.Sprintf("step %d, tab %d shows %d cards: %s %+v", step, i, b.cards(topic), parts, status)
				})
			}
		}
		w.until(topic, chat.TopicDone)
		for _, b := range tabs {
			b.converge(topic)
		}
	})
}

func TestALateTabASlowTabAndOneThatCameBackConverge(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		gate := make(chan struct{})
		w.says(
			llmtest.Text(strings.Split(strings.Repeat("word ", 300), "")...).Then(llmtest.Calls(call("peek", "free"), call("note", "a"))),
			llmtest.Text("one ", "two ").Then(llmtest.Gate(gate)).Then(llmtest.Text("three")),
		)
		w.start()
		topic := w.topic()
		slow := w.open("", func(r io.Reader) io.Reader { return oneByte{r} }, topic)
		stays := w.open("", nil, topic)
		returns := w.open("", nil, topic)
		sleeps := w.open("", nil, topic)
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		returns.converge(topic)
		sleeps.converge(topic)
		returns.leave()
		sleeps.leave()
		returns.connect(returns.lastID()) // nothing was missed: it goes on where it was
		w.approve(topic, "a")
		w.eventually(func() bool { return len(w.model.Requests()) == 2 && w.status(topic).Status == chat.TopicStreaming }, func() string { return "no continuation" })

		// A tab that comes now sees no button, whatever it missed.
		late := w.open("", nil, topic)
		w.eventually(func() bool { p, _ := late.topic(topic); return strings.Contains(p, "one two ") }, func() string { return "the late tab does not show what streams" })
		if late.cards(topic) != 0 {
			t.Error("a decided card has buttons")
		}
		close(gate)
		w.until(topic, chat.TopicDone)
		sleeps.connect(sleeps.lastID())
		for _, b := range []*tab{slow, stays, returns, sleeps, late} {
			b.converge(topic)
		}
		returns.mu.Lock()
		defer returns.mu.Unlock()
		if n := returns.client.Events["snapshot"]; n != 2 { // one of the topic, one of all statuses, both from the first connection
			t.Errorf("a tab that missed nothing was sent %d snapshots", n)
		}
	})
}

// oneByte reads one byte at a time.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }

func TestTheSnapshotHoldsTheCardAndOfItsOwnTopicOnly(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.answers(func(int, llmtest.Request) llmtest.Turn { return llmtest.Calls(call("note", "a")) })
		w.start()
		waiting, idle := w.topic(), w.topic()
		w.send(waiting, "go")
		w.until(waiting, chat.TopicAwaitingApproval)
		b := w.open("", nil, waiting, idle)
		b.converge(waiting)
		b.converge(idle)
		if b.cards(waiting) != 1 || b.cards(idle) != 0 {
			t.Errorf("%d and %d cards", b.cards(waiting), b.cards(idle))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if s := b.client.Statuses[waiting]; s.PendingApprovals != 1 {
			t.Errorf("the list says %+v", s)
		}
	})
}

func TestATabFollowsTheServerThroughACrash(t *testing.T) {
	eachDeployment(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
		w.spawn()
		topic := w.topic()
		b := w.open("", nil, topic)
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		b.converge(topic)
		b.on.end()
		<-b.done
		w.spawn()
		b.connect(b.lastID()) // an id of another process: a fresh snapshot
		w.approve(topic, "a")
		w.until(topic, chat.TopicDone)
		b.converge(topic)
	})
}

func TestEventsOfAnUnknownTopicAreAProblem(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.start()
		for _, path := range []string{"/topics/nowhere/events", "/events?topic=nowhere"} {
			r := w.want(404, "GET", path, nil)
			if got := r.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("%s: got %s", path, got)
			}
		}
	})
}
