package repository

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// dialect holds every difference between the two databases. A statement is
// written once, with "?" for its arguments and these macros:
//
//	{now}   the database's clock, in milliseconds
//	{now+?} that many milliseconds later
//	{now-?} that many milliseconds earlier
//	{for update}, {for share}
//	        hold the rows that are read; SQLite has one writer, and needs neither
type dialect struct {
	name   string
	bind   int
	macros *strings.Replacer
	// write and read are how transactions begin. A read sees one state from
	// its first statement on.
	write, read *sql.TxOptions
	// watches says that the driver cuts a transaction's running statement when
	// the context that it began with ends; to watch each statement too would
	// cost a goroutine for each.
	watches bool
	// merges says that writes can be the parts of one statement.
	merges bool
	// tries bounds how often a transaction is run when it is refused for the
	// sake of another, or its connection turns out to be dead.
	tries int
	// again reports that the database refused a transaction for the sake of
	// another one: nothing was written, and it may succeed when run again.
	again func(error) bool
	// away reports that the database cannot answer now.
	away func(error) bool
	// unstorable reports that a text holds a character that cannot be stored.
	unstorable func(error) bool
	// duplicate reports that a row has what another must have alone.
	duplicate func(error) bool
}

func (d *dialect) text(query string) string {
	return sqlx.Rebind(d.bind, d.macros.Replace(query))
}

const (
	postgresNow = "date_trunc('milliseconds', clock_timestamp())"
	sqliteNow   = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now'"
)

func postgres() *dialect {
	return &dialect{
		name:    "postgres",
		bind:    sqlx.DOLLAR,
		tries:   6,
		watches: true,
		merges:  true,
		macros: strings.NewReplacer(
			"{now}", postgresNow,
			"{now+?}", postgresNow+" + CAST(? AS double precision) * interval '1 millisecond'",
			"{now-?}", postgresNow+" - CAST(? AS double precision) * interval '1 millisecond'",
			"{for update}", "FOR UPDATE",
			"{for share}", "FOR SHARE",
		),
		// Pinned, whatever the server's default is: the row lock of the topic
		// orders the transactions, and a stricter level would only refuse some.
		write: &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		read:  &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		again: func(err error) bool {
			code := postgresCode(err)
			return code == "40001" || code == "40P01"
		},
		away: func(err error) bool {
			var e *pq.Error
			if errors.As(err, &e) && e.Fatal() { // no session could be had
				return true
			}
			code := postgresCode(err)
			switch code {
			case "57P01", "57P02", "57P03", // shutting down, crashed, starting
				"57014",          // a statement's time ran out
				"40001", "40P01", // refused time after time
				"25006", // read only: a standby, or a full disk
				"55P03": // a lock could not be had in time
				return true
			}
			return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53")
		},
		unstorable: func(err error) bool { return postgresCode(err) == "22021" },
		duplicate:  func(err error) bool { return postgresCode(err) == "23505" },
	}
}

func postgresCode(err error) string {
	var e *pq.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return ""
}

func sqliteDialect() *dialect {
	return &dialect{
		name:  "sqlite",
		bind:  sqlx.QUESTION,
		tries: 2, // each has waited for busy_timeout
		macros: strings.NewReplacer(
			"{now}", sqliteNow+")",
			"{now+?}", sqliteNow+", (? / 1000.0) || ' seconds')",
			"{now-?}", sqliteNow+", (-? / 1000.0) || ' seconds')",
			"{for update}", "",
			"{for share}", "",
		),
		again: func(err error) bool {
			code := sqliteCode(err)
			return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
		},
		away: func(err error) bool {
			switch sqliteCode(err) {
			case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT,
				sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
				return true
			}
			return false
		},
		unstorable: func(error) bool { return false },
		duplicate: func(err error) bool {
			var e *sqlite.Error
			return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
		},
	}
}

// sqliteCode is the primary result code; the rest of the number says more
// than is needed here.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// disconnected reports that the connection was lost, or could not be made.
func disconnected(err error) bool {
	var n net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &n) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
