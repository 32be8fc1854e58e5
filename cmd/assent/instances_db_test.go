package main

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// wired gives the server its own way to the database.
func (w *world) wired() *pgtest.Wire {
	w.t.Helper()
	var link *pgtest.Wire
	link, w.databaseURL = pgtest.NewWire(w.t, w.databaseURL)
	return link
}

// shaken decides cards at once on two instances, while the database is shaken.
type shaken struct {
	topic  string
	both   []*world
	mu     sync.Mutex
	agreed map[string]bool     // approvals of which an answer was 200
	undone map[string][]string // the answers that said that it was not done
	lost   int                 // answers of 503
}

// decide makes the same decision of each card on both instances: yes to the
// even ones, no to the others.
func (s *shaken) decide(cards []chat.ApprovalItem) {
	var wg sync.WaitGroup
	for _, card := range cards {
		for _, w := range s.both {
			wg.Go(func() {
				even := card.ToolCallID[len(card.ToolCallID)-1]%2 == 0
				r, err := w.do("POST", "/topics/"+s.topic+"/approvals", map[string]any{"approvalId": card.ApprovalID, "approved": even})
				s.mu.Lock()
				defer s.mu.Unlock()
				switch {
				case err != nil:
					w.t.Errorf("no answer: %v", err)
				case r.status == 200:
					s.agreed[card.ApprovalID] = true
				case r.status == 503 && r.header.Get("Retry-After") != "":
					s.lost++
					if !strings.Contains(string(r.body), "not known") {
						s.undone[card.ApprovalID] = append(s.undone[card.ApprovalID], string(r.body))
					}
				default:
					w.t.Errorf("got %d %s", r.status, r.body)
				}
			})
		}
	}
	wg.Wait()
}

// settle holds what was answered against what waits, and decides again what
// was not decided.
func (s *shaken) settle(cards []chat.ApprovalItem) {
	w := s.both[0]
	w.t.Helper()
	for _, i := range s.both {
		i.eventually(func() bool { r, err := i.do("GET", "/readyz", nil); return err == nil && r.status == 200 }, func() string { return "the server did not recover" })
	}
	waits := map[string]bool{}
	for _, a := range w.pending(s.topic) {
		waits[a.ApprovalID] = true
	}
	for _, card := range cards {
		id := card.ApprovalID
		if s.agreed[id] && waits[id] {
			w.t.Errorf("%s was answered 200, and waits", card.ToolCallID)
		}
		if len(s.undone[id]) == len(s.both) && !waits[id] {
			w.t.Errorf("%s was decided, and answered %q", card.ToolCallID, s.undone[id])
		}
	}
	w.eventually(func() bool {
		cards = slices.DeleteFunc(slices.Clone(cards), func(a chat.ApprovalItem) bool { return s.agreed[a.ApprovalID] })
		s.decide(cards)
		return len(cards) == 0
	}, func() string { return "a card cannot be decided" })
}

func TestADatabaseThatIsLostWhileTwoInstancesDecide(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		db, err := sql.Open("postgres", here.databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		links := []*pgtest.Wire{here.wired(), there.wired()}
		const n = 16
		var calls []llmtest.Call
		for i := range n {
			calls = append(calls, call("note", fmt.Sprint("x", i)))
		}
		here.says(llmtest.Calls(calls...), llmtest.Text("ok"))
		here.start()
		there.beside(here)
		topic := here.topic()
		here.send(topic, "go")
		here.until(topic, chat.TopicAwaitingApproval)
		s := &shaken{topic: topic, both: []*world{here, there}, agreed: map[string]bool{}, undone: map[string][]string{}}
		tabs := []*tab{here.open("", nil, topic), there.open("", nil, topic)}
		var cards []chat.ApprovalItem
		for i := range n {
			cards = append(cards, here.card(topic, fmt.Sprint("x", i)))
		}

		// Its connections are ended at any statement.
		shaking, enough := make(chan error, 1), make(chan struct{})
		go func() {
			for {
				select {
				case <-enough:
					shaking <- nil
					return
				default:
				}
				if _, err := db.ExecContext(t.Context(), `
					SELECT pg_terminate_backend(pid) FROM (
						SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3
					) AS chosen`); err != nil {
					shaking <- err
					return
				}
			}
		}()
		s.decide(cards[:n/2])
		close(enough)
		if err := <-shaking; err != nil {
			t.Fatal(err)
		}
		s.settle(cards[:n/2])

		// It is gone, in the middle of decisions, and comes back.
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for _, l := range links {
				l.Down()
			}
		}()
		s.decide(cards[n/2 : n-2])
		<-gone
		before := s.lost
		s.decide(cards[n-2:])
		if got, said := s.lost-before, len(s.undone[cards[n-1].ApprovalID]); got != 4 || said != 2 {
			t.Errorf("without a database %d of 4 decisions were answered 503, and %d of 2 that it was not done", got, said)
		}
		for _, w := range s.both {
			w.want(200, "GET", "/healthz", nil)
			w.want(503, "GET", "/readyz", nil)
		}
		for _, l := range links {
			l.Mend()
		}
		s.settle(cards[n/2:])
		t.Logf("%d answers of 503", s.lost)

		here.until(topic, chat.TopicDone)
		for _, b := range tabs {
			select {
			case <-b.done:
				b.close()
				b.connect(b.lastID())
			default:
			}
			b.converge(topic)
		}
		for i := range n {
			if got, want := here.probe.starts(t, fmt.Sprint("x", i)), 1-i%2; got != want {
				t.Errorf("call %d was started %d times, want %d", i, got, want)
			}
		}
		if e := here.audit(topic); len(e) != n {
			t.Errorf("the audit has %d entries of %d decisions", len(e), n)
		}
	})
}

func TestAServerEndsCleanlyThoughItsDatabaseIsGone(t *testing.T) {
	several(t, func(t *testing.T, here, _ *world) {
		link := here.wired()
		here.says()
		here.start()
		var wg sync.WaitGroup
		for range 8 { // so that connections rest in the pool
			wg.Go(func() { here.want(200, "GET", "/topics", nil) })
		}
		wg.Wait()
		link.Reset()
		here.stop() // an error of it fails the test
	})
}
