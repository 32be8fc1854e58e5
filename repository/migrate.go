package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/assent-chat/assent/migrations"
)

// migrationLock is the key of the advisory lock, one of this product's own.
const migrationLock = 0x617373656e74

// migratePostgres runs the migrations while it holds an advisory lock, which
// is waited for in the server: the library's own locker asks by the second.
func migratePostgres(ctx context.Context, db *sql.DB, log *slog.Logger) (err error) {
	files, err := migrations.Postgres()
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return fmt.Errorf("wait for the migration lock: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		_, unlockErr := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
		err = errors.Join(err, unlockErr)
	}()
	return migrateUp(ctx, database.DialectPostgres, db, files, log)
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
	return migrateUp(ctx, database.DialectSQLite3, db, files, log)
}

// firstPing switches the file to WAL. That switch does not wait for a lock
// that a process holds which opened the file by other means.
func firstPing(ctx context.Context, db *sql.DB) error {
	var err error
	for range 40 {
		if err = db.PingContext(ctx); err == nil || !sqliteDialect().again(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(25 * time.Millisecond):
		}
	}
	return err
}

func migrateUp(ctx context.Context, d database.Dialect, db *sql.DB, files fs.FS, log *slog.Logger) error {
	provider, err := goose.NewProvider(d, db, files, goose.WithSlog(log), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
