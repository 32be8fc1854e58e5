package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// keepCopy writes a copy of the SQLite file beside it, as it is before a
// migration: there is no other way back. One of that name is replaced, and only
// a whole one has the name. Where there is no room for a copy the upgrade goes
// on: a migration that fails changes nothing.
func keepCopy(ctx context.Context, db *sql.DB, path string, log *slog.Logger) {
	part := path + ".part"
	err := writeCopy(ctx, db, part)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
		log.WarnContext(ctx, "no copy of the database was kept", slog.Any("error", err))
		return
	}
	log.InfoContext(ctx, "a copy of the database is kept", slog.String("file", path))
}

func writeCopy(ctx context.Context, db *sql.DB, path string) error {
	// SQLite takes an empty file, and leaves its mode as it is.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, path); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}
