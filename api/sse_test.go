package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/live/livetest"
)

// feed is a reader that gives what is put into it.
type feed struct {
	batches chan []chat.LiveEvent
	ready   func()
	closed  chan struct{}
	once    sync.Once
}

var errFeedEnded = errors.New("the feed has ended")

func newFeed(batches ...[]chat.LiveEvent) *feed {
	f := &feed{batches: make(chan []chat.LiveEvent, 1000), closed: make(chan struct{})}
	for _, b := range batches {
		f.batches <- b
	}
	return f
}

func (f *feed) OnReady(g func()) { f.ready = g }

// Take gives one batch at a time.
func (f *feed) Take(room []chat.LiveEvent) ([]chat.LiveEvent, error) {
	select {
	case b, ok := <-f.batches:
		if !ok {
			return nil, errFeedEnded
		}
		f.ready()
		return append(room[:0], b...), nil
	default:
		return nil, nil
	}
}

func (f *feed) Close() { f.once.Do(func() { close(f.closed) }) }

func event(id, name, data string) chat.LiveEvent {
	return chat.LiveEvent{ID: id, Name: name, Data: []byte(data)}
}

// checkLeaks fails the test if a goroutine that it started outlives it.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// serveStreams serves a stream of a new reader to every request, and ends
// with the test.
func serveStreams(t *testing.T, s *streamer, subscribe func(r *http.Request) EventReader, http2 bool) *httptest.Server {
	t.Helper()
	checkLeaks(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, subscribe(r), r.Header.Get("X-Principal"))
	}))
	srv.Config.ConnContext = ConnContext
	srv.EnableHTTP2 = http2
	if http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.shutdown(ctx) // whoever is left is cut
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

func get(t *testing.T, srv *httptest.Server, principal string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Principal", principal)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil {
		t.Fatalf("after %q: %v", got[:n], err)
	}
	if string(got) != want {
		t.Fatalf("got\n%q\nwant\n%q", got, want)
	}
}

func testStreamer() *streamer { return newStreamer(nil, slog.New(slog.DiscardHandler)) }

func TestStreamWritesFramesByteForByte(t *testing.T) {
	s := testStreamer()
	f := newFeed(
		[]chat.LiveEvent{event("", "snapshot", `{"topicId":"t"}`)},
		[]chat.LiveEvent{event("", "message", `{"n":1}`), event("e.2.s", "part", `{"n":2}`), event("e.3.s", "status", `{"n":3}`)},
		[]chat.LiveEvent{event("e.4.s", "delta", `{"text":"a\nb: c"}`)},
	)
	srv := serveStreams(t, s, func(*http.Request) EventReader { return f }, false)
	res := get(t, srv, "ada")

	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	expect(t, res.Body, "id: \ndata: {\"topicId\":\"t\"}\nevent: snapshot\n\n"+
		"id: \ndata: {\"n\":1}\nevent: message\n\n"+
		"id: e.2.s\ndata: {\"n\":2}\nevent: part\n\n"+
		"id: e.3.s\ndata: {\"n\":3}\nevent: status\n\n"+
		"id: e.4.s\ndata: {\"text\":\"a\\nb: c\"}\nevent: delta\n\n")

	if err := s.shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	expect(t, res.Body, "id: e.4.s\ndata: {\"topicId\":\"*\",\"revision\":0,\"retryMs\":200}\nevent: bye\nretry: 200\n\n")
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the farewell: %q, %v", rest, err)
	}
	<-f.closed
}

func TestStreamPings(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP2=%t", http2), func(t *testing.T) {
			s := testStreamer()
			// On HTTP/2 a deadline that is left set would end the stream before
			// the first ping.
			s.writeTimeout, s.pingEvery = 200*time.Millisecond, 300*time.Millisecond
			srv := serveStreams(t, s, func(*http.Request) EventReader { return newFeed([]chat.LiveEvent{event("e.1.s", "status", `{}`)}) }, http2)
			res := get(t, srv, "ada")
			if want := map[bool]int{false: 1, true: 2}[http2]; res.ProtoMajor != want {
				t.Fatalf("speaks HTTP/%d", res.ProtoMajor)
			}
			expect(t, res.Body, "id: e.1.s\ndata: {}\nevent: status\n\n"+strings.Repeat(
				"id: e.1.s\ndata: {\"topicId\":\"*\",\"revision\":0}\nevent: ping\n\n", 3))
		})
	}
}

func TestStreamEndsWithItsEvents(t *testing.T) {
	s := testStreamer()
	f := newFeed([]chat.LiveEvent{event("e.1.s", "status", `{}`)})
	close(f.batches)
	srv := serveStreams(t, s, func(*http.Request) EventReader { return f }, false)
	body, err := io.ReadAll(get(t, srv, "ada").Body)
	if err != nil || string(body) != "id: e.1.s\ndata: {}\nevent: status\n\n" {
		t.Errorf("got %q, %v", body, err)
	}
	<-f.closed
}

func TestStreamCaps(t *testing.T) {
	problem := func(t *testing.T, res *http.Response) {
		t.Helper()
		var p struct {
			Type   string
			Status int
			Detail string
		}
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 503 || p.Status != 503 || p.Type != "/problems/unavailable" || p.Detail == "" ||
			res.Header.Get("Retry-After") == "" || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %d, %v, %+v", res.StatusCode, res.Header, p)
		}
	}
	open := func(t *testing.T, srv *httptest.Server, principal string) *http.Response {
		t.Helper()
		res := get(t, srv, principal)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		expect(t, res.Body, "id: 1\n")
		return res
	}
	one := []chat.LiveEvent{event("1", "status", "{}")}

	t.Run("a principal's streams are counted and given back", func(t *testing.T) {
		s := testStreamer()
		s.perPrincipal = 1
		readers := make(chan *feed, 10)
		srv := serveStreams(t, s, func(*http.Request) EventReader { f := newFeed(one); readers <- f; return f }, false)
		res := open(t, srv, "ada")
		first := <-readers
		problem(t, get(t, srv, "ada"))
		<-(<-readers).closed // also that of a refused stream
		open(t, srv, "bob")
		<-readers
		res.Body.Close()
		<-first.closed // after the stream was given back
		open(t, srv, "ada")
	})
	t.Run("there is a bound for all", func(t *testing.T) {
		s := testStreamer()
		s.max = 1
		srv := serveStreams(t, s, func(*http.Request) EventReader { return newFeed(one) }, false)
		open(t, srv, "ada")
		problem(t, get(t, srv, "bob"))
	})
	t.Run("a server that leaves takes no more", func(t *testing.T) {
		s := testStreamer()
		srv := serveStreams(t, s, func(*http.Request) EventReader { return newFeed(one) }, false)
		if err := s.shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		problem(t, get(t, srv, "ada"))
	})
}

// topicSource is a source with one topic, "t", whose text grows.
type topicSource struct {
	mu       sync.Mutex
	revision int64
	text     string
}

func (s *topicSource) message() chat.Message {
	return chat.Message{ID: "m", TopicID: "t", Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: s.text}}, Status: chat.MessageSuccess, Revision: s.revision}
}

func (s *topicSource) grow(h *live.Hub, text string) {
	s.mu.Lock()
	s.revision++
	s.text = text
	c := chat.Change{TopicID: "t", Revision: s.revision, Messages: []chat.Message{s.message()}}
	s.mu.Unlock()
	h.Publish(context.Background(), c)
}

func (s *topicSource) Snapshot(context.Context, string, int, string) (chat.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return chat.Snapshot{Topic: chat.Topic{ID: "t"}, Messages: []chat.Message{s.message()}, Revision: s.revision, Status: chat.StatusOf("t", s.revision, nil, 0, nil)}, nil
}

func (s *topicSource) Status(context.Context, string) (chat.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return chat.StatusOf("t", s.revision, nil, 0, nil), nil
}

func (s *topicSource) Topics(context.Context, chat.Page) ([]chat.Topic, string, error) {
	return nil, "", nil
}

// follow applies the stream to a client until the topic's text is want.
func follow(c *livetest.Client, lines *bufio.Reader, want string) error {
	var ev chat.LiveEvent
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			ev.ID = value
		case "event":
			ev.Name = value
		case "data":
			ev.Data = []byte(value)
		case "":
			if err := c.Apply(ev); err != nil {
				return err
			}
			if t := c.Topics["t"]; t != nil && len(t.Messages) == 1 && t.Messages[0].Parts[0].(chat.Text).Text == want {
				return nil
			}
		}
	}
}

func hubServer(t *testing.T, s *streamer) (*topicSource, *live.Hub, *httptest.Server) {
	t.Helper()
	src := &topicSource{revision: 1}
	h := live.New(src, live.Options{})
	srv := serveStreams(t, s, func(r *http.Request) EventReader {
		return h.Subscribe([]string{"t"}, true, r.Header.Get("Last-Event-ID"))
	}, false)
	t.Cleanup(h.Close)
	return src, h, srv
}

// dial opens a stream on a connection that reads only when told, and keeps
// little in the kernel.
func dial(t *testing.T, srv *httptest.Server, header string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	tcp := c.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", header)
	return tcp
}

// burst is more than the kernel keeps for a client that does not read.
func (s *topicSource) burst(h *live.Hub, end string) {
	for i := range 40 {
		s.grow(h, fmt.Sprint(i, strings.Repeat("x", 64<<10)))
	}
	s.grow(h, end)
}

func TestStalledStreamDelaysNobody(t *testing.T) {
	s := testStreamer()
	s.writeTimeout = time.Hour // nobody is cut: they must not be in the way even so
	src, h, srv := hubServer(t, s)
	for range 3 {
		dial(t, srv, "")
	}
	body := bufio.NewReader(get(t, srv, "ada").Body)
	var c livetest.Client
	for _, end := range []string{"one", "two"} {
		read := make(chan error)
		go func() { read <- follow(&c, body, end) }()
		src.burst(h, end)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
}

func TestStalledStreamIsCut(t *testing.T) {
	s := testStreamer()
	s.writeTimeout = 100 * time.Millisecond
	closed := make(chan struct{})
	src := &topicSource{revision: 1}
	h := live.New(src, live.Options{})
	srv := serveStreams(t, s, func(*http.Request) EventReader {
		return noticed{h.Subscribe([]string{"t"}, true, ""), closed}
	}, false)
	t.Cleanup(h.Close)
	dial(t, srv, "")
	for {
		src.burst(h, "the end")
		select {
		case <-closed:
			return
		default:
		}
	}
}

// noticed tells when the reader is closed.
type noticed struct {
	EventReader
	closed chan struct{}
}

func (n noticed) Close() {
	n.EventReader.Close()
	close(n.closed)
}

// oneByte reads a byte at a time.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

func TestByteAtATimeStreamEndsTheSame(t *testing.T) {
	src, h, srv := hubServer(t, testStreamer())
	conn := dial(t, srv, "")
	res, err := http.ReadResponse(bufio.NewReaderSize(oneByte{conn}, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	var c livetest.Client
	read := make(chan error)
	go func() { read <- follow(&c, bufio.NewReaderSize(oneByte{res.Body}, 16), "the end") }()
	for i := range 10 {
		src.grow(h, fmt.Sprint(i, strings.Repeat("y", 2<<10)))
	}
	src.grow(h, "the end")
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestShutdownCutsStreamsThatAreStuck(t *testing.T) {
	s := testStreamer()
	s.writeTimeout = time.Hour
	src, h, srv := hubServer(t, s)
	for range 3 {
		dial(t, srv, "")
	}
	res := get(t, srv, "ada")
	body := bufio.NewReader(res.Body)
	var c livetest.Client
	if err := follow(&c, body, ""); err != nil {
		t.Fatal(err)
	}
	src.burst(h, "the end")
	if err := follow(&c, body, "the end"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	farewell := make(chan struct{})
	go func() {
		for c.Events["bye"] == 0 {
			if follow(&c, body, "never") != nil {
				break
			}
		}
		close(farewell)
		cancel() // the patience ends once the one that reads has been told
	}()
	if err := s.shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	<-farewell
	if c.Events["bye"] != 1 {
		t.Error("the one that reads was not told")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) != 0 || len(s.counts) != 0 {
		t.Errorf("%d streams are left", len(s.conns))
	}
}

func TestStreamTakesAnyLastEventID(t *testing.T) {
	_, _, srv := hubServer(t, testStreamer())
	for _, id := range []string{"5000", "-1", "0.0.0", "x.y", strings.Repeat("9", 1000), "", "é"} {
		conn := dial(t, srv, "Last-Event-ID: "+id+"\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("%q is answered %d", id, res.StatusCode)
		}
		var c livetest.Client
		if err := follow(&c, bufio.NewReader(res.Body), ""); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		conn.Close()
	}
}
