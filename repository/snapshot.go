package repository

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

const unlimited = math.MaxInt32

// branch reads a message and those above it, the oldest first, at most n.
func (t *tx) branch(ctx context.Context, topicID, leaf string, n int) ([]messageRow, error) {
	var rows []messageRow
	if leaf == "" {
		return rows, nil
	}
	if err := t.all(ctx, &rows, `
		WITH RECURSIVE up (id, parent_id, depth) AS (
			SELECT m.id, m.parent_id, 1 FROM messages m WHERE m.topic_id = ? AND m.id = ?
			UNION ALL
			SELECT m.id, m.parent_id, up.depth + 1 FROM up JOIN messages m ON m.topic_id = ? AND m.id = up.parent_id
			WHERE up.depth < ?
		)
		SELECT `+messageColumns+` FROM up JOIN messages m ON m.topic_id = ? AND m.id = up.id ORDER BY up.depth DESC`,
		topicID, leaf, topicID, n, topicID); err != nil {
		return nil, fmt.Errorf("read the branch of message %s: %w", leaf, err)
	}
	return rows, nil
}

// Snapshot reads one consistent state of a topic: the newest limit messages
// of the active branch, or those before a message of it.
func (s *Store) Snapshot(ctx context.Context, topicID string, limit int, before string) (chat.Snapshot, error) {
	var snap chat.Snapshot
	err := s.view(ctx, "read a snapshot", func(ctx context.Context, t *tx) error {
		row, err := t.readTopic(ctx, topicID)
		if err != nil {
			return err
		}
		topic, err := t.withStatus(ctx, row)
		if err != nil {
			return err
		}
		leaf := row.ActiveLeaf
		if before != "" {
			newer, err := t.findMessage(ctx, topicID, before)
			if err != nil {
				return err
			}
			leaf = newer.ParentID
		}
		branch, err := t.branch(ctx, topicID, leaf, limit+1)
		if err != nil {
			return err
		}
		snap = chat.Snapshot{Topic: topic, Status: topic.Status, Revision: row.Revision}
		if len(branch) > limit {
			branch = branch[len(branch)-limit:]
			snap.HasMore, snap.Before = true, branch[0].ID
		}
		var queued []messageRow
		if err := t.all(ctx, &queued, `
			SELECT `+messageColumns+` FROM messages m
			WHERE m.topic_id = ? AND m.status = 'queued' AND m.deleted_at IS NULL ORDER BY m.queue_position`, topicID); err != nil {
			return fmt.Errorf("read the queue: %w", err)
		}
		messages, err := t.withParts(ctx, topicID, slices.Concat(branch, queued))
		if err != nil {
			return err
		}
		snap.Messages, snap.Queued = messages[:len(branch):len(branch)], messages[len(branch):]
		return nil
	})
	return snap, err
}

// Tree reads all messages of all branches, parents before children, and the
// queued ones last.
func (s *Store) Tree(ctx context.Context, topicID string) ([]chat.Message, int64, error) {
	var messages []chat.Message
	var revision int64
	err := s.view(ctx, "read a tree", func(ctx context.Context, t *tx) error {
		topic, err := t.readTopic(ctx, topicID)
		if err != nil {
			return err
		}
		var rows []messageRow
		if err := t.all(ctx, &rows, `
			SELECT `+messageColumns+` FROM messages m WHERE m.topic_id = ? AND m.deleted_at IS NULL
			ORDER BY CASE WHEN m.status = 'queued' THEN 1 ELSE 0 END, m.sequence`, topicID); err != nil {
			return fmt.Errorf("read the messages: %w", err)
		}
		messages, err = t.withParts(ctx, topicID, rows)
		revision = topic.Revision
		return err
	})
	return messages, revision, err
}
