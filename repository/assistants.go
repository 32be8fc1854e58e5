package repository

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// maxAssistants bounds a list that is read whole.
const maxAssistants = 200

// assistantRow is a row of assistants as it is read.
type assistantRow struct {
	ID           string  `db:"id"`
	Name         string  `db:"name"`
	Description  string  `db:"description"`
	Model        string  `db:"model"`
	SystemPrompt string  `db:"system_prompt"`
	MCPServerIDs *string `db:"mcp_server_ids"`
	Mode         string  `db:"mode"`
	Version      int     `db:"version"`
	CreatedAt    instant `db:"created_at"`
	UpdatedAt    instant `db:"updated_at"`
}

const assistantColumns = `id, name, description, model, system_prompt, mcp_server_ids, mode, version, created_at, updated_at`

func (r assistantRow) assistant() (chat.Assistant, error) {
	a := chat.Assistant{
		ID: r.ID, Name: r.Name, Description: r.Description, Model: r.Model, SystemPrompt: r.SystemPrompt, Mode: chat.Mode(r.Mode),
		Version: r.Version, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
	if r.MCPServerIDs != nil {
		if err := json.Unmarshal([]byte(*r.MCPServerIDs), &a.MCPServerIDs); err != nil {
			return chat.Assistant{}, fmt.Errorf("tool servers of assistant %s: %w", r.ID, err)
		}
	}
	return a, nil
}

// serverIDs is a choice of tool servers as it is stored: NULL is every server.
func serverIDs(ids []string) (*string, error) {
	if ids == nil {
		return nil, nil
	}
	raw, err := chat.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("encode the tool servers: %w", err)
	}
	text := string(raw)
	return &text, nil
}

// Assistants lists the assistants, in the order of their names.
func (s *Store) Assistants(ctx context.Context) ([]chat.Assistant, error) {
	var rows []assistantRow
	err := s.read.look(ctx, "list the assistants", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, `SELECT `+assistantColumns+` FROM assistants WHERE deleted_at IS NULL`)
	})
	if err != nil {
		return nil, err
	}
	// Sorted here: the databases do not agree on the order of texts.
	slices.SortFunc(rows, func(a, b assistantRow) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	assistants := make([]chat.Assistant, len(rows))
	for i, row := range rows {
		if assistants[i], err = row.assistant(); err != nil {
			return nil, err
		}
	}
	return assistants, nil
}

// Assistant reads an assistant. One that was deleted is chat.ErrGone.
func (s *Store) Assistant(ctx context.Context, id string) (chat.Assistant, error) {
	var row assistantRow
	err := s.view(ctx, "read an assistant", func(ctx context.Context, t *tx) error {
		ok, err := t.find(ctx, &row, `SELECT `+assistantColumns+` FROM assistants WHERE id = ? AND deleted_at IS NULL`, id)
		if err == nil && !ok {
			err = t.noAssistant(ctx, id)
		}
		return err
	})
	if err != nil {
		return chat.Assistant{}, err
	}
	return row.assistant()
}

// noAssistant says why there is no such assistant.
func (t *tx) noAssistant(ctx context.Context, id string) error {
	var found string
	switch gone, err := t.find(ctx, &found, `SELECT id FROM assistants WHERE id = ?`, id); {
	case err != nil:
		return fmt.Errorf("assistant %s: %w", id, err)
	case gone:
		return chat.Gone("The assistant %s was deleted.", id)
	}
	return chat.NotFound("There is no assistant %s.", id)
}

// CreateAssistant stores an assistant as its version 1.
func (s *Store) CreateAssistant(ctx context.Context, n chat.NewAssistant) (chat.Assistant, error) {
	id, err := newID()
	if err != nil {
		return chat.Assistant{}, err
	}
	servers, err := serverIDs(n.MCPServerIDs)
	if err != nil {
		return chat.Assistant{}, err
	}
	var row assistantRow
	err = s.write.run(ctx, s.write.dialect.write, "create an assistant", func(ctx context.Context, t *tx) error {
		var count int
		if err := t.get(ctx, &count, `SELECT count(*) FROM assistants WHERE deleted_at IS NULL`); err != nil {
			return err
		}
		if count >= maxAssistants {
			return chat.Invalid("There are %d assistants, which is as many as there can be.", count)
		}
		return t.get(ctx, &row, `
			INSERT INTO assistants (`+assistantColumns+`)
			SELECT ?, ?, ?, ?, ?, ?, ?, 1, n.at, n.at FROM (SELECT {now} AS at) AS n
			RETURNING `+assistantColumns, id, n.Name, n.Description, n.Model, n.SystemPrompt, servers, cmp.Or(n.Mode, chat.ModeDefault))
	})
	if err != nil {
		return chat.Assistant{}, err
	}
	return row.assistant()
}

// UpdateAssistant changes what a patch names. A patch that changes nothing is
// no change, and no version is spent on it.
func (s *Store) UpdateAssistant(ctx context.Context, id string, p chat.AssistantPatch) (chat.Assistant, error) {
	var row assistantRow
	err := s.changeAssistant(ctx, "change an assistant", id, func(ctx context.Context, t *tx, was assistantRow) error {
		row = was
		if p.Version != nil && *p.Version != was.Version {
			return chat.Conflict("The assistant is at version %d by now, not %d.", was.Version, *p.Version)
		}
		next := was
		set(&next.Name, p.Name)
		set(&next.Description, p.Description)
		set(&next.Model, p.Model)
		set(&next.SystemPrompt, p.SystemPrompt)
		if p.Mode != nil {
			next.Mode = string(cmp.Or(*p.Mode, chat.ModeDefault))
		}
		if p.MCPServerIDs != nil {
			ids, err := serverIDs(*p.MCPServerIDs)
			if err != nil {
				return err
			}
			if (ids == nil) != (was.MCPServerIDs == nil) || ids != nil && *ids != *was.MCPServerIDs {
				next.MCPServerIDs = ids // else the pointer stays, by which rows are compared
			}
		}
		if next == was {
			return errUnchanged
		}
		return t.get(ctx, &row, `
			UPDATE assistants SET name = ?, description = ?, model = ?, system_prompt = ?, mcp_server_ids = ?, mode = ?, version = ?, updated_at = {now}
			WHERE id = ? RETURNING `+assistantColumns,
			next.Name, next.Description, next.Model, next.SystemPrompt, next.MCPServerIDs, next.Mode, was.Version+1, id)
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return chat.Assistant{}, err
	}
	return row.assistant()
}

// DeleteAssistant takes an assistant off the list and removes what it says.
// Its mode stays, for the topics that started from it.
func (s *Store) DeleteAssistant(ctx context.Context, id string) error {
	return s.changeAssistant(ctx, "delete an assistant", id, func(ctx context.Context, t *tx, was assistantRow) error {
		_, err := t.exec(ctx, `
			UPDATE assistants SET deleted_at = {now}, description = '', system_prompt = '', mcp_server_ids = NULL, version = ? WHERE id = ?`,
			was.Version+1, id)
		return err
	})
}

// changeAssistant runs fn in a transaction that holds the assistant's row.
func (s *Store) changeAssistant(ctx context.Context, doing, id string, fn func(context.Context, *tx, assistantRow) error) error {
	return s.write.run(ctx, s.write.dialect.write, doing, func(ctx context.Context, t *tx) error {
		var was assistantRow
		ok, err := t.find(ctx, &was, `SELECT `+assistantColumns+` FROM assistants WHERE id = ? AND deleted_at IS NULL {for update}`, id)
		if err != nil {
			return fmt.Errorf("lock assistant %s: %w", id, err)
		}
		if !ok {
			return t.noAssistant(ctx, id)
		}
		return fn(ctx, t, was)
	})
}
