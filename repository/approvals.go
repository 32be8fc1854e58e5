package repository

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Call reads the call of an approval.
func (s *Store) Call(ctx context.Context, topicID, approvalID string) (chat.ToolCall, error) {
	var call chat.ToolCall
	err := s.view(ctx, "read an approval", func(ctx context.Context, t *tx) error {
		var row callRow
		ok, err := t.find(ctx, &row, `SELECT message_id, position, payload FROM parts WHERE approval_id = ? AND topic_id = ?`, approvalID, topicID)
		if err != nil {
			return fmt.Errorf("approval %s: %w", approvalID, err)
		}
		if !ok {
			return t.noApproval(ctx, topicID, approvalID)
		}
		p, err := row.placed()
		call = p.call
		return err
	})
	return call, err
}

// Approvals lists approvals: those that wait with the oldest first, others
// with the newest first. Those of one step stand in the order of its calls.
func (s *Store) Approvals(ctx context.Context, f chat.ApprovalFilter, p chat.Page) ([]chat.ApprovalItem, string, error) {
	where, args := []string(nil), []any(nil)
	order, beyond := "DESC", "<"
	if f.TopicID != "" {
		where, args = append(where, "p.topic_id = ?"), append(args, f.TopicID)
	}
	if f.Pending {
		where = append(where, "p.state = 'approval-requested'")
		order, beyond = "ASC", ">"
	} else { // what is pending has one, and SQLite would look among all of them
		where = append(where, "p.approval_id IS NOT NULL")
	}
	if f.Settled {
		where = append(where, "p.state <> 'approval-requested'")
	}
	if p.Cursor != "" {
		after, err := readPlaceCursor(p.Cursor)
		if err != nil {
			return nil, "", err
		}
		where, args = append(where, "(p.requested_at, p.message_id, p.position) "+beyond+" (?, ?, ?)"), append(args, after...)
	}
	args = append(args, p.Limit+1)

	var rows []struct {
		callRow
		TopicTitle  string  `db:"title"`
		RequestedAt instant `db:"requested_at"`
	}
	err := s.view(ctx, "list approvals", func(ctx context.Context, t *tx) error {
		rows = nil
		return t.all(ctx, &rows, `
			SELECT p.topic_id, t.title, p.message_id, p.position, p.approval_id, p.payload, p.requested_at
			FROM parts p JOIN topics t ON t.id = p.topic_id
			WHERE `+strings.Join(where, " AND ")+`
			ORDER BY p.requested_at `+order+`, p.message_id `+order+`, p.position `+order+` LIMIT ?`, args...)
	})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		last := rows[len(rows)-1]
		next = placeCursor(last.RequestedAt, last.MessageID, last.Position)
	}
	items := make([]chat.ApprovalItem, len(rows))
	for i, row := range rows {
		placed, err := row.placed()
		if err != nil {
			return nil, "", err
		}
		items[i] = approvalItem(row.TopicID, row.TopicTitle, placed)
	}
	return items, next, nil
}

func approvalItem(topicID, title string, p placed) chat.ApprovalItem {
	call := p.call
	item := chat.ApprovalItem{
		TopicID: topicID, TopicTitle: title, AnchorID: p.messageID, ToolCallID: call.ToolCallID, ToolName: call.ToolName,
		Title: call.Title, Input: call.Input, State: call.State,
	}
	if call.Approval != nil {
		item.ApprovalID, item.Approval, item.RequestedAt = call.Approval.ID, *call.Approval, call.Approval.RequestedAt
	}
	if m := call.ToolMetadata; m != nil {
		item.Server, item.InputSchema, item.Annotations, item.Outcome, item.Model = m.Server, m.InputSchema, m.Annotations, m.Outcome, m.Model
		if m.Title != "" {
			item.Title = m.Title
		}
	}
	return item
}

type auditRow struct {
	ID            string  `db:"id"`
	ApprovalID    string  `db:"approval_id"`
	TopicID       string  `db:"topic_id"`
	AnchorID      string  `db:"anchor_id"`
	ToolCallID    string  `db:"tool_call_id"`
	ToolName      string  `db:"tool_name"`
	Server        string  `db:"server"`
	Approved      bool    `db:"approved"`
	Resolution    string  `db:"resolution"`
	Reason        string  `db:"reason"`
	DecidedBy     string  `db:"decided_by"`
	Via           string  `db:"via"`
	DecidedAt     instant `db:"decided_at"`
	OriginalInput *string `db:"original_input"`
	ExecutedInput *string `db:"executed_input"`
	InputDigest   string  `db:"input_digest"`
	StartedAt     instant `db:"started_at"`
	FinishedAt    instant `db:"finished_at"`
	Outcome       string  `db:"outcome"`
	Remember      string  `db:"remember"`
}

func (r auditRow) entry() chat.AuditEntry {
	return chat.AuditEntry{
		ID: r.ID, ApprovalID: r.ApprovalID, TopicID: r.TopicID, AnchorID: r.AnchorID, ToolCallID: r.ToolCallID, ToolName: r.ToolName,
		Server: r.Server, Approved: r.Approved, Resolution: chat.Resolution(r.Resolution), Reason: r.Reason, DecidedBy: r.DecidedBy,
		Via: chat.Via(r.Via), DecidedAt: r.DecidedAt.Time, OriginalInput: rawOf(r.OriginalInput), ExecutedInput: rawOf(r.ExecutedInput),
		InputDigest: r.InputDigest, StartedAt: r.StartedAt.ptr(), FinishedAt: r.FinishedAt.ptr(), Outcome: chat.Outcome(r.Outcome), Remember: chat.Remember(r.Remember),
	}
}

func rawOf(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}

// Audit lists the record of decisions, the newest first, by their ids, which
// sort by the clock of the process that made them. It holds those of
// deleted messages and topics too.
func (s *Store) Audit(ctx context.Context, topicID string, p chat.Page) ([]chat.AuditEntry, string, error) {
	where, args := []string{"1 = 1"}, []any(nil)
	if topicID != "" {
		where, args = append(where, "topic_id = ?"), append(args, topicID)
	}
	if p.Cursor != "" {
		_, id, err := readCursor(p.Cursor)
		if err != nil {
			return nil, "", err
		}
		where, args = append(where, "id < ?"), append(args, id)
	}
	args = append(args, p.Limit+1)
	var rows []auditRow
	err := s.read.look(ctx, "list decisions", func(ctx context.Context, t *tx) error {
		return t.all(ctx, &rows, `
			SELECT id, approval_id, topic_id, anchor_id, tool_call_id, tool_name, server, approved, resolution, reason, decided_by, via,
				decided_at, original_input, executed_input, input_digest, started_at, finished_at, outcome, remember
			FROM decisions WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, args...)
	})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		last := rows[len(rows)-1]
		next = cursor(last.DecidedAt, last.ID)
	}
	entries := make([]chat.AuditEntry, len(rows))
	for i, row := range rows {
		entries[i] = row.entry()
	}
	return entries, next, nil
}

// cursor is where a page ends, opaque to clients.
func cursor(at instant, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.UTC().Format(instantText) + " " + id))
}

var errCursor = chat.Malformed("The cursor is not one that this server gave.")

func readCursor(text string) (instant, string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return instant{}, "", errCursor
	}
	at, id, ok := strings.Cut(string(raw), " ")
	if !ok || id == "" {
		return instant{}, "", errCursor
	}
	t, err := time.Parse(instantText, at)
	if err != nil || t.Year() < 2000 { // ours are not that old, and PostgreSQL knows no year 0
		return instant{}, "", errCursor
	}
	return instant{t}, id, nil
}

// placeCursor is a cursor for a list of parts, which may share an instant.
func placeCursor(at instant, messageID string, position int) string {
	return cursor(at, messageID+"/"+strconv.Itoa(position))
}

// readPlaceCursor reads where a page of parts begins: the arguments for
// "(instant, message_id, position) > (?, ?, ?)".
func readPlaceCursor(text string) ([]any, error) {
	at, place, err := readCursor(text)
	if err != nil {
		return nil, err
	}
	i := strings.LastIndexByte(place, '/') // a client's message id may hold one
	if i < 0 {
		return nil, errCursor
	}
	position, err := strconv.ParseInt(place[i+1:], 10, 32)
	if err != nil {
		return nil, errCursor
	}
	return []any{at, place[:i], position}, nil
}
