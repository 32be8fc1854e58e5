package chat

import (
	"time"
)

// Role says who a message is from.
type Role string

// The roles of a message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// MessageStatus says how far a message has come.
type MessageStatus string

// The statuses of a message.
const (
	MessagePending MessageStatus = "pending" // its turn is queued, running or waiting
	MessageSuccess MessageStatus = "success"
	MessageError   MessageStatus = "error"
	MessageAborted MessageStatus = "aborted"
	MessageQueued  MessageStatus = "queued" // a user's, not sent yet
)

// Message is one node of a topic's tree.
type Message struct {
	ID       string
	TopicID  string
	ParentID string // "" for a root
	GroupID  string // shared by the answers that several models give together
	Role     Role
	Parts    Parts
	Status   MessageStatus
	Model    string // of an assistant message: "provider/model"
	SentBy   string // of a user message: the principal who sent it
	TurnID   string // of an assistant message
	// Epoch is that of the turn that fills the message, 0 if none ever did.
	// A delta of another epoch does not belong to these parts.
	Epoch     int64
	Error     *TurnError
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64 // of the topic, when the message changed last
}

// TurnError is why a turn ended in error, or what is to be known of one that
// ended well; fit to be shown.
type TurnError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type messageMetadata struct {
	ParentID  string        `json:"parentId,omitempty"`
	Status    MessageStatus `json:"status"`
	Model     string        `json:"model,omitempty"`
	TurnID    string        `json:"turnId,omitempty"`
	Epoch     int64         `json:"epoch,omitempty"`
	Error     *TurnError    `json:"error,omitempty"`
	CreatedAt time.Time     `json:"createdAt"`
	UpdatedAt time.Time     `json:"updatedAt"`
	Revision  int64         `json:"revision"`
}

type wireMessage struct {
	ID       string          `json:"id"`
	Role     Role            `json:"role"`
	Parts    *Parts          `json:"parts,omitempty"`
	Metadata messageMetadata `json:"metadata"`
}

func (m Message) wire() wireMessage {
	return wireMessage{ID: m.ID, Role: m.Role, Metadata: messageMetadata{
		ParentID: m.ParentID, Status: m.Status, Model: m.Model, TurnID: m.TurnID, Epoch: m.Epoch, Error: m.Error,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, Revision: m.Revision,
	}}
}

// MarshalJSON writes the message as an AI SDK UIMessage.
func (m Message) MarshalJSON() ([]byte, error) {
	w := m.wire()
	parts := m.Parts
	if parts == nil {
		parts = Parts{}
	}
	w.Parts = &parts
	return Marshal(w)
}

// MetadataJSON writes the message without its parts: what a tab needs when
// only its status has changed.
func (m Message) MetadataJSON() ([]byte, error) { return Marshal(m.wire()) }

// Topic is one conversation.
type Topic struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	Model        string    `json:"model"`
	SystemPrompt string    `json:"systemPrompt,omitempty"`
	Mode         Mode      `json:"mode"`
	AssistantID  string    `json:"assistantId,omitempty"` // that it started from
	MCPServerIDs []string  `json:"mcpServerIds,omitzero"` // absent: every server; empty: none
	Revision     int64     `json:"revision"`
	ActiveLeaf   string    `json:"activeLeafId,omitempty"`
	Status       Status    `json:"status"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// Snapshot is one consistent state of a topic: what a tab draws.
type Snapshot struct {
	Topic    Topic     `json:"topic"`
	Messages []Message `json:"messages"` // the active branch, oldest first
	Queued   []Message `json:"queued"`   // in the order in which they will be sent
	Status   Status    `json:"status"`
	Revision int64     `json:"revision"`
	// HasMore says that the branch has older messages, before the message
	// Before.
	HasMore bool   `json:"hasMore"`
	Before  string `json:"before,omitempty"`
}

// Change is what one committed transaction changed of a topic, for those who
// watch it. Every member was read or written in that transaction.
type Change struct {
	TopicID  string
	Revision int64
	// Messages changed whole, in order: a tab replaces or appends them.
	Messages []Message
	// Metadata lists messages of which only the metadata changed; their Parts
	// are not set.
	Metadata []Message
	// Parts changed one by one.
	Parts []PartChange
	// Removed are the ids of messages that are gone.
	Removed []string
	// Topic is set if the topic itself changed (title, model, …).
	Topic *Topic
	// TopicRemoved says that the topic is gone.
	TopicRemoved bool
	// Reset says that the change cannot be told in pieces (another branch is
	// active): every tab needs a new snapshot.
	Reset bool
}

// TopicRevision says how far a topic has come.
type TopicRevision struct {
	TopicID  string
	Revision int64
	Removed  bool
}

// PartChange is a part that was written at a position of a message.
type PartChange struct {
	MessageID string
	Epoch     int64
	Position  int
	Part      Part
}
