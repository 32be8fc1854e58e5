package repository_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/turn"
)

// writing is an operation of the store, and what must be there before it.
type writing struct {
	name   string // of the method; what follows a blank tells two of one apart
	before func(t *testing.T, s *repository.Store) chat.Fence
	op     func(ctx context.Context, s *repository.Store, f chat.Fence) error
}

var ada = chat.Decider{Name: "ada", Via: chat.ViaAPI}

// reads are the methods that write nothing.
var reads = []string{
	"Ping", "Topic", "Topics", "Snapshot", "Tree", "Status", "Expired", "PendingCalls", "Question", "Questions", "Call", "Approvals", "Audit",
	"Rules", "Rule", "RuleVersions", "JudgedCalls", "ApprovalCall", "TopicCall", "MCPServers", "MCPServer", "MCPServerVersions",
	"Assistants", "Assistant", "FindToken", "Claimable",
}

func TestEveryWriteIsCutSomewhere(t *testing.T) {
	have := slices.Clone(reads)
	for _, w := range writes() {
		name, _, _ := strings.Cut(w.name, " ")
		have = append(have, name)
	}
	for _, port := range []reflect.Type{reflect.TypeFor[service.Store](), reflect.TypeFor[turn.Store]()} {
		for m := range port.Methods() {
			if !slices.Contains(have, m.Name) {
				t.Errorf("%s is neither a read nor cut", m.Name)
			}
		}
	}
}

// TestAWriteIsWholeAndItsAnswerTrueWhereverItsConnectionIsCut cuts the
// connection at each statement of each write, on both sides of the server.
func TestAWriteIsWholeAndItsAnswerTrueWhereverItsConnectionIsCut(t *testing.T) {
	t.Parallel()
	all := writes()
	const shards = 2
	unknown := make([]int, shards)
	t.Run("", func(t *testing.T) {
		for i := range shards {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				for n := i; n < len(all); n += shards {
					unknown[i] += l.cutEverywhere(t, all[n])
				}
			})
		}
	})
	if unknown[0]+unknown[1] < len(all) {
		t.Errorf("only %v of the writes ended unknown: the cut after the commit was not met", unknown)
	}
}

// lab is a database with two stores on it, one of them through a wire.
type lab struct {
	db           *sql.DB
	plain, wired *repository.Store
	wire         *pgtest.Wire
	dump, clear  string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dsn := pgtest.URL(t)
	l := &lab{}
	var err error
	if l.db, err = sql.Open("postgres", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.db.Close() })
	key := []byte(strings.Repeat("k", 32))
	l.plain = open(t, repository.Options{URL: dsn, Key: key})
	wire, through := pgtest.NewWire(t, dsn)
	l.wire, l.wired = wire, open(t, repository.Options{URL: through, Key: key})
	rows, err := l.db.QueryContext(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'goose_db_version' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var dumps, tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
		dumps = append(dumps, fmt.Sprintf(`SELECT '%s ' || row_to_json(x)::text FROM %s x`, name, name))
	}
	if rows.Err() != nil || len(tables) < 8 {
		t.Fatal(tables, rows.Err())
	}
	l.dump, l.clear = strings.Join(dumps, " UNION ALL "), "SET session_replication_role = replica; DELETE FROM "+strings.Join(tables, "; DELETE FROM ")+"; RESET session_replication_role"
	return l
}

// accidental is what differs between two runs of one operation.
var accidental = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?|[A-Za-z0-9+/=_-]{22,}|"id":[0-9]+`)

// rows counts the rows of all tables, with nothing accidental in them.
func (l *lab) rows(t *testing.T) map[string]int {
	t.Helper()
	rows, err := l.db.QueryContext(t.Context(), l.dump)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		out[accidental.ReplaceAllString(row, "~")]++
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return out
}

func (l *lab) empty(t *testing.T) {
	t.Helper()
	if _, err := l.db.ExecContext(t.Context(), l.clear); err != nil {
		t.Fatal(err)
	}
}

// cutEverywhere says how often the outcome was not known.
func (l *lab) cutEverywhere(t *testing.T, w writing) (unknown int) {
	t.Helper()
	l.empty(t)
	fence := w.before(t, l.plain)
	none := l.rows(t)
	if err := w.op(t.Context(), l.plain, fence); err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	whole := l.rows(t)
	if maps.Equal(none, whole) && w.name != "Heartbeat" && w.name != "LetGo" { // those change times alone
		t.Fatalf("%s changes nothing", w.name)
	}
	cut := func(n int, when pgtest.When, stays bool) (met bool) {
		if !maps.Equal(l.rows(t), none) {
			l.empty(t)
			fence = w.before(t, l.plain)
		}
		l.wired.Patience(10 * time.Second)
		if stays {
			l.wired.Patience(10 * time.Millisecond)
		}
		l.wire.Cut(n, when, stays)
		err := w.op(t.Context(), l.wired, fence)
		met = l.wire.Mend()
		now := l.rows(t)
		undone := maps.Equal(now, none)
		name := fmt.Sprintf("%s, cut %s, statement %d, for good: %t", w.name, when, n, stays)
		open := err != nil && strings.Contains(err.Error(), "is not known")
		switch {
		case !undone && !maps.Equal(now, whole):
			t.Fatalf("%s: half of it is there (%v): %s", name, err, cmp.Diff(whole, now))
		case err == nil && !maps.Equal(now, whole):
			t.Fatalf("%s: it was said to be done, and is not", name)
		case err != nil && (!met || !stays || !errors.Is(err, chat.ErrUnavailable)):
			t.Fatalf("%s: %v", name, err)
		case err != nil && !open && !undone:
			t.Fatalf("%s: it is done, and it was said: %v", name, err)
		}
		if open {
			unknown++
		}
		return met
	}
	// For all but the COMMIT it is all the same whether the server had it.
	for _, stays := range []bool{true, false} {
		for n := 1; cut(n, pgtest.After, stays); n++ {
		}
		for _, when := range []pgtest.When{pgtest.Before, pgtest.After} {
			if !cut(pgtest.AtCommit, when, stays) {
				t.Fatalf("%s: there was no commit", w.name)
			}
		}
	}
	return unknown
}
