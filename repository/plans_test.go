package repository_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
)

// The queries that are asked of all topics, again and again, must find what is
// open by an index that holds nothing else: a database has many more parts and
// turns than that.
var openQueries = map[string]string{
	"cards":     `SELECT message_id FROM parts p WHERE p.state = 'approval-requested' ORDER BY p.requested_at, p.message_id, p.position LIMIT 51`,
	"count":     `SELECT count(*), min(requested_at) FROM parts WHERE state = 'approval-requested'`,
	"expired":   `SELECT approval_id FROM parts WHERE state = 'approval-requested' AND expires_at IS NOT NULL AND expires_at <= '2026-01-01' ORDER BY expires_at LIMIT 100`,
	"questions": `SELECT message_id FROM parts p WHERE p.question_id IS NOT NULL ORDER BY p.updated_at, p.message_id, p.position LIMIT 51`,
	"claimable": `SELECT id FROM turns WHERE state IN ('queued', 'running') AND (state = 'queued' OR lease_until <= '2026-01-01') ORDER BY updated_at LIMIT 64`,
	"let go":    `SELECT id FROM turns WHERE owner = 'me' AND owner <> '' AND state = 'running'`,
	"stopped":   `SELECT id FROM turns WHERE owner <> '' AND state = 'aborted' AND stopped_at <= '2026-01-01'`,
}

func TestWhatIsOpenIsFoundByIndex(t *testing.T) {
	t.Parallel()
	databases := map[string]func(t *testing.T) (db *sql.DB, explain string){
		"sqlite": func(t *testing.T) (*sql.DB, string) {
			path := filepath.Join(t.TempDir(), "a.db")
			open(t, repository.Options{Path: path})
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			return db, `EXPLAIN QUERY PLAN `
		},
		"postgres": func(t *testing.T) (*sql.DB, string) {
			url := pgtest.URL(t)
			open(t, repository.Options{URL: url})
			db, err := sql.Open("postgres", url)
			if err != nil {
				t.Fatal(err)
			}
			return db, `EXPLAIN (FORMAT JSON) `
		},
	}
	for name, prepare := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, explain := prepare(t)
			defer db.Close()
			exec := func(format string, args ...any) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(format, args...)); err != nil {
					t.Fatal(err)
				}
			}
			const numbers = `(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 5000) SELECT n FROM s) AS s`
			const at = "'2026-01-01T00:00:00.000Z'"
			exec(`INSERT INTO topics (id, title, model, system_prompt, revision, created_at, updated_at) VALUES ('t', '', '', '', 1, %s, %s)`, at, at)
			exec(`INSERT INTO messages (topic_id, id, role, status, sequence, created_at, updated_at, revision)
				SELECT 't', 'm' || s.n, 'assistant', 'success', s.n, %s, %s, 1 FROM %s`, at, at, numbers)
			exec(`INSERT INTO parts (topic_id, message_id, position, type, state, tool_call_id, approval_id, question_id, requested_at, updated_at, revision, payload)
				SELECT 't', 'm' || s.n, 0, 'dynamic-tool', CASE WHEN s.n %% 100 = 0 THEN 'approval-requested' ELSE 'output-available' END, 'c', 'a' || s.n,
					CASE WHEN s.n %% 500 = 1 THEN 'q' || s.n END, %s, %s, 1, '{}' FROM %s`, at, at, numbers)
			exec(`INSERT INTO turns (id, topic_id, message_id, group_id, model, state, created_at, updated_at)
				SELECT 'u' || s.n, 't', 'm' || s.n, 'g' || s.n, '', CASE WHEN s.n %% 100 = 0 THEN 'queued' ELSE 'done' END, %s, %s FROM %s`, at, at, numbers)
			if name == "postgres" { // a server does so by itself, and SQLite never
				exec(`ANALYZE`)
			}
			for what, query := range openQueries {
				plan := planOf(t, db, explain+query)
				index := "parts_open"
				if strings.Contains(query, "turns") {
					index = "turns_open"
				}
				if !strings.Contains(plan, index) {
					t.Errorf("%s: %s is not used: %s", what, index, plan)
				}
			}
		})
	}
}

func planOf(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s", *values[len(values)-1].(*any)))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
