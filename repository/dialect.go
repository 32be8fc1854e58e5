package repository

import (
	"context"
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
//	{xid}   the number of the transaction, which writes; "" where none is needed
//	{for update}, {for share}, {skip locked}
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
	// away says, for people, why the database cannot do it now and what to do;
	// "" if that is not what the error means.
	away func(error) string
	// misled reports that the connection leads to a server that cannot write, or
	// to none; those of its age do so too.
	misled func(error) bool
	// transactionID reads by what number the database knows a transaction, NULL
	// if it has written nothing; "" if the database needs none.
	transactionID string
	// refused reports that an error of COMMIT means that it took no effect.
	refused func(error) bool
	// outcome finds out what became of a COMMIT that gave another error.
	outcome func(context.Context, *resolver, proof) (committed, known bool)
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
			"{xid}", "CAST(pg_current_xact_id() AS text)",
			"{for update}", "FOR UPDATE",
			"{for share}", "FOR SHARE",
			"{skip locked}", "FOR NO KEY UPDATE SKIP LOCKED",
		),
		// Pinned, whatever the server's default is: the row lock of the topic
		// orders the transactions, and a stricter level would only refuse some.
		write: &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		read:  &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		again: func(err error) bool {
			switch postgresCode(err) {
			case "40001", "40P01", "25006", "0A000": // the last two on another connection
				return true
			}
			return false
		},
		away: postgresAway,
		misled: func(err error) bool {
			switch postgresCode(err) {
			// A standby refuses BEGIN READ WRITE with 0A000; and so does a
			// connection what it prepared before the schema was changed.
			case "25006", "0A000", "57P01", "57P02", "57P03":
				return true
			}
			return false
		},
		transactionID: `SELECT CAST(pg_current_xact_id_if_assigned() AS text)`,
		refused:       postgresRefused,
		outcome:       postgresOutcome,
		unstorable:    func(err error) bool { return postgresCode(err) == "22021" },
		duplicate:     func(err error) bool { return postgresCode(err) == "23505" },
	}
}

func postgresAway(err error) string {
	code := postgresCode(err)
	switch code {
	case "53100":
		return "The disk of the database is full. Nothing was done; make room, and it goes on by itself."
	case "53200":
		return "The database is out of memory. Nothing was done; try again."
	case "53300":
		return "The database takes no more connections. Nothing was done; try again, or raise max_connections."
	case "25006", "0A000":
		return "The database can only be read: it is a standby, or its disk is full. Nothing was done; it goes on by itself when it can be written again."
	case "57P01", "57P02", "57P03":
		return "The database is restarting. Nothing was done; try again."
	case "57014", "55P03", "40001", "40P01": // a time ran out; refused time after time
		return "The database is too busy: others hold what this needs. Nothing was done; try again."
	}
	var e *pq.Error
	if errors.As(err, &e) && e.Fatal() || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") { // no session could be had
		return silentSentence
	}
	return ""
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
			"{xid}", "''",
			"{for update}", "",
			"{for share}", "",
			"{skip locked}", "",
		),
		again: func(err error) bool {
			code := sqliteCode(err)
			return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
		},
		away:       sqliteAway,
		misled:     func(error) bool { return false },
		refused:    sqliteRefused,
		outcome:    sqliteOutcome,
		write:      &sql.TxOptions{},
		read:       &sql.TxOptions{ReadOnly: true},
		unstorable: func(error) bool { return false },
		duplicate: func(err error) bool {
			var e *sqlite.Error
			return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
		},
	}
}

func sqliteAway(err error) string {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "Another program is writing to the database file. Nothing was done; try again when it has ended."
	case sqlite3.SQLITE_READONLY:
		return "The database file cannot be written: it, its folder or its disk is read-only. Nothing was done; make it writable, and it goes on by itself."
	case sqlite3.SQLITE_FULL:
		return "The disk of the database is full. Nothing was done; make room, and it goes on by itself."
	case sqlite3.SQLITE_CANTOPEN:
		return "The database file cannot be opened. Nothing was done; see that it is in its place and may be read and written."
	case sqlite3.SQLITE_IOERR:
		return "The disk of the database does not work, or is full. Nothing was done; look at the system's log."
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "The database file is damaged. Stop the server and restore a backup."
	case sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL:
		return silentSentence
	}
	return ""
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
