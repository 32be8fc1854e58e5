package chat

import (
	"encoding/json"
	"strings"
)

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

// Hearing is what the model is told of a call, and whether the call failed to
// do its work. Denied, cancelled, expired, failed and unknown are told apart.
func Hearing(c ToolCall) (text string, isError bool) {
	switch c.State {
	case CallOutputAvailable:
		text := resultText(c.Output)
		if c.Approval != nil && c.Approval.OriginalInput != nil {
			text = "The person changed the input before approving; it ran with: " + string(c.Input) + "\n" + text
		}
		return text, false
	case CallOutputError:
		if c.RawInput != "" && c.Input == nil {
			return c.ErrorText + " The arguments were: " + c.RawInput, true
		}
		return c.ErrorText, true
	case CallOutputDenied, CallApprovalResponded:
		return denialText(c.Approval), true
	case CallInputStreaming, CallInputAvailable, CallApprovalRequested:
	}
	return "The call has no result yet. It was not run.", true
}

func denialText(a *Approval) string {
	var b strings.Builder
	switch {
	case a == nil || a.Granted():
		return "The call has no result yet."
	case a.Resolution == ResolutionPolicy:
		b.WriteString("A rule of this server refused this call. It was not run.")
	case a.Resolution == ResolutionExpired:
		b.WriteString("Nobody decided in time, so the question expired. The call was not run.")
	case a.Resolution == ResolutionCancelled:
		b.WriteString("The turn ended before anybody decided. The call was not run.")
	case a.Resolution == ResolutionSuperseded:
		b.WriteString("The person went on without deciding. The call was not run.")
	default:
		b.WriteString("The person refused this call. It was not run.")
	}
	if a.Reason != "" {
		b.WriteString(" The reason given: ")
		b.WriteString(a.Reason)
	}
	return b.String()
}

// resultText is a tool's output as a model reads it: a JSON string as its
// text, anything else as its JSON.
func resultText(output json.RawMessage) string {
	var s string
	if json.Unmarshal(output, &s) == nil {
		return s
	}
	return string(output)
}
