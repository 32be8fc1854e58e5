package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Request is a request as it was received.
type Request struct {
	Header   http.Header
	Body     json.RawMessage // the whole, byte for byte
	Model    string
	Stream   bool
	Messages []Message
	Tools    []Tool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool
}

// Message is one message of a request.
type Message struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"` // as it came; see Text
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        string          `json:"reasoning"`
	ToolCalls        []ToolCall      `json:"tool_calls"`
	ToolCallID       string          `json:"tool_call_id"`
}

// Text is the content as text: the string, or the texts of its parts.
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// ToolCall is a call in a request's history.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

// Tool is a tool that a request offers.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func decodeRequest(header http.Header, body []byte) (Request, error) {
	var in struct {
		Model         string
		Stream        bool
		Messages      []Message
		Tools         []Tool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("decode request: %w", err)
	}
	return Request{
		Header: header.Clone(), Body: body, Model: in.Model, Stream: in.Stream, Messages: in.Messages, Tools: in.Tools,
		IncludeUsage: in.StreamOptions.IncludeUsage,
	}, nil
}

// violation says what a real provider would refuse in r, or "".
func violation(r Request) string {
	switch {
	case r.Model == "":
		return "you must provide a model parameter"
	case !r.Stream:
		return "this server only streams"
	case len(r.Messages) == 0:
		return "messages: at least one message is needed"
	}
	var open []string // calls of the last assistant message without a result
	for i, m := range r.Messages {
		if m.Role == "tool" {
			rest, ok := without(open, m.ToolCallID)
			if !ok {
				return fmt.Sprintf("messages[%d]: the tool message for %q answers no open call directly before it", i, m.ToolCallID)
			}
			open = rest
			if !isString(m.Content) && !isArray(m.Content) {
				return fmt.Sprintf("messages[%d]: a tool message needs content", i)
			}
			continue
		}
		if len(open) > 0 {
			return fmt.Sprintf("messages[%d]: an assistant message with tool_calls must be followed by tool messages; none answers %q", i, open[0])
		}
		switch m.Role {
		case "system", "developer", "user":
			if !isString(m.Content) && !isArray(m.Content) {
				return fmt.Sprintf("messages[%d]: content must be a string or an array", i)
			}
		case "assistant":
			if len(m.ToolCalls) == 0 && !isString(m.Content) && !isArray(m.Content) {
				return fmt.Sprintf("messages[%d]: an assistant message without tool_calls needs content", i)
			}
			for _, c := range m.ToolCalls {
				if _, twice := without(open, c.ID); twice || c.ID == "" || c.Type != "function" || c.Function.Name == "" {
					return fmt.Sprintf("messages[%d]: the tool call %q has no id, no type, no name, or an id that another has", i, c.ID)
				}
				open = append(open, c.ID)
			}
		default:
			return fmt.Sprintf("messages[%d]: there is no role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("an assistant message with tool_calls must be followed by tool messages; none answers %q", open[0])
	}
	return ""
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func isArray(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && len(list) > 0
}

// without is ids less id, and whether id was there.
func without(ids []string, id string) ([]string, bool) {
	for i, other := range ids {
		if other == id {
			return append(append([]string{}, ids[:i]...), ids[i+1:]...), true
		}
	}
	return ids, false
}
