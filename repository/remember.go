package repository

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// remember lets the tools of calls that are approved run without asking from
// now on, and records each with its approval. It says what of that is refused.
// The rows of the servers are locked after the topic's, in one order.
func (t *topicTx) remember(ctx context.Context, k *keys, calls []chat.ToolCall, by chat.Decider) ([]chat.BatchItem, error) {
	slices.SortStableFunc(calls, func(a, b chat.ToolCall) int {
		return cmp.Compare(toolOf(a).ServerID, toolOf(b).ServerID)
	})
	var refused []chat.BatchItem
	var server chat.MCPServer
	for _, call := range calls {
		m := toolOf(call)
		var err error
		if server.ID == "" || server.ID != m.ServerID {
			server, _, err = t.lockServer(ctx, k, m.ServerID)
		}
		if m.Tool == "" || chat.Missing(err) {
			refused = append(refused, chat.BatchItem{ApprovalID: call.Approval.ID, Err: chat.Invalid(
				"The tool cannot be allowed for good: nothing is stored of its server. Approve this call alone.")})
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.ServerIdentity != "" && server.Identity != "" && m.ServerIdentity != server.Identity {
			refused = append(refused, chat.BatchItem{ApprovalID: call.Approval.ID, Err: chat.Gone(
				"The settings of the tool's server have changed since approval %s was asked for, so nothing was decided. Look at the card again.", call.Approval.ID)})
			continue
		}
		next := server
		if next.Switches = server.WithAutoApprove(m.Tool, true); next.SameSettings(server) {
			continue // it was allowed already, by another card perhaps
		}
		if server, err = t.writeServer(ctx, k, server, next, serverRecord{by: by, at: t.at, approvalID: call.Approval.ID}); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

func toolOf(call chat.ToolCall) chat.ToolMetadata {
	if call.ToolMetadata == nil {
		return chat.ToolMetadata{}
	}
	return *call.ToolMetadata
}

// readSwitches reads the switches of a server, with a lock on its row if that
// is asked for; nil if nothing is stored of it.
func (t *tx) readSwitches(ctx context.Context, serverID, lock string) (*chat.Switches, bool, error) {
	var row struct {
		switchRow
		Disabled bool `db:"disabled"`
	}
	ok, err := t.find(ctx, &row, `SELECT disabled, `+switchColumns+` FROM mcp_servers WHERE id = ? AND deleted_at IS NULL `+lock, serverID)
	if err != nil {
		return nil, false, fmt.Errorf("read the switches of tool server %s: %w", serverID, err)
	}
	if !ok {
		return nil, false, nil
	}
	s, err := row.switches(serverID)
	return &s, row.Disabled, err
}
