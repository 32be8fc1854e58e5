// Package bus has the buses that carry what instances tell each other: signals
// that hasten what the database says anyway. A bus may lose messages and says
// so where it can. It never holds up who sends.
package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"
)

const (
	gather       = 20 * time.Millisecond // between two notifications of an instance
	maxWaiting   = 4 << 20               // bytes that wait to be sent; then the oldest are dropped
	maxAtOnce    = 32                    // payloads in one statement
	sendTimeout  = 10 * time.Second
	reconnectMin = 100 * time.Millisecond
	reconnectMax = time.Second
	beatEvery    = 3 * time.Second // a connection that is read with a deadline must have something to read
	closeTimeout = time.Second
)

// PostgresOptions says how to reach the database. URL, Dialer and Key are
// required.
type PostgresOptions struct {
	URL string
	// Dialer makes connections. Reads and writes on them should end: the driver
	// waits for ever on one that has gone silent. Something is there to be read
	// every three seconds.
	Dialer pq.DialerContext
	// Key is a secret of 32 bytes that all instances have. Without the same one
	// they do not hear each other.
	Key []byte
	// Channel is the name under which instances find each other; "assent".
	Channel string
	Logger  *slog.Logger // discards by default
}

// Postgres is a bus over the notifications of a PostgreSQL database. It has two
// connections of its own, one that notifies and one that listens. Notifications
// are sent outside of all other transactions, gathered, and nobody waits for
// them: inside of a transaction they would make all others that notify wait for
// its commit.
type Postgres struct {
	url     string
	dialer  pq.DialerContext
	channel string
	name    string // of this instance
	log     *slog.Logger
	db      *sql.DB

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	wake   chan struct{}
	seal   sealer

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	dropped bool // and the others have not been told
	beat    bool // a sign of life is due
	failing bool // what was last to be sent was not
	unsaid  bool // something was not sent, since nobody was there

	heardSelf, heardOther time.Time // when last
	count                 counters
}

// OpenPostgres returns a bus. It connects when it has something to say: a
// database that cannot be reached is no error here.
func OpenPostgres(o PostgresOptions) (*Postgres, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("open the bus: the database's URL is not valid") // the error would show it
	}
	q := u.Query()
	q.Set("application_name", "assent bus")
	listen := *u
	listen.RawQuery = q.Encode()
	q.Set("synchronous_commit", "off") // a signal need not survive a crash
	u.RawQuery = q.Encode()
	connector, err := pq.NewConnector(u.String())
	if err != nil {
		return nil, errors.New("open the bus: the database's URL is not valid")
	}
	seal, err := newSealer(o.Key)
	if err != nil {
		return nil, err
	}
	b := &Postgres{
		seal: seal,
		url:  listen.String(), dialer: o.Dialer, channel: cmp.Or(o.Channel, "assent"), name: strings.ToLower(rand.Text()[:nameLength]),
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), wake: make(chan struct{}, 1),
		beat: true, heardOther: time.Now(), // says at once that it is there, and takes it that others are
	}
	b.wakeUp()
	connector.Dialer(dialed{b.dialer})
	b.db = sql.OpenDB(connector)
	b.db.SetMaxOpenConns(1)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.done.Go(b.send)
	return b, nil
}

// Close sends what waits, if that is possible soon, and ends the bus. Receive
// must have returned.
func (b *Postgres) Close() {
	b.cancel()
	b.done.Wait()
	_ = b.db.Close() // it says goodbye to the database; a connection that is dead cannot
}

// Send puts a message into the queue. It never waits; when the queue is full the
// oldest messages are dropped, and the other instances are told that some were.
// While there are no others nothing is sent but signs of life.
func (b *Postgres) Send(message []byte) {
	b.mu.Lock()
	if b.aloneNow() {
		b.unsaid = true
		b.mu.Unlock()
		b.count.unsent.Add(1)
		return
	}
	b.waiting = append(b.waiting, message)
	b.bytes += len(message)
	for b.bytes > maxWaiting {
		b.bytes -= len(b.waiting[0])
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.dropped = true
		b.count.dropped.Add(1)
	}
	b.mu.Unlock()
	b.wakeUp()
}

// send notifies of what waits: at once if nothing was sent for a moment, and
// else when that moment is over.
func (b *Postgres) send() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	fails := false
	for {
		select {
		case <-beat.C:
			b.mu.Lock()
			b.beat = true
			b.mu.Unlock()
		case <-b.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			_ = b.flush(ctx) // others look at the database
			cancel()
			return
		case <-b.wake:
		}
		select {
		case <-b.ctx.Done():
			continue
		case <-pause.C:
		}
		err := b.flush(b.ctx)
		wait := gather
		if err != nil && b.ctx.Err() == nil {
			if !fails {
				b.log.Warn("other instances cannot be notified; they will find out later", slog.Any("error", err))
			}
			wait = reconnectMax
		}
		fails = err != nil
		pause.Reset(wait)
	}
}

// flush sends all that waits. What cannot be sent is given up: when the
// database is back the others hear that something is missing, and look.
func (b *Postgres) flush(ctx context.Context) error {
	b.mu.Lock()
	messages, dropped, beat := b.waiting, b.dropped, b.beat
	b.waiting, b.bytes, b.dropped, b.beat = nil, 0, false, false
	b.mu.Unlock()
	if len(messages) == 0 && !dropped && !beat {
		return nil
	}
	var err error
	for some := range slices.Chunk(b.pack(messages, dropped), maxAtOnce) {
		if err = b.notify(ctx, some); err != nil {
			break
		}
	}
	if err != nil {
		b.mu.Lock()
		b.dropped, b.failing = true, true
		b.mu.Unlock()
		b.count.dropped.Add(int64(len(messages)))
		b.wakeUp() // tries again, to say that
		return err
	}
	b.mu.Lock()
	b.failing = false
	b.mu.Unlock()
	b.count.sent.Add(int64(len(messages)))
	return nil
}

// pack makes payloads of messages, at least one.
func (b *Postgres) pack(messages [][]byte, dropped bool) []string {
	var payloads []string
	room := b.seal.room()
	frames := make([]byte, 0, room)
	for _, message := range messages {
		if frameSize(message) > room {
			dropped = true
			continue
		}
		if len(frames)+frameSize(message) > room {
			payloads = append(payloads, b.seal.seal(b.name, frames))
			frames = frames[:0]
		}
		frames = appendFrame(frames, message)
	}
	if dropped { // nothing can be read behind it
		if len(frames) == room {
			payloads = append(payloads, b.seal.seal(b.name, frames))
			frames = frames[:0]
		}
		frames = append(frames, lossFrame)
	}
	return append(payloads, b.seal.seal(b.name, frames))
}

func (b *Postgres) notify(ctx context.Context, payloads []string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var q strings.Builder
	for _, p := range payloads { // without arguments: one round trip, and nothing to prepare
		q.WriteString("NOTIFY " + pq.QuoteIdentifier(b.channel) + ", " + pq.QuoteLiteral(p) + ";")
	}
	if _, err := b.db.ExecContext(ctx, q.String()); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	b.count.batches.Add(int64(len(payloads)))
	return nil
}

// Receive listens until ctx ends. lost is called whenever the connection was
// lost, while there is none, and when it is there again.
func (b *Postgres) Receive(ctx context.Context, deliver func([]byte), lost func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	losses := make(chan struct{}, 1)
	loss := func() {
		select {
		case losses <- struct{}{}:
		default:
		}
	}
	l := pq.NewDialListener(dialed{untilDone{b.dialer, ctx}}, b.url, reconnectMin, reconnectMax, func(e pq.ListenerEventType, err error) {
		if err != nil && ctx.Err() == nil {
			b.log.DebugContext(ctx, "the connection that listens is lost", slog.Any("error", err))
		}
		if e != pq.ListenerEventConnected { // that is not to say that it listens
			loss()
		}
	})
	var foreign sync.Once // one warning is enough
	var listening sync.WaitGroup
	listening.Go(func() {
		err := l.Listen(b.channel) // waits for the first connection
		if err != nil && ctx.Err() == nil {
			b.log.ErrorContext(ctx, "other instances cannot be listened to", slog.Any("error", err))
		}
		loss() // of what was said before
	})
	for {
		select {
		case <-ctx.Done():
			go func() { // it may be dialling, or asleep: nobody waits for that
				_ = l.Close()
				for range l.Notify { // must be emptied, or it does not end
				}
			}()
			listening.Wait()
			return
		case <-losses:
			b.unsure()
			lost()
		case n := <-l.Notify:
			if n == nil {
				b.unsure()
				lost()
				continue
			}
			if strings.HasPrefix(n.Extra, b.name) { // said here
				b.heardOneself()
				continue
			}
			frames, err := b.seal.open(n.Extra)
			if err != nil {
				b.count.foreign.Add(1)
				foreign.Do(func() {
					b.log.WarnContext(ctx, "instances do not have the same key, or a stranger notifies", slog.Any("error", err))
				})
				continue
			}
			b.heardAnother()
			messages, missing := unframe(frames)
			b.count.received.Add(int64(len(messages)))
			for _, m := range messages {
				deliver(m)
			}
			if missing {
				lost()
			}
		}
	}
}

// dialed fits a dialer to the driver.
type dialed struct{ pq.DialerContext }

// Dial is for the driver.
func (d dialed) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout is for the driver.
func (d dialed) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// untilDone makes connections that end with a context, so that whoever waits
// on one does not wait for longer.
type untilDone struct {
	pq.DialerContext
	ctx context.Context
}

// DialContext is for the driver.
func (d untilDone) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	c, err := d.DialerContext.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return endingConn{c, context.AfterFunc(d.ctx, func() { _ = c.Close() })}, nil
}

type endingConn struct {
	net.Conn
	forget func() bool
}

// Close is for the driver.
func (c endingConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
