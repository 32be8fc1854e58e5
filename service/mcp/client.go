package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// ClientOptions change how clients work. The zero value is right for a server.
type ClientOptions struct {
	Logger *slog.Logger // discards if nil
	// OnState is told of every change of a connection's state, in order, and
	// when the tools of a ready server changed; of a client that is closed it is
	// told nothing more. It must return soon, and must not close the client.
	OnState func(serverID string, s chat.ServerState)
	// Getenv is where PATH, HOME, LANG and TMPDIR of a process come from;
	// os.Getenv if nil.
	Getenv func(string) string
	// Version is what servers are told of ours.
	Version string
	// StartTimeout is how long a server may take to answer the handshake and
	// list its tools, a package manager's download included. 60 s if 0.
	StartTimeout time.Duration
	// Patience is how long a call or a list waits for a server that is being
	// connected, counted from the beginning of that, and not again after it
	// failed. 10 s if 0.
	Patience time.Duration
	// A lost server is connected again after MinBackoff, and after twice as
	// long each time that it fails, at most MaxBackoff. 1 s and 60 s if 0.
	MinBackoff, MaxBackoff time.Duration

	// dial replaces the way to the server in tests.
	dial func(config chat.MCPServer, stderr *ring) (*wire, error)
}

func (o ClientOptions) withDefaults() ClientOptions {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&o.StartTimeout, 60*time.Second)
	set(&o.Patience, 10*time.Second)
	set(&o.MinBackoff, time.Second)
	set(&o.MaxBackoff, max(o.MinBackoff, 60*time.Second))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return o
}

// Client is one tool server that a person added: it connects by itself, again
// and again, until it is closed. It is a Server, safe for concurrent use.
type Client struct {
	options ClientOptions
	secrets secrets
	stop    context.CancelFunc
	done    chan struct{} // closed when nothing of it runs any more
	restart chan struct{}

	mu      sync.Mutex
	config  chat.MCPServer // its connection never changes
	state   chat.ServerState
	stderr  *ring // of the present, or the last, process
	session *session
	changed chan struct{} // closed and replaced on every change of the state
	closed  bool
	// A server that is being connected is waited for from begun on, unless that
	// failed before, since it was last ready.
	begun  time.Time
	failed error
}

// errClosed is what is wrong with a server whose client is closed: another
// takes its place, or the program ends.
var errClosed = errors.New("it is being changed")

// StartClient begins to connect to a server whose settings were checked. It
// does not wait; Close ends it. A server that is disabled, or whose settings
// have a Problem, is not connected.
func StartClient(config chat.MCPServer, o ClientOptions) *Client {
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		options: o.withDefaults(), secrets: newSecrets(config), stop: stop, done: make(chan struct{}),
		restart: make(chan struct{}, 1), config: config, changed: make(chan struct{}),
	}
	switch {
	case config.Disabled:
		close(c.done)
		c.set(chat.ServerState{Phase: chat.ServerDisabled}, nil)
		return c
	case config.Problem != "":
		close(c.done)
		c.set(failedState(errors.New(config.Problem)), nil)
		return c
	}
	c.begin(nil)
	go c.run(ctx)
	return c
}

// Close ends the connection and every process of it, and returns when they are
// gone, which takes seconds at most, whatever the server does. Calls that run
// end as unknown. From then on the server has failed, unless it was switched
// off, and OnState is not told of anything. Closing twice is harmless.
//
// A process that left both its group and its parent, as a daemon does, is not
// found and lives on. If this program is killed, processes end by themselves:
// on Linux the one that was started at once, and elsewhere, like what it has
// started, when they notice the end of their input.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	if c.state.Phase != chat.ServerDisabled {
		c.become(failedState(errClosed), nil)
	}
	c.mu.Unlock()
	c.stop()
	<-c.done
}

// Restart drops the connection and makes a new one at once. Calls that run end
// as unknown.
func (c *Client) Restart() {
	select {
	case c.restart <- struct{}{}:
	default: // asked for already
	}
}

// Name is what the person calls the server.
func (c *Client) Name() string { return c.settings().Name }

// ID is the id of the server's settings.
func (c *Client) ID() string { return c.settings().ID }

// State says how the connection stands, with the last lines that the server's
// process wrote, and what the server offers: nothing while it is not connected.
// It waits for nothing.
func (c *Client) State() (chat.ServerState, []chat.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tools []chat.Tool
	if c.session != nil {
		tools = c.toolsLocked(c.session)
	}
	return c.stateLocked(), tools
}

func (c *Client) stateLocked() chat.ServerState {
	s := c.state
	s.Stderr = c.stderr.last()
	return s
}

// Tools lists the tools of the server as it last told them. A server that is
// not connected is an error of kind chat.ErrUnavailable.
func (c *Client) Tools(ctx context.Context) ([]chat.Tool, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toolsLocked(s), nil
}

func (c *Client) toolsLocked(s *session) []chat.Tool {
	tools := make([]chat.Tool, len(s.tools))
	for i, t := range s.tools {
		tools[i] = chat.Tool{
			Name: chat.ToolName(c.config.Name, t.name), Server: c.config.Name, ServerID: c.config.ID, Tool: t.name,
			Title: t.title, Description: t.description, InputSchema: t.schema, Annotations: t.annotations,
			Identity: c.config.Identity, Policy: c.config.Policy(t.name),
		}
	}
	return tools
}

// Call runs one tool once, and never again by itself. A call that was cut off,
// by ctx or by the loss of the connection, is a result with OutcomeUnknown. An
// error of kind chat.ErrUnavailable or chat.ErrNotFound says that the call did
// not begin. What the server asks of the person meanwhile is asked of the call
// that it belongs to. Servers that speak a protocol before 2026-07-28 do not
// say which that is: of several calls that run it is then the newest.
func (c *Client) Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), ask Ask) (chat.Result, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return chat.Result{}, err
	}
	c.mu.Lock()
	known := slices.ContainsFunc(s.tools, func(t remoteTool) bool { return t.name == tool })
	name, policy := c.config.Name, c.config.Policy(tool)
	c.mu.Unlock()
	if !known {
		return chat.Result{}, chat.NotFound("The tool server %s has no tool %q.", name, tool)
	}
	if policy.Disabled {
		return chat.Result{}, chat.Unavailable("The tool %s of the server %s is switched off.", tool, name)
	}
	return s.call(ctx, name, tool, input, progress, ask)
}

// connected returns the session, waiting a while for one that is being made,
// unless that was in vain before.
func (c *Client) connected(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, state, changed, name, begun, failed := c.session, c.state, c.changed, c.config.Name, c.begun, c.failed
		c.mu.Unlock()
		if s != nil {
			return s, nil
		}
		switch state.Phase {
		case chat.ServerDisabled:
			return nil, chat.Unavailable("The tool server %s is switched off.", name)
		case chat.ServerStarting:
			if failed != nil {
				return nil, notConnected(name, fmt.Errorf("it is being started again: %w", failed))
			}
			patience := time.NewTimer(time.Until(begun.Add(c.options.Patience)))
			select {
			case <-changed:
				patience.Stop()
			case <-patience.C:
				return nil, notConnected(name, errors.New("it is still being started"))
			case <-ctx.Done():
				patience.Stop()
				return nil, notConnected(name, errors.New("it was not waited for any longer"))
			}
		case chat.ServerFailed, chat.ServerReady:
			return nil, notConnected(name, errors.New(state.Error))
		}
	}
}

func (c *Client) settings() chat.MCPServer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config
}

// configure takes settings that need no new connection.
func (c *Client) configure(config chat.MCPServer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config = config
}

// set moves to a state and tells of it. Only the goroutine that owns the
// connection calls it, so that states are told in order.
func (c *Client) set(s chat.ServerState, with *session) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.become(s, with)
	told := c.stateLocked()
	id := c.config.ID
	c.mu.Unlock()
	if c.options.OnState != nil {
		c.options.OnState(id, told)
	}
}

// become moves to a state. The caller holds the lock.
func (c *Client) become(s chat.ServerState, with *session) {
	now := time.Now()
	s.Since = &now
	if s.Phase == c.state.Phase {
		s.Since = c.state.Since
	}
	c.state, c.session = s, with
	close(c.changed)
	c.changed = make(chan struct{})
}

// begin says that the server is being connected, and what it failed of before.
func (c *Client) begin(failed error) {
	c.mu.Lock()
	c.begun, c.failed = time.Now(), failed
	c.mu.Unlock()
	c.set(chat.ServerState{Phase: chat.ServerStarting}, nil)
}

func failedState(err error) chat.ServerState {
	return chat.ServerState{Phase: chat.ServerFailed, Error: err.Error()}
}
