package repository

import (
	"context"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// Revisions reads how far topics have come: those that are named, and the n that
// changed last. Topics that were deleted are among them.
func (s *Store) Revisions(ctx context.Context, topicIDs []string, n int) ([]chat.TopicRevision, error) {
	type row struct {
		ID       string `db:"id"`
		Revision int64  `db:"revision"`
		Removed  bool   `db:"removed"`
	}
	const columns = `SELECT id, revision, deleted_at IS NOT NULL AS removed FROM topics `
	var revisions []chat.TopicRevision
	err := s.read.look(ctx, "read revisions", func(ctx context.Context, t *tx) error {
		var rows []row
		if err := t.all(ctx, &rows, columns+`ORDER BY updated_at DESC LIMIT ?`, n); err != nil {
			return err
		}
		seen := make(map[string]bool, len(rows))
		for _, r := range rows {
			seen[r.ID] = true
		}
		var named []string
		for _, id := range topicIDs {
			if !seen[id] {
				named = append(named, id)
			}
		}
		if len(named) > 0 {
			var more []row
			if err := t.allIn(ctx, &more, columns+`WHERE id IN (?)`, named); err != nil {
				return err
			}
			rows = append(rows, more...)
		}
		for _, r := range rows {
			revisions = append(revisions, chat.TopicRevision{TopicID: r.ID, Revision: r.Revision, Removed: r.Removed})
		}
		return nil
	})
	return revisions, err
}

// SettingsMarks reads a mark for each kind of settings that changes whenever
// settings of the kind are changed.
func (s *Store) SettingsMarks(ctx context.Context) (map[chat.SettingsKind]string, error) {
	var row struct {
		Servers    int64 `db:"servers"`
		Rules      int64 `db:"rules"`
		Assistants int64 `db:"assistants"`
		Deleted    int64 `db:"deleted"`
	}
	err := s.read.look(ctx, "read the marks of settings", func(ctx context.Context, t *tx) error {
		return t.get(ctx, &row, `
			SELECT (SELECT count(*) FROM mcp_server_versions) AS servers, (SELECT count(*) FROM policy_rule_versions) AS rules,
				(SELECT coalesce(sum(version), 0) FROM assistants) AS assistants,
				(SELECT count(*) FROM assistants WHERE deleted_at IS NOT NULL) AS deleted`)
	})
	if err != nil {
		return nil, err
	}
	return map[chat.SettingsKind]string{
		chat.SettingsServers: fmt.Sprint(row.Servers), chat.SettingsRules: fmt.Sprint(row.Rules),
		chat.SettingsAssistants: fmt.Sprint(row.Assistants, row.Deleted),
	}, nil
}
