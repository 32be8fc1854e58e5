package repository_test

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/assent-chat/assent/migrations"
	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// TestACardOfTheFirstReleaseIsDecidableAfterAnUpgrade writes a waiting turn as
// the first schema had it, and decides it through the newest.
func TestACardOfTheFirstReleaseIsDecidableAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*testing.T) (*sql.DB, database.Dialect, fs.FS, repository.Options){
		"SQLite": func(t *testing.T) (*sql.DB, database.Dialect, fs.FS, repository.Options) {
			path := filepath.Join(t.TempDir(), "db")
			db, err := sql.Open("sqlite", "file:"+path)
			if err != nil {
				t.Fatal(err)
			}
			files, err := migrations.SQLite()
			if err != nil {
				t.Fatal(err)
			}
			return db, database.DialectSQLite3, files, repository.Options{Path: path, Exclusive: true}
		},
		"Postgres": func(t *testing.T) (*sql.DB, database.Dialect, fs.FS, repository.Options) {
			url := pgtest.URL(t)
			db, err := sql.Open("postgres", url)
			if err != nil {
				t.Fatal(err)
			}
			files, err := migrations.Postgres()
			if err != nil {
				t.Fatal(err)
			}
			return db, database.DialectPostgres, files, repository.Options{URL: url}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, dialect, files, options := first(t)
			provider, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := provider.UpTo(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			const at = `'2026-11-30T12:00:00.000Z'`
			for _, statement := range []string{
				`INSERT INTO topics (id, title, model, system_prompt, revision, active_leaf, created_at, updated_at) VALUES ('t', 'T', 'm', '', 4, 'a', ` + at + `, ` + at + `)`,
				`INSERT INTO messages (topic_id, id, role, status, sequence, created_at, updated_at, revision) VALUES ('t', 'u', 'user', 'success', 1, ` + at + `, ` + at + `, 2)`,
				`INSERT INTO messages (topic_id, id, parent_id, group_id, role, status, turn_id, epoch, sequence, created_at, updated_at, revision) VALUES ('t', 'a', 'u', 'g', 'assistant', 'pending', 'r', 1, 2, ` + at + `, ` + at + `, 4)`,
				`INSERT INTO turns (id, topic_id, message_id, group_id, model, state, epoch, steps, created_at, updated_at) VALUES ('r', 't', 'a', 'g', 'm', 'awaiting-approval', 1, 1, ` + at + `, ` + at + `)`,
				`INSERT INTO parts (topic_id, message_id, position, type, state, tool_call_id, approval_id, requested_at, updated_at, revision, payload) VALUES ('t', 'a', 0, 'dynamic-tool', 'approval-requested', 'c', 'approval', ` + at + `, ` + at + `, 4,
					'{"type":"dynamic-tool","toolName":"s__t","toolCallId":"c","state":"approval-requested","input":{},"approval":{"id":"approval"},"toolMetadata":{"server":"s","verdict":"ask","rule":"ask by default"}}')`,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}

			s := open(t, options)
			topic, err := s.Topic(t.Context(), "t")
			if err != nil || topic.Mode != chat.ModeDefault {
				t.Errorf("the topic is %+v, %v", topic, err)
			}
			decided, _, err := s.Decide(t.Context(), "t", []chat.Decision{{ApprovalID: "approval", Approved: true}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
			if err != nil || decided.Continuation != chat.ContinuationScheduled {
				t.Errorf("decided: %+v, %v", decided, err)
			}
			c, err := s.ApprovalCall(t.Context(), "approval")
			if err != nil {
				t.Fatal(err)
			}
			if e := chat.Explain(c, nil); e.Verdict != chat.VerdictAsk || e.Why == "" {
				t.Errorf("explained as %+v", e)
			}
		})
	}
}
