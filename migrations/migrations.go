// Package migrations holds the schema of both databases, as files that are
// applied in the order of their numbers. A file that was released is never
// changed; a change of the schema is a new file, written so that the release
// before it goes on working while both run.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Postgres returns the migrations of PostgreSQL.
func Postgres() (fs.FS, error) { return fs.Sub(files, "postgres") }

// SQLite returns the migrations of SQLite.
func SQLite() (fs.FS, error) { return fs.Sub(files, "sqlite") }
