package chat

import (
	"slices"
	"time"
)

// Assistant is what topics can start from: a model, what it is told, the
// servers whose tools it may call, and how freely.
type Assistant struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Description  string `json:"description,omitempty"` // for the person who chooses
	Model        string `json:"model,omitempty"`       // absent is the default model of the day
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// MCPServerIDs are the servers; absent is every server, empty is none.
	MCPServerIDs []string  `json:"mcpServerIds,omitzero"`
	Mode         Mode      `json:"mode"`
	Version      int       `json:"version"` // rises with every change, from 1
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// NewAssistant is what an assistant begins with.
type NewAssistant struct {
	Name         string
	Description  string
	Model        string // "" is the default model
	SystemPrompt string
	MCPServerIDs []string // nil is every server
	Mode         Mode     // "" is ModeDefault
}

// AssistantPatch changes an assistant; nil members stay as they are. Topics
// that started from it keep the model, the prompt and the servers that they
// started with, but its mode holds for them as it is now.
type AssistantPatch struct {
	Name         *string
	Description  *string
	Model        *string
	SystemPrompt *string
	// MCPServerIDs replaces the servers; a pointer to nil is every server.
	MCPServerIDs *[]string
	Mode         *Mode
	// Version, if set, must be the version that the assistant has.
	Version *int
}

// Start returns what a topic begins with that starts from the assistant: what
// the request left out is the assistant's.
func (a Assistant) Start(t NewTopic) NewTopic {
	t.AssistantID = a.ID
	if t.Model == "" {
		t.Model = a.Model
	}
	if t.SystemPrompt == "" {
		t.SystemPrompt = a.SystemPrompt
	}
	if t.MCPServerIDs == nil {
		t.MCPServerIDs = slices.Clone(a.MCPServerIDs)
	}
	return t
}
