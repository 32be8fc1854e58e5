package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

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
	if change.Revision > 0 && len(remembered) > 0 {
		s.rememberedAll(context.WithoutCancel(ctx), remembered)
	}
	return decided, nil
}

// checkYes holds a yes against the tool that there is now, and an edited input
// against the tool's schema and the deny rules: what a rule denies nobody can
// approve by writing it into another call. A tool whose server does not answer
// now is no obstacle here: the run will say so.
func (s *Service) checkYes(ctx context.Context, topicID string, call chat.ToolCall, d chat.Decision) error {
	tool, offered, known := s.offered(ctx, call)
	if known && chat.Changed(call, tool, offered) != "" {
		if err := s.askAgain(ctx, topicID, call, tool, offered); err != nil {
			return err
		}
		return chat.Gone("The tool %s has changed since approval %s was asked for, so nothing was decided. Look at the card again.", call.ToolName, d.ApprovalID)
	}
	if d.UpdatedInput == nil || call.ToolMetadata == nil {
		return nil
	}
	if !offered {
		tool = calledTool(call)
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

// calledTool is the tool of a call as it was when the call was made.
func calledTool(call chat.ToolCall) chat.Tool {
	m := call.ToolMetadata
	if m == nil {
		return chat.Tool{Name: call.ToolName}
	}
	return chat.Tool{
		Name: call.ToolName, Server: m.Server, ServerID: m.ServerID, Tool: m.Tool, Title: m.Title, Annotations: m.Annotations,
		InputSchema: m.InputSchema, Identity: m.ServerIdentity,
	}
}

// offered finds the tool that a call would reach now. It is not known while
// its server is being connected, or is lost: whether the tool is still the same
// will be seen when the server is there again.
func (s *Service) offered(ctx context.Context, call chat.ToolCall) (tool chat.Tool, offered, known bool) {
	m := call.ToolMetadata
	if m == nil {
		return chat.Tool{}, false, false
	}
	state, tools := s.servers.State(m.ServerID)
	switch state.Phase {
	case chat.ServerReady:
	case chat.ServerStarting, chat.ServerFailed:
		return chat.Tool{}, false, false
	case chat.ServerDisabled:
		return chat.Tool{}, false, true
	case "": // removed, or added by another instance a moment ago
		server, err := s.one(ctx, m.ServerID)
		gone := errors.Is(err, chat.ErrNotFound) || errors.Is(err, chat.ErrGone)
		return chat.Tool{}, false, gone || err == nil && server.Disabled
	}
	for _, t := range tools {
		if t.Tool == m.Tool {
			return t, true, true
		}
	}
	return chat.Tool{}, false, true
}

// askAgain closes an approval whose tool has changed since it was asked for,
// and asks about the tool as it is now.
func (s *Service) askAgain(ctx context.Context, topicID string, call chat.ToolCall, tool chat.Tool, offered bool) error {
	id := rand.Text()
	var wrong error // found before the transaction: what a call asks for does not change while it waits
	if offered {
		wrong = s.tools.Validate(tool, call.Input)
	}
	change, err := s.store.EditPending(ctx, topicID, []string{call.Approval.ID}, func(now chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		return chat.AskAgain(now, tool, offered, wrong, id, at)
	}, "", nil)
	if err != nil {
		return err
	}
	s.announceDecided(ctx, change) // it may have been the last that waited
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
