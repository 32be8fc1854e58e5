package service

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/assent-chat/assent/service/chat"
)

// Engine runs turns. It is told of what it may do, after the commit.
type Engine interface {
	// Wake says that there may be a queued turn.
	Wake()
	// Cancel says that turns were stopped, as they were at these epochs.
	Cancel(stopped chat.Epochs)
}

// Live announces committed changes to whoever watches.
type Live interface {
	Publish(ctx context.Context, c chat.Change)
}

// Tools knows the tools that there are.
type Tools interface {
	// Tools lists those that may be offered to the topic's model.
	Tools(ctx context.Context, topic chat.Topic) ([]chat.Tool, error)
	// Validate checks an input against the tool's schema; a violation is a
	// *chat.InputError.
	Validate(tool chat.Tool, input json.RawMessage) error
}

// Policy gives verdicts, and knows the language of rules.
type Policy interface {
	// Judge gives the verdict on a call by the rules of this moment.
	Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error)
	// Check says why an expression cannot be a rule's; chat.ErrInvalid.
	Check(expression string) error
	// Matcher gives a function that evaluates rules, for one goroutine.
	Matcher() chat.Match
}

// Options of a service. A zero member means its default.
type Options struct {
	// DefaultModel answers in topics that name none; "demo/guide".
	DefaultModel string
	// CheckModel says why a model cannot be chosen; nil takes any.
	CheckModel func(name string) error
	// HasServer reports whether there is a tool server with the id; nil takes
	// any.
	HasServer func(id string) bool
}

// Service is the operations of the server. All of them may be called at once
// from any goroutine.
type Service struct {
	store  Store
	engine Engine
	live   Live
	tools  Tools
	policy Policy
	opt    Options
}

// New returns a service.
func New(store Store, engine Engine, live Live, tools Tools, policy Policy, opt Options) *Service {
	opt.DefaultModel = cmp.Or(opt.DefaultModel, "demo/guide")
	if opt.CheckModel == nil {
		opt.CheckModel = func(string) error { return nil }
	}
	if opt.HasServer == nil {
		opt.HasServer = func(string) bool { return true }
	}
	return &Service{store: store, engine: engine, live: live, tools: tools, policy: policy, opt: opt}
}

// announce tells everybody of what is committed. It must not be lost because
// the client that caused it has left.
func (s *Service) announce(ctx context.Context, c chat.Change) {
	s.live.Publish(context.WithoutCancel(ctx), c)
}

// Ping reports whether the database answers.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }
