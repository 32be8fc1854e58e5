package service

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/assent-chat/assent/service/chat"
)

// Engine runs turns. It is told of what it may do, after the commit.
type Engine interface {
	// Wake says that there may be a queued turn.
	Wake()
	// Cancel says that turns were stopped, as they were at these epochs.
	Cancel(stopped chat.Epochs)
	// Answered says that a question was answered: the call that asked it may
	// go on, if it runs here.
	Answered(questionID string)
}

// Live announces committed changes to whoever watches.
type Live interface {
	Publish(ctx context.Context, c chat.Change)
	// Settings tells every watcher that settings were changed: what to read
	// again. It is told on every instance.
	Settings(what chat.SettingsKind)
	// Hint tells the watchers of this instance that there is something new about
	// settings: how servers are doing, as this instance sees it.
	Hint(what chat.SettingsKind)
}

// Tools holds inputs against what tools take.
type Tools interface {
	// Validate checks an input against the tool's schema; a violation is a
	// *chat.InputError.
	Validate(tool chat.Tool, input json.RawMessage) error
}

// Servers connects to tool servers.
type Servers interface {
	// Apply makes the servers those of the settings. It does not wait for
	// connections.
	Apply(ctx context.Context, servers []chat.MCPServer) error
	// State says how a server is doing, and what tools it last told of; it waits
	// for nothing.
	State(serverID string) (chat.ServerState, []chat.Tool)
	// Connected gives the settings by which a server is connected, or is kept
	// from it; false if there is none with the id.
	Connected(serverID string) (chat.MCPServer, bool)
	// Restart connects a server anew.
	Restart(serverID string) error
	// Test connects to a server for a trial and lists its tools.
	Test(ctx context.Context, s chat.MCPServer) (chat.ServerState, []chat.Tool, error)
	// Parse reads the common settings file of tool servers.
	Parse(file []byte) ([]chat.MCPServer, error)
}

// Policy gives verdicts, and knows the language of rules.
type Policy interface {
	// Judge gives the verdict on a call by the rules and switches of this moment.
	Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error)
	// JudgeBy gives the verdict by a policy that was read before.
	JudgeBy(p chat.TopicPolicy, principal string, tool chat.Tool, call chat.ToolCall) chat.Judgement
	// JudgeAs gives the verdict that there would be if the tool's server had
	// these switches.
	JudgeAs(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall, as chat.Switches) (chat.Judgement, error)
	// Check says why an expression cannot be a rule's; chat.ErrInvalid.
	Check(expression string) error
	// Matcher gives a function that evaluates rules, for one goroutine.
	Matcher() chat.Match
}

// Deps is what a service works with. What an operation does not need may be
// nil.
type Deps struct {
	Store   Store
	Engine  Engine
	Live    Live
	Tools   Tools
	Servers Servers
	Policy  Policy
}

// Options of a service. A zero member means its default.
type Options struct {
	// DefaultModel answers in topics that name none; "demo/guide".
	DefaultModel string
	// CheckModel says why a model cannot be chosen; nil takes any.
	CheckModel func(name string) error
	// FileServers are the tool servers that are configured in a file, each with
	// its id, its identity and SourceFile.
	FileServers []chat.MCPServer
	Logger      *slog.Logger // discards by default
}

// Service is the operations of the server. All of them may be called at once
// from any goroutine.
type Service struct {
	store   Store
	engine  Engine
	live    Live
	tools   Tools
	servers Servers
	policy  Policy
	opt     Options
	log     *slog.Logger

	applying sync.Mutex    // settings are read and applied by one at a time, or older ones could win
	recheck  chan struct{} // wakes Run

	mu        sync.Mutex
	stale     bool        // settings are stored that are not applied yet
	unsettled []chat.Tool // allowed for good; other calls of them may wait
}

// New returns a service.
func New(d Deps, opt Options) *Service {
	opt.DefaultModel = cmp.Or(opt.DefaultModel, "demo/guide")
	if opt.CheckModel == nil {
		opt.CheckModel = func(string) error { return nil }
	}
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	return &Service{
		store: d.Store, engine: d.Engine, live: d.Live, tools: d.Tools, servers: d.Servers, policy: d.Policy, opt: opt, log: opt.Logger,
		recheck: make(chan struct{}, 1),
	}
}

// announce tells everybody of what is committed. It must not be lost because
// the client that caused it has left.
func (s *Service) announce(ctx context.Context, c chat.Change) {
	s.live.Publish(context.WithoutCancel(ctx), c)
}

// announceDecided is announce for a change that may have let a turn go on.
func (s *Service) announceDecided(ctx context.Context, c chat.Change) {
	s.announce(ctx, c)
	if c.Revision > 0 {
		s.engine.Wake()
	}
}

// Ping reports whether the database answers.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }
