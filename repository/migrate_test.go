package repository

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/assent-chat/assent/migrations"
	"github.com/assent-chat/assent/repository/pgtest"
)

// killedEnv names the file in whose migration this process is to be killed.
const killedEnv = "ASSENT_TEST_MIGRATE"

func init() {
	path := os.Getenv(killedEnv)
	sqlite.MustRegisterScalarFunction("in_the_middle", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		if path != "" {
			fmt.Println("in the middle")
			select {}
		}
		return int64(1), nil
	})
	if path != "" {
		err := migrateFile(context.Background(), path, slog.New(slog.DiscardHandler))
		fmt.Println("not killed:", err)
		os.Exit(1)
	}
}

// next is the released migrations and more.
func next(t interface{ Fatal(...any) }, released func() (fs.FS, error), more map[string]string) fs.FS {
	files, err := released()
	if err != nil {
		t.Fatal(err)
	}
	all := fstest.MapFS{}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		all[name] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + text)}
	}
	return all
}

// upTo makes a database as the release with that schema did.
func upTo(t *testing.T, m *migration, version int64) {
	t.Helper()
	provider, err := goose.NewProvider(m.goose, m.db, m.files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// told is a logger whose messages come out of a channel.
func told() (*slog.Logger, chan string) {
	messages := make(chan string, 10000)
	return slog.New(slog.NewTextHandler(lines(messages), nil)), messages
}

type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestReadersAreServedWhileAMigrationWaits(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	files := next(t, migrations.Postgres, nil)
	log, messages := told()
	m := postgresMigration(connect(t, "postgres", url), files, log)
	upTo(t, m, 1)
	m.timeout, m.pause = 100*time.Millisecond, 50*time.Millisecond

	db := connect(t, "postgres", url)
	long, err := db.BeginTx(t.Context(), nil) // a report, or pg_dump
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Rollback() }()
	read := func(q interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if nobody serves it
		defer cancel()
		var n int
		if err := q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM topics) + (SELECT count(*) FROM turns)`).Scan(&n); err != nil {
			t.Fatalf("read: %v", err)
		}
	}
	read(long)
	done := make(chan error, 1)
	go func() { done <- m.alone(t.Context()) }()
	for waits := 0; waits < 3; {
		read(db) // each comes after the migration, and is done before the long one
		select {
		case message := <-messages:
			if strings.Contains(message, "waits for other transactions") {
				waits++
			}
		case err := <-done:
			t.Fatalf("the migration ended before the long transaction: %v", err)
		default:
		}
	}
	if err := long.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if applied, err := m.applied(t.Context()); err != nil || !applied[2] || !applied[3] {
		t.Errorf("applied: %v, %v", applied, err)
	}
}

func TestAMigrationThatNeverGetsItsTableSaysSo(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	m := postgresMigration(connect(t, "postgres", url), next(t, migrations.Postgres, nil), slog.New(slog.DiscardHandler))
	upTo(t, m, 1)
	m.timeout, m.pause, m.tries = time.Millisecond, time.Millisecond, 3
	long, err := connect(t, "postgres", url).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Rollback() }()
	if _, err := long.ExecContext(t.Context(), `LOCK TABLE topics IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	err = m.alone(t.Context())
	if err == nil || !strings.Contains(err.Error(), "schema 2") || !strings.Contains(err.Error(), "end them and start again") {
		t.Errorf("got %v", err)
	}
	if applied, err := m.applied(t.Context()); err != nil || applied[2] {
		t.Errorf("applied: %v, %v", applied, err)
	}
}

// index is a migration as the rules want it, of the release after this one.
var index = map[string]string{
	"90001_index.sql":  "-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS parts_later;\nCREATE INDEX CONCURRENTLY parts_later ON parts (updated_at);\n",
	"90002_column.sql": "ALTER TABLE turns ADD COLUMN later TEXT NOT NULL DEFAULT '';\n",
}

// TestSeveralStartAtOnceUnderLoad has three processes bring an old schema up
// to date while others read and write, and an index is built concurrently,
// which no process that waits for its turn may hold up.
func TestSeveralStartAtOnceUnderLoad(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	more := maps.Clone(index)
	files := next(t, migrations.Postgres, more)
	upTo(t, postgresMigration(connect(t, "postgres", url), files, slog.New(slog.DiscardHandler)), 1)
	db := connect(t, "postgres", url)

	stop := make(chan struct{})
	var load, starts sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				// In the words of the first release.
				_, err := db.ExecContext(t.Context(), `
					INSERT INTO topics (id, title, model, system_prompt, revision, created_at, updated_at) VALUES ($1, 't', 'm', '', 1, now(), now())`, fmt.Sprintf("%d-%d", worker, n))
				if err == nil {
					_, err = db.ExecContext(t.Context(), `UPDATE topics SET revision = revision + 1 WHERE id = $1`, fmt.Sprintf("%d-%d", worker, n))
				}
				if err != nil {
					t.Errorf("the release before: %v", err)
					return
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if they wait for each other
	defer cancel()
	log, messages := told()
	errs := make([]error, 3)
	for i := range errs {
		starts.Go(func() {
			errs[i] = postgresMigration(connect(t, "postgres", url), files, log).alone(ctx)
		})
	}
	starts.Wait()
	close(stop)
	load.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	close(messages)
	began := 0
	for message := range messages {
		if strings.Contains(message, "migrating the database") {
			began++
		}
	}
	if began != 1 {
		t.Errorf("%d of them migrated", began)
	}
}

func TestAnIndexThatWasCutShortIsBuiltAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	files := next(t, migrations.Postgres, index)
	m := postgresMigration(connect(t, "postgres", url), files, slog.New(slog.DiscardHandler))
	upTo(t, m, 90000)                        // all that there are
	m.timeout, m.tries = time.Millisecond, 1 // which hold for those that others wait for
	db := connect(t, "postgres", url)
	long, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Rollback() }()
	if _, err := long.ExecContext(t.Context(), `UPDATE parts SET revision = 1`); err != nil { // what a build waits for
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if it never builds
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.alone(ctx) }()
	valid := func() (valid, there bool) {
		t.Helper()
		err := db.QueryRowContext(t.Context(), `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('parts_later')`).Scan(&valid)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
		return valid, err == nil
	}
	for looks := 0; looks < 50; {
		if _, there := valid(); there {
			looks++
		}
		select {
		case err := <-done:
			t.Fatalf("the migration ended before the transaction that it waits for: %v", err)
		default:
		}
	}
	cancel() // as a process that ends
	if err := <-done; err == nil {
		t.Fatal("it was not cut short")
	}
	if ok, there := valid(); ok || !there {
		t.Fatalf("the index is valid: %v, there: %v", ok, there)
	}
	if err := long.Commit(); err != nil {
		t.Fatal(err)
	}
	again := postgresMigration(connect(t, "postgres", url), files, slog.New(slog.DiscardHandler))
	if err := again.alone(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, _ := valid(); !ok {
		t.Error("the index is not valid")
	}
}

func migrateFile(ctx context.Context, path string, log *slog.Logger) error {
	files := next(panics{}, migrations.SQLite, map[string]string{
		"90001_middle.sql": "ALTER TABLE topics ADD COLUMN later TEXT NOT NULL DEFAULT '';\nUPDATE topics SET later = title;\nSELECT in_the_middle();\nALTER TABLE turns ADD COLUMN later TEXT;\n",
	})
	db, err := sql.Open("sqlite", sqliteURL(path, "busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(1)")+"&_txlock=immediate")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(sqliteMigration(db, path, files, log).up(ctx), db.Close())
}

type panics struct{}

func (panics) Fatal(v ...any) { panic(fmt.Sprint(v...)) }

func TestAMigrationThatIsKilledGoesOnAtTheNextStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := connect(t, "sqlite", sqliteURL(path, "journal_mode(WAL)"))
	upTo(t, sqliteMigration(db, path, next(t, migrations.SQLite, nil), slog.New(slog.DiscardHandler)), 1)
	const topics = 2000
	if _, err := db.ExecContext(t.Context(), `
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO topics (id, title, model, system_prompt, revision, created_at, updated_at)
		SELECT 't' || i, 'title ' || i, 'm', hex(randomblob(4000)), 1, '2026-11-30T12:00:00.000Z', '2026-11-30T12:00:00.000Z' FROM n`, topics); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killErr := cmd.Process.Kill(); err != nil || line != "in the middle\n" || killErr != nil {
		t.Fatalf("the process said %q, %v, %v", line, err, killErr)
	}
	_ = cmd.Wait()

	look := connect(t, "sqlite", sqliteURL(path, "query_only(1)"))
	var version, n int
	if err := look.QueryRowContext(t.Context(), `SELECT max(version_id), (SELECT count(*) FROM topics WHERE mode = 'default') FROM goose_db_version`).Scan(&version, &n); err != nil || version == 90001 || n != topics {
		t.Fatalf("after the kill it has schema %d and %d topics, %v", version, n, err)
	}
	log, messages := told()
	if err := migrateFile(t.Context(), path, log); err != nil {
		t.Fatal(err)
	}
	if message := <-messages; !strings.Contains(message, "migrating the database") || !strings.Contains(message, "to_schema=90001") {
		t.Errorf("the log begins with %s", message)
	}
	var check string
	if err := look.QueryRowContext(t.Context(), `SELECT (SELECT max(version_id) FROM goose_db_version), (SELECT count(*) FROM topics WHERE later = title), integrity_check FROM pragma_integrity_check`).Scan(&version, &n, &check); err != nil {
		t.Fatal(err)
	}
	if version != 90001 || n != topics || check != "ok" {
		t.Errorf("it has schema %d, %d topics were migrated, the file is %s", version, n, check)
	}
}

func TestACopyIsKeptOfAFileThatIsMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	discard := slog.New(slog.DiscardHandler)
	db := connect(t, "sqlite", sqliteURL(path, "journal_mode(WAL)"))
	m := sqliteMigration(db, path, next(t, migrations.SQLite, nil), discard)
	upTo(t, m, 2)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO tokens (digest, kind, principal, created_at) VALUES ('d', 'k', 'ada', '2026')`); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".schema-2", []byte("of an earlier try"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path + ".schema-2")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	var version int
	var principal string
	if err := connect(t, "sqlite", "file:"+path+".schema-2").QueryRowContext(t.Context(), `SELECT max(version_id), (SELECT principal FROM tokens) FROM goose_db_version`).Scan(&version, &principal); err != nil || version != 2 || principal != "ada" {
		t.Errorf("the copy has schema %d, %q, %v", version, principal, err)
	}

	t.Run("not of a new one, nor of one that is up to date", func(t *testing.T) {
		fresh := filepath.Join(t.TempDir(), "db")
		m := sqliteMigration(connect(t, "sqlite", sqliteURL(fresh)), fresh, m.files, discard)
		if err := errors.Join(m.up(t.Context()), m.up(t.Context())); err != nil {
			t.Fatal(err)
		}
		if found, err := filepath.Glob(fresh + ".schema*"); err != nil || len(found) != 0 {
			t.Errorf("found %v, %v", found, err)
		}
	})
	t.Run("where none can be made the upgrade goes on and says so", func(t *testing.T) {
		full := filepath.Join(t.TempDir(), "db")
		log, messages := told()
		m := sqliteMigration(connect(t, "sqlite", sqliteURL(full)), full, m.files, log)
		upTo(t, m, 1)
		if err := os.Mkdir(full+".schema-1.part", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := m.up(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-messages
		if message := <-messages; !strings.Contains(message, "no copy of the database was kept") {
			t.Errorf("the log says %s", message)
		}
	})
}

func TestAnIndexIsBuiltHoweverLongStatementsMayTake(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := connect(t, "postgres", dsn)
	upTo(t, postgresMigration(db, next(t, migrations.Postgres, nil), slog.New(slog.DiscardHandler)), 3)
	old, err := db.BeginTx(t.Context(), nil) // an index waits for it
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback()
	if _, err := old.ExecContext(t.Context(), `LOCK TABLE parts IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() {
		migrated <- migratePostgres(t.Context(), connect(t, "postgres", dsn+"&statement_timeout=50"), slog.New(slog.DiscardHandler))
	}()
	if _, err := old.ExecContext(t.Context(), `SELECT pg_sleep(0.3)`); err != nil { // of the server's time, which is what is up
		t.Fatal(err)
	}
	if err := old.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("got %v", err)
	}
}
