// Package repository keeps topics, messages, parts, turns and decisions, and
// the settings of tool servers, in PostgreSQL or in one SQLite file. The rows
// are the only truth about an approval; what may happen to one is said by the
// pure functions of chat, and applied here, each operation in one transaction.
//
// Every transaction that changes a topic begins by raising the topic's
// revision, which locks the topic's row: there is one lock order, and a total
// order of the changes of a topic. The row of a tool server is locked after
// it. A transaction that turns out to change nothing is rolled back.
package repository

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/assent-chat/assent/service/chat"
)

// Options says which database to open. One of URL and Path is required.
type Options struct {
	// URL of a PostgreSQL database, "postgres://…".
	URL string
	// Path of an SQLite file. It is made if it is not there.
	Path string
	// Exclusive makes this process the only one that serves the SQLite file,
	// or fails. It ends the leases that a dead process left. PostgreSQL takes
	// any number of servers, and ignores it.
	Exclusive bool
	// MaxConns bounds the connections to PostgreSQL; 0 is 16.
	MaxConns int
	// NetworkTimeout bounds each read from and write to PostgreSQL; 0 is 10 s.
	NetworkTimeout time.Duration
	// SpareTimeout is the same on the connections that renew leases, and how long
	// the server lets a transaction rest there: a heartbeat that was cut off must
	// leave time for the next. It is to be less than a lease; 0 is 3 s.
	SpareTimeout time.Duration
	// NoPrepare sends every statement whole. A pgbouncer in transaction mode
	// needs it.
	NoPrepare bool
	// Key is 32 bytes that are kept elsewhere than the database. The connections
	// of tool servers are encrypted with it. Without one (nil) none can be
	// added, and those that there are cannot be connected.
	Key []byte
	// Logger is told of migrations; nil is silent.
	Logger *slog.Logger
}

// Store is the database. It is safe for concurrent use, also by several
// processes.
type Store struct {
	write, read *pool // PostgreSQL: the same pool
	// spare is for what must not wait for the connections of requests: leases
	// are renewed on it, and lost commits looked up. SQLite: write.
	spare *pool
	lock  *lockFile
	keys  *keys

	decisions decisionCounters
}

// Open connects to the database and brings its schema up to date. Processes
// that open one database at the same time wait for each other.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	keys, err := deriveKeys(o.Key)
	if err != nil {
		return nil, err
	}
	open := openSQLite
	switch {
	case (o.URL == "") == (o.Path == ""):
		return nil, errors.New("open the database: give the URL of a PostgreSQL database or the path of an SQLite file")
	case o.URL != "":
		open = openPostgres
	}
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.keys = keys
	return s, nil
}

func openPostgres(ctx context.Context, o Options) (*Store, error) {
	if !strings.HasPrefix(o.URL, "postgres://") && !strings.HasPrefix(o.URL, "postgresql://") {
		return nil, errors.New("open the database: its URL must begin with postgres://")
	}
	d := postgres(true)
	connector, err := pq.NewConnector(withSettings(o, restTimeout))
	if err != nil {
		// The driver's error may hold the URL, and with it the password.
		return nil, errors.New("open the database: its URL is not valid")
	}
	// Its own connections: a migration of another process is waited for in the
	// server, longer than any read of ours may take.
	migrating := sql.OpenDB(connector)
	err = migratePostgres(ctx, migrating, o.Logger)
	cluster, looksUp := "", false
	if err == nil {
		cluster, looksUp = canLookUp(ctx, migrating)
	}
	if err := errors.Join(err, migrating.Close()); err != nil {
		return nil, d.known(ctx, "open the database", err)
	}
	if !looksUp {
		d = postgres(false)
		o.Logger.WarnContext(ctx, "commits whose answer is lost cannot be looked up here: this role may not ask for the system identifier or the timeline")
	}

	s := &Store{}
	connect := func(conns int, timeout, rest time.Duration) (*sqlx.DB, error) {
		connector, err := pq.NewConnector(withSettings(o, rest))
		if err != nil {
			return nil, errors.New("open the database: its URL is not valid")
		}
		connector.Dialer(dialer{timeout: timeout, silent: func() {
			go func() { // not on the connection's own goroutine: it holds the pool's lock of it
				s.write.flush()
				s.spare.flush()
			}()
		}})
		db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return db, nil
	}
	timeout := cmp.Or(o.NetworkTimeout, defaultNetworkTimeout)
	write, err := connect(cmp.Or(o.MaxConns, 16), timeout, restTimeout)
	if err != nil {
		return nil, err
	}
	beat := cmp.Or(o.SpareTimeout, defaultSpareTimeout)
	spare, err := connect(spareConns, min(timeout, beat), beat)
	if err != nil {
		return nil, err
	}
	resolve := newResolver(spare, d, cluster)
	s.write = newPool(write, d, !o.NoPrepare, resolve)
	s.spare = newPool(spare, d, !o.NoPrepare, resolve)
	s.read = s.write
	if err := s.write.ping(ctx); err != nil {
		return nil, errors.Join(d.known(ctx, "open the database", err), s.Close())
	}
	return s, nil
}

const (
	// spareConns is how many connections are kept apart from those of requests.
	spareConns = 2
	// restTimeout is how long a transaction may rest before the server ends it.
	// None of ours does. One that does is of a process that is frozen or cut off,
	// and holds what others wait for.
	restTimeout = 10 * time.Second
	// defaultSpareTimeout is for the leases of 10 s that are the engine's default.
	defaultSpareTimeout = 3 * time.Second
)

// withSettings adds what PostgreSQL is to do in our sessions, unless the URL
// says otherwise. A pooler between the two would refuse it.
func withSettings(o Options, rest time.Duration) string {
	u, err := url.Parse(o.URL)
	if err != nil || o.NoPrepare {
		return o.URL
	}
	q := u.Query()
	for name, value := range map[string]string{
		// A prepared statement is planned once for a connection, and not five
		// times before once is found to be enough: ours find their rows by key.
		"plan_cache_mode":                     "force_generic_plan",
		"idle_in_transaction_session_timeout": strconv.FormatInt(rest.Milliseconds(), 10),
	} {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func openSQLite(ctx context.Context, o Options) (_ *Store, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	d := sqliteDialect()
	s := &Store{}
	defer func() {
		if err != nil {
			err = errors.Join(d.known(ctx, "open the database", err), s.Close())
		}
	}()
	if o.Exclusive {
		if s.lock, err = tryLockFile(path + ".lock"); err != nil {
			return nil, err
		}
	}

	// One connection writes: with more, they would wait for each other inside
	// SQLite, which is unfair and slow.
	write, err := sqlx.Open("sqlite", sqliteURL(path, "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)")+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	s.write = newPool(write, d, !o.NoPrepare, newResolver(write, d, ""))
	s.spare = s.write
	read, err := sqlx.Open("sqlite", sqliteURL(path, "busy_timeout(5000)", "query_only(1)"))
	if err != nil {
		return nil, err
	}
	read.SetMaxOpenConns(4)
	read.SetMaxIdleConns(4)
	s.read = newPool(read, d, !o.NoPrepare, nil)

	if err := migrateSQLite(ctx, write.DB, path, o.Logger); err != nil {
		return nil, err
	}
	if o.Exclusive {
		if err := s.endLeases(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func sqliteURL(path string, pragmas ...string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + u.EscapedPath() + "?" + url.Values{"_pragma": pragmas}.Encode()
}

// Close ends all connections and lets go of the file.
func (s *Store) Close() error {
	var errs []error
	if s.write != nil {
		errs = append(errs, s.write.close())
	}
	if s.read != nil && s.read != s.write {
		errs = append(errs, s.read.close())
	}
	if s.spare != nil && s.spare != s.write {
		errs = append(errs, s.spare.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// pingTimeout is shorter than the patience of those who ask for health.
const pingTimeout = 3 * time.Second

// Ping asks the database for a sign of life, by the way that requests take.
func (s *Store) Ping(ctx context.Context) error {
	return s.read.lookFor(ctx, min(s.read.crowd, pingTimeout), "ping the database", func(ctx context.Context, t *tx) error {
		var one int
		return t.get(ctx, &one, `SELECT 1`)
	})
}

// change runs fn in a transaction that holds the topic, and says what it
// changed.
func (s *Store) change(ctx context.Context, doing, topicID string, fn func(context.Context, *topicTx) error) (chat.Change, error) {
	return s.changeBy(ctx, doing, topicID, topicColumns, fn)
}

// changeBy is change for an operation that needs only some columns of the
// topic, among them id, revision and updated_at: a decision must not cost more
// for a long system prompt.
func (s *Store) changeBy(ctx context.Context, doing, topicID, columns string, fn func(context.Context, *topicTx) error) (chat.Change, error) {
	var out chat.Change
	err := s.write.run(ctx, s.write.dialect.write, doing, func(ctx context.Context, t *tx) error {
		tt, err := t.lockTopic(ctx, topicID, columns)
		if err != nil {
			return err
		}
		if err := fn(ctx, tt); err != nil {
			return err
		}
		out, err = tt.told(ctx)
		return err
	})
	if errors.Is(err, errUnchanged) {
		return chat.Change{TopicID: topicID}, nil
	}
	if err != nil {
		return chat.Change{}, err
	}
	return out, nil
}

// view runs fn in a transaction that reads one state.
func (s *Store) view(ctx context.Context, doing string, fn func(context.Context, *tx) error) error {
	return s.read.run(ctx, s.read.dialect.read, doing, fn)
}
