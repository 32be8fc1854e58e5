package service

import (
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// triedCalls is how many past calls a rule is tried on.
const triedCalls = 50

// Rules lists the rules of the policy, in their order.
func (s *Service) Rules(ctx context.Context) ([]chat.Rule, error) { return s.store.Rules(ctx) }

// Rule reads a rule.
func (s *Service) Rule(ctx context.Context, id string) (chat.Rule, error) {
	return s.store.Rule(ctx, id)
}

// CreateRule adds a rule to the policy. It holds from the next verdict on.
func (s *Service) CreateRule(ctx context.Context, n chat.NewRule, by chat.Decider) (chat.Rule, error) {
	if err := s.policy.Check(n.Expression); err != nil {
		return chat.Rule{}, err
	}
	rule, err := s.store.CreateRule(ctx, n, by)
	if err != nil {
		return chat.Rule{}, err
	}
	s.live.Settings(chat.SettingsRules)
	return rule, nil
}

// UpdateRule changes a rule. A patch that changes nothing makes no version.
func (s *Service) UpdateRule(ctx context.Context, id string, p chat.RulePatch, by chat.Decider) (chat.Rule, error) {
	if p.Expression != nil {
		if err := s.policy.Check(*p.Expression); err != nil {
			return chat.Rule{}, err
		}
	}
	rule, err := s.store.UpdateRule(ctx, id, p, by)
	if err != nil {
		return chat.Rule{}, err
	}
	s.live.Settings(chat.SettingsRules)
	return rule, nil
}

// DeleteRule removes a rule from the policy. The record of it stays.
func (s *Service) DeleteRule(ctx context.Context, id string, by chat.Decider) error {
	if err := s.store.DeleteRule(ctx, id, by); err != nil {
		return err
	}
	s.live.Settings(chat.SettingsRules)
	return nil
}

// RuleVersions lists what was done to a rule, the newest first.
func (s *Service) RuleVersions(ctx context.Context, id string, p chat.Page) ([]chat.RuleChange, string, error) {
	return s.store.RuleVersions(ctx, id, p)
}

// TryRule says what a rule would have done to the last calls. It changes
// nothing.
func (s *Service) TryRule(ctx context.Context, v chat.Verdict, expression string) (chat.RuleTrial, error) {
	if err := s.policy.Check(expression); err != nil {
		return chat.RuleTrial{}, err
	}
	calls, err := s.store.JudgedCalls(ctx, triedCalls)
	if err != nil {
		return chat.RuleTrial{}, err
	}
	return chat.Try(chat.Rule{Verdict: v, Expression: expression, Enabled: true}, calls, s.policy.Matcher()), nil
}

// ExplainApproval says what decided the call of an approval, and why.
func (s *Service) ExplainApproval(ctx context.Context, approvalID string) (chat.Explanation, error) {
	c, err := s.store.ApprovalCall(ctx, approvalID)
	if err != nil {
		return chat.Explanation{}, err
	}
	return s.explain(ctx, c)
}

// ExplainCall says what decided a call of a topic, and why.
func (s *Service) ExplainCall(ctx context.Context, topicID, toolCallID string) (chat.Explanation, error) {
	c, err := s.store.TopicCall(ctx, topicID, toolCallID)
	if err != nil {
		return chat.Explanation{}, err
	}
	return s.explain(ctx, c)
}

func (s *Service) explain(ctx context.Context, c chat.JudgedCall) (chat.Explanation, error) {
	var history []chat.RuleChange
	if m := c.Call.ToolMetadata; m != nil && m.RuleID != "" {
		var err error
		if history, err = s.history(ctx, m.RuleID, m.RuleVersion); err != nil {
			return chat.Explanation{}, err
		}
	}
	e := chat.Explain(c, history)
	var err error
	e.AlwaysAllow, err = s.alwaysAllow(ctx, c)
	return e, err
}

// history reads the record of a rule down to a version.
func (s *Service) history(ctx context.Context, id string, version int) ([]chat.RuleChange, error) {
	var all []chat.RuleChange
	p := chat.Page{Limit: 100}
	for {
		changes, next, err := s.store.RuleVersions(ctx, id, p)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
		if next == "" || changes[len(changes)-1].Version <= version {
			return all, nil
		}
		p.Cursor = next
	}
}
