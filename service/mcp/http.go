package mcp

import (
	"bytes"
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
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// streamRetries is how often a broken stream of a server is asked for
	// again. A server that is gone is noticed before, by the first connection
	// that it refuses.
	streamRetries = 3
	// farewell is how long a server may take to answer that a session ends.
	farewell = time.Second
	// maxRefusal is as much as is read of an answer that is none, in bytes.
	maxRefusal = 1 << 20
)

// dialHTTP is the way to a server with an address.
func dialHTTP(s chat.MCPServer) (*wire, error) {
	address, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("the address cannot be read") // the error would quote it
	}
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		// A connection for each request: over one that was kept, nobody could
		// tell whether a call reached a server that has gone since.
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 256 << 10,
	}
	open, stop := context.WithCancel(context.Background())
	w := &watcher{base: base, address: address, headers: s.Headers, traffic: &traffic{}, open: open, lost: make(chan error, 1)}
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
			Endpoint: s.URL, HTTPClient: client, MaxRetries: streamRetries, MaxEventSize: maxFrame + 1<<10,
		},
		traffic: w.traffic,
		lost:    w.lost,
		end:     w.reason,
		close: func(sessionClosed <-chan struct{}) {
			patience := time.NewTimer(farewell)
			defer patience.Stop()
			select {
			case <-sessionClosed:
			case <-patience.C: // the SDK waits for some requests for as long as the server likes
			}
			stop()
			<-sessionClosed
			base.CloseIdleConnections()
		},
	}, nil
}

// watcher sees what happens to the requests of one session: whether a call
// reached the server, what came back, and when the server is gone.
type watcher struct {
	base    http.RoundTripper
	address *url.URL
	headers map[string]string
	traffic *traffic
	open    context.Context // ends every request but the farewell
	lost    chan error

	mu  sync.Mutex
	err error // what the server last refused
}

// RoundTrip adds the configured headers, for the configured server only, and
// gives the SDK no answer that would end the session for the fault of one call.
func (w *watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	m, err := messageOf(req)
	if err != nil {
		return nil, err
	}
	call := callOf(m)
	var trace *callTrace
	if call != nil {
		trace = traceOf(req.Context())
	}
	ctx, cancel := w.lifetime(req)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { trace.arrived() }})
	req = req.Clone(ctx)
	if w.sameOrigin(req.URL) {
		for name, value := range w.headers {
			req.Header.Set(name, value)
		}
	}
	w.traffic.sending(ctx, m)
	resp, err := w.base.RoundTrip(req)
	w.traffic.sent(m)
	if err != nil {
		defer cancel()
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && ctx.Err() == nil {
			w.lose(err)
		}
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, cancel: cancel}
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case ok && isStream(resp):
		e := newEvents(resp.Body, w.traffic, call)
		e.wrong, e.broken = w.lose, func(err error) {
			if ctx.Err() == nil {
				traceOf(ctx).broken(err)
			}
		}
		resp.Body = e
		return resp, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400: // is followed
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxRefusal), resp.Body}
		return resp, nil
	case ok && call == nil: // nothing of it is read
		return resp, nil
	case ok:
		return w.answer(resp, call, trace)
	default:
		return w.refusal(req, resp, trace)
	}
}

// lifetime is how long a request may take: as long as the session is open, or
// shortly if it is the one that ends it, which is a courtesy.
func (w *watcher) lifetime(req *http.Request) (context.Context, func()) {
	if req.Method == http.MethodDelete {
		return context.WithTimeout(req.Context(), farewell)
	}
	ctx, cancel := context.WithCancel(req.Context())
	release := context.AfterFunc(w.open, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// answer reads the whole answer to a call. While the SDK did, the end of the
// call would be that of the session, as would an answer that cannot be read.
func (w *watcher) answer(resp *http.Response, call *jsonrpc.Request, trace *callTrace) (*http.Response, error) {
	data, err := readBody(resp, maxFrame)
	if errors.Is(err, errTooLarge) {
		return instead(resp, call, trace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return instead(resp, call, trace, fmt.Errorf("the server answered %d in the form %q, which is not of the protocol", resp.StatusCode, shorten(storable(kind), 100)))
	}
	m, err := decode(data)
	if err != nil {
		return instead(resp, call, trace, err)
	}
	if r, ok := m.(*jsonrpc.Response); !ok || r.ID != call.ID {
		return instead(resp, call, trace, errors.New("the server answered something else"))
	}
	if _, err := w.traffic.received(m); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// instead answers a call in place of the server, whose answer is of no use.
func instead(resp *http.Response, call *jsonrpc.Request, trace *callTrace, why error) (*http.Response, error) {
	trace.noAnswer(why.Error())
	data, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: call.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: why.Error()}})
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	resp.Header.Set("Content-Type", "application/json")
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// refusal reads an answer whose status says that it is none. That the call did
// not begin it says only if nothing but the way to the tools can have said it:
// a tool that ran may end in any status.
func (w *watcher) refusal(req *http.Request, resp *http.Response, trace *callTrace) (*http.Response, error) {
	status := fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	data, err := readBody(resp, maxRefusal)
	if err != nil && !errors.Is(err, errTooLarge) {
		trace.noAnswer(status.Error())
		return nil, fmt.Errorf("%w and broke off: %w", status, err)
	}
	m, err := decode(data)
	message := err == nil && m != nil
	if message {
		if _, err := w.traffic.received(m); err != nil {
			return nil, err
		}
	}
	trace.noAnswer(status.Error())
	resp.Body = io.NopCloser(bytes.NewReader(data))
	switch resp.StatusCode {
	case http.StatusNotFound:
		if req.Header.Get("Mcp-Session-Id") != "" && !message {
			trace.turnedAway() // the session is unknown
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		if message {
			break
		}
		if resp.Header.Get("WWW-Authenticate") != "" {
			trace.turnedAway()
		}
		// The SDK would drop the status; without it nobody knows what to mend.
		w.note(status)
		return nil, status
	}
	return resp, nil
}

func isStream(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// messageOf is the message that a request carries, nil if it carries none.
func messageOf(req *http.Request) (jsonrpc.Message, error) {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return nil, nil //nolint:nilnil // as the comment says
	}
	r, err := req.GetBody()
	if err != nil {
		return nil, fmt.Errorf("read a message: %w", err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read a message: %w", err)
	}
	m, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, fmt.Errorf("read a message: %w", err)
	}
	return m, nil
}

// readBody reads the body of an answer to its end, which frees the connection.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, errTooLarge
	}
	return data, err
}

// body is that of an answer. To close it ends the request.
type body struct {
	io.ReadCloser
	cancel func()
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

func (w *watcher) sameOrigin(u *url.URL) bool {
	return u.Scheme == w.address.Scheme && u.Host == w.address.Host
}

// lose says that the session is at an end, and why.
func (w *watcher) lose(err error) {
	select {
	case w.lost <- err:
	default: // the first reason is the reason
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
