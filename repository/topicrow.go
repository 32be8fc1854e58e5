package repository

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/assent-chat/assent/service/chat"
)

// topicRow is a row of topics as it is read.
type topicRow struct {
	ID              string  `db:"id"`
	Title           string  `db:"title"`
	Model           string  `db:"model"`
	SystemPrompt    string  `db:"system_prompt"`
	Mode            string  `db:"mode"`
	AssistantID     string  `db:"assistant_id"`
	MCPServerIDs    *string `db:"mcp_server_ids"`
	Revision        int64   `db:"revision"`
	ActiveLeaf      string  `db:"active_leaf"`
	LastCompletedAt instant `db:"last_completed_at"`
	CreatedAt       instant `db:"created_at"`
	UpdatedAt       instant `db:"updated_at"`
}

const topicColumns = `id, title, model, system_prompt, mode, assistant_id, mcp_server_ids, revision, active_leaf, last_completed_at, created_at, updated_at`

func (r topicRow) topic() (chat.Topic, error) {
	t := chat.Topic{
		ID: r.ID, Title: r.Title, Model: r.Model, SystemPrompt: r.SystemPrompt, Mode: chat.Mode(r.Mode), AssistantID: r.AssistantID,
		Revision: r.Revision, ActiveLeaf: r.ActiveLeaf, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
	if r.MCPServerIDs != nil {
		if err := json.Unmarshal([]byte(*r.MCPServerIDs), &t.MCPServerIDs); err != nil {
			return chat.Topic{}, fmt.Errorf("tool servers of topic %s: %w", r.ID, err)
		}
	}
	return t, nil
}

// topicTx is a transaction that holds a topic, at the topic's new revision.
// What it is told of becomes the Change of its commit.
type topicTx struct {
	*tx
	topic topicRow
	at    instant // the time of the transaction, by the database's clock
	made  int64   // messages made so far

	messages []string // to be announced whole
	metadata []string // to be announced without parts
	parts    []chat.PartChange
	removed  []string
	changed  bool // the topic itself
	deleted  bool
	reset    bool
}

// lockTopic raises the topic's revision, which locks its row until the end of
// the transaction, and reads the time and the given columns, all in one
// statement.
func (t *tx) lockTopic(ctx context.Context, topicID, columns string) (*topicTx, error) {
	tt := &topicTx{tx: t}
	var row struct {
		topicRow
		XID string `db:"xid"`
	}
	ok, err := t.find(ctx, &row, `
		UPDATE topics SET revision = revision + 1, updated_at = {now}
		WHERE id = ? AND deleted_at IS NULL
		RETURNING {xid} AS xid, `+columns, topicID)
	if err != nil {
		return nil, fmt.Errorf("lock topic %s: %w", topicID, err)
	}
	if !ok {
		return nil, t.noTopic(ctx, topicID)
	}
	tt.topic, t.id = row.topicRow, row.XID
	tt.at = tt.topic.UpdatedAt
	return tt, nil
}

// noTopic says why there is no such topic.
func (t *tx) noTopic(ctx context.Context, topicID string) error {
	var id string
	switch gone, err := t.find(ctx, &id, `SELECT id FROM topics WHERE id = ?`, topicID); {
	case err != nil:
		return fmt.Errorf("topic %s: %w", topicID, err)
	case gone:
		return chat.Gone("Topic %s was deleted.", topicID)
	}
	return chat.NotFound("There is no topic %s.", topicID)
}

// readTopic reads a topic without locking it.
func (t *tx) readTopic(ctx context.Context, topicID string) (topicRow, error) {
	var row topicRow
	ok, err := t.find(ctx, &row, `SELECT `+topicColumns+` FROM topics WHERE id = ? AND deleted_at IS NULL`, topicID)
	if err != nil {
		return row, fmt.Errorf("topic %s: %w", topicID, err)
	}
	if !ok {
		return row, t.noTopic(ctx, topicID)
	}
	return row, nil
}

func (t *topicTx) revision() int64 { return t.topic.Revision }
func (t *topicTx) time() time.Time { return t.at.Time }

// before is the revision that the topic had before this transaction, and
// keeps if nothing is changed.
func (t *topicTx) before() int64 { return t.topic.Revision - 1 }

// sequence numbers the messages of a topic: by the transactions that made
// them, and by their order within one.
func (t *topicTx) sequence() int64 {
	t.made++
	return t.topic.Revision<<10 | t.made
}

// setLeaf selects the branch that ends at the message.
func (t *topicTx) setLeaf(ctx context.Context, messageID string) error {
	if t.topic.ActiveLeaf == messageID {
		return nil
	}
	t.topic.ActiveLeaf = messageID
	if _, err := t.exec(ctx, `UPDATE topics SET active_leaf = ? WHERE id = ?`, messageID, t.topic.ID); err != nil {
		return fmt.Errorf("select message %s: %w", messageID, err)
	}
	return nil
}

// told reads what the transaction is to be announced with.
func (t *topicTx) told(ctx context.Context) (chat.Change, error) {
	c := chat.Change{
		TopicID: t.topic.ID, Revision: t.topic.Revision, Removed: t.removed, TopicRemoved: t.deleted, Reset: t.reset,
	}
	if len(t.messages) > 0 {
		messages, err := t.readMessages(ctx, t.topic.ID, t.messages)
		if err != nil {
			return chat.Change{}, err
		}
		c.Messages = messages
	}
	whole := map[string]bool{}
	for _, id := range t.messages {
		whole[id] = true
	}
	var metadata []string
	for _, id := range t.metadata {
		if !whole[id] {
			whole[id] = true
			metadata = append(metadata, id)
		}
	}
	if len(metadata) > 0 {
		rows, err := t.readMessageRows(ctx, t.topic.ID, metadata)
		if err != nil {
			return chat.Change{}, err
		}
		for _, row := range rows {
			m, err := row.message()
			if err != nil {
				return chat.Change{}, err
			}
			c.Metadata = append(c.Metadata, m)
		}
	}
	for _, p := range t.parts {
		if !slices.Contains(t.messages, p.MessageID) {
			c.Parts = append(c.Parts, p)
		}
	}
	if t.changed {
		topic, err := t.withStatus(ctx, t.topic)
		if err != nil {
			return chat.Change{}, err
		}
		c.Topic = &topic
	}
	return c, nil
}

// newID makes the id of a row; ids made later sort later.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}
