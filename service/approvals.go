package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Decide applies a batch of decisions to a topic: all of them, or none. One
// transaction decides; everybody is told after it; a turn goes on once its
// last approval is decided. Deciding the same again is harmless. A decision
// that cannot be applied gives a *chat.BatchError, also if it is the only one.
func (s *Service) Decide(ctx context.Context, topicID string, ds []chat.Decision, by chat.Decider) (chat.Decided, error) {
	var wrong []chat.BatchItem
	for _, d := range ds {
		if !d.Approved {
			continue
		}
		switch err := s.check(ctx, topicID, d); {
		case err == nil:
		case chat.Refused(err):
			wrong = append(wrong, chat.BatchItem{ApprovalID: d.ApprovalID, Err: err})
		default:
			return chat.Decided{}, err
		}
	}
	if len(wrong) > 0 {
		return chat.Decided{}, &chat.BatchError{Items: wrong}
	}
	decided, change, err := s.store.Decide(ctx, topicID, ds, by)
	if err != nil {
		return chat.Decided{}, err
	}
	s.announce(ctx, change)
	if change.Revision > 0 { // of several turns any may have been queued
		s.engine.Wake()
	}
	return decided, nil
}

// check holds an approval against the tool that there is now: a yes must be one
// to what would run, and an edited input must be one that the tool takes and
// no rule denies, for what a rule denies nobody can approve by writing it into
// another call. What was decided already is compared, not checked: its answer
// must not depend on today's tools. A tool that is gone, or whose server does
// not answer now, is no obstacle here: the run will say so.
func (s *Service) check(ctx context.Context, topicID string, d chat.Decision) error {
	call, err := s.store.Call(ctx, topicID, d.ApprovalID)
	if err != nil || !call.Pending() {
		return err
	}
	known, cancel := context.WithTimeout(ctx, toolsTimeout)
	tools, err := s.tools.Tools(known, chat.Topic{})
	cancel()
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	for _, tool := range tools {
		if tool.Name == call.ToolName && !chat.SameTool(call, tool) {
			return s.askAgain(ctx, topicID, d.ApprovalID, tool)
		}
	}
	m := call.ToolMetadata
	if d.UpdatedInput == nil || m == nil {
		return nil
	}
	tool := chat.Tool{
		Name: call.ToolName, Server: m.Server, ServerID: m.ServerID, Tool: m.Tool, Annotations: m.Annotations, InputSchema: m.InputSchema,
	}
	if m.InputSchema != nil {
		if err := s.tools.Validate(tool, d.UpdatedInput); err != nil {
			return fmt.Errorf("approval %s: %w", d.ApprovalID, err)
		}
	}
	call.Input = d.UpdatedInput
	j, err := s.policy.Judge(ctx, topicID, m.Principal, tool, call)
	if err != nil {
		return fmt.Errorf("approval %s: %w", d.ApprovalID, err)
	}
	if j.Verdict == chat.VerdictDeny {
		return fmt.Errorf("approval %s: %w", d.ApprovalID, chat.Invalid("The rule “%s” does not allow this input: %s", j.Rule, j.Reason))
	}
	return nil
}

// toolsTimeout is how long a person's yes waits for servers that are starting.
const toolsTimeout = time.Second

// askAgain closes an approval whose tool has changed since it was asked, and
// asks about the tool as it is now. It returns the error for who said yes to
// the old one.
func (s *Service) askAgain(ctx context.Context, topicID, approvalID string, tool chat.Tool) error {
	id := rand.Text()
	change, err := s.store.Reask(ctx, topicID, approvalID, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		return chat.AskAgain(call, tool, s.tools.Validate(tool, call.Input), id, at)
	})
	if err != nil {
		return err
	}
	s.announce(ctx, change)
	if change.Revision > 0 { // it may have been the last that waited
		s.engine.Wake()
	}
	return chat.Gone("The tool %s has changed since approval %s was asked for, so nothing was decided. Look at the card again.", tool.Name, approvalID)
}

// Approvals lists approvals, of one topic or of all.
func (s *Service) Approvals(ctx context.Context, f chat.ApprovalFilter, p chat.Page) ([]chat.ApprovalItem, string, error) {
	if f.TopicID != "" {
		if _, err := s.store.Topic(ctx, f.TopicID); err != nil {
			return nil, "", err
		}
	}
	return s.store.Approvals(ctx, f, p)
}

// Audit lists what was decided, by whom, and what came of it; the newest
// first. topicID may be empty.
func (s *Service) Audit(ctx context.Context, topicID string, p chat.Page) ([]chat.AuditEntry, string, error) {
	return s.store.Audit(ctx, topicID, p)
}
