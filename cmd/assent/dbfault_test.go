package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// writesAre checks that whatever writes is answered 503 with the word for
// people, changes nothing, and that the server says that it is alive.
func (w *world) writesAre(word, topic, approvalID string) {
	w.t.Helper()
	before := w.history(topic)
	for _, tt := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/topics", map[string]any{"title": "lost?"}},
		{"PATCH", "/topics/" + topic, map[string]any{"title": "lost?"}},
		{"POST", "/topics/" + topic + "/messages", map[string]any{"text": "lost?"}},
		{"POST", "/topics/" + topic + "/approvals", map[string]any{"approvalId": approvalID, "approved": true}},
		{"POST", "/topics/" + topic + "/stop", nil},
	} {
		w.unavailable(word, tt.method, tt.path, tt.body)
	}
	w.want(200, "GET", "/healthz", nil)
	if after := w.history(topic); after.Revision != before.Revision || len(after.Queued) != len(before.Queued) {
		w.t.Errorf("what was answered 503 was stored: %+v", after)
	}
}

// unavailable is want of a 503 that says why, and when to come back.
func (w *world) unavailable(word, method, path string, body any) {
	w.t.Helper()
	r := w.want(503, method, path, body)
	if d := detail(r); !strings.Contains(d, word) || r.header.Get("Retry-After") == "" {
		w.t.Errorf("%s %s: got %q, Retry-After %q, want %q", method, path, d, r.header.Get("Retry-After"), word)
	}
}

func detail(r reply) string {
	var p struct {
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(r.body, &p) // then it says nothing
	return p.Detail
}

// faulty is a world with a card that waits in one topic, a model that is in
// the middle of its answer in another, and tabs that look at both.
type faulty struct {
	*world
	waits, runs string
	card        string
	model       func() // lets the model go on
	tabs        []*tab
}

func fault(w *world, start func()) *faulty {
	w.t.Helper()
	f := &faulty{world: w}
	gate := make(chan struct{})
	f.model = sync.OnceFunc(func() { close(gate) })
	w.t.Cleanup(f.model)
	w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
		switch last := r.Messages[len(r.Messages)-1]; {
		case last.Role == "tool":
			return llmtest.Text("the end")
		case last.Text() == "wait":
			return llmtest.Calls(call("note", "a"))
		}
		return llmtest.Text("one ", "two ").Then(llmtest.Gate(gate)).Then(llmtest.Calls(call("peek", "b")))
	})
	start()
	f.waits, f.runs = w.topic(), w.topic()
	for range 2 {
		f.tabs = append(f.tabs, w.open("", nil, f.waits, f.runs))
	}
	w.send(f.waits, "wait")
	w.send(f.runs, "run")
	w.until(f.waits, chat.TopicAwaitingApproval)
	w.until(f.runs, chat.TopicStreaming)
	f.card = w.card(f.waits, "a").ApprovalID
	return f
}

// goesOn checks that all is well again, without anybody's help.
func (f *faulty) goesOn() {
	f.t.Helper()
	f.until(f.runs, chat.TopicDone)
	f.want(200, "POST", "/topics/"+f.waits+"/approvals", map[string]any{"approvalId": f.card, "approved": true})
	f.until(f.waits, chat.TopicDone)
	for _, b := range f.tabs {
		b.converge(f.waits)
		b.converge(f.runs)
	}
	for _, text := range []string{"a", "b"} {
		if n := f.probe.starts(f.t, text); n != 1 {
			f.t.Errorf("%s was started %d times", text, n)
		}
	}
	if n := len(f.world.model.Requests()); n != 4 {
		f.t.Errorf("the model was asked %d times", n)
	}
}

// onPostgres is a world on a PostgreSQL database that an administrator can
// play with.
func onPostgres(t *testing.T, dsn string) (*world, *sql.DB) {
	t.Helper()
	w := newWorld(t, dsn)
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return w, db
}

func TestADatabaseThatCannotBeWrittenSaysWhyAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	for code, word := range map[string]string{"53100": "disk of the database is full", "25006": "can only be read", "53200": "out of memory"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			w, db := onPostgres(t, pgtest.URL(t))
			f := fault(w, w.start)
			run := func(statements ...string) {
				t.Helper()
				for _, s := range statements {
					if _, err := db.ExecContext(t.Context(), s); err != nil {
						t.Fatal(err)
					}
				}
			}
			run(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '`+code+`'; END $$`,
				`CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON topics FOR EACH ROW EXECUTE FUNCTION fault()`)
			f.model() // its answer comes while nothing can be written
			f.writesAre(word, f.waits, f.card)
			run(`DROP TRIGGER fault ON topics`)
			f.goesOn()
		})
	}
}

func TestADecisionWhoseCommitIsNotConfirmed(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*pgtest.Wire, *faulty) {
		wire, through := pgtest.NewWire(t, pgtest.URL(t))
		w, _ := onPostgres(t, through)
		w.flags = []string{"-prepare=false"} // the wire reads what is sent
		return wire, fault(w, w.start)
	}
	decided := func(f *faulty) (d chat.Decided) {
		f.want(200, "POST", "/topics/"+f.waits+"/approvals", map[string]any{"approvalId": f.card, "approved": true}).into(f.t, &d)
		return d
	}
	for _, when := range []pgtest.When{pgtest.Before, pgtest.After} {
		t.Run("is looked up, and answered as if nothing had been, cut "+string(when), func(t *testing.T) {
			t.Parallel()
			wire, f := begin(t)
			wire.CutCommitOf("INSERT INTO decisions", when, false)
			if d := decided(f); d.Results[0].Outcome != chat.EffectApplied || d.Continuation != chat.ContinuationScheduled {
				t.Errorf("got %+v", d)
			}
			if !wire.Mend() {
				t.Error("it was not cut")
			}
			f.model()
			f.goesOn()
		})
	}
	t.Run("is said to be unknown if the database stays away, and may be repeated", func(t *testing.T) {
		t.Parallel()
		wire, f := begin(t)
		wire.CutCommitOf("INSERT INTO decisions", pgtest.After, true)
		f.unavailable("is not known", "POST", "/topics/"+f.waits+"/approvals", map[string]any{"approvalId": f.card, "approved": true})
		f.unavailable("does not answer", "GET", "/readyz", nil)
		f.want(200, "GET", "/healthz", nil)
		wire.Mend()
		f.until(f.waits, chat.TopicDone) // it was done
		for _, b := range f.tabs {
			b.converge(f.waits) // though nobody announced it
		}
		if d := decided(f); d.Results[0].Outcome != chat.EffectAlreadySettled {
			t.Errorf("repeated: %+v", d)
		}
		f.model()
		f.goesOn()
	})
}

// TestTheDatabaseRestartsInTheMiddleOfDecisions crashes the database while
// deciders are at it. What is answered must be true: 200 is stored, and what is
// said not to be done is not.
func TestTheDatabaseRestartsInTheMiddleOfDecisions(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	w, _ := onPostgres(t, server.URL())
	const topics, each = 4, 6
	var calls []llmtest.Call
	for i := range each {
		calls = append(calls, call("note", fmt.Sprint(i)))
	}
	w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return llmtest.Text("the end")
		}
		return llmtest.Calls(calls...)
	})
	w.start()
	var ids [topics]string
	for i := range ids {
		ids[i] = w.topic()
		w.send(ids[i], "go")
	}
	var cards [topics][]chat.ApprovalItem
	for i, id := range ids {
		w.until(id, chat.TopicAwaitingApproval)
		cards[i] = w.pending(id)
	}
	b := w.open("", nil, ids[:]...)

	begun := make(chan struct{}, topics)
	var deciders sync.WaitGroup
	for i, id := range ids {
		deciders.Go(func() {
			for n, a := range cards[i] {
				if n == each/2 {
					begun <- struct{}{}
				}
				if err := w.decideUntilSettled(id, a.ApprovalID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-begun
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	deciders.Wait()
	for _, id := range ids {
		w.until(id, chat.TopicDone)
		b.converge(id)
		for _, c := range w.calls(id) {
			if c.State != chat.CallOutputAvailable && (c.ToolMetadata == nil || c.ToolMetadata.Outcome != chat.OutcomeUnknown) {
				t.Errorf("call %s is %s", c.ToolCallID, c.State)
			}
		}
	}
	for i := range each {
		if n := w.probe.starts(t, fmt.Sprint(i)); n != topics {
			t.Errorf("%d was started %d times in %d topics", i, n, topics)
		}
	}
}

// decideUntilSettled is for the only one who decides the card.
func (w *world) decideUntilSettled(topic, approvalID string) error {
	for said := ""; ; {
		r, err := w.do("POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": approvalID, "approved": true})
		switch {
		case err != nil:
			return err
		case r.status == 503:
			said = detail(r)
			continue
		case r.status != 200:
			return fmt.Errorf("got %d %s", r.status, r.body)
		}
		var d chat.Decided
		if err := json.Unmarshal(r.body, &d); err != nil {
			return err
		}
		if d.Results[0].Outcome != chat.EffectApplied && !strings.Contains(said, "not known") {
			return fmt.Errorf("approval %s is %s after an answer that said %q", approvalID, d.Results[0].Outcome, said)
		}
		return nil
	}
}
