package repository_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// The benchmarks measure decisions on PostgreSQL against the least that one
// could be: lock a row, change it, add one, commit. Both are measured in turns
// in the same run, since only their ratio means anything. The server that the
// tests start does not wait for its disk; "make bench" sets pgtest.EnvDurable,
// and then it does.

// each is how many decisions a decider makes before the rows are put back.
const each = 32

// decisions is a set of topics of which each waits for one decision.
type decisions struct {
	store     *repository.Store
	db        *sql.DB
	topics    []string
	approvals []string
}

func newDecisions(b *testing.B, s *repository.Store, db *sql.DB, n int, others chat.Parts) *decisions {
	b.Helper()
	d := &decisions{store: s, db: db}
	ctx := b.Context()
	for range n {
		topic, _, err := s.CreateTopic(ctx, chat.NewTopic{Model: "demo/guide"})
		if err != nil {
			b.Fatal(err)
		}
		sent, _, err := s.Send(ctx, topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hello"}}})
		if err != nil {
			b.Fatal(err)
		}
		work, _, ok, err := s.Claim(ctx, chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, "owner", time.Hour)
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		f := chat.Fence{TopicID: topic.ID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: work.Turn.Epoch}
		id := rand.Text()
		if _, err := s.CommitStep(ctx, f, chat.Step{Build: func(at time.Time) chat.Parts {
			return append(others[:len(others):len(others)], chat.Ask(chat.ToolCall{
				ToolName: "files__write", ToolCallID: "c", Input: json.RawMessage(`{"path":"a","text":"` + strings.Repeat("x", 200) + `"}`),
				ToolMetadata: &chat.ToolMetadata{Server: "files", Verdict: chat.VerdictAsk},
			}, id, at))
		}}); err != nil {
			b.Fatal(err)
		}
		if parked, _, _, err := s.Park(ctx, f); err != nil || !parked {
			b.Fatal(parked, err)
		}
		d.topics, d.approvals = append(d.topics, topic.ID), append(d.approvals, id)
	}
	run(b, db, `CREATE TABLE IF NOT EXISTS bench_parts AS SELECT approval_id, payload FROM parts WHERE false`, `TRUNCATE bench_parts`)
	run(b, db, `INSERT INTO bench_parts SELECT approval_id, payload FROM parts WHERE approval_id IS NOT NULL`)
	return d
}

func run(b *testing.B, db *sql.DB, statements ...string) {
	b.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(b.Context(), s); err != nil {
			b.Fatalf("%s: %v", s, err)
		}
	}
}

// reset puts the rows back, and removes what that leaves behind: a part is
// decided once, and not in every round.
func (d *decisions) reset(b *testing.B) {
	run(b, d.db,
		`UPDATE parts p SET state = 'approval-requested', payload = s.payload FROM bench_parts s WHERE p.approval_id = s.approval_id AND p.state <> 'approval-requested'`,
		`UPDATE turns SET state = 'awaiting-approval' WHERE state = 'queued'`,
		`DELETE FROM decisions`, `VACUUM topics, parts, turns, decisions`)
}

func (d *decisions) decide(ctx context.Context, i int) error {
	got, _, err := d.store.Decide(ctx, d.topics[i], []chat.Decision{{ApprovalID: d.approvals[i], Approved: true}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
	if err == nil && got.Continuation != chat.ContinuationScheduled {
		err = fmt.Errorf("the turn does not go on: %s", got.Continuation)
	}
	return err
}

// floor is the least that a decision could be.
type floor struct {
	db                      *sql.DB
	lock, update, insert    string
	locks, updates, inserts *sql.Stmt
}

func newFloor(b *testing.B, db *sql.DB, n int) *floor {
	b.Helper()
	run(b, db,
		`CREATE TABLE floor (id text PRIMARY KEY, payload text NOT NULL)`,
		`CREATE TABLE floor_audit (id text PRIMARY KEY, payload text NOT NULL)`,
		fmt.Sprintf(`INSERT INTO floor SELECT n::text, repeat('x', 600) FROM generate_series(0, %d) n`, n))
	f := &floor{
		db: db, lock: `SELECT payload FROM floor WHERE id = $1 FOR UPDATE`, update: `UPDATE floor SET payload = $2 WHERE id = $1`,
		insert: `INSERT INTO floor_audit (id, payload) VALUES ($1, $2)`,
	}
	for text, stmt := range map[string]**sql.Stmt{f.lock: &f.locks, f.update: &f.updates, f.insert: &f.inserts} {
		var err error
		if *stmt, err = db.PrepareContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func (f *floor) reset(b *testing.B) {
	run(b, f.db, `DELETE FROM floor_audit`, `VACUUM floor, floor_audit`)
}

func (f *floor) unprepared(ctx context.Context, i int) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var payload string
	if err := tx.QueryRowContext(ctx, f.lock, fmt.Sprint(i)).Scan(&payload); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, f.update, fmt.Sprint(i), payload); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, f.insert, rand.Text(), payload); err != nil {
		return err
	}
	return tx.Commit()
}

func (f *floor) prepared(ctx context.Context, i int) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var payload string
	if err := tx.StmtContext(ctx, f.locks).QueryRowContext(ctx, fmt.Sprint(i)).Scan(&payload); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, f.updates).ExecContext(ctx, fmt.Sprint(i), payload); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, f.inserts).ExecContext(ctx, rand.Text(), payload); err != nil {
		return err
	}
	return tx.Commit()
}

// timed runs op once for each topic, with so many deciders at once.
func timed(b *testing.B, deciders int, op func(context.Context, int) error) time.Duration {
	b.Helper()
	errs := make([]error, deciders)
	var wg sync.WaitGroup
	began := time.Now()
	for n := range deciders {
		wg.Go(func() {
			for i := n * each; i < (n+1)*each && errs[n] == nil; i++ {
				errs[n] = op(b.Context(), i)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return took
}

func benchStore(b *testing.B) (*repository.Store, *sql.DB) {
	b.Helper()
	url := pgtest.URL(b)
	s := open(b, repository.Options{URL: url})
	db, err := sql.Open("postgres", url)
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	b.Cleanup(func() { db.Close() })
	return s, db
}

// warm is how often all topics are decided before it counts: connections learn
// statements, and the server's caches fill.
const warm = 3

// BenchmarkDecide reports the median of its rounds' ratios. One operation is a
// round: every decider makes 32 decisions, and as many of each floor.
func BenchmarkDecide(b *testing.B) {
	for _, deciders := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("deciders=%d", deciders), func(b *testing.B) {
			s, db := benchStore(b)
			ours := newDecisions(b, s, db, deciders*each, nil)
			least := newFloor(b, db, deciders*each)
			round := func() (decide, unprepared, prepared time.Duration) {
				ours.reset(b)
				least.reset(b)
				return timed(b, deciders, ours.decide), timed(b, deciders, least.unprepared), timed(b, deciders, least.prepared)
			}
			for range warm {
				round()
			}
			var toUnprepared, toPrepared, one []float64
			for b.Loop() {
				decide, unprepared, prepared := round()
				toUnprepared = append(toUnprepared, unprepared.Seconds()/decide.Seconds())
				toPrepared = append(toPrepared, prepared.Seconds()/decide.Seconds())
				one = append(one, float64(decide.Nanoseconds())/float64(deciders*each))
			}
			b.ReportMetric(median(one), "ns/decision")
			b.ReportMetric(median(toUnprepared), "ratio-to-unprepared")
			b.ReportMetric(median(toPrepared), "ratio-to-prepared")
		})
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkDecideBesideLargeParts says how many times as long a decision takes
// in a message of 1 MB as in one of 2 KB.
func BenchmarkDecideBesideLargeParts(b *testing.B) {
	const deciders = 1
	s, db := benchStore(b)
	others := func(parts, size int) chat.Parts {
		var out chat.Parts
		for range parts {
			var text strings.Builder
			for text.Len() < size {
				text.WriteString(rand.Text())
			}
			out = append(out, chat.Text{Text: text.String()[:size]})
		}
		return out
	}
	small := newDecisions(b, s, db, deciders*each, others(2, 1<<10))
	big := newDecisions(b, s, db, deciders*each, others(64, 16<<10))
	round := func() float64 {
		small.reset(b)
		return timed(b, deciders, big.decide).Seconds() / timed(b, deciders, small.decide).Seconds()
	}
	for range warm {
		round()
	}
	var ratios []float64
	for b.Loop() {
		ratios = append(ratios, round())
	}
	b.ReportMetric(median(ratios), "big-to-small")
}
