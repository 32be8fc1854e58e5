package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// maxServers bounds the tool servers that people add: each is a connection.
const maxServers = 200

// switchRow is what a row of mcp_servers says of tools.
type switchRow struct {
	DisabledTools    string `db:"disabled_tools"` // JSON, as the next two
	AutoApproveTools string `db:"auto_approve_tools"`
	AlwaysAskTools   string `db:"always_ask_tools"`
	Trusted          bool   `db:"trusted"`
}

const switchColumns = `disabled_tools, auto_approve_tools, always_ask_tools, trusted`

func (r switchRow) switches(serverID string) (chat.Switches, error) {
	s := chat.Switches{Trusted: r.Trusted}
	for _, list := range []struct {
		text string
		into *[]string
	}{{r.DisabledTools, &s.DisabledTools}, {r.AutoApproveTools, &s.AutoApproveTools}, {r.AlwaysAskTools, &s.AlwaysAskTools}} {
		if err := json.Unmarshal([]byte(list.text), list.into); err != nil {
			return s, fmt.Errorf("tools of server %s: %w", serverID, err)
		}
	}
	return s, nil
}

// switchRowOf is the inverse of switches.
func switchRowOf(s chat.Switches) (switchRow, error) {
	r := switchRow{Trusted: s.Trusted}
	for _, list := range []struct {
		names []string
		into  *string
	}{{s.DisabledTools, &r.DisabledTools}, {s.AutoApproveTools, &r.AutoApproveTools}, {s.AlwaysAskTools, &r.AlwaysAskTools}} {
		raw, err := chat.Marshal(append([]string{}, list.names...))
		if err != nil {
			return r, fmt.Errorf("encode the names of tools: %w", err)
		}
		*list.into = string(raw)
	}
	return r, nil
}

// serverRow is a row of mcp_servers as it is read.
type serverRow struct {
	ID        string `db:"id"`
	Name      string `db:"name"`
	Source    string `db:"source"`
	Transport string `db:"transport"`
	Sealed    string `db:"sealed"`
	Disabled  bool   `db:"disabled"`
	switchRow
	Version   int     `db:"version"`
	CreatedAt instant `db:"created_at"`
	UpdatedAt instant `db:"updated_at"`
}

const serverColumns = `id, name, source, transport, sealed, disabled, ` + switchColumns + `, version, created_at, updated_at`

// server is the server of a row. One whose connection cannot be opened is told
// with the problem, and without the connection. Times are those of settings:
// of the others they would say when a program was started.
func (k *keys) server(r serverRow) (chat.MCPServer, error) {
	switches, err := r.switches(r.ID)
	if err != nil {
		return chat.MCPServer{}, err
	}
	s := chat.MCPServer{
		ID: r.ID, Name: r.Name, Source: chat.ServerSource(r.Source), Transport: chat.Transport(r.Transport), Disabled: r.Disabled,
		Switches: switches, Version: r.Version,
	}
	if s.Source != chat.SourceSettings {
		return s, nil
	}
	s.CreatedAt, s.UpdatedAt = r.CreatedAt.Time, r.UpdatedAt.Time
	var c connection
	switch err := k.open(r.ID, r.Sealed, &c); {
	case k == nil:
		s.Problem = "The connection is encrypted, and this program was started without its key. Start it with the key that it was stored with."
	case err != nil || c.Transport != s.Transport:
		s.Problem = "The connection cannot be read: it was stored with another key, or it is damaged. " +
			"Start this program with the right key, or enter the whole connection again, with all its secrets."
	default:
		s.Command, s.Args, s.Env, s.Dir, s.URL, s.Headers = c.Command, c.Args, c.Env, c.Dir, c.URL, c.Headers
		s.Identity = k.identityOf(s)
	}
	return s, nil
}

// MCPServers lists what is stored of tool servers, the built-in one first, the
// others in the order in which they were added. One whose connection cannot be
// read has a Problem.
func (s *Store) MCPServers(ctx context.Context) ([]chat.MCPServer, error) {
	var rows []serverRow
	err := s.read.look(ctx, "list the tool servers", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, `
			SELECT `+serverColumns+` FROM mcp_servers WHERE deleted_at IS NULL
			ORDER BY CASE WHEN source = 'built-in' THEN 0 ELSE 1 END, created_at, id`)
	})
	if err != nil {
		return nil, err
	}
	servers := make([]chat.MCPServer, len(rows))
	for i, row := range rows {
		if servers[i], err = s.keys.server(row); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// MCPServer reads what is stored of a tool server. One that was deleted is
// chat.ErrGone.
func (s *Store) MCPServer(ctx context.Context, id string) (chat.MCPServer, error) {
	var row serverRow
	err := s.view(ctx, "read a tool server", func(ctx context.Context, t *tx) error {
		ok, err := t.find(ctx, &row, `SELECT `+serverColumns+` FROM mcp_servers WHERE id = ? AND deleted_at IS NULL`, id)
		if err == nil && !ok {
			err = t.noServer(ctx, id)
		}
		return err
	})
	if err != nil {
		return chat.MCPServer{}, err
	}
	return s.keys.server(row)
}

// noServer says why there is no such server.
func (t *tx) noServer(ctx context.Context, id string) error {
	var found string
	switch gone, err := t.find(ctx, &found, `SELECT id FROM mcp_servers WHERE id = ?`, id); {
	case err != nil:
		return fmt.Errorf("tool server %s: %w", id, err)
	case gone:
		return chat.Gone("The tool server %s was deleted.", id)
	}
	return chat.NotFound("There is no tool server %s.", id)
}

// CreateMCPServers stores all servers as their version 1, with the record of
// it, or none. It needs Options.Key.
func (s *Store) CreateMCPServers(ctx context.Context, servers []chat.MCPServer, by chat.Decider) ([]chat.MCPServer, error) {
	if s.keys == nil {
		return nil, errNoKey
	}
	if len(servers) == 0 {
		return []chat.MCPServer{}, nil
	}
	names := make([]string, len(servers))
	for i, server := range servers {
		if slices.Contains(names[:i], server.Name) {
			return nil, chat.Conflict("Two of the tool servers are named “%s”.", server.Name)
		}
		names[i] = server.Name
	}
	var made []chat.MCPServer
	err := s.write.run(ctx, s.write.dialect.write, "create tool servers", func(ctx context.Context, t *tx) error {
		made = nil
		if err := t.freeNames(ctx, names); err != nil {
			return err
		}
		var count struct {
			N  int     `db:"n"`
			At instant `db:"at"`
		}
		if err := t.get(ctx, &count, `SELECT count(*) AS n, {now} AS at FROM mcp_servers WHERE deleted_at IS NULL AND source = 'settings'`); err != nil {
			return err
		}
		if count.N+len(servers) > maxServers {
			return chat.Invalid("There are %d tool servers, and there can be %d.", count.N, maxServers)
		}
		for _, server := range servers {
			id, err := newID()
			if err != nil {
				return err
			}
			server.ID, server.Source = id, chat.SourceSettings
			stored, err := t.insertServer(ctx, s.keys, server, by, count.At)
			if err != nil {
				return err
			}
			made = append(made, stored)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// freeNames refuses names that servers have.
func (t *tx) freeNames(ctx context.Context, names []string) error {
	var taken []struct {
		Name   string `db:"name"`
		Source string `db:"source"`
	}
	if err := t.allIn(ctx, &taken, `SELECT name, source FROM mcp_servers WHERE deleted_at IS NULL AND name IN (?) ORDER BY name`, names); err != nil {
		return fmt.Errorf("read the names of tool servers: %w", err)
	}
	if len(taken) == 0 {
		return nil
	}
	quoted := make([]string, len(taken))
	for i, row := range taken {
		quoted[i] = "“" + row.Name + "”"
		if chat.ServerSource(row.Source) == chat.SourceFile {
			quoted[i] += " (which is, or was, configured in a file)"
		}
	}
	return chat.Conflict("There is a tool server of that name already: %s.", strings.Join(quoted, ", "))
}

// insertServer adds a server as its version 1, with the record of it.
func (t *tx) insertServer(ctx context.Context, k *keys, server chat.MCPServer, by chat.Decider, at instant) (chat.MCPServer, error) {
	sealed := ""
	if server.Source == chat.SourceSettings {
		var err error
		if sealed, err = k.seal(server.ID, connectionOf(server)); err != nil {
			return chat.MCPServer{}, err
		}
	}
	lists, err := switchRowOf(server.Switches)
	if err != nil {
		return chat.MCPServer{}, err
	}
	var row serverRow
	if err := t.get(ctx, &row, `
		INSERT INTO mcp_servers (id, name, source, transport, sealed, disabled, `+switchColumns+`, version, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
		RETURNING `+serverColumns,
		server.ID, server.Name, server.Source, server.Transport, sealed, server.Disabled,
		lists.DisabledTools, lists.AutoApproveTools, lists.AlwaysAskTools, lists.Trusted, at, at); err != nil {
		return chat.MCPServer{}, t.nameTaken(server.Name, err)
	}
	stored, err := k.server(row)
	if err != nil {
		return chat.MCPServer{}, err
	}
	return stored, t.recordServer(ctx, k, serverRecord{action: chat.ActionCreated, server: stored, by: by, at: at})
}

// nameTaken gives the error of a write that another server of the name stood
// in the way of.
func (t *tx) nameTaken(name string, err error) error {
	if t.pool.dialect.duplicate(err) {
		return chat.Conflict("There is a tool server named “%s” already.", name)
	}
	return fmt.Errorf("write tool server %s: %w", name, err)
}

// lockServer reads a server for a change of it, and the time. Nobody else
// changes it, or relies on it, until the end of the transaction.
func (t *tx) lockServer(ctx context.Context, k *keys, id string) (chat.MCPServer, instant, error) {
	var row struct {
		serverRow
		At instant `db:"at"`
	}
	ok, err := t.find(ctx, &row, `SELECT `+serverColumns+`, {now} AS at FROM mcp_servers WHERE id = ? AND deleted_at IS NULL {for update}`, id)
	if err != nil {
		return chat.MCPServer{}, instant{}, fmt.Errorf("lock tool server %s: %w", id, err)
	}
	if !ok {
		return chat.MCPServer{}, instant{}, t.noServer(ctx, id)
	}
	server, err := k.server(row.serverRow)
	return server, row.At, err
}

// UpdateMCPServer applies edit to a server and records the change. One that
// changes nothing is no change. A server with a Problem is whole again when
// edit gives it a connection.
func (s *Store) UpdateMCPServer(ctx context.Context, id string, edit func(chat.MCPServer) (chat.MCPServer, error), by chat.Decider) (chat.MCPServer, error) {
	var server chat.MCPServer
	err := s.write.run(ctx, s.write.dialect.write, "change a tool server", func(ctx context.Context, t *tx) error {
		was, at, err := t.lockServer(ctx, s.keys, id)
		if err != nil {
			return err
		}
		server = was
		next, err := edit(was)
		if err != nil {
			return err
		}
		if next.SameSettings(was) {
			return errUnchanged
		}
		server, err = t.writeServer(ctx, s.keys, was, next, serverRecord{by: by, at: at})
		return err
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return chat.MCPServer{}, err
	}
	return server, nil
}

// writeServer writes a server that was changed as its next version, and the
// record of it. What of it never changes is taken from what it was.
func (t *tx) writeServer(ctx context.Context, k *keys, was, next chat.MCPServer, record serverRecord) (chat.MCPServer, error) {
	next.ID, next.Source, next.Transport = was.ID, was.Source, was.Transport
	reconnects := connectionOf(next).canonical() != connectionOf(was).canonical()
	if was.Source != chat.SourceSettings && (reconnects || next.Name != was.Name || next.Disabled != was.Disabled) {
		return was, chat.Conflict("Of the tool server %s only the switches of its tools are stored here.", was.Name)
	}
	sealed := (*string)(nil) // as it is: what cannot be opened must not be lost to a change of switches
	if reconnects {
		text, err := k.seal(was.ID, connectionOf(next))
		if err != nil {
			return was, err
		}
		sealed = &text
	}
	lists, err := switchRowOf(next.Switches)
	if err != nil {
		return was, err
	}
	var row serverRow
	if err := t.get(ctx, &row, `
		UPDATE mcp_servers SET name = ?, sealed = COALESCE(?, sealed), disabled = ?, disabled_tools = ?, auto_approve_tools = ?, always_ask_tools = ?,
			trusted = ?, version = ?, updated_at = ?
		WHERE id = ? RETURNING `+serverColumns,
		next.Name, sealed, next.Disabled, lists.DisabledTools, lists.AutoApproveTools, lists.AlwaysAskTools, lists.Trusted,
		was.Version+1, record.at, was.ID); err != nil {
		return was, t.nameTaken(next.Name, err)
	}
	stored, err := k.server(row)
	if err != nil {
		return was, err
	}
	record.action, record.server, record.secrets = chat.ActionChanged, stored, !was.SameSecrets(stored)
	return stored, t.recordServer(ctx, k, record)
}

// DeleteMCPServer removes a server that a person added, and its secrets. The
// record of it stays.
func (s *Store) DeleteMCPServer(ctx context.Context, id string, by chat.Decider) error {
	return s.write.run(ctx, s.write.dialect.write, "delete a tool server", func(ctx context.Context, t *tx) error {
		was, at, err := t.lockServer(ctx, s.keys, id)
		if err != nil {
			return err
		}
		switch was.Source {
		case chat.SourceBuiltIn:
			return chat.Conflict("The server %s is part of this program and cannot be deleted. Its tools can be switched off.", was.Name)
		case chat.SourceFile:
			return chat.Conflict("The server %s is configured in a file: take it out there.", was.Name)
		case chat.SourceSettings:
		}
		return t.deleteServer(ctx, s.keys, was, at, by)
	})
}

func (t *tx) deleteServer(ctx context.Context, k *keys, was chat.MCPServer, at instant, by chat.Decider) error {
	was.Version++
	if _, err := t.exec(ctx, `UPDATE mcp_servers SET deleted_at = ?, sealed = '', version = ?, updated_at = ? WHERE id = ?`, at, was.Version, at, was.ID); err != nil {
		return fmt.Errorf("delete tool server %s: %w", was.ID, err)
	}
	return t.recordServer(ctx, k, serverRecord{action: chat.ActionDeleted, server: was, by: by, at: at})
}
