package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/assent-chat/assent/service/chat"
)

// commitTimeout bounds a COMMIT, which the caller's context does not.
const commitTimeout = 10 * time.Second

// crowdTimeout bounds how long a transaction waits for a connection when others
// hold them all, and how long a read of one statement may take in all.
const crowdTimeout = 10 * time.Second

// pool is a set of connections with the statements that are prepared on them.
type pool struct {
	db      *sqlx.DB
	dialect *dialect
	prepare bool
	crowd   time.Duration // crowdTimeout
	resolve *resolver     // of commits that were not confirmed

	flushed atomic.Pointer[time.Time]

	texts sync.Map // query as written → text for this database

	mu    sync.RWMutex
	stmts map[string]*sqlx.Stmt
}

// newPool is a pool whose lost commits are looked up by resolve; nil if it never
// writes.
func newPool(db *sqlx.DB, d *dialect, prepare bool, resolve *resolver) *pool {
	return &pool{
		db: db, dialect: d, prepare: prepare, crowd: crowdTimeout, resolve: resolve,
		stmts: map[string]*sqlx.Stmt{},
	}
}

// flush closes the connections that rest: they lead to where nothing can be
// had. Those in use are found out when their turn comes. It does so once a
// second at most: for as long as there is nothing better, new ones are no better.
func (p *pool) flush() {
	now := time.Now()
	last := p.flushed.Load()
	if last != nil && now.Sub(*last) < time.Second || !p.flushed.CompareAndSwap(last, &now) {
		return
	}
	conns := p.db.Stats().MaxOpenConnections
	p.db.SetMaxIdleConns(-1)
	p.db.SetMaxIdleConns(conns)
}

func (p *pool) text(query string) string {
	if text, ok := p.texts.Load(query); ok {
		return text.(string)
	}
	text := p.dialect.text(query)
	p.texts.Store(query, text)
	return text
}

func (p *pool) prepared(text string) *sqlx.Stmt {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.stmts[text]
}

// learnTimeout bounds how long an answer waits for what only later ones gain
// by: there may be no connection to prepare on.
const learnTimeout = 2 * time.Second

// learn prepares texts that a transaction has run without. It is called after
// the transaction: while it is open, SQLite has no second connection to
// prepare on. One that cannot be prepared now is met again.
func (p *pool) learn(ctx context.Context, texts []string) {
	if len(texts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	for _, text := range texts {
		if p.prepared(text) != nil {
			continue
		}
		stmt, err := p.db.PreparexContext(ctx, text) //nolint:sqlclosecheck // kept until the pool is closed
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.stmts[text] == nil {
			p.stmts[text], stmt = stmt, nil
		}
		p.mu.Unlock()
		if stmt != nil { // another was faster
			_ = stmt.Close()
		}
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	for _, stmt := range p.stmts {
		_ = stmt.Close() // the connections are closed next
	}
	p.stmts = map[string]*sqlx.Stmt{}
	p.mu.Unlock()
	if err := p.db.Close(); err != nil && !disconnected(err) { // one that is dead cannot be told
		return err
	}
	return nil
}

// run calls fn in a transaction and commits if it returns nil. fn may be run
// several times: it must begin anew each time and touch nothing but its
// results. Its context ends with the caller's, until the commit, which once
// begun is not interrupted.
func (p *pool) run(ctx context.Context, opts *sql.TxOptions, doing string, fn func(context.Context, *tx) error) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := p.once(ctx, opts, fn)
		if err != nil && p.dialect.meaning(err).misled {
			p.flush()
		}
		if err == nil || !p.dialect.retryable(err) || try >= p.dialect.tries || time.Since(began) > triesTime || !pause(ctx, try) {
			return p.dialect.known(ctx, doing, err)
		}
	}
}

// triesTime is how long a transaction may have taken and yet be run again: a
// database that hangs is not asked twice by one caller.
const triesTime = 2 * time.Second

// ping reports whether the database answers.
func (p *pool) ping(ctx context.Context) error { return p.db.PingContext(ctx) }

// pause waits a few milliseconds, unevenly, so that two that collided do not
// collide again. It reports false if ctx ended.
func pause(ctx context.Context, try int) bool {
	return sleep(ctx, time.Duration(1+rand.IntN(4*try))*time.Millisecond) == nil
}

// sleep waits, or gives the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (p *pool) once(ctx context.Context, opts *sql.TxOptions, fn func(context.Context, *tx) error) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()

	x, err := p.begin(inner, cancel, opts)
	if err != nil {
		return err
	}
	t := &tx{pool: p, x: x}
	defer func() {
		_ = x.Rollback() // does nothing after a commit
		p.learn(ctx, t.missing)
	}()

	running := inner
	if p.dialect.watches {
		running = context.WithoutCancel(inner)
	}
	if err := fn(running, t); err != nil {
		return err
	}
	var name string
	if !opts.ReadOnly {
		if name, err = p.resolve.name(running, t); err != nil {
			return fmt.Errorf("name the transaction: %w", err)
		}
	}
	if !detach() { // the caller left before the commit began
		return context.Cause(ctx)
	}
	timeout := time.AfterFunc(commitTimeout, cancel)
	defer timeout.Stop()
	if err := x.Commit(); err != nil {
		if opts.ReadOnly {
			return fmt.Errorf("commit: %w", err) // it had nothing to commit
		}
		return p.resolve.lost(context.WithoutCancel(ctx), name, err)
	}
	return nil
}

// begin is BeginTxx that does not wait for ever for a connection.
func (p *pool) begin(ctx context.Context, cancel func(), opts *sql.TxOptions) (*sqlx.Tx, error) {
	wait := time.AfterFunc(p.crowd, cancel)
	x, err := p.db.BeginTxx(ctx, opts)
	if !wait.Stop() {
		if err == nil {
			_ = x.Rollback()
		}
		return nil, fmt.Errorf("begin: %w", p.crowded())
	}
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return x, nil
}

// crowded says why no connection could be had in time.
func (p *pool) crowded() error {
	if s := p.db.Stats(); s.InUse >= s.MaxOpenConnections {
		return chat.Unavailable("The database is too busy: all connections to it are in use. Nothing was done; try again.")
	}
	return chat.Unavailable(silentSentence)
}

// look calls fn without a transaction, for reads of one statement.
func (p *pool) look(ctx context.Context, doing string, fn func(context.Context, *tx) error) error {
	return p.lookFor(ctx, p.crowd, doing, fn)
}

// lookFor is look that takes no longer than the bound.
func (p *pool) lookFor(ctx context.Context, bound time.Duration, doing string, fn func(context.Context, *tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	t := &tx{pool: p}
	err := fn(bounded, t)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = p.crowded()
	}
	p.learn(bounded, t.missing)
	return p.dialect.known(ctx, doing, err)
}

// tx runs statements, in a transaction if it has one.
type tx struct {
	pool    *pool
	x       *sqlx.Tx
	missing []string // texts to prepare when the transaction is over
	id      string   // by which the database knows the transaction, if it was read
}

// stmt finds the prepared form of a text, or nil.
func (t *tx) stmt(ctx context.Context, text string) *sqlx.Stmt {
	if !t.pool.prepare {
		return nil
	}
	stmt := t.pool.prepared(text)
	if stmt == nil {
		if !slices.Contains(t.missing, text) {
			t.missing = append(t.missing, text)
		}
		return nil
	}
	if t.x != nil {
		return t.x.StmtxContext(ctx, stmt)
	}
	return stmt
}

func (t *tx) ext() sqlx.ExtContext {
	if t.x != nil {
		return t.x
	}
	return t.pool.db
}

// get reads one row. There being none is sql.ErrNoRows.
func (t *tx) get(ctx context.Context, dest any, query string, args ...any) error {
	text := t.pool.text(query)
	if stmt := t.stmt(ctx, text); stmt != nil { //nolint:sqlclosecheck // the pool's, or the transaction's to close
		return stmt.GetContext(ctx, dest, args...)
	}
	return sqlx.GetContext(ctx, t.ext(), dest, text, args...)
}

// find is get with a word for there being none.
func (t *tx) find(ctx context.Context, dest any, query string, args ...any) (bool, error) {
	err := t.get(ctx, dest, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// all reads all rows into a slice.
func (t *tx) all(ctx context.Context, dest any, query string, args ...any) error {
	text := t.pool.text(query)
	if stmt := t.stmt(ctx, text); stmt != nil { //nolint:sqlclosecheck // the pool's, or the transaction's to close
		return stmt.SelectContext(ctx, dest, args...)
	}
	return sqlx.SelectContext(ctx, t.ext(), dest, text, args...)
}

// allIn is all for a query with slices among its arguments, each for one
// "IN (?)". Only lists of one are worth a prepared statement: the text of the
// others changes with their length.
func (t *tx) allIn(ctx context.Context, dest any, query string, args ...any) error {
	query, flat, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	if len(flat) == len(args) {
		return t.all(ctx, dest, query, flat...)
	}
	return sqlx.SelectContext(ctx, t.ext(), dest, t.pool.dialect.text(query), flat...)
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	text := t.pool.text(query)
	var res sql.Result
	var err error
	if stmt := t.stmt(ctx, text); stmt != nil {
		res, err = stmt.ExecContext(ctx, args...)
	} else {
		res, err = t.ext().ExecContext(ctx, text, args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// execIn is exec for a query with slices among its arguments.
func (t *tx) execIn(ctx context.Context, query string, args ...any) error {
	query, flat, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	_, err = t.ext().ExecContext(ctx, t.pool.dialect.text(query), flat...)
	return err
}

// statement is a write that may be run together with others.
type statement struct {
	doing string // for its error
	query string
	args  []any
	one   bool   // it must change one row
	rows  *int64 // told how many rows it changed, if not nil
}

// most is how many statements are sent as one.
const most = 8

// together runs statements that write different rows and do not depend on
// each other, in as few round trips as the database can do.
func (t *tx) together(ctx context.Context, statements []statement) error {
	for chunk := range slices.Chunk(statements, most) {
		if t.pool.dialect.merges && len(chunk) > 1 && !slices.ContainsFunc(chunk[:len(chunk)-1], func(s statement) bool { return s.rows != nil }) {
			chunk = []statement{merged(chunk)}
		}
		for _, s := range chunk {
			n, err := t.exec(ctx, s.query, s.args...)
			if err != nil {
				return fmt.Errorf("%s: %w", s.doing, err)
			}
			if s.one && n != 1 {
				return fmt.Errorf("%s: %d rows were changed", s.doing, n)
			}
			if s.rows != nil {
				*s.rows = n
			}
		}
	}
	return nil
}

// merged makes one statement of several. The rows that it changes are those of
// the last; to count those of the others too would cost more than the writes.
// They name rows that were read under the topic's lock, so they are there.
func merged(statements []statement) statement {
	last := statements[len(statements)-1]
	var with []string
	var args []any
	for i, s := range statements[:len(statements)-1] {
		with = append(with, fmt.Sprintf("s%d AS (%s)", i, s.query))
		args = append(args, s.args...)
	}
	last.query = "WITH " + strings.Join(with, ", ") + " " + last.query
	last.args = append(args, last.args...)
	last.doing = statements[0].doing
	return last
}
