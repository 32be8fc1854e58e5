package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// placed is a tool call where it stands in the topic.
type placed struct {
	messageID string
	epoch     int64 // of the message
	position  int
	call      chat.ToolCall
}

type callRow struct {
	TopicID    string  `db:"topic_id"`
	MessageID  string  `db:"message_id"`
	Position   int     `db:"position"`
	State      string  `db:"state"`
	ApprovalID *string `db:"approval_id"`
	Payload    string  `db:"payload"`
	Epoch      int64   `db:"epoch"`
	TurnID     string  `db:"turn_id"`
}

func (r callRow) placed() (placed, error) {
	part, err := partRow{MessageID: r.MessageID, Position: r.Position, Payload: r.Payload}.part()
	if err != nil {
		return placed{}, err
	}
	call, ok := part.(chat.ToolCall)
	if !ok {
		return placed{}, fmt.Errorf("part %d of message %s is no tool call", r.Position, r.MessageID)
	}
	return placed{messageID: r.MessageID, epoch: r.Epoch, position: r.Position, call: call}, nil
}

const selectCalls = `
	SELECT p.message_id, p.position, p.state, p.approval_id, p.payload, m.epoch
	FROM parts p JOIN messages m ON m.topic_id = p.topic_id AND m.id = p.message_id
	WHERE p.topic_id = ? AND p.message_id IN (?) AND p.tool_call_id IS NOT NULL`

// calls reads all tool calls of a message.
func (t *topicTx) calls(ctx context.Context, messageID string) ([]placed, error) {
	return t.callsOf(ctx, t.topic.ID, messageID)
}

func (t *tx) callsOf(ctx context.Context, topicID, messageID string) ([]placed, error) {
	return t.readCalls(ctx, selectCalls+` ORDER BY p.message_id, p.position`, topicID, []string{messageID})
}

// unsettledCalls reads the tool calls of messages that have no result yet.
func (t *topicTx) unsettledCalls(ctx context.Context, messageIDs []string) ([]placed, error) {
	return t.readCalls(ctx, selectCalls+`
		AND p.state NOT IN ('output-available', 'output-error', 'output-denied')
		ORDER BY p.message_id, p.position`, t.topic.ID, messageIDs)
}

func (t *tx) readCalls(ctx context.Context, query string, args ...any) ([]placed, error) {
	var rows []callRow
	if err := t.allIn(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("read the calls: %w", err)
	}
	calls := make([]placed, len(rows))
	for i, row := range rows {
		p, err := row.placed()
		if err != nil {
			return nil, err
		}
		calls[i] = p
	}
	return calls, nil
}

// writeCall writes a call that was changed, with its audit, and announces it.
func (t *topicTx) writeCall(ctx context.Context, was placed, call chat.ToolCall) error {
	statements, err := t.callWrites(was, call)
	if err != nil {
		return err
	}
	return t.together(ctx, statements)
}

// callWrites is what writeCall runs, for those that have more to run with it.
func (t *topicTx) callWrites(was placed, call chat.ToolCall) ([]statement, error) {
	payload, err := encodePart(call)
	if err != nil {
		return nil, fmt.Errorf("part %d of message %s: %w", was.position, was.messageID, err)
	}
	c, before := callColumnsOf(call, t.at), callColumnsOf(was.call, t.at)
	t.parts = append(t.parts, chat.PartChange{MessageID: was.messageID, Epoch: was.epoch, Position: was.position, Part: call})
	set, args := `state = ?, updated_at = ?, revision = ?, payload = ?`, []any{c.state, t.at, t.revision(), payload}
	if !c.asksAs(before) { // a decision, which is in a hurry, changes none of these
		set += `, approval_id = ?, question_id = ?, requested_at = ?, expires_at = ?`
		args = append(args, c.approvalID, c.questionID, c.requestedAt, c.expiresAt)
	}
	write := statement{
		doing: fmt.Sprintf("write part %d of message %s", was.position, was.messageID),
		query: `UPDATE parts SET ` + set + ` WHERE topic_id = ? AND message_id = ? AND position = ?`,
		args:  append(args, t.topic.ID, was.messageID, was.position),
		one:   true,
	}
	audit, err := t.audit(was.messageID, was.call, call)
	return append([]statement{write}, audit...), err
}

// settle applies a rule to calls and writes those that it changes.
func (t *topicTx) settle(ctx context.Context, calls []placed, rule func(chat.ToolCall, time.Time) (chat.ToolCall, bool)) error {
	for _, was := range calls {
		call, changed := rule(was.call, t.time())
		if !changed {
			continue
		}
		if err := t.writeCall(ctx, was, call); err != nil {
			return err
		}
	}
	return nil
}

// closeCalls settles what is unsettled in messages whose turns end.
func (t *topicTx) closeCalls(ctx context.Context, messageIDs []string, why chat.Resolution) error {
	calls, err := t.unsettledCalls(ctx, messageIDs)
	if err != nil {
		return err
	}
	return t.settle(ctx, calls, func(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) { return chat.Close(c, why, at) })
}

// audit brings the record of decisions up to a call that was changed: a row
// when its approval is decided or closed, an update of that row when it is
// started and when it ends.
func (t *topicTx) audit(anchorID string, was, is chat.ToolCall) ([]statement, error) {
	var statements []statement
	if open(was.Approval) && (is.Approval == nil || is.Approval.ID != was.Approval.ID) {
		// Another question took the place of this one.
		closed, _ := chat.Close(was, chat.ResolutionSuperseded, t.time())
		row, err := t.auditRow(anchorID, closed)
		if err != nil {
			return nil, err
		}
		statements = append(statements, row)
	}
	a := is.Approval
	if a == nil || a.Approved == nil {
		return statements, nil
	}
	if was.Approval == nil || was.Approval.ID != a.ID || was.Approval.Approved == nil {
		row, err := t.auditRow(anchorID, is)
		return append(statements, row), err
	}
	started, finished, outcome := ran(is)
	if s, f, o := ran(was); s.Equal(started.Time) && f.Equal(finished.Time) && o == outcome {
		return statements, nil
	}
	return append(statements, statement{
		doing: "record the run of approval " + a.ID,
		query: `UPDATE decisions SET started_at = ?, finished_at = ?, outcome = ? WHERE approval_id = ?`,
		args:  []any{started, finished, outcome, a.ID},
	}), nil
}

// open reports whether an approval waits for its decision.
func open(a *chat.Approval) bool { return a != nil && a.Approved == nil }

func ran(c chat.ToolCall) (started, finished instant, outcome chat.Outcome) {
	if m := c.ToolMetadata; m != nil {
		return instantOf(m.StartedAt), instantOf(m.FinishedAt), m.Outcome
	}
	return instant{}, instant{}, ""
}

// auditRow records a decision, or why nobody can decide any more.
func (t *topicTx) auditRow(anchorID string, call chat.ToolCall) (statement, error) {
	a := call.Approval
	id, err := newID()
	if err != nil {
		return statement{}, err
	}
	original, executed, digest := storable(call.Input), (*string)(nil), a.InputDigest
	if a.OriginalInput != nil {
		original = storable(a.OriginalInput)
	}
	if a.Granted() {
		executed, digest = storable(call.Input), chat.Digest(call.Input)
	}
	server := ""
	if call.ToolMetadata != nil {
		server = call.ToolMetadata.Server
	}
	decidedAt := instantOf(a.DecidedAt)
	if decidedAt.IsZero() {
		decidedAt = t.at
	}
	columns := `id, approval_id, topic_id, anchor_id, tool_call_id, tool_name, server, approved, resolution, reason,
		decided_by, via, decided_at, original_input, executed_input, input_digest, remember`
	values := []any{
		id, a.ID, t.topic.ID, anchorID, clean(call.ToolCallID), clean(call.ToolName), clean(server), a.Granted(), a.Resolution,
		clean(a.Reason), clean(a.DecidedBy), a.Via, decidedAt, original, executed, digest, a.Remember,
	}
	if started, finished, outcome := ran(call); !started.IsZero() || !finished.IsZero() || outcome != "" {
		columns += `, started_at, finished_at, outcome`
		values = append(values, started, finished, outcome)
	}
	return statement{
		doing: "record the decision on approval " + a.ID,
		query: `INSERT INTO decisions (` + columns + `) VALUES (?` + strings.Repeat(", ?", len(values)-1) + `)`,
		args:  values,
		one:   true,
	}, nil
}

// storable is JSON as it is stored; nil is NULL.
func storable(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := clean(string(raw))
	return &s
}

// positions gives calls as the engine of turns knows them.
func positions(calls []placed) []chat.PlacedCall {
	out := make([]chat.PlacedCall, len(calls))
	for i, c := range calls {
		out[i] = chat.PlacedCall{Position: c.position, Call: c.call}
	}
	return out
}

// at finds the call at a position.
func at(calls []placed, position int) (int, bool) {
	i := slices.IndexFunc(calls, func(c placed) bool { return c.position == position })
	return i, i >= 0
}
