package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// steady is how long a connection must have lived for its loss to be taken
	// as an accident, and not as one more failure of a server that cannot run.
	steady = time.Minute
	// legacyProtocol is spoken to a server that did not answer the question of
	// what it speaks, as some do not before they are initialized.
	legacyProtocol = "2025-11-25"
	// A server over HTTP that answers no ping for two minutes is gone. A
	// process is watched itself, and may be too busy with a tool to answer.
	pingEvery    = 30 * time.Second
	pingFailures = 4
	// debounce is how long a server that says that its tools changed may go on
	// saying so before it is asked for them.
	debounce = 200 * time.Millisecond
)

var errRestarted = errors.New("restarted")

// run keeps the server connected until ctx ends.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	log := c.options.Logger.With(slog.String("server_id", c.ID()), slog.String("server", c.Name()))
	backoff, protocol := c.options.MinBackoff, ""
	for {
		began := time.Now()
		ready, err := c.serve(ctx, protocol, log)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRestarted) {
			backoff = c.options.MinBackoff
			c.begin(nil)
			continue
		}
		if !ready && errors.Is(err, context.DeadlineExceeded) {
			protocol = legacyProtocol
		}
		if ready && time.Since(began) >= steady {
			backoff = c.options.MinBackoff
		}
		lost := errors.New(c.secrets.text(err.Error(), maxReason))
		log.WarnContext(ctx, "tool server lost", slog.String("reason", lost.Error()), slog.Duration("again_in", backoff))
		c.set(failedState(lost), nil)
		if ready { // once more it is waited for
			lost = nil
		}
		wait := time.NewTimer(backoff)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-c.restart:
			wait.Stop()
			backoff, lost = c.options.MinBackoff, nil
		case <-wait.C:
			backoff = min(2*backoff, c.options.MaxBackoff)
		}
		c.begin(lost)
	}
}

// serve is one life of the connection. It returns, with the reason, when the
// connection is gone and everything of it is released.
func (c *Client) serve(ctx context.Context, protocol string, log *slog.Logger) (ready bool, err error) {
	select {
	case <-c.restart: // this is it
	default:
	}
	s, err := c.openUnlessRestarted(ctx, protocol, log)
	if err != nil {
		return false, err
	}
	c.set(readyState(s), s)
	log.InfoContext(ctx, "tool server ready", slog.Int("tools", len(s.tools)), slog.String("protocol", s.info.ProtocolVersion))
	err = c.watch(ctx, s, log)
	s.close()
	return true, reason(err, s.wire)
}

// openUnlessRestarted opens the connection, and gives that up for a restart.
func (c *Client) openUnlessRestarted(ctx context.Context, protocol string, log *slog.Logger) (*session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, restarted := make(chan struct{}), make(chan bool)
	go func() {
		select {
		case <-c.restart:
			cancel()
			restarted <- true
		case <-opened:
			restarted <- false
		}
	}()
	s, err := c.open(ctx, protocol, log)
	close(opened)
	if !<-restarted {
		return s, err
	}
	if err == nil {
		s.close()
	}
	return nil, errRestarted
}

// open connects to the server and lists its tools. If that fails, everything
// is released.
func (c *Client) open(ctx context.Context, protocol string, log *slog.Logger) (*session, error) {
	config := c.settings()
	stderr := &ring{secrets: c.secrets}
	c.mu.Lock()
	c.stderr = stderr
	c.mu.Unlock()
	w, err := c.dial(config, stderr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	s := &session{wire: w, secrets: c.secrets, wedged: c.Restart, listChanged: make(chan struct{}, 1), gone: make(chan error, 1)}
	if err := s.connect(ctx, c.sdkClient(s, config), protocol); err != nil {
		return nil, late(ctx, reason(fmt.Errorf("connect: %w", err), w))
	}
	answer := listed{}
	select {
	case answer = <-s.list(ctx):
	case answer.err = <-s.wire.lost:
	case <-ctx.Done():
		answer.err = ctx.Err()
	}
	if answer.err != nil {
		s.close()
		return nil, late(ctx, reason(fmt.Errorf("connect: %w", answer.err), w))
	}
	s.tools, s.info = answer.tools, *s.sdk.InitializeResult()
	c.leaveOut(ctx, answer.leftOut, log)
	return s, nil
}

// connect makes the protocol's session. If that fails, the wire is closed. It
// does not wait for longer than ctx for what the SDK does.
func (s *session) connect(ctx context.Context, client *sdk.Client, protocol string) error {
	connected := make(chan error, 1)
	go func() {
		var err error
		s.sdk, err = client.Connect(ctx, s.wire.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
		connected <- err
	}()
	var err error
	select {
	case err = <-connected:
		if err == nil {
			go func() { s.gone <- s.sdk.Wait() }()
			return nil
		}
		connected <- err
	case err = <-s.wire.lost:
	case <-ctx.Done():
		err = ctx.Err()
	}
	closed := make(chan struct{})
	go func() {
		if <-connected == nil {
			s.sdk.Close() // it comes too late
		}
		close(closed)
	}()
	s.wire.close(closed)
	return err
}

// leaveOut says which tools of the server are not offered, and why: in the log
// and among the lines that a person sees of the server.
func (c *Client) leaveOut(ctx context.Context, tools map[string]error, log *slog.Logger) {
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		why := c.secrets.text(tools[name].Error(), maxReason)
		log.WarnContext(ctx, "tool left out", slog.String("tool", c.secrets.text(name, maxProblemText)), slog.String("reason", why))
		c.mu.Lock()
		stderr := c.stderr
		c.mu.Unlock()
		stderr.add(fmt.Sprintf("The tool %s is left out: %s", name, chat.Sentence(tools[name])), false)
	}
}

// watch waits for the end of a session, and meanwhile keeps the list of tools
// what the server says. Tools that cannot be listed again are the end, too: the
// old ones would be offered for ever.
func (c *Client) watch(ctx context.Context, s *session, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var due, expired <-chan time.Time // when to list the tools again, and when that has taken too long
	var answer <-chan listed          // while they are listed
	for {
		start := due
		if answer != nil { // one list at a time
			start = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.restart:
			return errRestarted
		case err := <-s.wire.lost:
			return err
		case err := <-s.gone:
			if err == nil {
				return io.EOF
			}
			return err
		case <-s.listChanged:
			// Not put off by more of them, or a server could do so for ever.
			if due == nil {
				due = time.After(debounce)
			}
		case <-start:
			due, expired = nil, time.After(c.options.StartTimeout)
			answer = s.list(ctx)
		case <-expired:
			return errors.New("its tools changed, and the server did not list them in time")
		case changed := <-answer:
			answer, expired = nil, nil
			if changed.err != nil {
				return fmt.Errorf("its tools changed: %w", changed.err)
			}
			if reflect.DeepEqual(changed.tools, s.tools) { // some say so without a cause
				continue
			}
			c.leaveOut(ctx, changed.leftOut, log)
			c.mu.Lock()
			s.tools = changed.tools
			c.mu.Unlock()
			c.set(readyState(s), s)
		}
	}
}

func (c *Client) dial(config chat.MCPServer, stderr *ring) (*wire, error) {
	if c.options.dial != nil {
		return c.options.dial(config, stderr)
	}
	return dial(config, c.options.Getenv, stderr)
}

// sdkClient makes the protocol's client of one session. What it has a handler
// for it advertises; sampling and roots are not among that.
func (c *Client) sdkClient(s *session, config chat.MCPServer) *sdk.Client {
	o := &sdk.ClientOptions{
		// Nothing else: nil would advertise roots.
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		// The SDK would answer for the person what a form's defaults are.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.listChanged <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.progress(r.Params) },
	}
	if config.Transport == chat.TransportHTTP {
		o.KeepAlive, o.KeepAliveFailureThreshold = pingEvery, pingFailures
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "assent", Title: "Assent", Version: c.options.Version}, o)
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			p, ok := r.GetParams().(*sdk.ElicitParams)
			if !ok {
				if strings.HasPrefix(method, "notifications/") {
					defer s.wire.traffic.handled()
				}
				return next(ctx, method, r)
			}
			answer, err := s.asked(ctx, p)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
			return answer, nil
		}
	})
	return client
}

func readyState(s *session) chat.ServerState {
	state := chat.ServerState{Phase: chat.ServerReady, Protocol: s.secrets.text(s.info.ProtocolVersion, maxProblemText)}
	if s.info.ServerInfo != nil {
		state.ServerName = s.secrets.text(s.info.ServerInfo.Name, maxProblemText)
		state.ServerVersion = s.secrets.text(s.info.ServerInfo.Version, maxProblemText)
	}
	return state
}

// reason says why a connection ended, in words that help to mend it: how the
// other side ended, if the SDK knows only that it did.
func reason(err error, w *wire) error {
	if w.end == nil || errors.Is(err, errRestarted) || !errors.Is(err, io.EOF) && !errors.Is(err, sdk.ErrConnectionClosed) {
		return err
	}
	if end := w.end(); end != nil {
		return end
	}
	return err
}

// late says that a server took longer than ctx, if that is what happened.
func late(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the server did not answer in time: %w", err)
	}
	return err
}
