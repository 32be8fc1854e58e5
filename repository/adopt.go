package repository

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// adopter is who the record names for servers that come from a file.
var adopter = chat.Decider{Name: "-mcp-config", Via: chat.ViaRule}

// AdoptMCPServers sees to it that there is a row for each server of a file,
// under its name, and none for servers that have left it. A row that is there
// keeps its switches: they are the person's by then. A server that comes back
// to the file asks for everything anew, for nobody knows whether it is the same.
func (s *Store) AdoptMCPServers(ctx context.Context, servers []chat.MCPServer) error {
	servers = slices.SortedFunc(slices.Values(servers), func(a, b chat.MCPServer) int { return cmp.Compare(a.Name, b.Name) })
	return s.write.run(ctx, s.write.dialect.write, "adopt the tool servers of a file", func(ctx context.Context, t *tx) error {
		if err := t.abandon(ctx, s.keys, servers); err != nil {
			return err
		}
		for _, server := range servers {
			if err := t.adopt(ctx, s.keys, server); err != nil {
				return err
			}
		}
		return nil
	})
}

// abandon deletes the rows of servers that are not in the file any more.
func (t *tx) abandon(ctx context.Context, k *keys, servers []chat.MCPServer) error {
	var ids []string
	if err := t.all(ctx, &ids, `SELECT id FROM mcp_servers WHERE source = 'file' AND deleted_at IS NULL ORDER BY id`); err != nil {
		return fmt.Errorf("list the tool servers of the file: %w", err)
	}
	for _, id := range ids {
		if slices.ContainsFunc(servers, func(s chat.MCPServer) bool { return s.Name == id }) {
			continue
		}
		was, at, err := t.lockServer(ctx, k, id)
		if err != nil {
			return err
		}
		if err := t.deleteServer(ctx, k, was, at, adopter); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) adopt(ctx context.Context, k *keys, server chat.MCPServer) error {
	lists, err := switchRowOf(server.Switches)
	if err != nil {
		return err
	}
	// Whoever comes second waits for the first, and then finds its row.
	var row serverRow
	made, err := t.find(ctx, &row, `
		INSERT INTO mcp_servers (id, name, source, transport, sealed, program, disabled, `+switchColumns+`, version, created_at, updated_at)
		SELECT ?, ?, 'file', '', '', ?, FALSE, ?, ?, ?, ?, 1, n.at, n.at FROM (SELECT {now} AS at) AS n WHERE 1 = 1
		ON CONFLICT DO NOTHING RETURNING `+serverColumns,
		server.Name, server.Name, k.programOf(server), lists.DisabledTools, lists.AutoApproveTools, lists.AlwaysAskTools, lists.Trusted)
	if err == nil && !made {
		var source string
		there, findErr := t.find(ctx, &source, `SELECT source FROM mcp_servers WHERE name = ? AND deleted_at IS NULL`, server.Name)
		switch {
		case findErr != nil:
			err = findErr
		case there && chat.ServerSource(source) == chat.SourceFile:
			return t.readopt(ctx, k, server)
		case there:
			return chat.Conflict("There is a tool server named “%s” in the settings already: rename it, or the one in the file.", server.Name)
		default:
			made, err = t.find(ctx, &row, `
				UPDATE mcp_servers SET deleted_at = NULL, program = ?, disabled_tools = ?, auto_approve_tools = ?, always_ask_tools = ?, trusted = ?,
					version = version + 1, updated_at = {now}
				WHERE id = ? AND source = 'file' AND deleted_at IS NOT NULL RETURNING `+serverColumns,
				k.programOf(server), lists.DisabledTools, lists.AutoApproveTools, lists.AlwaysAskTools, lists.Trusted, server.Name)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("adopt tool server %s: %w", server.Name, err)
	case !made:
		return chat.Conflict("The tool server “%s” of the file has the id of another: rename it.", server.Name)
	}
	stored, err := k.server(row)
	if err != nil {
		return err
	}
	return t.recordServer(ctx, k, serverRecord{action: chat.ActionCreated, server: stored, by: adopter, at: row.UpdatedAt})
}

// readopt keeps what the person said of a server's tools, unless the file names
// another program, or another address, under its name by now: then no tool of
// it runs without asking any more.
func (t *tx) readopt(ctx context.Context, k *keys, server chat.MCPServer) error {
	was, at, err := t.lockServer(ctx, k, server.Name)
	if err != nil {
		return err
	}
	var program string
	if err := t.get(ctx, &program, `SELECT program FROM mcp_servers WHERE id = ?`, was.ID); err != nil {
		return fmt.Errorf("adopt tool server %s: %w", server.Name, err)
	}
	now := k.programOf(server)
	if now == program {
		return nil
	}
	if _, err := t.exec(ctx, `UPDATE mcp_servers SET program = ? WHERE id = ?`, now, was.ID); err != nil {
		return fmt.Errorf("adopt tool server %s: %w", server.Name, err)
	}
	next := was
	next.AutoApproveTools, next.Trusted = nil, false
	if next.SameSettings(was) {
		return nil
	}
	_, err = t.writeServer(ctx, k, was, next, serverRecord{by: adopter, at: at})
	return err
}
