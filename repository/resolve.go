package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// resolveTimeout bounds how long the database is asked what became of a
// commit that it did not confirm.
const resolveTimeout = 8 * time.Second

// proof is what the outcome of a transaction can be asked by, of the history
// of the database that it was made in.
type proof struct {
	history string
	id      string // "" if the database needs none, or the transaction wrote nothing
}

// resolver finds out what became of a commit whose answer did not come.
type resolver struct {
	db       *sqlx.DB
	dialect  *dialect
	patience time.Duration // resolveTimeout
	// history names the database's history: its cluster and, since a promotion
	// begins a new one, its timeline. The numbers of transactions mean nothing
	// in another: a server that was promoted without ours may have given our
	// number to somebody else's.
	history atomic.Pointer[string]
}

// begin is called before a transaction writes: a history that is learnt later
// than that proves nothing.
func (r *resolver) begin() proof {
	if h := r.history.Load(); h != nil {
		return proof{history: *h}
	}
	return proof{}
}

// name reads by what number the database knows the transaction. That of a
// topic's change came with its first statement.
func (r *resolver) name(ctx context.Context, t *tx, p *proof) error {
	if p.id = t.id; p.id != "" || r.dialect.transactionID == "" {
		return nil
	}
	var id sql.NullString // NULL: nothing was written
	err := t.get(ctx, &id, r.dialect.transactionID)
	p.id = id.String
	return err
}

// lost says what became of a transaction whose COMMIT gave an error: nil if it
// is committed, a *rolledBack if it is not, else a *commitError.
func (r *resolver) lost(ctx context.Context, p proof, err error) error {
	if r.dialect.refused(err) {
		return &rolledBack{err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	committed, known := r.dialect.outcome(ctx, r, p)
	switch {
	case !known:
		return &commitError{err}
	case !committed:
		return &rolledBack{err}
	}
	return nil
}

// learn reads which history this is. It is not known where that is not allowed.
func (r *resolver) learn(ctx context.Context) {
	var now string
	if err := r.db.GetContext(ctx, &now, `SELECT `+postgresHistory); err == nil {
		r.history.Store(&now)
	}
}

const postgresHistory = `(SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`

// postgresOutcome asks the server for the transaction's status, on another
// connection, until it knows.
func postgresOutcome(ctx context.Context, r *resolver, p proof) (committed, known bool) {
	if p.id == "" {
		return true, true // it wrote nothing
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		var now struct {
			History string         `db:"history"`
			Status  sql.NullString `db:"status"`
		}
		// p.id is a number that the server gave; with it in the text this is one
		// round trip.
		err := r.db.GetContext(ctx, &now, fmt.Sprintf(`SELECT %s AS history, pg_xact_status('%s'::xid8) AS status`, postgresHistory, p.id))
		switch {
		case err == nil && now.History != p.history:
			r.history.Store(&now.History)
			return false, false
		case err == nil && now.Status.String == "in progress":
			// The server has not seen that the connection is gone, and the
			// transaction holds its locks. Its COMMIT will not come any more.
			_, _ = r.db.ExecContext(ctx, fmt.Sprintf(`
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE backend_xid = '%s'::xid8::xid AND usename = current_user AND state LIKE 'idle in transaction%%'`, p.id)) // it is asked again
		case err == nil:
			return now.Status.String == "committed", now.Status.String == "committed" || now.Status.String == "aborted"
		case postgresCode(err) == "22023": // a number of the future
			return false, false
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(wait):
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
func sqliteOutcome(ctx context.Context, r *resolver, _ proof) (committed, known bool) {
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
