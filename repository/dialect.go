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
//	{xid}   the name of the transaction, which writes; "" where none is needed
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
	// meaning says what an error of the database means; the zero meaning if it
	// is no more than an error.
	meaning func(error) meaning
	// transactionID reads by what name the database knows a transaction, NULL
	// if it has written nothing; "" if the database needs none.
	transactionID string
	// refused reports that an error of COMMIT means that it took no effect.
	refused func(error) bool
	// outcome finds out what became of a COMMIT that gave another error.
	outcome func(ctx context.Context, r *resolver, id string) (committed, known bool)
	// unstorable reports that a text holds a character that cannot be stored.
	unstorable func(error) bool
	// duplicate reports that a row has what another must have alone.
	duplicate func(error) bool
}

// meaning is what an error of the database means.
type meaning struct {
	// again: a transaction was refused for the sake of another one. Nothing was
	// written, and it may succeed when run again.
	again bool
	// misled: the connection leads to a server that cannot write, or to none.
	// Those of its age do so too; on a new one it may succeed.
	misled bool
	// locked: a lock could not be had in time.
	locked bool
	// sentence says, for people, why the database cannot do it now and what to
	// do; empty if that is not what the error means.
	sentence string
}

func (d *dialect) text(query string) string {
	return sqlx.Rebind(d.bind, d.macros.Replace(query))
}

const (
	postgresNow = "date_trunc('milliseconds', clock_timestamp())"
	sqliteNow   = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now'"
)

// postgres is the dialect for a server at which lost commits can be looked up, or
// cannot.
func postgres(looksUp bool) *dialect {
	xid, transactionID := `''`, ""
	outcome := func(context.Context, *resolver, string) (committed, known bool) { return false, false }
	if looksUp {
		xid = `CAST(pg_current_xact_id() AS text) || '/' || ` + postgresTimeline
		transactionID = `SELECT CAST(pg_current_xact_id_if_assigned() AS text) || '/' || ` + postgresTimeline
		outcome = postgresOutcome
	}
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
			"{xid}", xid,
			"{for update}", "FOR UPDATE",
			"{for share}", "FOR SHARE",
			"{skip locked}", "FOR NO KEY UPDATE SKIP LOCKED",
		),
		// Pinned, whatever the server's default is: the row lock of the topic
		// orders the transactions, and a stricter level would only refuse some.
		write:         &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		read:          &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		meaning:       postgresMeaning,
		transactionID: transactionID,
		refused:       postgresRefused,
		outcome:       outcome,
		unstorable:    func(err error) bool { return postgresCode(err) == "22021" },
		duplicate:     func(err error) bool { return postgresCode(err) == "23505" },
	}
}

// postgresMeanings are by SQLSTATE.
var postgresMeanings = map[string]meaning{
	"40001": {again: true, sentence: crowdedSentence},
	"40P01": {again: true, sentence: crowdedSentence},
	"55P03": {locked: true, sentence: crowdedSentence},
	"57014": {sentence: crowdedSentence}, // a statement's time ran out
	"53100": {sentence: "The disk of the database is full. Nothing was done; make room, and it goes on by itself."},
	"53200": {sentence: "The database is out of memory. Nothing was done; try again."},
	"53300": {sentence: "The database takes no more connections. Nothing was done; try again, or raise max_connections."},
	"25006": {misled: true, sentence: readOnlySentence},
	// A standby refuses BEGIN READ WRITE so; and so does a connection what it
	// prepared before the schema was changed.
	"0A000": {misled: true, sentence: readOnlySentence},
	"57P01": {misled: true, sentence: restartSentence},
	"57P02": {misled: true, sentence: restartSentence},
	"57P03": {misled: true, sentence: restartSentence},
}

const (
	crowdedSentence  = "The database is too busy: others hold what this needs. Nothing was done; try again."
	readOnlySentence = "The database can only be read: it is a standby, or its disk is full. Nothing was done; it goes on by itself when it can be written again."
	restartSentence  = "The database is restarting. Nothing was done; try again."
)

func postgresMeaning(err error) meaning {
	code := postgresCode(err)
	if m, ok := postgresMeanings[code]; ok {
		return m
	}
	var e *pq.Error
	if errors.As(err, &e) && e.Fatal() || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") { // no session could be had
		return meaning{sentence: silentSentence}
	}
	return meaning{}
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
		meaning:    func(err error) meaning { return sqliteMeanings[sqliteCode(err)] },
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

// sqliteMeanings are by primary result code.
var sqliteMeanings = map[int]meaning{
	sqlite3.SQLITE_BUSY:      {again: true, sentence: writingSentence},
	sqlite3.SQLITE_LOCKED:    {again: true, sentence: writingSentence},
	sqlite3.SQLITE_READONLY:  {sentence: "The database file cannot be written: it, its folder or its disk is read-only. Nothing was done; make it writable, and it goes on by itself."},
	sqlite3.SQLITE_FULL:      {sentence: "The disk of the database is full. Nothing was done; make room, and it goes on by itself."},
	sqlite3.SQLITE_CANTOPEN:  {sentence: "The database file cannot be opened. Nothing was done; see that it is in its place and may be read and written."},
	sqlite3.SQLITE_IOERR:     {sentence: "The disk of the database does not work, or is full. Nothing was done; look at the system's log."},
	sqlite3.SQLITE_CORRUPT:   {sentence: damagedSentence},
	sqlite3.SQLITE_NOTADB:    {sentence: damagedSentence},
	sqlite3.SQLITE_INTERRUPT: {sentence: silentSentence},
	sqlite3.SQLITE_PROTOCOL:  {sentence: silentSentence},
}

const (
	writingSentence = "Another program is writing to the database file. Nothing was done; try again when it has ended."
	damagedSentence = "The database file is damaged. Stop the server and restore a backup."
)

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
