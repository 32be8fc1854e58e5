package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// web is a fake served over HTTP.
type web struct {
	*fake
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	hellos   int
	answer   func(w http.ResponseWriter, r *http.Request) bool // before the server, true if it answered
}

func newWeb(t *testing.T, o *sdk.StreamableHTTPOptions) *web {
	t.Helper()
	w := &web{fake: newFake(t, &sdk.Tool{Name: "ping"})}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return w.server }, o)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Clone(context.Background()))
		answer := w.answer
		w.mu.Unlock()
		if posted(t, r).Method == "server/discover" {
			w.mu.Lock()
			w.hellos++
			w.mu.Unlock()
		}
		if answer == nil || !answer(rw, r) {
			handler.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() {
		for s := range w.server.Sessions() {
			s.Close()
		}
	})
	t.Cleanup(w.Server.Close)
	t.Cleanup(w.CloseClientConnections)
	return w
}

func (w *web) setAnswer(answer func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

func (w *web) config() chat.MCPServer {
	return chat.MCPServer{
		ID: "id-web", Name: "web", Transport: chat.TransportHTTP, URL: w.URL + "/mcp?key=s3cret-key",
		Headers: map[string]string{"Authorization": "Bearer s3cret-token"},
	}
}

func (w *web) connect(t *testing.T, o ClientOptions) *Client {
	t.Helper()
	if o.MinBackoff == 0 {
		o.MinBackoff = time.Millisecond
	}
	c := StartClient(w.config(), o)
	t.Cleanup(c.Close)
	return c
}

// sessions is how often a client began to speak to the server.
func (w *web) sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hellos
}

// posted is the message of a request, which is left to be read again.
func posted(t *testing.T, r *http.Request) *jsonrpc.Request {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return &jsonrpc.Request{} // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	m, err := jsonrpc.DecodeMessage(data)
	if request, ok := m.(*jsonrpc.Request); err == nil && ok {
		return request
	}
	return &jsonrpc.Request{}
}

// onCall makes the server answer calls of tools in a way of its own.
func (w *web) onCall(t *testing.T, answer func(rw http.ResponseWriter, id string, r *http.Request)) {
	w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
		m := posted(t, r)
		if m.Method != "tools/call" {
			return false
		}
		answer(rw, fmt.Sprint(m.ID.Raw()), r)
		return true
	})
}

// await waits until the state is as it should be.
func await(t *testing.T, c *Client, is func(chat.ServerState) bool) chat.ServerState {
	t.Helper()
	hang := time.After(2 * time.Minute)
	for {
		c.mu.Lock()
		state, changed := c.stateLocked(), c.changed
		c.mu.Unlock()
		if is(state) {
			return state
		}
		select {
		case <-changed:
		case <-hang:
			t.Fatalf("the state stays %+v", state)
		}
	}
}

func inPhase(p chat.ServerPhase) func(chat.ServerState) bool {
	return func(s chat.ServerState) bool { return s.Phase == p }
}
