package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// fake is a tool server in this process. Every dial is a session of its own
// over a pipe, which the test can cut.
type fake struct {
	server *sdk.Server

	mu     sync.Mutex
	refuse error
	dials  []time.Time
	cuts   []func()
	says   []func(line string)
	lists  int
	sent   strings.Builder // everything that clients sent
	paused chan struct{}   // while it is open nothing is read
}

func newFake(t *testing.T, tools ...*sdk.Tool) *fake {
	t.Helper()
	f := &fake{server: sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "7"}, nil)}
	f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				f.list()
			}
			return next(ctx, method, req)
		}
	})
	for _, tool := range tools {
		f.add(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil
		})
	}
	return f
}

func (f *fake) add(tool *sdk.Tool, handler sdk.ToolHandler) {
	if tool.InputSchema == nil {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	f.server.AddTool(tool, handler)
}

func (f *fake) dial(_ chat.MCPServer, stderr *ring) (*wire, error) {
	f.mu.Lock()
	f.dials = append(f.dials, time.Now())
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	ours, theirs := net.Pipe()
	s, err := f.server.Connect(context.Background(), &sdk.IOTransport{Reader: &recorder{theirs, f}, Writer: theirs}, nil)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.cuts = append(f.cuts, func() { theirs.Close() })
	f.says = append(f.says, func(line string) { io.WriteString(theirs, line+"\n") })
	f.mu.Unlock()
	l := newLines(ours, ours, stderr)
	return &wire{
		transport: l,
		traffic:   l.traffic,
		lost:      l.lost,
		end:       func() error { return errors.New("the fake was cut") },
		close: func(sessionClosed <-chan struct{}) {
			theirs.Close()
			<-sessionClosed
			go s.Close() // waits for tools that do not end
		},
	}, nil
}

// recorder keeps what a fake is sent.
type recorder struct {
	io.ReadCloser
	f *fake
}

func (r *recorder) Read(p []byte) (int, error) {
	r.f.mu.Lock()
	paused := r.f.paused
	r.f.mu.Unlock()
	if paused != nil {
		<-paused
	}
	n, err := r.ReadCloser.Read(p)
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.sent.Write(p[:n])
	return n, err
}

// cut breaks the newest session, as a crash would.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts[len(f.cuts)-1]()
}

// say writes a line to the newest session, as the server might.
func (f *fake) say(line string) {
	f.mu.Lock()
	say := f.says[len(f.says)-1]
	f.mu.Unlock()
	say(line)
}

// pause makes the server read nothing while a channel is open.
func (f *fake) pause(until chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = until
}

func (f *fake) list() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
}

func (f *fake) setRefuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fake) counts() (dials, lists int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.dials), f.lists
}

// states collects what OnState is told.
type states struct {
	mu   sync.Mutex
	seen []chat.ServerState
}

func (s *states) add(_ string, state chat.ServerState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, state)
}

func (s *states) phases() []chat.ServerPhase {
	s.mu.Lock()
	defer s.mu.Unlock()
	var phases []chat.ServerPhase
	for _, state := range s.seen {
		phases = append(phases, state.Phase)
	}
	return phases
}

// start starts a client of f that is closed at the end of the test.
func (f *fake) start(t *testing.T, o ClientOptions) *Client {
	t.Helper()
	o.dial = f.dial
	c := StartClient(fakeConfig, o)
	t.Cleanup(c.Close)
	return c
}

var fakeConfig = chat.MCPServer{ID: "id-fake", Name: "fake", Transport: chat.TransportStdio, Command: "fake"}

func call(t *testing.T, c *Client, tool, input string) chat.Result {
	t.Helper()
	r, err := c.Call(t.Context(), tool, json.RawMessage(input), func(string) {}, nobody)
	if err != nil {
		t.Fatalf("call %s: %v", tool, err)
	}
	return r
}

// text is the first text of an output.
func text(t *testing.T, r chat.Result) string {
	t.Helper()
	var out struct {
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(r.Output, &out); err != nil || len(out.Content) == 0 {
		t.Fatalf("outcome %s %q, output %.200s (%v)", r.Outcome, r.ErrorText, r.Output, err)
	}
	return out.Content[0].Text
}

// state is how a server is doing.
func state(s interface {
	State() (chat.ServerState, []chat.Tool)
}) chat.ServerState {
	state, _ := s.State()
	return state
}

// nobody is who is asked where no question is expected.
func nobody(context.Context, chat.Question) (chat.Answer, error) {
	return chat.Answer{}, errors.New("nobody is there")
}

// shell is a server that is a script.
func shell(script string) chat.MCPServer {
	return chat.MCPServer{ID: "id-sh", Name: "sh", Transport: chat.TransportStdio, Command: "sh", Args: []string{"-c", script}}
}
