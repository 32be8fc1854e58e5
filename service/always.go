package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// remembered does what follows from tools that were allowed for good: the
// connections hear of it, watchers do, and Run settles what waits for the same.
// What a crash keeps from being settled is decided by a person.
func (s *Service) remembered(ctx context.Context, tools []chat.Tool) {
	s.mu.Lock()
	s.unsettled = append(s.unsettled, tools...)
	s.mu.Unlock()
	s.settingsChanged(ctx)
}

// settleRemembered settles the calls of the tools that were allowed for good.
func (s *Service) settleRemembered(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.unsettled) == 0 {
			s.mu.Unlock()
			return nil
		}
		tool := s.unsettled[0]
		s.mu.Unlock()
		if err := s.settleAllowed(ctx, tool); err != nil {
			return err
		}
		s.mu.Lock()
		s.unsettled = s.unsettled[1:] // they are only added to, but here
		s.mu.Unlock()
	}
}

// judge gives a verdict on a call of a tool in a topic.
type judge func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error)

// allowed gives every call of a tool that waits, and would not if it were
// judged now, with the tool that it would reach. A call whose tool is not the
// one that was asked about is none.
func (s *Service) allowed(ctx context.Context, serverID, tool string, judge judge, f func(chat.JudgedCall, chat.Tool)) error {
	return s.eachPending(ctx, func(c chat.JudgedCall) error {
		m := c.Call.ToolMetadata
		if m == nil || m.ServerID != serverID || m.Tool != tool {
			return nil
		}
		now, offered, _ := s.offered(c.Call)
		if !offered || chat.Changed(c.Call, now, offered) != "" {
			return nil
		}
		j, err := judge(ctx, c.TopicID, m.Principal, now, c.Call)
		if err == nil && j.Verdict == chat.VerdictAllow {
			f(c, now)
		}
		return passing(err)
	})
}

// settleAllowed approves, by rule, the calls of a tool that wait although the
// policy allows them now, one transaction for each topic. The verdict that
// counts is given in that transaction: what was found to be allowed before may
// not be any more.
func (s *Service) settleAllowed(ctx context.Context, tool chat.Tool) error {
	byTopic := map[string]map[string]chat.Tool{} // by approval: the tool that it would reach
	err := s.allowed(ctx, tool.ServerID, tool.Tool, s.policy.Judge, func(c chat.JudgedCall, now chat.Tool) {
		if byTopic[c.TopicID] == nil {
			byTopic[c.TopicID] = map[string]chat.Tool{}
		}
		byTopic[c.TopicID][c.Call.Approval.ID] = now
	})
	if err != nil {
		return err
	}
	for topicID, tools := range byTopic {
		change, err := s.store.SettlePending(ctx, topicID, slices.Sorted(maps.Keys(tools)), tool.ServerID,
			func(p chat.TopicPolicy, call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
				return chat.AllowByRule(call, s.policy.JudgeBy(p, call.ToolMetadata.Principal, tools[call.Approval.ID], call), at)
			})
		if err := passing(err); err != nil {
			return err
		}
		s.announceDecided(ctx, change)
	}
	return nil
}

// alwaysAllow says what allowing the tool of a call for good would change; nil
// of a call that does not wait, or whose tool cannot be allowed for good.
func (s *Service) alwaysAllow(ctx context.Context, c chat.JudgedCall) (*chat.AlwaysAllow, error) {
	m := c.Call.ToolMetadata
	if !c.Call.Pending() || m == nil || m.ServerID == "" {
		return nil, nil
	}
	server, err := s.store.MCPServer(ctx, m.ServerID)
	if err != nil {
		return nil, passing(err)
	}
	as := func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
		return s.policy.JudgeAs(ctx, topicID, principal, tool, call, server.WithAutoApprove(m.Tool, true))
	}
	j, err := as(ctx, c.TopicID, m.Principal, calledTool(c.Call), c.Call)
	if err != nil {
		return nil, err
	}
	allow := &chat.AlwaysAllow{
		ServerID: m.ServerID, Server: m.Server, Tool: m.Tool, Rule: chat.AlwaysAllowRule(m.Tool, m.Server),
		Effective: j.Verdict == chat.VerdictAllow, Why: j.Why,
	}
	err = s.allowed(ctx, m.ServerID, m.Tool, as, func(other chat.JudgedCall, _ chat.Tool) {
		if other.Call.Approval.ID != c.Call.Approval.ID {
			allow.Others++
		}
	})
	return allow, err
}
