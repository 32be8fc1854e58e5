package service

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// Decide applies a batch of decisions to a topic: all of them, or none. One
// transaction decides; everybody is told after it; a turn goes on once its
// last approval is decided. Deciding the same again is harmless. A decision
// that cannot be applied gives a *chat.BatchError, also if it is the only one.
//
// A yes must be one to what would run. An approval whose tool has changed since
// it was asked for is closed and asked for again, whatever becomes of the rest
// of the batch.
func (s *Service) Decide(ctx context.Context, topicID string, ds []chat.Decision, by chat.Decider) (chat.Decided, error) {
	var wrong []chat.BatchItem
	var remembered []chat.Tool
	for _, d := range ds {
		if !d.Approved {
			continue
		}
		call, err := s.store.Call(ctx, topicID, d.ApprovalID)
		if err == nil && call.Pending() { // else it is compared, which does not depend on today's tools
			err = s.checkYes(ctx, topicID, call, d)
		}
		if err == nil && call.Pending() && d.Remember != "" {
			err = s.checkRemember(call)
		}
		switch {
		case err == nil:
		case chat.Refused(err):
			wrong = append(wrong, chat.BatchItem{ApprovalID: d.ApprovalID, Err: err})
		default:
			return chat.Decided{}, err
		}
		if d.Remember == chat.RememberAlwaysAllow {
			remembered = append(remembered, calledTool(call))
		}
	}
	if len(wrong) > 0 {
		return chat.Decided{}, &chat.BatchError{Items: wrong}
	}
	decided, change, err := s.store.Decide(ctx, topicID, ds, by)
	if err != nil {
		return chat.Decided{}, err
	}
	s.announceDecided(ctx, change) // of several turns any may have been queued
	if len(remembered) > 0 {       // also on a repeat: what follows from the first may have been lost
		s.remembered(ctx, remembered)
	}
	return decided, nil
}

// checkRemember refuses to allow for good what the server does not offer now:
// nobody knows what will come under that name.
func (s *Service) checkRemember(call chat.ToolCall) error {
	if _, offered, _ := s.offered(call); !offered {
		return chat.Invalid("The tool %s is not offered by its server now, so it cannot be allowed for good. Approve this call alone.", call.ToolName)
	}
	return nil
}

// checkYes holds a yes against the tool that there is now, and an edited input
// against the tool's schema and the deny rules: what a rule denies nobody can
// approve by writing it into another call. A tool whose server does not answer
// now is no obstacle here: the run will say so.
func (s *Service) checkYes(ctx context.Context, topicID string, call chat.ToolCall, d chat.Decision) error {
	tool, asks, err := s.askAgain(ctx, topicID, call)
	if err != nil {
		return err
	}
	if asks {
		return chat.Gone("The tool %s has changed since approval %s was asked for, so nothing was decided. Look at the card again.", call.ToolName, d.ApprovalID)
	}
	if d.UpdatedInput == nil || call.ToolMetadata == nil {
		return nil
	}
	if tool.InputSchema != nil {
		if err := s.tools.Validate(tool, d.UpdatedInput); err != nil {
			return fmt.Errorf("approval %s: %w", d.ApprovalID, err)
		}
	}
	call.Input = d.UpdatedInput
	j, err := s.policy.Judge(ctx, topicID, call.ToolMetadata.Principal, tool, call)
	if err != nil {
		return fmt.Errorf("approval %s: %w", d.ApprovalID, err)
	}
	switch {
	case j.Verdict == chat.VerdictDeny:
		return fmt.Errorf("approval %s: %w", d.ApprovalID, chat.Invalid("The rule “%s” does not allow this input: %s", j.Rule, j.Reason))
	case j.Unsure: // or an edit could make the rule fail that would deny it
		return fmt.Errorf("approval %s: %w", d.ApprovalID, chat.Invalid("The deny rule “%s” cannot be evaluated on this input, so it cannot be approved.", j.Rule))
	}
	return nil
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
