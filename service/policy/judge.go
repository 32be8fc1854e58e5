package policy

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/assent-chat/assent/service/chat"
)

// Store reads what a judgement depends on.
type Store interface {
	// TopicPolicy reads the modes that hold in a topic, the enabled rules in
	// their order, and the switches of a tool server, as one consistent state.
	TopicPolicy(ctx context.Context, topicID, serverID string) (chat.TopicPolicy, error)
}

// Judge gives verdicts by the rules and switches that are stored. It is safe
// for concurrent use.
type Judge struct {
	*Rules
	store Store
	log   *slog.Logger
}

// New returns a judge.
func New(store Store, log *slog.Logger) *Judge {
	return &Judge{Rules: &Rules{}, store: store, log: log}
}

// Judge gives the verdict on a call by the rules, the switches and the modes
// of this moment. principal is whose message led to the call. An error means
// that they could not be read; there is no verdict then.
func (j *Judge) Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
	p, err := j.store.TopicPolicy(ctx, topicID, tool.ServerID)
	if err != nil {
		return chat.Judgement{}, fmt.Errorf("read the policy: %w", err)
	}
	return j.JudgeBy(p, principal, tool, call), nil
}

// JudgeAs gives the verdict that Judge would give if the tool's server had
// these switches.
func (j *Judge) JudgeAs(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall, as chat.Switches) (chat.Judgement, error) {
	p, err := j.store.TopicPolicy(ctx, topicID, tool.ServerID)
	if err != nil {
		return chat.Judgement{}, fmt.Errorf("read the policy: %w", err)
	}
	p.Switches = &as
	return j.JudgeBy(p, principal, tool, call), nil
}

// JudgeBy gives the verdict by a policy that was read before.
func (j *Judge) JudgeBy(p chat.TopicPolicy, principal string, tool chat.Tool, call chat.ToolCall) chat.Judgement {
	tool.Policy = p.ToolPolicy(tool)
	match := j.Matcher()
	return chat.Judge(tool, call, chat.PolicyInput{
		Modes: p.Modes, Rules: p.Rules, Topic: p.Topic, Principal: principal,
		Match: func(r chat.Rule, f *chat.Facts) (bool, error) {
			held, err := match(r, f)
			if err != nil { // what went wrong may quote the input, and is not logged
				j.log.Warn("policy rule cannot be evaluated, and so it asks",
					slog.String("rule_id", r.ID), slog.Int("rule_version", r.Version), slog.String("topic_id", p.Topic.ID))
			}
			return held, err
		},
	})
}
