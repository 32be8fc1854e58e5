package policy

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/assent-chat/assent/service/chat"
)

// Store reads what a judgement depends on.
type Store interface {
	// TopicPolicy reads a topic's mode and the enabled rules, in their order,
	// as one consistent state.
	TopicPolicy(ctx context.Context, topicID string) (chat.TopicPolicy, error)
}

// Judge gives verdicts by the rules that are stored. It is safe for
// concurrent use.
type Judge struct {
	*Rules
	store Store
	log   *slog.Logger
}

// New returns a judge.
func New(store Store, log *slog.Logger) *Judge {
	return &Judge{Rules: &Rules{}, store: store, log: log}
}

// Judge gives the verdict on a call by the rules and the mode of this moment.
// principal is whose message led to the call. An error means that the rules
// could not be read; there is no verdict then.
func (j *Judge) Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
	p, err := j.store.TopicPolicy(ctx, topicID)
	if err != nil {
		return chat.Judgement{}, fmt.Errorf("read the policy: %w", err)
	}
	match := j.Matcher()
	return chat.Judge(tool, call, chat.PolicyInput{
		Modes: []chat.Mode{p.Mode}, Rules: p.Rules, Topic: p.Topic, Principal: principal,
		Match: func(r chat.Rule, f *chat.Facts) (bool, error) {
			held, err := match(r, f)
			if err != nil { // what went wrong may quote the input, and is not logged
				j.log.WarnContext(ctx, "policy rule cannot be evaluated, and so it asks",
					slog.String("rule_id", r.ID), slog.Int("rule_version", r.Version), slog.String("topic_id", topicID))
			}
			return held, err
		},
	}), nil
}
