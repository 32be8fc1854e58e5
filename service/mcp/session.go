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

const (
	maxTools       = 1000
	maxDescription = 16 << 10
)

var errSessionOver = errors.New("the connection to the tool server is gone")

// session is one life of a connection: from the handshake until it is lost or
// closed. It is never used again after that.
type session struct {
	sdk   *sdk.ClientSession
	info  sdk.InitializeResult
	tools []remoteTool // replaced, under the client's lock, never changed
	// wedged is called when the server takes no messages any more.
	wedged func()

	mu    sync.Mutex
	over  bool
	next  int
	calls map[string]*liveCall // by progress token
}

// liveCall is a call that the server has not answered yet.
type liveCall struct {
	number int // the higher the newer
	ctx    context.Context
	cancel context.CancelCauseFunc
	report *reporter
	ask    Ask
	turn   chan struct{} // held by the question that is asked
}

// remoteTool is a tool as its server describes it.
type remoteTool struct {
	name, title, description string
	schema, annotations      json.RawMessage
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
	call = &liveCall{number: s.next, ctx: ctx, cancel: cancel, report: &reporter{to: progress}, ask: ask, turn: make(chan struct{}, 1)}
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
		call.report.report(progressText(p))
	}
}

func progressText(p *sdk.ProgressNotificationParams) string {
	const limit = 500
	done := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		done += "/" + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	if p.Message != "" {
		return shorten(errorText(p.Message), limit)
	}
	return done
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
		return chat.Result{}, notConnected(server, errSessionOver.Error())
	}
	defer end()
	trace := &callTrace{cancel: cancel}
	params := &sdk.CallToolParams{Name: tool, Arguments: input}
	params.SetProgressToken(token)
	answer, err := s.converse(ctx, trace, live, params)
	if err == nil {
		return result(answer)
	}
	cause := context.Cause(ctx)
	question, asked := errors.AsType[unaskable](err)
	switch refusal, refused := errors.AsType[*jsonrpc.Error](err); {
	case trace.neverBegan() && cause == nil:
		return chat.Result{}, notConnected(server, err.Error())
	case trace.neverBegan():
		return chat.Result{}, notConnected(server, cause.Error())
	case cause != nil && (errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)):
		return unknown("The call was stopped while it ran"), nil
	case cause == nil && asked:
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: errorText(fmt.Sprintf("The tool asked for something that it did not get, and did not go on: %s.", question.why))}, nil
	case cause == nil && refused && isAnswer(refusal.Code):
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: errorText(fmt.Sprintf("The tool server refused the call: %s (error %d).", strings.TrimSuffix(refusal.Message, "."), refusal.Code))}, nil
	default:
		return unknown("The connection to the tool server was lost while the tool ran"), nil
	}
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

// isAnswer reports whether a JSON-RPC error code is a server's own word on a
// call. The codes that implementations reserve for themselves also stand for
// a lost connection or a timeout on the way.
func isAnswer(code int64) bool { return code < -32099 || code > -32000 }

func notConnected(server, why string) error {
	return &chat.Error{Kind: chat.ErrUnavailable, Detail: fmt.Sprintf("the tool server %s is not connected: %s", server, why)}
}

// list asks for all tools of the server.
func list(ctx context.Context, s *sdk.ClientSession) ([]remoteTool, error) {
	var tools []remoteTool
	seen := map[string]bool{}
	if caps := s.InitializeResult().Capabilities; caps != nil && caps.Tools == nil {
		return nil, nil
	}
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list the tools: %w", err)
		}
		if t == nil || t.Name == "" || seen[t.Name] {
			continue // two of one name cannot be told apart; the first is the one that is called
		}
		if len(tools) == maxTools {
			return nil, fmt.Errorf("list the tools: there are more than %d", maxTools)
		}
		seen[t.Name] = true
		tool, err := describe(t)
		if err != nil {
			return nil, fmt.Errorf("list the tools: %w", err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func describe(t *sdk.Tool) (remoteTool, error) {
	tool := remoteTool{
		name: t.Name, title: t.Title, description: shorten(storable(t.Description), maxDescription),
		schema: json.RawMessage(noSchema),
	}
	if t.InputSchema != nil {
		raw, err := chat.Marshal(t.InputSchema)
		if err != nil {
			return remoteTool{}, fmt.Errorf("encode the schema of %q: %w", t.Name, err)
		}
		tool.schema = raw
	}
	if t.Annotations != nil {
		raw, err := chat.Marshal(t.Annotations)
		if err != nil {
			return remoteTool{}, fmt.Errorf("encode the annotations of %q: %w", t.Name, err)
		}
		tool.annotations = raw
		if tool.title == "" {
			tool.title = t.Annotations.Title
		}
	}
	tool.title = shorten(storable(tool.title), maxProblemText)
	return tool, nil
}

// wedgedAfter is how long a call that was stopped may go on being written: the
// SDK cannot stop that, and whoever calls next would wait behind it.
const wedgedAfter = 5 * time.Second

// debounce is how long a server that says that its tools changed may go on
// saying so before it is asked for them.
const debounce = 200 * time.Millisecond
