package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// maxFrame bounds one message of a server, in bytes. It is above what a
	// result may be: that is cut later, and the session lives on.
	maxFrame = 40 << 20
	// maxTokens bounds the values of one message: each of them takes many
	// times the space of its text once it is decoded.
	maxTokens = 200_000
	// maxOpen bounds the requests of a server that wait for our answer. The SDK
	// would take any number of them.
	maxOpen = 100
	// maxRequest bounds one of these, in bytes, and a notification. It is above
	// the largest question.
	maxRequest = 256 << 10
	// maxHeard bounds the notifications that wait to be handled.
	maxHeard = 100
)

// heard are the notifications that mean something here.
var heard = []string{
	"notifications/cancelled", "notifications/progress", "notifications/subscriptions/acknowledged", "notifications/tools/list_changed",
}

// traffic follows the messages of one wire: it knows which of our calls the
// server itself has answered, and bounds what it may ask and tell.
type traffic struct {
	mu    sync.Mutex
	calls map[jsonrpc.ID]*callTrace // of ours, until they are answered
	open  int                       // requests of the server
	told  int                       // notifications
}

// sending is told of every message before it is written.
func (t *traffic) sending(ctx context.Context, m jsonrpc.Message) {
	trace, request := traceOf(ctx), callOf(m)
	if trace == nil || request == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[jsonrpc.ID]*callTrace{}
	}
	t.calls[request.ID] = trace
	trace.sent(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.calls, request.ID)
	})
}

// sent is told of every message after it was written, or could not be.
func (t *traffic) sent(m jsonrpc.Message) {
	if _, ok := m.(*jsonrpc.Response); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open = max(0, t.open-1)
	}
}

// handled is told of every notification that was handled.
func (t *traffic) handled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = max(0, t.told-1)
}

// received is told of every message of the server, and returns the one to pass
// on: nil if there is none. An error ends the session.
func (t *traffic) received(m jsonrpc.Message) (jsonrpc.Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m := m.(type) {
	case *jsonrpc.Response:
		if trace := t.calls[m.ID]; trace != nil {
			delete(t.calls, m.ID)
			trace.answer()
		}
	case *jsonrpc.Request:
		if !m.IsCall() {
			if !slices.Contains(heard, m.Method) || len(m.Params) > maxRequest || t.told == maxHeard {
				return nil, nil //nolint:nilnil // it is left out
			}
			t.told++
			return m, nil
		}
		if t.open == maxOpen {
			return nil, fmt.Errorf("the server asks more than it hears: %d of its requests wait for their answers to be read", maxOpen)
		}
		t.open++
		if len(m.Params) > maxRequest {
			// Under this name nobody handles it, which is what the server is told.
			return &jsonrpc.Request{ID: m.ID, Method: "request-too-large"}, nil
		}
	}
	return m, nil
}

// callOf returns the message if it is a request that is answered, else nil.
func callOf(m jsonrpc.Message) *jsonrpc.Request {
	if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() {
		return request
	}
	return nil
}

// isStray reports whether an error of decoding is that of an answer to
// nothing, which has no id. To the SDK it would be the end of the session, and
// the answer to every call.
func isStray(err error) bool {
	wrong, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && wrong.Code == jsonrpc.CodeInvalidRequest
}

// decode decodes a message of a server. An error is none of the protocol's, so
// that it is never mistaken for an answer; nil without an error is a message
// that means nothing.
func decode(raw []byte) (jsonrpc.Message, error) {
	if n := tokens(raw); n > maxTokens {
		return nil, fmt.Errorf("a message of the server holds %d values, more than %d", n, maxTokens)
	}
	m, err := jsonrpc.DecodeMessage(raw)
	switch {
	case err != nil && isStray(err):
		return nil, nil //nolint:nilnil // as the comment says
	case err != nil:
		return nil, errors.New("a message of the server cannot be read: " + err.Error())
	}
	return m, nil
}

// tokens is how many values JSON holds, about: objects, lists, and what they
// consist of.
func tokens(raw []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[' || c == ',':
			n++
		}
	}
	return n
}
