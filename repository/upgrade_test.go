package repository_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/assent-chat/assent/migrations"
	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// card is a topic whose turn waits for one decision, as the first release
// writes it. NAME is the topic's id, and begins those of all else.
const card = `
	INSERT INTO topics (id, title, model, system_prompt, revision, active_leaf, created_at, updated_at)
	VALUES ('NAME', 'T', 'm', '', 4, 'NAME-a', AT, AT);
	INSERT INTO messages (topic_id, id, role, status, sequence, created_at, updated_at, revision)
	VALUES ('NAME', 'NAME-u', 'user', 'success', 1, AT, AT, 2);
	INSERT INTO messages (topic_id, id, parent_id, group_id, role, status, turn_id, epoch, sequence, created_at, updated_at, revision)
	VALUES ('NAME', 'NAME-a', 'NAME-u', 'g', 'assistant', 'pending', 'NAME-r', 1, 2, AT, AT, 4);
	INSERT INTO turns (id, topic_id, message_id, group_id, model, state, epoch, steps, created_at, updated_at)
	VALUES ('NAME-r', 'NAME', 'NAME-a', 'g', 'm', 'awaiting-approval', 1, 1, AT, AT);
	INSERT INTO parts (topic_id, message_id, position, type, state, tool_call_id, approval_id, requested_at, updated_at, revision, payload)
	VALUES ('NAME', 'NAME-a', 0, 'dynamic-tool', 'approval-requested', 'c', 'NAME-approval', AT, AT, 4,
		'{"type":"dynamic-tool","toolName":"workspace__write_file","toolCallId":"c","state":"approval-requested","input":{},"approval":{"id":"NAME-approval"},"toolMetadata":{"server":"workspace","serverId":"workspace","tool":"write_file","verdict":"ask","rule":"ask by default"}}')`

// waits writes such a card.
func waits(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	text := strings.NewReplacer("NAME", name, "AT", `'2026-11-30T12:00:00.000Z'`).Replace(card)
	for statement := range strings.SplitSeq(text, ";\n") {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCardsOfEveryReleaseAreDecidableAfterAnUpgrade writes waiting turns under
// each older schema, and one more as the release before this one does while
// both run, and decides them through the newest.
func TestCardsOfEveryReleaseAreDecidableAfterAnUpgrade(t *testing.T) {
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
		for _, version := range []int64{1, 2} {
			t.Run(fmt.Sprintf("%s from schema %d", name, version), func(t *testing.T) {
				t.Parallel()
				db, dialect, files, options := first(t)
				defer func() { _ = db.Close() }()
				provider, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := provider.UpTo(t.Context(), version); err != nil {
					t.Fatal(err)
				}
				waits(t, db, "plain")
				waits(t, db, "good")

				options.Key = bytes.Repeat([]byte{1}, 32)
				s := open(t, options)
				waits(t, db, "late")
				waiting, _, err := s.PendingCalls(t.Context(), chat.Page{Limit: 10})
				if err != nil || len(waiting) != 3 {
					t.Fatalf("%d calls wait, %v", len(waiting), err)
				}
				for id, remember := range map[string]chat.Remember{"plain": "", "good": chat.RememberAlwaysAllow, "late": ""} {
					topic, err := s.Topic(t.Context(), id)
					if err != nil || topic.Mode != chat.ModeDefault || topic.AssistantID != "" || topic.Status.PendingApprovals != 1 || topic.Status.OpenQuestions != 0 {
						t.Errorf("topic %s is %+v, %v", id, topic, err)
					}
					c, err := s.ApprovalCall(t.Context(), id+"-approval")
					if err != nil {
						t.Fatal(err)
					}
					if e := chat.Explain(c, nil); e.Verdict != chat.VerdictAsk || e.Why == "" {
						t.Errorf("%s is explained as %+v", id, e)
					}
					decided, _, err := s.Decide(t.Context(), id, []chat.Decision{{ApprovalID: id + "-approval", Approved: true, Remember: remember}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
					if err != nil || decided.Continuation != chat.ContinuationScheduled {
						t.Errorf("%s is decided: %+v, %v", id, decided, err)
					}
				}
				workspace, err := s.MCPServer(t.Context(), "workspace")
				if err != nil || strings.Join(workspace.AutoApproveTools, " ") != "list_files read_file write_file" {
					t.Errorf("the built-in server is %+v, %v", workspace, err)
				}
			})
		}
	}
}
