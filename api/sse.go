package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/r3labs/sse/v2"

	"github.com/assent-chat/assent/service/chat"
)

// EventReader is one client's place in the events that it follows.
type EventReader interface {
	// OnReady has f called, from any goroutine, after each change that gives
	// Take more to return, be it an error. f does not wait.
	OnReady(f func())
	// Take returns what is new, in order, or nothing, and does not wait. Where
	// more is left than a batch holds, f is called for it. room is to be used
	// for the batch. It returns an error when there will be no more events.
	Take(room []chat.LiveEvent) ([]chat.LiveEvent, error)
	Close()
}

// EventSource gives out readers.
type EventSource interface {
	// Subscribe starts a reader of the topics in detail, and if statuses is
	// set of the state of every topic. It goes on after lastID, which may be
	// anything; where it cannot, the reader begins with snapshots.
	Subscribe(topics []string, statuses bool, lastID string) EventReader
}

const (
	maxStreams             = 10_000
	maxStreamsPerPrincipal = 100
	streamSendBuffer       = 128 << 10
	roomEvents             = 64
	streamPeerTimeout      = 20 * time.Second // of a peer that acknowledges nothing
)

var (
	errTooManyStreams = errors.New("too many event streams are open; close one, or try again later")
	errLeaving        = errors.New("the server is leaving")
)

// streamer serves event streams through r3labs/sse, with one library stream
// for each connection. The library sends to the clients of a stream in turn
// and waits for each, so two clients must never share one; it also keeps no
// deadlines, sends no heartbeats and renumbers events, so none of that is left
// to it.
type streamer struct {
	lib          *sse.Server
	log          *slog.Logger
	max          int
	perPrincipal int
	pingEvery    time.Duration
	writeTimeout time.Duration

	mu       sync.Mutex
	conns    map[string]*connection
	counts   map[string]int // by principal
	leaving  bool
	handlers sync.WaitGroup
}

func newStreamer(_ EventSource, log *slog.Logger) *streamer {
	s := &streamer{
		log:          log,
		max:          maxStreams,
		perPrincipal: maxStreamsPerPrincipal,
		pingEvery:    15 * time.Second,
		writeTimeout: 10 * time.Second,
		conns:        map[string]*connection{},
		counts:       map[string]int{},
	}
	s.lib = sse.New()
	s.lib.AutoReplay = false // the reader replays; the library would renumber
	s.lib.AutoStream = false // a stream of its own for each connection
	s.lib.BufferSize = 1     // one wake-up is under way at a time
	s.lib.Headers = map[string]string{
		"Cache-Control":     "no-cache, no-transform", // a proxy that compresses would hold events back
		"X-Accel-Buffering": "no",
	}
	return s
}

// connection is one client's stream. It has no goroutine beside the library's:
// what is new wakes the handler through the library, and the handler, where
// the library has it flush, takes it from the reader and writes it.
type connection struct {
	s         *streamer
	id        string
	principal string
	reader    EventReader

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	writer *streamWriter

	// wakes counts the calls of wake since the handler has last come to rest.
	// It is 0 only while the handler waits in the library.
	wakes   atomic.Int64
	leaving atomic.Bool   // the server leaves
	retry   time.Duration // when to come back then; set before leaving is
	pingDue atomic.Bool
	pings   *time.Timer

	// Of the handler alone.
	lastID string
	batch  []chat.LiveEvent // room for one after the other
}

// serve streams what the reader gives until the client goes, a write is not
// taken in time, the events end, or the server leaves. It closes the reader.
// Where there are too many streams it answers a problem instead.
func (s *streamer) serve(w http.ResponseWriter, r *http.Request, reader EventReader, principal string) {
	defer reader.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &connection{s: s, id: rand.Text(), principal: principal, reader: reader, ctx: ctx, cancel: cancel}
	c.wakes.Store(1) // the handler looks by itself when the header is out
	c.writer = newStreamWriter(w, r, c)
	if err := s.admit(c); err != nil {
		refuseStream(w, err)
		return
	}
	defer s.remove(c)
	tune(r)

	reader.OnReady(c.wake)
	c.pings = time.AfterFunc(s.pingEvery, func() {
		c.pingDue.Store(true)
		c.wake()
	})
	defer c.pings.Stop()

	s.lib.CreateStream(c.id)
	// The library wants its own query and refuses our Last-Event-ID.
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: "stream=" + c.id}, Header: http.Header{}}
	s.lib.ServeHTTP(c.writer, request.WithContext(ctx))
	// Only now, when the library has let go of the client, does removing the
	// stream leave nothing behind.
	s.lib.RemoveStream(c.id)
}

func (s *streamer) admit(c *connection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.leaving:
		return errLeaving
	case len(s.conns) >= s.max, s.counts[c.principal] >= s.perPrincipal:
		return errTooManyStreams
	}
	s.conns[c.id] = c
	s.counts[c.principal]++
	s.handlers.Add(1)
	return nil
}

// remove forgets the connection, which has ended.
func (s *streamer) remove(c *connection) {
	s.mu.Lock()
	delete(s.conns, c.id)
	if s.counts[c.principal]--; s.counts[c.principal] == 0 {
		delete(s.counts, c.principal)
	}
	s.mu.Unlock()
	c.writer.done()
	s.handlers.Done()
}

func refuseStream(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"type":"/problems/unavailable","title":"Unavailable","status":503,"detail":%q}`, why.Error()) // the client may have left; nobody to tell
}

// wakeUp is what the library is given to deliver: nothing but the news that
// there is some. What it writes for it is thrown away. All streams share it,
// and without AutoReplay the library only reads it. It must not be empty: the
// library ends the connections of a stream at an event that is.
var wakeUp = &sse.Event{Comment: []byte("new")}

// wake has the handler look for something to send. It does not wait.
//
// No call is lost. One that finds the count at 0 sends a wake-up, and the
// library has room for it: the handler has had the one before, or would not
// have set the count to 0. One that finds it higher raises it; so the handler,
// which goes to rest only by swapping 0 for the count that it read before it
// last looked, either read the count later, and then looked when what was to
// be found was there, or fails to swap and looks again. The count begins at 1,
// because the library drops what comes before it has registered the client.
func (c *connection) wake() {
	if c.wakes.Add(1) == 1 {
		c.s.lib.TryPublish(c.id, wakeUp)
	}
}

// drain sends until nothing is left. It runs in the handler, which has been
// woken. Once the connection has ended the count stays above 0: nobody wakes
// the handler any more.
func (c *connection) drain() {
	for {
		seen := c.wakes.Load()
		if !c.send() {
			c.cancel()
			return
		}
		if c.wakes.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// send writes what there is, in one go: the batch that the reader has, and a
// ping if it is time. It reports false if the connection has ended.
func (c *connection) send() bool {
	switch {
	case c.ctx.Err() != nil:
		return false
	case c.leaving.Load():
		ms := strconv.FormatInt(c.retry.Milliseconds(), 10)
		c.writer.frame(c.lastID, []byte(`{"topicId":"*","revision":0,"retryMs":`+ms+`}`), "bye", ms)
		c.writer.send()
		return false
	}
	events, err := c.reader.Take(c.batch)
	if err != nil {
		c.s.log.DebugContext(c.ctx, "event stream has ended", slog.Any("error", err))
		return false
	}
	for _, ev := range events {
		c.writer.frame(ev.ID, ev.Data, ev.Name, "")
	}
	if n := len(events); n > 0 {
		c.lastID = strings.Clone(events[n-1].ID) // which may be a piece of a long string
	}
	ping := c.pingDue.Swap(false)
	if ping {
		c.writer.frame(c.lastID, []byte(`{"topicId":"*","revision":0}`), "ping", "")
	}
	if len(events) == 0 && !ping {
		return true
	}
	c.keepRoom(events)
	if !c.writer.send() {
		return false
	}
	if ping {
		c.pings.Reset(c.s.pingEvery)
	}
	return true
}

// keepRoom keeps the batch's room for the next one, but nothing that is large:
// an idle stream must not hold what the rings have dropped.
func (c *connection) keepRoom(events []chat.LiveEvent) {
	if cap(events) > roomEvents {
		c.batch = nil
		return
	}
	clear(events)
	c.batch = events[:0]
}

// shutdown refuses new streams and ends those that are open: each gets what is
// under way and a "bye", with a time to come back that spreads them over two
// seconds. Those that have not ended when ctx does are cut, and its error is
// returned. No stream is left when shutdown returns.
func (s *streamer) shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.leaving = true
	n := 0
	for _, c := range s.conns {
		c.retry = 200*time.Millisecond + 2*time.Second*time.Duration(n)/time.Duration(len(s.conns))
		n++
		c.leaving.Store(true)
		c.wake()
	}
	s.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for _, c := range s.conns {
		c.cancel()
		c.writer.abort()
	}
	s.mu.Unlock()
	<-ended
	return ctx.Err()
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext. With it a stream can bound what
// the kernel holds for a client that does not read, and how long a peer that
// has vanished is waited for.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// tune sets up the socket of a stream. An HTTP/2 connection carries more than
// the stream and is left as it is.
func tune(r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if r.ProtoMajor != 1 || c == nil {
		return
	}
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		tuneSocket(tcp)
	}
}
