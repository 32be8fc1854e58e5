package main

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// several runs a test on two servers that share a PostgreSQL database, a model
// and the probe's log. The first one is running: what begins before the second
// one is started runs on the first.
func several(t *testing.T, test func(t *testing.T, here, there *world)) {
	t.Helper()
	t.Parallel()
	here := newWorld(t, pgtest.URL(t))
	key := filepath.Join(here.dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	here.flags = []string{"-key-file", key}
	test(t, here, &world{t: t, dir: t.TempDir(), databaseURL: here.databaseURL, probe: here.probe, flags: here.flags})
}

// beside starts a server beside the one that runs.
func (w *world) beside(other *world) {
	w.t.Helper()
	w.model = other.model
	w.start()
}

// shows waits until the tab shows a text in the topic.
func (b *tab) shows(topic, text string) {
	b.w.t.Helper()
	b.w.eventually(func() bool { p, _ := b.topic(topic); return strings.Contains(p, text) }, func() string {
		p, s := b.topic(topic)
		return fmt.Sprintf("the tab does not show %q: %s %+v", text, p, s)
	})
}

func TestATabSeesWhatRunsOnAnotherInstance(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		first, second := make(chan struct{}), make(chan struct{})
		here.says(
			llmtest.Text("one ", "two ").Then(llmtest.Gate(first)).Then(llmtest.Text("three ")).Then(llmtest.Gate(second)).Then(llmtest.Calls(call("note", "a"))),
			llmtest.Text("the end"),
		)
		here.start()
		topic := here.topic()
		here.send(topic, "go")
		here.until(topic, chat.TopicStreaming)
		there.beside(here)
		far, near := there.open("", nil, topic), here.open("", nil, topic)
		far.shows(topic, "one two ") // what was written before anybody there watched
		close(first)
		far.shows(topic, "one two three ")
		if _, s := far.topic(topic); s.Status != chat.TopicStreaming {
			t.Errorf("the tab says %s", s.Status)
		}
		far.mu.Lock()
		snapshots := far.client.Events["snapshot"]
		far.mu.Unlock()
		close(second)
		for _, b := range []*tab{far, near} {
			here.eventually(func() bool { return b.cards(topic) == 1 }, func() string { return "there is no card" })
		}
		there.approve(topic, "a")
		for _, b := range []*tab{far, near} {
			b.shows(topic, "the end")
			here.until(topic, chat.TopicDone)
			b.converge(topic)
			b.mu.Lock()
			if s := b.client.Statuses[topic]; s.Status != chat.TopicDone {
				t.Errorf("the list says %s", s.Status)
			}
			if b.client.Reopen != "" {
				t.Errorf("the tab had to ask again: %s", b.client.Reopen)
			}
			b.mu.Unlock()
		}
		far.mu.Lock()
		defer far.mu.Unlock()
		if n := far.client.Events["snapshot"]; n > snapshots+2 { // it follows in pieces; a busy machine may lose its patience once
			t.Errorf("%d snapshots were sent, after %d", n, snapshots)
		}
		if n := here.probe.starts(t, "a"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestADecisionOnAnotherInstanceReachesTheTurnThatRuns(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.says(llmtest.Calls(call("peek", "slow", `"hold":true`), call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		here.start()
		topic := here.topic()
		here.send(topic, "go")
		here.eventually(func() bool { return here.probe.starts(t, "slow") == 1 }, func() string { return "the ungated call did not start" })
		there.beside(here)
		far, near := there.open("", nil, topic), here.open("", nil, topic)
		here.eventually(func() bool { return far.cards(topic) == 2 && near.cards(topic) == 2 }, func() string { return "the cards are not there" })
		there.approve(topic, "a")
		here.eventually(func() bool { return far.cards(topic) == 1 && near.cards(topic) == 1 }, func() string { return "the card is still there" })
		d := here.deny(topic, "b", "no")
		if d.Continuation != chat.ContinuationRunning {
			t.Errorf("the continuation is %s", d.Continuation)
		}
		here.probe.release(t, "slow")
		there.until(topic, chat.TopicDone)
		far.converge(topic)
		near.converge(topic)
		if a, b, slow := here.probe.starts(t, "a"), here.probe.starts(t, "b"), here.probe.starts(t, "slow"); a != 1 || b != 0 || slow != 1 {
			t.Errorf("a started %d times, b %d, slow %d", a, b, slow)
		}
	})
}

func TestAStopOnAnotherInstanceEndsTheStream(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		never := make(chan struct{})
		here.says(llmtest.Text("Once upon ", "a time").Then(llmtest.Hang(never)), llmtest.Text("next"))
		here.start()
		topic := here.topic()
		here.send(topic, "tell")
		here.until(topic, chat.TopicStreaming)
		there.beside(here)
		far, near := there.open("", nil, topic), here.open("", nil, topic)
		far.shows(topic, "Once upon a time")
		queued := there.send(topic, "and then?")
		if !queued.Queued {
			t.Error("the message was not queued")
		}
		near.shows(topic, "queued "+queued.Message.ID)
		there.want(200, "POST", "/topics/"+topic+"/stop", nil)
		if n := <-here.model.Left(); n != 1 {
			t.Errorf("the model's client left request %d", n)
		}
		here.eventually(func() bool { return here.last(topic).lastText() == "Once upon a time" }, func() string { return "the partial text is lost" })
		there.want(202, "POST", "/topics/"+topic+"/messages/"+queued.Message.ID+"/send", nil)
		here.until(topic, chat.TopicDone)
		far.converge(topic)
		near.converge(topic)
	})
}

func TestAQuestionIsAnsweredOnAnotherInstance(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		topic, m, q := here.asking(here.start)
		there.beside(here)
		far := there.open("", nil, topic)
		far.shows(topic, q.ID)
		there.want(200, "POST", questionPath(topic, m, q.ID), `{"action":"accept","content":{"place":"there"}}`)
		here.until(topic, chat.TopicDone)
		far.converge(topic)
		if c := here.calls(topic)[0]; !strings.Contains(string(c.Output), "there") {
			t.Errorf("the call is %s", c.Output)
		}
	})
}

func TestAnotherInstanceTakesOverFromOneThatWasKilled(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		never := make(chan struct{})
		here.says(llmtest.Text("half a sen").Then(llmtest.Hang(never)), llmtest.Text("a whole sentence"))
		here.spawn()
		topic := here.topic()
		here.send(topic, "go")
		here.until(topic, chat.TopicStreaming)
		there.beside(here)
		far := there.open("", nil, topic)
		far.shows(topic, "half a sen")
		here.kill()
		there.until(topic, chat.TopicDone)
		far.converge(topic)
		if m := there.last(topic); m.lastText() != "a whole sentence" {
			t.Errorf("got %+v", m.Parts)
		}
	})
}

func TestAnotherInstanceGoesOnAfterACleanStop(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		never := make(chan struct{})
		here.says(llmtest.Calls(call("peek", "before")), llmtest.Text("half a sen").Then(llmtest.Hang(never)), llmtest.Text("a whole sentence"))
		here.start()
		topic := here.topic()
		here.send(topic, "go")
		here.eventually(func() bool { return len(here.model.Requests()) == 2 }, func() string { return "no second step" })
		there.beside(here)
		far := there.open("", nil, topic)
		far.shows(topic, "half a sen")
		here.stop()
		there.until(topic, chat.TopicDone)
		far.converge(topic)
		if m := there.last(topic); m.lastText() != "a whole sentence" || here.probe.starts(t, "before") != 1 {
			t.Errorf("got %+v, the committed call ran %d times", m.Parts, here.probe.starts(t, "before"))
		}
	})
}

func TestADecisionElsewhereWithNoTabOpenGoesOn(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("ok"))
		here.start()
		topic := here.topic()
		here.send(topic, "go")
		here.until(topic, chat.TopicAwaitingApproval)
		there.beside(here)
		if d := there.approve(topic, "a"); d.Pending != 1 || d.Continuation != chat.ContinuationWaiting {
			t.Errorf("after the first: %+v", d)
		}
		if d := there.deny(topic, "b", "no"); d.Pending != 0 || d.Continuation != chat.ContinuationScheduled {
			t.Errorf("after the last: %+v", d)
		}
		here.until(topic, chat.TopicDone)
		if a, b := here.probe.starts(t, "a"), here.probe.starts(t, "b"); a != 1 || b != 0 {
			t.Errorf("a started %d times, b %d", a, b)
		}
		if m := there.last(topic); m.lastText() != "ok" || m.Metadata.Epoch != 2 {
			t.Errorf("got %+v, claimed %d times", m.Parts, m.Metadata.Epoch)
		}
	})
}

// drip reads one byte for each that it is given, and without end once given is
// closed.
type drip struct {
	r     io.Reader
	given <-chan struct{}
}

func (d drip) Read(p []byte) (int, error) {
	<-d.given
	return d.r.Read(p[:min(len(p), 1)])
}

func TestTabsElsewhereThatSleepOrReadSlowlyDelayNobodyAndConverge(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		gate, given := make(chan struct{}), make(chan struct{})
		here.says(
			llmtest.Text(strings.Split(strings.Repeat("word ", 300), "")...).Then(llmtest.Gate(gate)).Then(llmtest.Text("last")).Then(llmtest.Calls(call("peek", "free"), call("note", "a"))),
			llmtest.Text("the ", "end"),
		)
		here.start()
		topic := here.topic()
		here.send(topic, "go")
		here.until(topic, chat.TopicStreaming)
		there.beside(here)
		slow := there.open("", func(r io.Reader) io.Reader { return drip{r, given} }, topic)
		near, far, sleeps, moves := here.open("", nil, topic), there.open("", nil, topic), there.open("", nil, topic), there.open("", nil, topic)
		for _, b := range []*tab{near, far, sleeps, moves} {
			b.shows(topic, "word word")
		}
		sleeps.leave()
		moves.leave()
		for range 20 {
			given <- struct{}{}
		}
		close(gate)
		for _, b := range []*tab{near, far} {
			here.eventually(func() bool { return b.cards(topic) == 1 }, func() string { return "there is no card" })
		}
		there.approve(topic, "a")
		here.until(topic, chat.TopicDone)
		near.converge(topic)
		far.converge(topic) // while the slow one has not read a snapshot's first line

		sleeps.connect(sleeps.lastID())
		moves.on = here // whose ids are others
		moves.connect(moves.lastID())
		close(given)
		for _, b := range []*tab{slow, sleeps, moves} {
			b.converge(topic)
			if n := b.cards(topic); n != 0 {
				t.Errorf("%d decided cards have buttons", n)
			}
		}
	})
}

func TestACutBusCostsLatencyOnly(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Role == "tool" {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(call("note", r.Messages[len(r.Messages)-1].Text()))
		})
		here.start()
		there.beside(here)
		topic := here.topic()
		far, near := there.open("", nil, topic), here.open("", nil, topic)
		db, err := sql.Open("postgres", here.databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for n := range 5 {
			cut := func() {
				if _, err := db.ExecContext(t.Context(), `
					SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'assent bus'`); err != nil {
					t.Fatal(err)
				}
			}
			text := fmt.Sprint("t", n)
			cut()
			here.send(topic, text)
			here.until(topic, chat.TopicAwaitingApproval)
			here.eventually(func() bool { return far.cards(topic) == 1 && near.cards(topic) == 1 }, func() string { return "the card is not there" })
			cut()
			there.approve(topic, text)
			there.until(topic, chat.TopicDone)
			far.converge(topic)
			near.converge(topic)
		}
	})
}

func TestAToolServerIsKnownToEveryInstance(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.says()
		here.start()
		there.beside(here)
		far := there.open("", nil, there.topic())
		b := newBox(t, "note")
		server := here.addServer(map[string]any{"name": "box", "url": b.url})
		there.server(server.ID, chat.ServerReady)
		here.want(204, "DELETE", serverPath(server.ID), nil)
		there.eventually(func() bool {
			r, err := there.do("GET", serverPath(server.ID), nil)
			return err == nil && r.status == 410
		}, func() string { return "the server is still there" })
		here.eventually(func() bool {
			far.mu.Lock()
			defer far.mu.Unlock()
			return far.client.Settings[chat.SettingsServers] > 0
		}, func() string { return "the tab does not hear of it" })
	})
}

func TestTopicsComeAndGoInTheListsOfAllInstances(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.says()
		here.start()
		there.beside(here)
		far := there.open("", nil, there.topic())
		topic := here.topic()
		title := func() string {
			far.mu.Lock()
			defer far.mu.Unlock()
			return far.client.Titles[topic]
		}
		there.eventually(func() bool { return title() == t.Name() }, func() string { return "the new topic is not in the list" })
		here.want(200, "PATCH", "/topics/"+topic, map[string]any{"title": "renamed", "systemPrompt": strings.Repeat("long ", 3000)}) // larger than a signal may be
		there.eventually(func() bool { return title() == "renamed" }, func() string { return "the list says " + title() })
		here.want(204, "DELETE", "/topics/"+topic, nil)
		there.eventually(func() bool { return title() == "" }, func() string { return "the list still has it" })
	})
}
