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
	goosedb "github.com/pressly/goose/v3/database"

	"github.com/assent-chat/assent/migrations"
	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// card is a topic whose turn waits for one decision, as the first release
// writes it. NAME is the topic's id, and begins those of all else.
const card = `
	INSERT INTO topics (id, title, model, system_prompt, revision, active_leaf, created_at, updated_at)
	VALUES ('NAME', 'T', 'm', '', 4, 'NAME-a', {at}, {at});
	INSERT INTO messages (topic_id, id, role, status, sequence, created_at, updated_at, revision)
	VALUES ('NAME', 'NAME-u', 'user', 'success', 1, {at}, {at}, 2);
	INSERT INTO messages (topic_id, id, parent_id, group_id, role, status, turn_id, epoch, sequence, created_at, updated_at, revision)
	VALUES ('NAME', 'NAME-a', 'NAME-u', 'g', 'assistant', 'pending', 'NAME-r', 1, 2, {at}, {at}, 4);
	INSERT INTO turns (id, topic_id, message_id, group_id, model, state, epoch, steps, created_at, updated_at)
	VALUES ('NAME-r', 'NAME', 'NAME-a', 'g', 'm', 'awaiting-approval', 1, 1, {at}, {at});
	INSERT INTO parts (topic_id, message_id, position, type, state, tool_call_id, approval_id, requested_at, updated_at, revision, payload)
	VALUES ('NAME', 'NAME-a', 0, 'dynamic-tool', 'approval-requested', 'c', 'NAME-approval', {at}, {at}, 4,
		'{"type":"dynamic-tool","toolName":"workspace__write_file","toolCallId":"c","state":"approval-requested","input":{},"approval":{"id":"NAME-approval"},"toolMetadata":{"server":"workspace","serverId":"workspace","tool":"write_file","verdict":"ask","rule":"ask by default"}}')`

// decision is that of a card NAME, as the first release makes it.
const decision = `
	UPDATE topics SET revision = revision + 1, updated_at = {at} WHERE id = 'NAME' AND deleted_at IS NULL;
	UPDATE parts SET state = 'approval-responded', updated_at = {at}, revision = 5,
		payload = '{"type":"dynamic-tool","toolName":"workspace__write_file","toolCallId":"c","state":"approval-responded","input":{},"approval":{"id":"NAME-approval","approved":true,"decidedBy":"ada"},"toolMetadata":{"server":"workspace","serverId":"workspace","tool":"write_file","verdict":"ask","rule":"ask by default"}}'
		WHERE topic_id = 'NAME' AND approval_id = 'NAME-approval' AND state = 'approval-requested';
	INSERT INTO decisions (id, approval_id, topic_id, anchor_id, tool_call_id, tool_name, server, approved, resolution, reason, decided_by, via, decided_at, original_input, executed_input, input_digest)
	VALUES ('NAME-d', 'NAME-approval', 'NAME', 'NAME-a', 'c', 'workspace__write_file', 'workspace', TRUE, '', '', 'ada', 'api', {at}, '{}', '{}', 'sha256:0');
	UPDATE turns SET state = 'queued', updated_at = {at} WHERE topic_id = 'NAME' AND state = 'awaiting-approval';
	UPDATE messages SET revision = 5, updated_at = {at} WHERE topic_id = 'NAME' AND id = 'NAME-a';
	INSERT INTO tokens (digest, kind, principal, created_at) VALUES ('NAME', 'bearer', 'ada', {at})`

// waits writes such a card.
func waits(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	writeAs(t, db, name, card)
}

func writeAs(t *testing.T, db *sql.DB, name, statements string) {
	t.Helper()
	text := strings.NewReplacer("NAME", name, "{at}", `'2026-11-30T12:00:00.000Z'`).Replace(statements)
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
	for name, first := range map[string]func(*testing.T) (*sql.DB, goosedb.Dialect, fs.FS, repository.Options){
		"SQLite": func(t *testing.T) (*sql.DB, goosedb.Dialect, fs.FS, repository.Options) {
			path := filepath.Join(t.TempDir(), "db")
			db, err := sql.Open("sqlite", "file:"+path)
			if err != nil {
				t.Fatal(err)
			}
			files, err := migrations.SQLite()
			if err != nil {
				t.Fatal(err)
			}
			return db, goosedb.DialectSQLite3, files, repository.Options{Path: path, Exclusive: true}
		},
		"Postgres": func(t *testing.T) (*sql.DB, goosedb.Dialect, fs.FS, repository.Options) {
			url := pgtest.URL(t)
			db, err := sql.Open("postgres", url)
			if err != nil {
				t.Fatal(err)
			}
			files, err := migrations.Postgres()
			if err != nil {
				t.Fatal(err)
			}
			return db, goosedb.DialectPostgres, files, repository.Options{URL: url}
		},
	} {
		for version := range newest(t) {
			if version == 0 {
				continue // that is an empty database
			}
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
				waits(t, db, "elsewhere")
				writeAs(t, db, "elsewhere", decision) // by an instance of the release before
				again, _, err := s.Decide(t.Context(), "elsewhere", []chat.Decision{{ApprovalID: "elsewhere-approval", Approved: true}}, chat.Decider{Name: "ben", Via: chat.ViaAPI})
				if err != nil || again.Results[0].Outcome != chat.EffectAlreadySettled || again.Results[0].DecidedBy != "ada" {
					t.Errorf("what the release before decided is %+v, %v", again, err)
				}
				topic, err := s.Topic(t.Context(), "elsewhere")
				if err != nil || topic.Status.Status != chat.TopicPending || topic.Status.PendingApprovals != 0 {
					t.Errorf("the topic of what it decided is %+v, %v", topic, err)
				}
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

// newest is the newest schema.
func newest(t *testing.T) int64 {
	t.Helper()
	files, err := migrations.SQLite()
	if err != nil {
		t.Fatal(err)
	}
	found, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(found))
}

// TestADatabaseOfANewerReleaseIsLeftAlone opens a database in which there is
// more than these migrations make.
func TestADatabaseOfANewerReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	url := pgtest.URL(t)
	for name, o := range map[string]repository.Options{"SQLite": {Path: path, Exclusive: true}, "Postgres": {URL: url}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver, dsn := "sqlite", "file:"+path
			if o.URL != "" {
				driver, dsn = "postgres", url
			}
			s, err := repository.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			waits(t, db, "running")
			for _, statement := range []string{
				`UPDATE turns SET state = 'running', owner = 'of a newer release', lease_until = '2100-01-01T00:00:00.000Z'`,
				`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)`,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			_, err = repository.Open(t.Context(), o)
			want := fmt.Sprintf("the database has schema 99999, and this release knows schemas up to %d", newest(t))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Start that release or a newer one") {
				t.Fatalf("opened: %v", err)
			}
			var owner string
			var versions int64
			if err := db.QueryRowContext(t.Context(), `SELECT owner, (SELECT count(*) FROM goose_db_version) FROM turns`).Scan(&owner, &versions); err != nil || owner != "of a newer release" || versions != newest(t)+2 {
				t.Errorf("the turn is %q's, there are %d versions, %v", owner, versions, err)
			}
			if found, err := filepath.Glob(path + ".schema*"); err != nil || len(found) != 0 {
				t.Errorf("copies: %v, %v", found, err)
			}
		})
	}
}
