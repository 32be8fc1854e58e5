package repository

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/assent-chat/assent/service/chat"
)

// serverRecord is one entry of the record of a server: the server as it is
// after it, and whose doing it was.
type serverRecord struct {
	action     chat.Action
	server     chat.MCPServer
	by         chat.Decider
	at         instant
	approvalID string // of the card on which it was done
	secrets    bool
}

// shownConnection is what may be shown of a connection. The record seals that
// too: people write secrets where nobody expects them, in arguments and paths.
type shownConnection struct {
	Command string             `json:"command,omitempty"`
	Args    []string           `json:"args,omitempty"`
	Env     map[string]*string `json:"env,omitempty"`
	Dir     string             `json:"dir,omitempty"`
	URL     string             `json:"url,omitempty"`
	Headers map[string]*string `json:"headers,omitempty"`
}

// withoutConnection takes the connection out of settings.
func withoutConnection(s chat.ServerSettings) (chat.ServerSettings, shownConnection) {
	c := shownConnection{Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers}
	s.Command, s.Args, s.Env, s.Dir, s.URL, s.Headers = "", nil, nil, "", "", nil
	return s, c
}

// recordPlace is where the sealed part of an entry can be opened.
func recordPlace(serverID string, version int) string { return serverID + "/" + strconv.Itoa(version) }

// recordServer adds to the record of a server.
func (t *tx) recordServer(ctx context.Context, k *keys, r serverRecord) error {
	settings, sealed := (*string)(nil), ""
	if r.action != chat.ActionDeleted {
		shown, connected := withoutConnection(r.server.Shown())
		raw, err := chat.Marshal(shown)
		if err != nil {
			return fmt.Errorf("record tool server %s: %w", r.server.ID, err)
		}
		text := string(raw)
		settings = &text
		if r.server.Source == chat.SourceSettings && r.server.Problem == "" {
			if sealed, err = k.seal(recordPlace(r.server.ID, r.server.Version), connected); err != nil {
				return err
			}
		}
	}
	if _, err := t.exec(ctx, `
		INSERT INTO mcp_server_versions (server_id, version, action, changed_by, via, changed_at, approval_id, secrets, settings, sealed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.server.ID, r.server.Version, r.action, clean(r.by.Name), r.by.Via, r.at, r.approvalID, r.secrets, settings, sealed); err != nil {
		return fmt.Errorf("record tool server %s: %w", r.server.ID, err)
	}
	return nil
}

type serverChangeRow struct {
	ServerID   string  `db:"server_id"`
	Version    int     `db:"version"`
	Action     string  `db:"action"`
	ChangedBy  string  `db:"changed_by"`
	Via        string  `db:"via"`
	ChangedAt  instant `db:"changed_at"`
	ApprovalID string  `db:"approval_id"`
	Secrets    bool    `db:"secrets"`
	Settings   *string `db:"settings"`
	Sealed     string  `db:"sealed"`
}

// change is the entry of a row. What of it cannot be opened is left out.
func (k *keys) change(r serverChangeRow) (chat.ServerChange, error) {
	c := chat.ServerChange{
		ServerID: r.ServerID, Version: r.Version, Action: chat.Action(r.Action), By: r.ChangedBy, Via: chat.Via(r.Via), At: r.ChangedAt.Time,
		ApprovalID: r.ApprovalID, Secrets: r.Secrets,
	}
	if r.Settings == nil {
		return c, nil
	}
	if err := json.Unmarshal([]byte(*r.Settings), &c.After); err != nil {
		return c, fmt.Errorf("version %d of tool server %s: %w", r.Version, r.ServerID, err)
	}
	var shown shownConnection
	if k.open(recordPlace(r.ServerID, r.Version), r.Sealed, &shown) == nil {
		a := c.After
		a.Command, a.Args, a.Env, a.Dir, a.URL, a.Headers = shown.Command, shown.Args, shown.Env, shown.Dir, shown.URL, shown.Headers
	}
	return c, nil
}

// MCPServerVersions lists what was done to a tool server, the newest first. It
// answers for deleted servers too.
func (s *Store) MCPServerVersions(ctx context.Context, id string, p chat.Page) ([]chat.ServerChange, string, error) {
	query, args := `
		SELECT server_id, version, action, changed_by, via, changed_at, approval_id, secrets, settings, sealed
		FROM mcp_server_versions WHERE server_id = ?`, []any{id}
	if p.Cursor != "" {
		version, err := strconv.ParseInt(p.Cursor, 10, 32)
		if err != nil {
			return nil, "", errCursor
		}
		query, args = query+` AND version < ?`, append(args, version)
	}
	var rows []serverChangeRow
	err := s.view(ctx, "read the record of a tool server", func(ctx context.Context, t *tx) error {
		rows = nil
		if err := t.all(ctx, &rows, query+` ORDER BY version DESC LIMIT ?`, append(args, p.Limit+1)...); err != nil {
			return err
		}
		if len(rows) == 0 && p.Cursor == "" {
			return t.noServer(ctx, id)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	changes := make([]chat.ServerChange, len(rows))
	for i, row := range rows {
		if changes[i], err = s.keys.change(row); err != nil {
			return nil, "", err
		}
		if i > 0 {
			changes[i-1].Before = changes[i].After
		}
	}
	if len(changes) > p.Limit {
		changes = changes[:p.Limit]
		return changes, strconv.Itoa(changes[p.Limit-1].Version), nil
	}
	return changes, "", nil
}
