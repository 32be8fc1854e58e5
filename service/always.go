package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// rememberedAll does what follows from tools that were allowed for good: the
// connections hear of it, watchers do, and what waits for the same is settled.
// The decision is committed by then, and what fails here is made good by a
// person who decides.
func (s *Service) rememberedAll(ctx context.Context, tools []chat.Tool) {
	s.settingsChanged(ctx)
	for _, tool := range tools {
		if err := s.settleAllowed(ctx, tool); err != nil {
			s.log.WarnContext(ctx, "calls that are allowed by now still wait", slog.String("server_id", tool.ServerID), slog.Any("error", err))
		}
	}
}

// settleAllowed approves, by rule, the calls of a tool that wait although the
// policy allows them now, one transaction for each topic. It holds what it was
// told against the switches again in each: they may have been taken back.
func (s *Service) settleAllowed(ctx context.Context, tool chat.Tool) error {
	type verdicts map[string]chat.Judgement // by approval
	byTopic := map[string]verdicts{}
	var order []string
	err := s.eachPending(ctx, func(c chat.JudgedCall) error {
		m := c.Call.ToolMetadata
		if m == nil || m.ServerID != tool.ServerID || m.Tool != tool.Tool {
			return nil
		}
		now, offered, _ := s.offered(ctx, c.Call)
		if !offered || chat.Changed(c.Call, now, offered) != "" {
			return nil // what was asked about is not what would run
		}
		j, err := s.policy.Judge(ctx, c.TopicID, m.Principal, now, c.Call)
		if err != nil || j.Verdict != chat.VerdictAllow {
			return passing(err)
		}
		if byTopic[c.TopicID] == nil {
			byTopic[c.TopicID] = verdicts{}
			order = append(order, c.TopicID)
		}
		byTopic[c.TopicID][c.Call.Approval.ID] = j
		return nil
	})
	if err != nil {
		return err
	}
	for _, topicID := range order {
		allowed := byTopic[topicID]
		ids := make([]string, 0, len(allowed))
		for id := range allowed {
			ids = append(ids, id)
		}
		change, err := s.store.EditPending(ctx, topicID, ids,
			func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
				return chat.AllowByRule(call, allowed[call.Approval.ID], at)
			},
			tool.ServerID, func(now chat.Switches) bool { return now.Policy(tool.Tool).Allows() })
		if err := passing(err); err != nil {
			return err
		}
		s.announceDecided(ctx, change)
	}
	return nil
}

// passing is nil for the error of a topic or an approval that has gone in the
// meantime.
func passing(err error) error {
	if errors.Is(err, chat.ErrNotFound) || errors.Is(err, chat.ErrGone) {
		return nil
	}
	return err
}

// eachPending gives every call that waits, of all topics, to f.
func (s *Service) eachPending(ctx context.Context, f func(chat.JudgedCall) error) error {
	p := chat.Page{Limit: 100}
	for {
		calls, next, err := s.store.PendingCalls(ctx, p)
		if err != nil {
			return err
		}
		for _, c := range calls {
			if err := f(c); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		p.Cursor = next
	}
}

// alwaysAllow says what allowing the tool of a call for good would change; nil
// of a call that does not wait, or whose tool cannot be allowed for good.
func (s *Service) alwaysAllow(ctx context.Context, c chat.JudgedCall) (*chat.AlwaysAllow, error) {
	m := c.Call.ToolMetadata
	if !c.Call.Pending() || m == nil || m.ServerID == "" {
		return nil, nil
	}
	server, err := s.store.MCPServer(ctx, m.ServerID)
	if errors.Is(err, chat.ErrNotFound) || errors.Is(err, chat.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	as := server.WithAutoApprove(m.Tool, true)
	tool := calledTool(c.Call)
	j, err := s.policy.JudgeAs(ctx, c.TopicID, m.Principal, tool, c.Call, as)
	if err != nil {
		return nil, err
	}
	allow := &chat.AlwaysAllow{
		ServerID: m.ServerID, Server: m.Server, Tool: m.Tool, Rule: chat.AlwaysAllowRule(m.Tool, m.Server),
		Effective: j.Verdict == chat.VerdictAllow, Why: j.Why,
	}
	err = s.eachPending(ctx, func(other chat.JudgedCall) error {
		o := other.Call.ToolMetadata
		if o == nil || o.ServerID != m.ServerID || o.Tool != m.Tool || other.Call.Approval.ID == c.Call.Approval.ID {
			return nil
		}
		j, err := s.policy.JudgeAs(ctx, other.TopicID, o.Principal, calledTool(other.Call), other.Call, as)
		if err == nil && j.Verdict == chat.VerdictAllow {
			allow.Others++
		}
		return passing(err)
	})
	return allow, err
}
