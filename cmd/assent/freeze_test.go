//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// freezing is a server in a process of its own that stands still at a known
// point of a turn, while another goes on without it.
type freezing struct {
	*testing.T
	here, there *world // the frozen one, and the other
	db          *sql.DB
	topic       string
	hold, free  chan struct{} // hold the replies of the models that here and there ask
	held        *sql.Tx       // see holdTopic
}

// frozenAt is where the owner of a turn freezes. Its model holds what it says
// after the first words, and its calls hold too.
type frozenAt struct {
	name  string
	again bool            // the other asks its model, which holds its answer until the first owner's run has ended
	lease string          // an hour unless it is said: then nobody but the fence stops the owner
	calls bool            // the owner's model makes a gated call, and says nothing more
	reach func(*freezing) // brings the owner to the point, after its first words
	still func(*freezing) // what happens while it stands still; by default its lease ends, and the turn is taken over
	let   func(*freezing) // lets the owner's work end, after it was woken; by default its model goes on
	check func(*freezing) // what the other shows in the end
}

var freezes = []frozenAt{
	{name: "while the model speaks", again: true},
	{name: "while the model speaks, for a lease", again: true, lease: "1s", still: (*freezing).takenOver},
	{
		name: "with a whole reply that it has not read", again: true,
		still: func(f *freezing) {
			close(f.hold)
			f.lapse()
			f.takenOver()
		},
		let: func(*freezing) {},
	},
	{
		name: "while it commits the reply", again: true,
		reach: func(f *freezing) {
			f.holdTopic()
			close(f.hold)
			f.waits(`wait_event_type = 'Lock' AND query LIKE '%topics%'`)
		},
		still: func(f *freezing) {
			_ = f.held.Rollback() // to the owner, which has the lock now and does not know
			f.waits(`state = 'idle in transaction'`)
			// The database would end its session by itself, after a while.
			f.run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'frozen'`)
			f.lapse()
			f.takenOver()
		},
		let: func(*freezing) {},
	},
	{
		name: "while a tool runs that was approved", again: true, calls: true,
		reach: func(f *freezing) {
			f.here.until(f.topic, chat.TopicAwaitingApproval)
			f.here.approve(f.topic, "a")
			f.here.eventually(func() bool { return f.here.probe.starts(f.T, "a") == 1 }, func() string { return "the call did not start" })
		},
		let: func(f *freezing) { f.here.probe.release(f.T, "a") },
		check: func(f *freezing) {
			c := f.there.calls(f.topic)[0]
			if e := f.there.audit(f.topic)[0]; c.ToolMetadata.Outcome != chat.OutcomeUnknown || e.Outcome != chat.OutcomeUnknown || f.here.probe.starts(f.T, "a") != 1 {
				f.Errorf("started %d times; the call is %+v, recorded %+v", f.here.probe.starts(f.T, "a"), c, e)
			}
		},
	},
	{
		name: "when it has parked", again: true, calls: true,
		reach: func(f *freezing) { f.here.until(f.topic, chat.TopicAwaitingApproval) },
		still: func(f *freezing) {
			f.there.approve(f.topic, "a")
			f.there.probe.release(f.T, "a")
			f.takenOver()
		},
		let: func(*freezing) {},
		check: func(f *freezing) {
			if n := f.here.probe.starts(f.T, "a"); n != 1 {
				f.Errorf("the call was started %d times", n)
			}
		},
	},
	{
		name: "and its turn is stopped, and the grace for its words is over",
		still: func(f *freezing) {
			f.there.want(200, "POST", "/topics/"+f.topic+"/stop", nil)
			f.run(`UPDATE turns SET stopped_at = stopped_at - interval '1 day'`)
			f.there.eventually(func() bool { return f.text(`SELECT owner FROM turns`) == "" }, func() string {
				return "the owner keeps its epoch: " + f.text(`SELECT row_to_json(turns)::text FROM turns`)
			})
		},
		check: func(f *freezing) { f.there.until(f.topic, chat.TopicAborted) },
	},
	{
		name: "and its turn is stopped and retried", again: true,
		still: func(f *freezing) {
			f.there.want(200, "POST", "/topics/"+f.topic+"/stop", nil)
			f.there.want(202, "POST", "/topics/"+f.topic+"/messages/"+f.there.last(f.topic).ID+"/retry", nil)
			f.takenOver()
		},
	},
	{
		name: "and its message is deleted",
		still: func(f *freezing) {
			f.there.want(204, "DELETE", "/topics/"+f.topic+"/messages/"+f.there.last(f.topic).ID, nil)
		},
		check: func(f *freezing) {
			if n := len(f.there.history(f.topic).Messages); n != 1 {
				f.Errorf("there are %d messages", n)
			}
		},
	},
}

func TestAnOwnerThatWasFrozenWritesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range freezes {
		t.Run(at.name, func(t *testing.T) {
			several(t, func(t *testing.T, here, there *world) {
				f := &freezing{T: t, here: here, there: there, hold: make(chan struct{}), free: make(chan struct{})}
				f.play(at)
			})
		})
	}
}

func (f *freezing) play(at frozenAt) {
	var err error
	if f.db, err = sql.Open("postgres", f.here.databaseURL); err != nil {
		f.Fatal(err)
	}
	defer f.db.Close()
	u, err := url.Parse(f.here.databaseURL)
	if err != nil {
		f.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", "frozen")
	u.RawQuery = q.Encode()
	f.here.databaseURL = u.String()
	f.here.flags = append(f.here.flags, "-lease", orElse(at.lease, "1h"))
	if at.calls {
		f.here.says(llmtest.Calls(call("note", "a", `"hold":true`)))
	} else {
		f.here.says(llmtest.Text("first words ").Then(llmtest.Gate(f.hold)).Then(llmtest.Calls(call("peek", "late"))))
	}
	if at.again {
		f.there.says(llmtest.Text("another ").Then(llmtest.Gate(f.free)).Then(llmtest.Text("answer")))
	} else {
		f.there.says()
	}
	f.here.spawn()
	f.topic = f.here.topic()
	f.here.send(f.topic, "go")
	near := f.here.open("", nil, f.topic)
	if !at.calls {
		near.shows(f.topic, "first words")
		f.here.until(f.topic, chat.TopicStreaming)
	}
	if at.reach != nil {
		at.reach(f)
	}
	f.there.start()
	far := f.there.open("", nil, f.topic)

	f.signal(syscall.SIGSTOP)
	if at.still == nil {
		at.still = func(f *freezing) {
			f.lapse()
			f.takenOver()
		}
	}
	at.still(f)
	if at.again {
		far.shows(f.topic, "another ")
	} else {
		far.converge(f.topic)
	}
	before := f.database()
	f.signal(syscall.SIGCONT)
	if at.let == nil {
		at.let = func(f *freezing) { close(f.hold) }
	}
	at.let(f)
	f.here.eventually(func() bool { return f.here.metric("assent_turns_running") == "0" }, func() string { return "the owner still runs the turn" })

	if diff := cmp.Diff(before, f.database()); diff != "" {
		f.Errorf("the owner that was frozen wrote: %s", diff)
	}
	if n := f.here.probe.starts(f.T, "late"); n != 0 {
		f.Errorf("a call that was never committed was started %d times", n)
	}
	close(f.free)
	if at.again {
		f.there.until(f.topic, chat.TopicDone)
		if m := f.there.last(f.topic); m.lastText() != "another answer" {
			f.Errorf("the topic ends with %+v", m.Parts)
		}
	}
	near.follow(f.topic)
	far.follow(f.topic)
	if at.check != nil {
		at.check(f)
	}
}

func (f *freezing) signal(s syscall.Signal) {
	f.Helper()
	if err := f.here.proc.cmd.Process.Signal(s); err != nil {
		f.Fatal(err)
	}
}

// lapse ends the lease of the turn, as time does.
func (f *freezing) lapse() {
	f.Helper()
	f.run(`UPDATE turns SET lease_until = lease_until - interval '1 day' WHERE state = 'running'`)
}

// takenOver waits until the other runs the turn.
func (f *freezing) takenOver() {
	f.Helper()
	f.there.eventually(func() bool { return len(f.there.model.Requests()) == 1 }, func() string { return "the other does not take over" })
	f.there.until(f.topic, chat.TopicStreaming)
}

// holdTopic locks the topic until held is rolled back.
func (f *freezing) holdTopic() {
	f.Helper()
	var err error
	if f.held, err = f.db.BeginTx(f.Context(), nil); err == nil {
		_, err = f.held.ExecContext(f.Context(), `SELECT 1 FROM topics FOR UPDATE`)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// waits waits for a session of the owner that is as the condition says.
func (f *freezing) waits(condition string) {
	f.Helper()
	query := `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'frozen' AND ` + condition
	f.here.eventually(func() bool { return f.text(query) == "1" }, func() string { return "the owner has no session with " + condition })
}

func (f *freezing) run(statement string) {
	f.Helper()
	if _, err := f.db.ExecContext(f.Context(), statement); err != nil {
		f.Fatal(err)
	}
}

func (f *freezing) text(query string) string {
	f.Helper()
	var s string
	if err := f.db.QueryRowContext(f.Context(), query).Scan(&s); err != nil {
		f.Fatal(err)
	}
	return s
}

// database is every row of every table, but for the times of leases: those are
// renewed.
func (f *freezing) database() []string {
	f.Helper()
	tables := strings.Fields(f.text(`SELECT string_agg(table_name, ' ') FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`))
	var all []string
	for _, name := range tables {
		rows := f.text(fmt.Sprintf(`SELECT coalesce(string_agg('%s ' || (to_jsonb(x) - 'lease_until')::text, chr(10)), '') FROM %s x`, name, name))
		all = append(all, strings.Split(rows, "\n")...)
	}
	slices.Sort(all)
	return all
}

// metric is the value of a metric without labels.
func (w *world) metric(name string) string {
	w.t.Helper()
	for line := range strings.Lines(string(w.want(200, "GET", "/metrics", nil).body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return ""
}

// follow is converge for a tab that may have to ask anew, as docs/events.md
// says.
func (b *tab) follow(topic string) {
	b.w.t.Helper()
	b.mu.Lock()
	again := b.client.Reopen != ""
	b.client.Reopen = ""
	b.mu.Unlock()
	if again {
		b.leave()
		b.connect("")
	}
	b.converge(topic)
}
