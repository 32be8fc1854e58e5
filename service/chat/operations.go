package chat

import (
	"encoding/json"
	"time"
)

// Page asks for part of a list.
type Page struct {
	Limit  int    // at least 1
	Cursor string // "" for the first page; opaque
}

// NewTopic is what a topic begins with. Every member may be empty.
type NewTopic struct {
	Title        string
	Model        string
	SystemPrompt string
	MCPServerIDs []string // nil is every server, empty is none
	Mode         Mode     // "" is ModeDefault
	AssistantID  string   // that the topic starts from; "" for none
}

// TopicPatch changes a topic; nil members stay as they are.
type TopicPatch struct {
	Title        *string
	Model        *string
	SystemPrompt *string
	Mode         *Mode
}

// WhenBusy says what to do with a message for a topic whose turn runs or waits.
type WhenBusy string

// What can be done with a message when a topic is busy.
const (
	WhenBusyQueue     WhenBusy = "queue"     // store it, send it when the turn is done
	WhenBusySupersede WhenBusy = "supersede" // close what waits and send at once
	WhenBusyReject    WhenBusy = "reject"    // refuse it
)

// NewMessage is a message that a person sends.
type NewMessage struct {
	ID       string // chosen by the client, or made here
	Parts    Parts
	WhenBusy WhenBusy // "" is WhenBusyQueue
	Title    string   // for a topic that has none yet
	By       string   // the principal who sends it
}

// Sent is a stored message and, unless it was queued, the turn that answers it.
type Sent struct {
	Message Message
	Turn    *TurnRef
	Queued  bool
	// Repeated says that the message was stored before: nothing was changed.
	Repeated bool
	Revision int64
}

// DecisionResult is what became of one decision.
type DecisionResult struct {
	ApprovalID string    `json:"approvalId"`
	Outcome    Effect    `json:"outcome"`
	DecidedBy  string    `json:"decidedBy"`
	DecidedAt  time.Time `json:"decidedAt"`
}

// Continuation says how a turn goes on after a decision.
type Continuation string

// The ways in which a turn goes on.
const (
	ContinuationWaiting   Continuation = "waiting"   // other approvals are open
	ContinuationScheduled Continuation = "scheduled" // this was the last; the turn is queued
	ContinuationRunning   Continuation = "running"   // the turn is live and will see it
	ContinuationNone      Continuation = "none"      // an equal repeat: nothing was changed
)

// Decided is the answer to a batch of decisions. A batch may touch several
// turns of a topic: Continuation is then that of the last decision's turn,
// and Pending counts the open approvals of all of them.
type Decided struct {
	Results      []DecisionResult `json:"results"`
	Pending      int              `json:"pending"`
	Continuation Continuation     `json:"continuation"`
	Revision     int64            `json:"revision"`
}

// ApprovalItem is a tool call with its question, decided or not, as the inbox
// lists it.
type ApprovalItem struct {
	ApprovalID  string          `json:"approvalId"`
	TopicID     string          `json:"topicId"`
	TopicTitle  string          `json:"topicTitle"`
	AnchorID    string          `json:"anchorId"`
	ToolCallID  string          `json:"toolCallId"`
	ToolName    string          `json:"toolName"`
	Server      string          `json:"server,omitempty"`
	Title       string          `json:"title,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	State       CallState       `json:"state"`
	Approval    Approval        `json:"approval"`
	Outcome     Outcome         `json:"outcome,omitempty"`
	Model       string          `json:"model,omitempty"`
	RequestedAt *time.Time      `json:"requestedAt,omitempty"`
}

// ApprovalRef names an approval.
type ApprovalRef struct{ TopicID, ApprovalID string }

// ApprovalFilter selects approvals; the zero value selects all.
type ApprovalFilter struct {
	TopicID string
	Pending bool // only those that wait
	Settled bool // only those that do not wait
}

// AuditEntry is one row of the append-only record of decisions. Those of
// deleted messages stay.
type AuditEntry struct {
	ID            string          `json:"id"`
	ApprovalID    string          `json:"approvalId"`
	TopicID       string          `json:"topicId"`
	AnchorID      string          `json:"anchorId"`
	ToolCallID    string          `json:"toolCallId"`
	ToolName      string          `json:"toolName"`
	Server        string          `json:"server,omitempty"`
	Approved      bool            `json:"approved"`
	Resolution    Resolution      `json:"resolution,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	DecidedBy     string          `json:"decidedBy"`
	Via           Via             `json:"via,omitempty"`
	DecidedAt     time.Time       `json:"decidedAt"`
	OriginalInput json.RawMessage `json:"originalInput,omitempty"` // what the model asked for
	ExecutedInput json.RawMessage `json:"executedInput,omitempty"` // what was approved to run
	InputDigest   string          `json:"inputDigest,omitempty"`   // of ExecutedInput, or of OriginalInput if denied
	StartedAt     *time.Time      `json:"startedAt,omitempty"`
	FinishedAt    *time.Time      `json:"finishedAt,omitempty"`
	Outcome       Outcome         `json:"outcome,omitempty"`
	Remember      Remember        `json:"remember,omitempty"` // what was decided for good along with it
}

// Epochs names turns, by id, each with the epoch that is meant: what is said
// of it does not hold for a later claim of the same turn.
type Epochs map[string]int64

// TokenKind says what a stored token is good for.
type TokenKind string

// The kinds of tokens. Only digests of them are stored.
const (
	TokenBearer  TokenKind = "bearer"  // of a principal, for the API; does not end
	TokenLogin   TokenKind = "login"   // of a login link: used once
	TokenSession TokenKind = "session" // of a browser's cookie
)

// Token is what is known of a stored token.
type Token struct {
	Digest    string
	Kind      TokenKind
	Principal string
}
