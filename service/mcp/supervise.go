package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
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
)

var errRestarted = errors.New("restarted")

// run keeps the server connected until ctx ends.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	defer func() { c.set(chat.ServerState{Phase: chat.ServerDisabled}, nil) }()
	log := c.options.Logger.With(slog.String("server_id", c.ID()))
	backoff, protocol := c.options.MinBackoff, ""
	for {
		began := time.Now()
		ready, err := c.serve(ctx, protocol, log)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRestarted) {
			backoff = c.options.MinBackoff
			c.set(chat.ServerState{Phase: chat.ServerStarting}, nil)
			continue
		}
		if !ready && errors.Is(err, context.DeadlineExceeded) {
			protocol = legacyProtocol
		}
		if ready && time.Since(began) >= steady {
			backoff = c.options.MinBackoff
		}
		text := c.secrets.hide(shorten(storable(err.Error()), 1<<10))
		log.WarnContext(ctx, "tool server lost", slog.String("reason", text), slog.Duration("again_in", backoff))
		c.set(chat.ServerState{Phase: chat.ServerFailed, Error: text}, nil)
		wait := time.NewTimer(backoff)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-c.restart:
			wait.Stop()
			backoff = c.options.MinBackoff
		case <-wait.C:
			backoff = min(2*backoff, c.options.MaxBackoff)
		}
		c.set(chat.ServerState{Phase: chat.ServerStarting}, nil)
	}
}

// serve is one life of the connection. It returns, with the reason, when the
// connection is gone and everything of it is released.
func (c *Client) serve(ctx context.Context, protocol string, log *slog.Logger) (ready bool, err error) {
	select {
	case <-c.restart: // this is it
	default:
	}
	config := c.settings()
	stderr := &ring{secrets: c.secrets}
	c.mu.Lock()
	c.stderr = stderr
	c.mu.Unlock()
	w, err := c.dial(config, stderr)
	if err != nil {
		return false, err
	}
	s := &session{wedged: c.Restart}
	listChanged := make(chan struct{}, 1)
	started, startedAll := context.WithTimeout(ctx, c.options.StartTimeout)
	defer startedAll()
	s.sdk, err = c.sdkClient(s, config, listChanged).Connect(started, w.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	closed := make(chan struct{})
	if err != nil {
		close(closed)
		w.close(closed)
		return false, reason(started, "connect", err, w)
	}
	gone := make(chan error, 1)
	go func() { gone <- s.sdk.Wait() }()
	defer func() {
		// The reason was found before: calls that still wait must not.
		s.finish(errSessionOver)
		go func() {
			s.sdk.Close() //nolint:errcheck // it is given up, whatever it says
			close(closed)
		}()
		w.close(closed)
		err = reason(started, "", err, w)
	}()

	tools, err := list(started, s.sdk)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	startedAll()
	s.tools, s.info = tools, *s.sdk.InitializeResult()
	c.set(readyState(s), s)
	log.InfoContext(ctx, "tool server ready", slog.Int("tools", len(tools)), slog.String("protocol", s.info.ProtocolVersion))
	return true, c.watch(ctx, s, w, gone, listChanged, log)
}

// watch waits for the end of a session, and meanwhile keeps the list of tools
// what the server says.
func (c *Client) watch(ctx context.Context, s *session, w *wire, gone <-chan error, listChanged <-chan struct{}, log *slog.Logger) error {
	var listAgain <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.restart:
			return errRestarted
		case <-w.lost:
			return io.EOF
		case err := <-gone:
			if err == nil {
				return io.EOF
			}
			return err
		case <-listChanged:
			// Not put off by more of them, or a server could do so for ever.
			if listAgain == nil {
				listAgain = time.After(debounce)
			}
		case <-listAgain:
			listAgain = nil
			listing, stop := context.WithTimeout(ctx, c.options.StartTimeout)
			tools, err := list(listing, s.sdk)
			stop()
			if err != nil {
				log.WarnContext(ctx, "changed tools cannot be listed", slog.String("reason", c.secrets.hide(err.Error())))
				continue
			}
			if reflect.DeepEqual(tools, s.tools) { // some say so without a cause
				continue
			}
			c.mu.Lock()
			s.tools = tools
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
func (c *Client) sdkClient(s *session, config chat.MCPServer, listChanged chan<- struct{}) *sdk.Client {
	o := &sdk.ClientOptions{
		// Nothing else: nil would advertise roots.
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		// The SDK would answer for the person what a form's defaults are.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case listChanged <- struct{}{}:
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
	state := chat.ServerState{Phase: chat.ServerReady, Protocol: s.info.ProtocolVersion}
	if s.info.ServerInfo != nil {
		state.ServerName = shorten(storable(s.info.ServerInfo.Name), maxProblemText)
		state.ServerVersion = shorten(storable(s.info.ServerInfo.Version), maxProblemText)
	}
	return state
}

// reason says why a connection ended, in words that help to mend it.
func reason(started context.Context, what string, err error, w *wire) error {
	if errors.Is(started.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the server did not answer in time: %w", err)
	}
	if w.end != nil && !errors.Is(err, errRestarted) {
		end := w.end()
		if end != nil && (errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed)) {
			return end
		}
	}
	if what != "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	return err
}
