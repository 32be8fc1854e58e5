package chat

import "encoding/json"

// Prompt is one request to a model. It is built from committed parts alone.
type Prompt struct {
	Model    string // without its provider
	System   string
	Messages []PromptMessage
	Tools    []ToolSpec
}

// ToolSpec is a tool as it is offered to a model.
type ToolSpec struct {
	Name        string
	Description string
	InputSchema json.RawMessage
}

// PromptMessage is one message of a model's history. Results follow the
// assistant message that made the calls, one tool message for all of them.
type PromptMessage struct {
	Role  PromptRole
	Parts []PromptPart
}

// PromptRole says who a prompt message is from.
type PromptRole string

// The roles of a prompt.
const (
	PromptUser      PromptRole = "user"
	PromptAssistant PromptRole = "assistant"
	PromptTool      PromptRole = "tool"
)

// PromptPart is one piece of a prompt message.
type PromptPart struct {
	Kind PromptKind
	Text string // of text, reasoning and results
	// CallID pairs a call and its result.
	CallID string
	Name   string          // of the called tool
	Input  json.RawMessage // of a call: exact
	// IsError says that the result tells of a call that did not do its work.
	IsError bool
	// MediaType and URL are those of a file.
	MediaType, URL string
	Metadata       json.RawMessage // the provider's own, as it came
}

// PromptKind says what a prompt part is.
type PromptKind string

// The kinds of prompt parts.
const (
	PromptText       PromptKind = "text"
	PromptReasoning  PromptKind = "reasoning"
	PromptFile       PromptKind = "file"
	PromptToolCall   PromptKind = "tool-call"
	PromptToolResult PromptKind = "tool-result"
)

// History turns committed messages, oldest first, into a model's history. In
// it every call is followed by exactly one result before anything else is
// said, whatever became of the call: a provider never sees a call alone.
func History(messages []Message) []PromptMessage {
	var out []PromptMessage
	for _, m := range messages {
		switch m.Role {
		case RoleUser, RoleSystem:
			if parts := said(m.Parts); len(parts) > 0 {
				out = append(out, PromptMessage{PromptUser, parts})
			}
		case RoleAssistant:
			out = append(out, steps(m.Parts)...)
		}
	}
	return out
}

func said(parts Parts) []PromptPart {
	var out []PromptPart
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			if p.Text != "" {
				out = append(out, PromptPart{Kind: PromptText, Text: p.Text})
			}
		case File:
			out = append(out, PromptPart{Kind: PromptFile, MediaType: p.MediaType, URL: p.URL})
		case Reasoning, ToolCall, StepStart, Other:
		}
	}
	return out
}

// steps cuts an assistant message at its step-start parts. A step's calls
// come after its text, its results in a message of their own.
func steps(parts Parts) []PromptMessage {
	var out []PromptMessage
	var words, calls, results []PromptPart
	flush := func() {
		if len(words)+len(calls) > 0 {
			out = append(out, PromptMessage{PromptAssistant, append(words, calls...)})
		}
		if len(results) > 0 {
			out = append(out, PromptMessage{PromptTool, results})
		}
		words, calls, results = nil, nil, nil
	}
	for _, p := range parts {
		switch p := p.(type) {
		case StepStart:
			flush()
		case Text:
			if p.Text != "" {
				words = append(words, PromptPart{Kind: PromptText, Text: p.Text, Metadata: p.ProviderMetadata})
			}
		case Reasoning:
			words = append(words, PromptPart{Kind: PromptReasoning, Text: p.Text, Metadata: p.ProviderMetadata})
		case ToolCall:
			input := p.Input
			if input == nil {
				input = json.RawMessage("{}") // it was not JSON; the result says so
			}
			calls = append(calls, PromptPart{
				Kind: PromptToolCall, CallID: p.ToolCallID, Name: p.ToolName, Input: input, Metadata: p.CallProviderMetadata,
			})
			text, bad := Hearing(p)
			results = append(results, PromptPart{Kind: PromptToolResult, CallID: p.ToolCallID, Name: p.ToolName, Text: text, IsError: bad})
		case File, Other:
		}
	}
	flush()
	return out
}
