package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// wedgedAfter is how long a call that was stopped may go on being written: the
// SDK cannot stop that, and whoever calls next would wait behind it.
const wedgedAfter = 5 * time.Second

var errSessionOver = errors.New("the connection to the tool server is gone")

// session is one life of a connection: from the handshake until it is lost or
// closed. It is never used again after that.
type session struct {
	sdk     *sdk.ClientSession
	wire    *wire
	secrets secrets
	info    sdk.InitializeResult
	tools   []remoteTool // replaced, under the client's lock, never changed
	// wedged is called when the server takes no messages any more.
	wedged func()
	// listChanged says that the server has other tools now.
	listChanged chan struct{}
	gone        chan error // gets the reason when the SDK gives the session up

	mu    sync.Mutex
	over  bool
	next  int
	calls map[string]*liveCall // by progress token
}

// liveCall is a call that the server has not answered yet.
type liveCall struct {
	number  int // the higher the newer
	ctx     context.Context
	cancel  context.CancelCauseFunc
	report  *reporter
	ask     Ask
	turn    chan struct{} // held by the question that is asked
	secrets secrets
}

// begin registers a call, and reports false if the session is over.
func (s *session) begin(ctx context.Context, cancel context.CancelCauseFunc, progress func(string), ask Ask) (call *liveCall, token string, end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, "", nil, false
	}
	s.next++
	token = "call-" + strconv.Itoa(s.next)
	call = &liveCall{
		number: s.next, ctx: ctx, cancel: cancel, report: &reporter{to: progress}, ask: ask, turn: make(chan struct{}, 1), secrets: s.secrets,
	}
	if s.calls == nil {
		s.calls = map[string]*liveCall{}
	}
	s.calls[token] = call
	return call, token, func() {
		s.mu.Lock()
		delete(s.calls, token)
		s.mu.Unlock()
		call.report.close()
	}, true
}

// progress passes a notification on to its call. One for a call that has
// ended, or for none of ours, is ignored.
func (s *session) progress(p *sdk.ProgressNotificationParams) {
	token, ok := p.ProgressToken.(string)
	if !ok {
		return
	}
	s.mu.Lock()
	call := s.calls[token]
	s.mu.Unlock()
	if call != nil {
		call.report.report(progressText(p, s.secrets))
	}
}

// finish ends the calls that wait for an answer: none will come.
func (s *session) finish(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, call := range s.calls {
		call.cancel(why)
	}
}

// call runs one tool. The error is of kind chat.ErrUnavailable if the call
// certainly did not begin; a call whose end nobody knows is a result.
func (s *session) call(ctx context.Context, server, tool string, input json.RawMessage, progress func(string), ask Ask) (chat.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	live, token, end, ok := s.begin(ctx, cancel, progress, ask)
	if !ok {
		return chat.Result{}, notConnected(server, errSessionOver)
	}
	defer end()
	trace := &callTrace{cancel: cancel}
	defer trace.over()
	params := &sdk.CallToolParams{Name: tool, Arguments: input}
	params.SetProgressToken(token)
	answer, err := s.converse(ctx, trace, live, params)
	if err == nil {
		return result(answer, s.secrets)
	}
	cause := context.Cause(ctx)
	neverBegan, answered, why := trace.end()
	question, asked := errors.AsType[unaskable](err)
	refusal, refused := errors.AsType[*jsonrpc.Error](err)
	switch {
	case neverBegan && cause == nil:
		return chat.Result{}, notConnected(server, s.reason(err))
	case neverBegan:
		return chat.Result{}, notConnected(server, s.reason(cause))
	// Whatever ended the session since, or the call: this was said before.
	case refused && answered && isFinal(refusal.Code):
		return s.failed("The tool server refused the call: %s (error %d).", strings.TrimSuffix(refusal.Message, "."), refusal.Code), nil
	case cause != nil && (errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)):
		return unknown("The call was stopped while it ran"), nil
	case cause == nil && asked:
		return s.failed("The tool asked for something that it did not get, and did not go on: %s.", question.why), nil
	case why != "":
		return unknown("The call got no result (" + s.secrets.text(why, maxReason) + ")"), nil
	case cause == nil && answered && !refused && !errors.Is(err, sdk.ErrConnectionClosed):
		return unknown("The tool server's answer cannot be read"), nil
	default:
		return unknown("The connection to the tool server was lost while the tool ran"), nil
	}
}

func (s *session) failed(format string, a ...any) chat.Result {
	return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: s.secrets.text(fmt.Sprintf(format, a...), maxErrorText)}
}

// converse sends a call, and sends it again with the answers to what the
// server asks in place of a result.
func (s *session) converse(ctx context.Context, trace *callTrace, call *liveCall, params *sdk.CallToolParams) (*sdk.CallToolResult, error) {
	for range maxRounds {
		answer, err := s.send(context.WithValue(ctx, traceKey{}, trace), params)
		if err != nil || !answer.NeedsInput() {
			return answer, err
		}
		next := *params
		next.RequestState = answer.RequestState
		if next.InputResponses, err = call.answers(ctx, answer.InputRequests); err != nil {
			return nil, err
		}
		params = &next
	}
	return nil, unaskable{"it asked again and again"}
}

// send sends a call once.
func (s *session) send(ctx context.Context, params *sdk.CallToolParams) (*sdk.CallToolResult, error) {
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() {
		patience := time.NewTimer(wedgedAfter)
		defer patience.Stop()
		select {
		case <-returned:
		case <-patience.C:
			s.wedged()
		}
	})()
	return s.sdk.CallTool(ctx, params)
}

// isFinal reports whether the code of a server's answer is its last word on a
// call. The codes that implementations reserve for themselves are also those
// of what stands between: for a connection of its own that it lost, or a call
// that it waits for no longer.
func isFinal(code int64) bool { return code < -32099 || code > -32000 }

func notConnected(server string, why error) error {
	return chat.Unavailable("The tool server %s is not connected: %s", server, chat.Sentence(why))
}

// reason is an error as it may be shown.
func (s *session) reason(err error) error { return errors.New(s.secrets.text(err.Error(), maxReason)) }

// close gives the session up and releases everything of it.
func (s *session) close() {
	// The reason was found before: calls that still wait must not find another.
	s.finish(errSessionOver)
	closed := make(chan struct{})
	go func() {
		s.sdk.Close() // it is given up, whatever it says
		close(closed)
	}()
	s.wire.close(closed)
}
