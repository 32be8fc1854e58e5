package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/r3labs/sse/v2"

	"github.com/assent-chat/assent/service/chat"
)

// EventReader is one client's place in the events that it follows.
type EventReader interface {
	// Next waits for events and returns all that are new, in order. It returns
	// an error when ctx has ended, or when there will be no more.
	Next(ctx context.Context) ([]chat.LiveEvent, error)
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
	s.lib = sse.NewWithCallback(s.subscribed, nil)
	s.lib.AutoReplay = false // the reader replays; the library would renumber
	s.lib.AutoStream = false // a stream of its own for each connection
	s.lib.BufferSize = 1     // one batch is under way at a time
	s.lib.Headers = map[string]string{
		"Cache-Control":     "no-cache, no-transform", // a proxy that compresses would hold events back
		"X-Accel-Buffering": "no",
	}
	return s
}

// connection is one client's stream.
type connection struct {
	s         *streamer
	id        string
	principal string
	reader    EventReader

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	pull   context.Context // ends earlier, when the server leaves
	leave  context.CancelFunc
	retry  time.Duration // when to come back, once the server leaves

	flushed chan struct{} // the batch under way has been written
	pumps   sync.WaitGroup
	writer  *streamWriter
}

// serve streams what the reader gives until the client goes, a write is not
// taken in time, the events end, or the server leaves. It closes the reader.
// Where there are too many streams it answers a problem instead.
func (s *streamer) serve(w http.ResponseWriter, r *http.Request, reader EventReader, principal string) {
	defer reader.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &connection{
		s: s, id: rand.Text(), principal: principal, reader: reader,
		ctx: ctx, cancel: cancel, flushed: make(chan struct{}, 1),
	}
	c.pull, c.leave = context.WithCancel(ctx)
	defer c.leave()
	c.writer = newStreamWriter(w, r, c)
	if err := s.admit(c); err != nil {
		refuseStream(w, err)
		return
	}
	defer s.remove(c)
	tune(r)

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

// remove forgets the connection once nothing of it runs any more.
func (s *streamer) remove(c *connection) {
	c.cancel()
	s.mu.Lock()
	delete(s.conns, c.id) // from here on no pump starts
	if s.counts[c.principal]--; s.counts[c.principal] == 0 {
		delete(s.counts, c.principal)
	}
	s.mu.Unlock()
	c.pumps.Wait()
	c.writer.done()
	s.handlers.Done()
}

func refuseStream(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"type":"/problems/unavailable","title":"Unavailable","status":503,"detail":%q}`, why.Error()) // the client may have left; nobody to tell
}

// subscribed is called by the library, on a goroutine of our own, when a
// connection can be sent to.
func (s *streamer) subscribed(id string, _ *sse.Subscriber) {
	s.mu.Lock()
	c := s.conns[id]
	if c != nil {
		c.pumps.Add(1)
	}
	s.mu.Unlock()
	if c != nil {
		defer c.pumps.Done()
		c.pump()
	}
}

// pump moves batches from the reader to the client, and a ping when it is
// time. The next batch is taken when the one before is written: what gathers
// meanwhile goes out in one write.
func (c *connection) pump() {
	defer c.cancel()
	lastID := ""
	for {
		ctx, cancel := context.WithTimeout(c.pull, c.s.pingEvery)
		var err error
		for err == nil && ctx.Err() == nil {
			var events []chat.LiveEvent
			if events, err = c.reader.Next(ctx); err == nil {
				if !c.send(events, 0) {
					cancel()
					return
				}
				lastID = events[len(events)-1].ID
			}
		}
		due := errors.Is(ctx.Err(), context.DeadlineExceeded)
		cancel()
		switch {
		case c.ctx.Err() != nil:
			return
		case c.pull.Err() != nil:
			ms := strconv.FormatInt(c.retry.Milliseconds(), 10)
			c.send([]chat.LiveEvent{{ID: lastID, Name: "bye", Data: []byte(`{"topicId":"*","revision":0,"retryMs":` + ms + `}`)}}, c.retry)
			return
		case due:
			if !c.send([]chat.LiveEvent{{ID: lastID, Name: "ping", Data: []byte(`{"topicId":"*","revision":0}`)}}, 0) {
				return
			}
		default:
			c.s.log.DebugContext(c.ctx, "event stream has ended", slog.Any("error", err))
			return
		}
	}
}

// send hands a batch to the library and waits until it is written. It reports
// false if the connection has ended.
func (c *connection) send(events []chat.LiveEvent, retry time.Duration) bool {
	buf := streamBuffers.Get().(*bytes.Buffer)
	ev := frames(buf, events)
	if retry > 0 {
		ev.Retry = strconv.AppendInt(nil, retry.Milliseconds(), 10)
	}
	c.s.lib.Publish(c.id, ev)
	select {
	case <-c.flushed:
	case <-c.ctx.Done():
		return false // the library may be reading the buffer yet
	}
	giveBack(buf)
	return true
}

// frames makes one library event of a whole batch. The library writes
//
//	id: ID\n data: DATA\n [event: NAME\n] [retry: N\n] \n
//
// and formats, flushes and hands over between goroutines once for each event.
// It writes Data as it is, so Data may go on after the first event's own line
// with the rest of its frame, and with all the frames that follow, up to the
// end of the last one, which the library closes. The bytes on the wire are
// those of separate events; the cost is that of one.
func frames(buf *bytes.Buffer, events []chat.LiveEvent) *sse.Event {
	first := events[0]
	if len(events) == 1 {
		return &sse.Event{ID: []byte(first.ID), Data: first.Data, Event: []byte(first.Name)}
	}
	buf.Write(first.Data)
	buf.WriteString("\nevent: ")
	buf.WriteString(first.Name)
	for _, ev := range events[1:] {
		buf.WriteString("\n\nid: ")
		buf.WriteString(ev.ID)
		buf.WriteString("\ndata: ")
		buf.Write(ev.Data)
		buf.WriteString("\nevent: ")
		buf.WriteString(ev.Name)
	}
	return &sse.Event{ID: []byte(first.ID), Data: buf.Bytes()}
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
		c.leave()
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
