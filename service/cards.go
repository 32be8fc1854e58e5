package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	expiryPoll = 5 * time.Second // between two looks for cards that have expired
	// cardPoll is between two looks at all cards that nobody asked for: one may
	// have been committed by a step that began before its tool changed.
	cardPoll     = time.Minute
	recheckFirst = time.Second
	recheckMost  = time.Minute
	recheckTries = 8
	expiredBatch = 100
)

// Run keeps the cards true to the tools that they ask about, settles those that
// were allowed for good, and closes those that have expired, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	expiry, cards := time.NewTicker(expiryPoll), time.NewTicker(cardPoll)
	defer expiry.Stop()
	defer cards.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.recheck:
			s.persist(ctx, "apply stored settings", s.applyStale)
			s.live.Hint(chat.SettingsServers)
			s.persist(ctx, "settle what is allowed by now", s.settleRemembered)
			s.persist(ctx, "hold cards against tools", s.checkCards)
		case <-cards.C:
			s.persist(ctx, "hold cards against tools", s.checkCards)
		case <-expiry.C:
		}
		// Whatever it was: were this a case of its own, others that take long could
		// go first again and again.
		s.persist(ctx, "close expired cards", s.expireCards)
	}
}

// persist does something until it succeeds, for some minutes at most, or until
// ctx ends. What fails for good must not keep the rest from being done; the
// next round tries again.
func (s *Service) persist(ctx context.Context, doing string, do func(context.Context) error) {
	wait := recheckFirst
	for range recheckTries {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.WarnContext(ctx, "upkeep of cards and servers failed", slog.String("doing", doing), slog.Any("error", err))
		again := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
		wait = min(2*wait, recheckMost)
	}
	s.ToolsChanged()
}

// ToolsChanged says that a tool server is doing otherwise than before, or that
// its tools have changed. It never blocks.
func (s *Service) ToolsChanged() {
	select {
	case s.recheck <- struct{}{}:
	default:
	}
}

// Reload says that the settings of tool servers were changed by another
// instance. Run applies them. It never blocks.
func (s *Service) Reload() {
	s.mu.Lock()
	s.stale = true
	s.mu.Unlock()
	s.ToolsChanged()
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

// passing is nil for the error of a topic or an approval that has gone in the
// meantime.
func passing(err error) error {
	if chat.Missing(err) {
		return nil
	}
	return err
}

// checkCards asks again about every call that waits and whose tool is not the
// one that was asked about.
func (s *Service) checkCards(ctx context.Context) error {
	return s.eachPending(ctx, func(c chat.JudgedCall) error {
		_, _, err := s.askAgain(ctx, c.TopicID, c.Call)
		return passing(err)
	})
}

// expireCards closes the cards whose time is over. The clock that counts is
// that of the database, as it is for a decision.
func (s *Service) expireCards(ctx context.Context) error {
	for {
		expired, err := s.store.Expired(ctx, expiredBatch)
		if err != nil {
			return err
		}
		for _, a := range expired {
			change, err := s.store.EditPending(ctx, a.TopicID, []string{a.ApprovalID}, chat.Expire)
			if err := passing(err); err != nil {
				return err
			}
			s.announceDecided(ctx, change)
		}
		if len(expired) < expiredBatch {
			return nil
		}
	}
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
func (s *Service) offered(call chat.ToolCall) (tool chat.Tool, offered, known bool) {
	m := call.ToolMetadata
	if m == nil {
		return chat.Tool{}, false, false
	}
	state, tools := s.servers.State(m.ServerID)
	switch state.Phase {
	case chat.ServerReady:
	case chat.ServerStarting, chat.ServerFailed:
		return chat.Tool{}, false, false
	case chat.ServerDisabled, "": // switched off, or removed
		return chat.Tool{}, false, true
	}
	for _, t := range tools {
		if t.Tool == m.Tool {
			return t, true, true
		}
	}
	return chat.Tool{}, false, true
}

// askAgain closes the approval of a call that waits and whose tool has changed
// since it was asked for, and asks about the tool as it is now. It gives the
// tool that the call would reach: as it is now, or as it was where that is not
// known.
func (s *Service) askAgain(ctx context.Context, topicID string, call chat.ToolCall) (tool chat.Tool, asked bool, err error) {
	tool, offered, known := s.offered(call)
	if !offered {
		tool = calledTool(call)
	}
	if !known || chat.Changed(call, tool, offered) == "" {
		return tool, false, nil
	}
	if current, err := s.current(ctx, call.ToolMetadata.ServerID); err != nil || !current {
		return calledTool(call), false, err
	}
	id := rand.Text()
	var wrong error // found before the transaction: what a call asks for does not change while it waits
	if offered {
		wrong = s.tools.Validate(tool, call.Input)
	}
	change, err := s.store.EditPending(ctx, topicID, []string{call.Approval.ID}, func(now chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		return chat.AskAgain(now, tool, offered, wrong, id, at)
	})
	if err != nil {
		return tool, false, err
	}
	s.announceDecided(ctx, change) // it may have been the last that waited
	return tool, true, nil
}

// current reports whether the server of a call is connected here as the
// settings say. Another process may have changed them: then this one applies
// them, and the card is held against what comes of that. Without it two
// processes could go on replacing each other's cards. A server of a file that
// this process was not given is not current here either.
func (s *Service) current(ctx context.Context, serverID string) (bool, error) {
	connected, known := s.servers.Connected(serverID)
	stored, err := s.store.MCPServer(ctx, serverID)
	switch {
	case chat.Missing(err):
		if !known {
			return true, nil // removed, here as well
		}
	case err != nil:
		return false, err
	case stored.Source == chat.SourceBuiltIn:
		return true, nil
	default:
		server, ours := s.whole(stored)
		if !ours {
			return false, nil
		}
		if known && connected.SameConnection(server) && connected.Identity == server.Identity {
			return true, nil
		}
	}
	return false, s.apply(ctx)
}
