package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// maxFrame bounds one message of a server. The SDK ends the session of a
	// server that sends more, so it is far above what a result may be: that is
	// cut later, and the session lives on.
	maxFrame = 64 << 20
	// streamRetries is how often a broken stream of a server is asked for
	// again. A server that is gone is noticed before, by the first connection
	// that it refuses.
	streamRetries = 3
	// farewell is how long a server may take to answer that a session ends.
	farewell = time.Second
)

// wire is a way to a server, used for one session and never again.
type wire struct {
	transport sdk.Transport
	// lost is closed when the server is known to be gone, which the SDK may
	// take seconds to notice. It may be nil.
	lost <-chan struct{}
	// end says how the other side ended, nil if nothing is known. It is asked
	// after close.
	end func() error
	// close releases everything. The session is being closed at the same time;
	// the channel is closed when it is.
	close func(sessionClosed <-chan struct{})
}

// dial opens a wire as the settings say.
func dial(s chat.MCPServer, getenv func(string) string, stderr *ring) (*wire, error) {
	if s.Transport == chat.TransportHTTP {
		return dialHTTP(s)
	}
	p, err := startProcess(s, getenv, stderr)
	if err != nil {
		return nil, err
	}
	return processWire(p, stderr), nil
}

func processWire(p *process, stderr *ring) *wire {
	return &wire{
		transport: pipes{&sdk.IOTransport{
			Reader: &messages{from: p.stdout, stray: stderr}, Writer: p.stdin, MaxLineLength: maxFrame,
		}},
		end: func() error {
			if p.err != nil {
				return fmt.Errorf("the process ended: %w", p.err)
			}
			return errors.New("the process ended")
		},
		close: func(sessionClosed <-chan struct{}) {
			p.close()
			<-sessionClosed
		},
	}
}

// pipes is a transport that notes which calls were written to it.
type pipes struct{ *sdk.IOTransport }

// Connect is that of the transport.
func (p pipes) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.IOTransport.Connect(ctx)
	return notedWrites{c}, err
}

type notedWrites struct{ sdk.Connection }

func (c notedWrites) Write(ctx context.Context, m jsonrpc.Message) error {
	traceOf(ctx).arrived()
	return c.Connection.Write(ctx, m)
}

func dialHTTP(s chat.MCPServer) (*wire, error) {
	address, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("the address cannot be read") // the error would quote it
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	// A connection for each request: over one that was kept, nobody could tell
	// whether a call reached a server that has gone since.
	base.DisableKeepAlives = true
	base.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	w := &watcher{base: base, address: address, headers: s.Headers, lost: make(chan struct{})}
	client := &http.Client{
		Transport: w,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if !w.sameOrigin(req.URL) {
				return errors.New("the server redirects to another one, which is not followed")
			}
			if len(via) >= 5 {
				return errors.New("the server redirects without end")
			}
			return nil
		},
	}
	return &wire{
		transport: &sdk.StreamableClientTransport{
			Endpoint: s.URL, HTTPClient: client, MaxRetries: streamRetries, MaxEventSize: maxFrame,
		},
		lost: w.lost,
		end:  w.reason,
		close: func(sessionClosed <-chan struct{}) {
			<-sessionClosed
			base.CloseIdleConnections()
		},
	}, nil
}

// watcher sees what happens to the requests of one session: whether a call
// reached the server, and when the server is gone.
type watcher struct {
	base    http.RoundTripper
	address *url.URL
	headers map[string]string
	lost    chan struct{}

	mu  sync.Mutex
	err error // why it was lost, or what the server last refused
}

// RoundTrip adds the configured headers, for the configured server only.
func (w *watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := traceOf(req.Context())
	ctx := req.Context()
	if req.Method == http.MethodDelete { // the end of a session is a courtesy
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, farewell)
		defer cancel() // nobody reads the answer
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { trace.arrived() }})
	req = req.Clone(ctx)
	if w.sameOrigin(req.URL) {
		for name, value := range w.headers {
			req.Header.Set(name, value)
		}
	}
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && req.Context().Err() == nil {
			w.lose(err)
		}
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		// The SDK would drop the status; without it nobody knows what to mend.
		trace.turnedAway()
		resp.Body.Close() //nolint:errcheck // not read
		err := fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		w.note(err)
		return nil, err
	case http.StatusNotFound: // an unknown session
		trace.turnedAway()
	}
	body := &watchedBody{ReadCloser: resp.Body, stopped: req.Context().Err}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body.broken = trace.broken
	} else {
		body.left = maxFrame
		body.limited = true
	}
	resp.Body = body
	return resp, nil
}

func (w *watcher) sameOrigin(u *url.URL) bool {
	return u.Scheme == w.address.Scheme && u.Host == w.address.Host
}

func (w *watcher) lose(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	select {
	case <-w.lost:
	default:
		close(w.lost)
	}
}

func (w *watcher) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *watcher) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// watchedBody tells of a stream that broke off, and bounds what is no stream.
type watchedBody struct {
	io.ReadCloser
	stopped func() error // whether we gave up the request ourselves
	broken  func(error)
	limited bool
	left    int
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.limited && len(p) > b.left {
		if b.left == 0 {
			return 0, fmt.Errorf("the server's answer is larger than %d MiB", maxFrame>>20)
		}
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if err != nil && !errors.Is(err, io.EOF) && b.broken != nil && b.stopped() == nil {
		b.broken(err)
	}
	return n, err
}

// callTrace follows one call through the messages that carry it. A nil trace,
// of a message that belongs to none, takes everything.
type callTrace struct {
	cancel  context.CancelCauseFunc // ends the call
	reached atomic.Int32            // messages that may have reached the server
}

type traceKey struct{}

func traceOf(ctx context.Context) *callTrace {
	t, _ := ctx.Value(traceKey{}).(*callTrace)
	return t
}

func (t *callTrace) arrived() {
	if t != nil {
		t.reached.Add(1)
	}
}

// turnedAway takes back an arrival: the server had nothing to do with it.
func (t *callTrace) turnedAway() {
	if t != nil {
		t.reached.Add(-1)
	}
}

// broken ends the call whose answer was cut off: the server is most likely
// gone, and the SDK would wait for seconds to find out.
func (t *callTrace) broken(err error) {
	if t != nil {
		t.cancel(fmt.Errorf("the connection broke: %w", err))
	}
}

// neverBegan reports whether nothing of the call reached the server.
func (t *callTrace) neverBegan() bool { return t.reached.Load() == 0 }
