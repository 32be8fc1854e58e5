package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// resolveTimeout bounds how long the database is asked what became of a
// commit that it did not confirm.
const resolveTimeout = 8 * time.Second

// resolver finds out what became of a commit whose answer did not come.
type resolver struct {
	db       *sqlx.DB
	dialect  *dialect
	patience time.Duration // resolveTimeout
	// cluster is that of the database, of which nothing else is asked.
	cluster string
}

func newResolver(db *sqlx.DB, d *dialect, cluster string) *resolver {
	return &resolver{db: db, dialect: d, patience: resolveTimeout, cluster: cluster}
}

// name reads by what name the database knows the transaction: "" if it needs
// none, or the transaction wrote nothing. That of a topic's change came with its
// first statement.
func (r *resolver) name(ctx context.Context, t *tx) (string, error) {
	if t.id != "" || r.dialect.transactionID == "" {
		return t.id, nil
	}
	var id sql.NullString // NULL: nothing was written
	err := t.get(ctx, &id, r.dialect.transactionID)
	return id.String, err
}

// lost says what became of a transaction whose COMMIT gave an error: nil if it
// is committed, a *rolledBack if it is not, else a *commitError.
func (r *resolver) lost(ctx context.Context, id string, err error) error {
	if r.dialect.refused(err) {
		return &rolledBack{err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	committed, known := r.dialect.outcome(ctx, r, id)
	switch {
	case !known:
		return &commitError{err}
	case !committed:
		return &rolledBack{err}
	}
	return nil
}

// A transaction of PostgreSQL is named by its number and the timeline on which
// it was given. Each promotion begins another, on which the same number may be
// given to somebody else.
const (
	postgresTimeline = `substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
	postgresCluster  = `(SELECT CAST(system_identifier AS text) FROM pg_control_system())`
)

// canLookUp asks for the cluster's name. Where it, or a timeline, may not be
// asked for, as some hosts have it, no commit can be looked up.
func canLookUp(ctx context.Context, db *sql.DB) (cluster string, ok bool) {
	var timeline string
	err := db.QueryRowContext(ctx, `SELECT `+postgresCluster+`, `+postgresTimeline).Scan(&cluster, &timeline)
	return cluster, err == nil
}

// postgresOutcome asks the server for the transaction's status, on another
// connection, until it knows.
func postgresOutcome(ctx context.Context, r *resolver, id string) (committed, known bool) {
	if id == "" {
		return true, true // it wrote nothing
	}
	number, timeline, _ := strings.Cut(id, "/")
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		var now struct {
			Cluster  string         `db:"cluster"`
			Timeline string         `db:"timeline"`
			Status   sql.NullString `db:"status"`
		}
		// The number is one that the server gave; with it in the text this is one
		// round trip.
		err := r.db.GetContext(ctx, &now, fmt.Sprintf(`SELECT %s AS cluster, %s AS timeline, pg_xact_status('%s'::xid8) AS status`,
			postgresCluster, postgresTimeline, number))
		switch {
		case err == nil && (now.Cluster != r.cluster || now.Timeline != timeline):
			return false, false
		case err == nil && now.Status.String == "in progress":
			// The server has not seen that the connection is gone, and the
			// transaction holds its locks. Its COMMIT will not come any more.
			_, _ = r.db.ExecContext(ctx, fmt.Sprintf(`
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE backend_xid = '%s'::xid8::xid AND usename = current_user AND state LIKE 'idle in transaction%%'`, number)) // it is asked again
		case err == nil:
			return now.Status.String == "committed", now.Status.String == "committed" || now.Status.String == "aborted"
		case !disconnected(err) && r.dialect.meaning(err).sentence == "": // it may not be asked, or the number is of the future
			return false, false
		}
		if sleep(ctx, wait) != nil {
			return false, false
		}
	}
}

// postgresRefused reports that the server itself refused the COMMIT, or that
// it was never sent. A FATAL error ends the session, and is no answer.
func postgresRefused(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && !e.Fatal() || errors.Is(err, pq.ErrInFailedTransaction) || errors.Is(err, sql.ErrTxDone)
}

// sqliteOutcome: a COMMIT that gave an error is rolled back and nobody sees it.
// But if its frames were written, and not synced, or not entered in the index,
// they lie in the log behind its end, and would be found there after a crash.
// With the log emptied they cannot be.
func sqliteOutcome(ctx context.Context, r *resolver, _ string) (committed, known bool) {
	var emptied struct {
		Busy         int `db:"busy"`
		Log          int `db:"log"`
		Checkpointed int `db:"checkpointed"`
	}
	err := r.db.GetContext(ctx, &emptied, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return false, err == nil && emptied.Busy == 0
}

// sqliteRefused reports that a COMMIT failed before its last frame, which makes
// it valid, was written whole.
func sqliteRefused(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL:
		return true
	}
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_WRITE ||
		errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
