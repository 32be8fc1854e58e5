package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/assent-chat/assent/migrations"
)

const (
	// migrationLock is the key of the advisory lock, one of this product's own.
	migrationLock = 0x617373656e74
	// lockTimeout is how long a migration may wait for a table, and with it
	// everybody who comes after it and only wants to read.
	lockTimeout = time.Second
	// lockPause is how long the others go on before it tries again.
	lockPause = 2 * time.Second
	// lockTries bounds how often it does: some five minutes in all.
	lockTries = 100
)

// migration brings the schema of a database up to date.
type migration struct {
	dialect *dialect
	goose   database.Dialect
	db      *sql.DB
	files   fs.FS
	log     *slog.Logger
	// versioned asks whether the database has a schema at all.
	versioned string
	// bound, where the database has such a thing, bounds the waits for locks.
	bound func(ctx context.Context, timeout time.Duration) error
	// before is done before a schema that is there is changed; may be nil.
	before func(ctx context.Context, from int64)

	timeout, pause time.Duration
	tries          int
}

// migratePostgres runs the migrations while it holds an advisory lock.
func migratePostgres(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	files, err := migrations.Postgres()
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	return postgresMigration(db, files, log).alone(ctx)
}

func postgresMigration(db *sql.DB, files fs.FS, log *slog.Logger) *migration {
	return &migration{
		dialect: postgres(true), goose: database.DialectPostgres, db: db, files: files, log: log,
		versioned: `SELECT to_regclass('goose_db_version') IS NOT NULL`,
		bound: func(ctx context.Context, timeout time.Duration) error {
			// However long a statement may take by the settings of the role: an
			// index of a large table takes longer.
			_, err := db.ExecContext(ctx, fmt.Sprintf(`SET lock_timeout = %d; SET statement_timeout = 0`, timeout.Milliseconds()))
			return err
		},
		timeout: lockTimeout, pause: lockPause, tries: lockTries,
	}
}

// alone is up for one process at a time. The lock is asked for again and
// again, not waited for in the server: a statement that waits holds a snapshot,
// and an index that is built concurrently waits for all of those.
func (m *migration) alone(ctx context.Context) (err error) {
	// One holds the lock. The other migrates, and keeps what bound has set.
	m.db.SetMaxOpenConns(2)
	m.db.SetMaxIdleConns(2)
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for held := false; !held; {
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&held); err != nil {
			return fmt.Errorf("ask for the migration lock: %w", err)
		}
		if !held {
			if err := sleep(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
				return fmt.Errorf("wait for the migration lock: %w", err)
			}
		}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		_, unlockErr := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
		err = errors.Join(err, unlockErr)
	}()
	return m.up(ctx)
}

// migrateSQLite makes the file and runs the migrations while it holds a lock
// file of its own: the one of the server is held for as long as it serves.
func migrateSQLite(ctx context.Context, db *sql.DB, path string, log *slog.Logger) (err error) {
	files, err := migrations.SQLite()
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	held, err := waitLockFile(path + ".migrate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if err := firstPing(ctx, db); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return sqliteMigration(db, path, files, log).up(ctx)
}

func sqliteMigration(db *sql.DB, path string, files fs.FS, log *slog.Logger) *migration {
	return &migration{
		dialect: sqliteDialect(), goose: database.DialectSQLite3, db: db, files: files, log: log,
		versioned: `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version')`,
		before: func(ctx context.Context, from int64) {
			keepCopy(ctx, db, fmt.Sprintf("%s.schema-%d", path, from), log)
		},
		pause: lockPause, tries: lockTries / 4, // each has waited for busy_timeout
	}
}

// firstPing switches the file to WAL. That switch does not wait for a lock
// that a process holds which opened the file by other means.
func firstPing(ctx context.Context, db *sql.DB) error {
	var err error
	for range 40 {
		if err = db.PingContext(ctx); err == nil || !sqliteDialect().meaning(err).again {
			return err
		}
		if sleep(ctx, 25*time.Millisecond) != nil {
			return err
		}
	}
	return err
}

// up applies what the database does not have yet. One that has what these
// files do not know is refused before anything is written.
func (m *migration) up(ctx context.Context) error {
	provider, err := goose.NewProvider(m.goose, m.db, m.files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	applied, err := m.applied(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the schema: %w", err)
	}
	sources := provider.ListSources()
	from, to := int64(0), sources[len(sources)-1].Version
	for version := range applied {
		from = max(from, version)
	}
	if from > to {
		return &newerError{from, to}
	}
	var missing []*goose.Source
	for _, s := range sources {
		if !applied[s.Version] {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if from > 0 {
		m.log.InfoContext(ctx, "migrating the database", slog.Int64("from_schema", from), slog.Int64("to_schema", to))
		if m.before != nil {
			m.before(ctx, from)
		}
	}
	for _, s := range missing {
		began := time.Now()
		if err := m.one(ctx, provider, s); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", s.Version, err)
		}
		if from > 0 {
			m.log.InfoContext(ctx, "migrated", slog.Int64("schema", s.Version), slog.Duration("took", time.Since(began)))
		}
	}
	return nil
}

// applied are the versions that the database has.
func (m *migration) applied(ctx context.Context) (map[int64]bool, error) {
	var versioned bool
	if err := m.db.QueryRowContext(ctx, m.versioned).Scan(&versioned); err != nil || !versioned {
		return nil, err
	}
	store, err := database.NewStore(m.goose, goose.DefaultTablename)
	if err != nil {
		return nil, err
	}
	rows, err := store.ListMigrations(ctx, m.db)
	if err != nil {
		return nil, err
	}
	applied := map[int64]bool{}
	for _, row := range rows {
		applied[row.Version] = true
	}
	return applied, nil
}

// one applies the next migration. Where it cannot have a table in time it lets
// everybody else go first, and tries again.
func (m *migration) one(ctx context.Context, provider *goose.Provider, s *goose.Source) error {
	timeout := m.timeout
	text, err := fs.ReadFile(m.files, s.Path)
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "+goose NO TRANSACTION") {
		timeout = 0 // it waits for transactions to end, and nobody for it
	}
	for try := 1; ; try++ {
		if m.bound != nil {
			if err := m.bound(ctx, timeout); err != nil {
				return fmt.Errorf("bound the waits for locks: %w", err)
			}
		}
		_, err := provider.UpByOne(ctx)
		if why := m.dialect.meaning(err); err == nil || !why.again && !why.locked { // refused for the sake of others
			return err
		}
		if try >= m.tries {
			return fmt.Errorf("other transactions held its tables for too long; end them and start again: %w", err)
		}
		m.log.WarnContext(ctx, "a migration waits for other transactions", slog.Int64("schema", s.Version), slog.Int("try", try))
		if err := sleep(ctx, m.pause/2+rand.N(m.pause)); err != nil {
			return err
		}
	}
}

// newerError refuses a database that a newer release has changed: what that
// release wrote of an approval may mean what this one does not know.
type newerError struct{ has, knows int64 }

func (e *newerError) Error() string {
	return fmt.Sprintf("the database has schema %d, and this release knows schemas up to %d: a newer release has upgraded it. "+
		"Nothing was changed. Start that release or a newer one; to go back, restore a copy from before the upgrade (docs/upgrading.md)", e.has, e.knows)
}
