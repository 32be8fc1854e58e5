package llm

import (
	"encoding/json"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// wireMessage is one message of the dialect. Content is a string, null, or an
// array of content parts.
type wireMessage struct {
	Role             string     `json:"role"`
	Content          any        `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ToolCalls        []wireCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
}

type wireCall struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Function     wireCallFunction `json:"function"`
	ExtraContent json.RawMessage  `json:"extra_content,omitempty"`
}

type wireCallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // the exact bytes, as a string
}

type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

func wireMessages(p chat.Prompt) []wireMessage {
	out := []wireMessage{}
	if p.System != "" {
		out = append(out, wireMessage{Role: "system", Content: p.System})
	}
	for _, m := range p.Messages {
		switch m.Role {
		case chat.PromptUser:
			out = append(out, wireMessage{Role: "user", Content: userContent(m.Parts)})
		case chat.PromptAssistant:
			out = append(out, assistantMessage(m.Parts))
		case chat.PromptTool:
			for _, r := range m.Parts {
				if r.Kind == chat.PromptToolResult {
					out = append(out, wireMessage{Role: "tool", Content: r.Text, ToolCallID: r.CallID})
				}
			}
		}
	}
	return out
}

// userContent is a plain string unless there is an image, since many servers
// take nothing else.
func userContent(parts []chat.PromptPart) any {
	var list []contentPart
	var texts []string
	images := false
	say := func(text string) {
		texts = append(texts, text)
		list = append(list, contentPart{Type: "text", Text: text})
	}
	for _, p := range parts {
		switch {
		case p.Kind == chat.PromptText && p.Text != "":
			say(p.Text)
		case p.Kind == chat.PromptFile && isImage(p):
			images = true
			list = append(list, contentPart{Type: "image_url", ImageURL: &imageURL{p.URL}})
		case p.Kind == chat.PromptFile:
			say("[A file of type " + orUnknown(p.MediaType) + " is attached. Its content cannot be shown to this model.]")
		}
	}
	if images {
		return list
	}
	return strings.Join(texts, "\n\n")
}

func isImage(p chat.PromptPart) bool {
	if !strings.HasPrefix(p.MediaType, "image/") {
		return false
	}
	scheme, _, _ := strings.Cut(p.URL, ":")
	return scheme == "data" || scheme == "https" || scheme == "http"
}

func orUnknown(mediaType string) string {
	if mediaType == "" {
		return "unknown"
	}
	return mediaType
}

func assistantMessage(parts []chat.PromptPart) wireMessage {
	m := wireMessage{Role: "assistant"}
	var text strings.Builder
	for _, p := range parts {
		switch p.Kind {
		case chat.PromptText:
			text.WriteString(p.Text)
		case chat.PromptReasoning:
			switch readMetadata(p.Metadata).ReasoningField {
			case fieldReasoningContent:
				m.ReasoningContent += p.Text
			case fieldReasoning:
				m.Reasoning += p.Text
			}
		case chat.PromptToolCall:
			m.ToolCalls = append(m.ToolCalls, wireCall{
				ID: p.CallID, Type: "function",
				Function:     wireCallFunction{p.Name, string(p.Input)},
				ExtraContent: readMetadata(p.Metadata).ExtraContent,
			})
		case chat.PromptFile, chat.PromptToolResult:
		}
	}
	// null is what the dialect itself says beside calls; without calls it
	// wants a string, if only an empty one.
	if text.Len() > 0 || len(m.ToolCalls) == 0 {
		m.Content = text.String()
	}
	return m
}

const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
)

// openAIMetadata is what this dialect keeps with a part, under "openai".
type openAIMetadata struct {
	// ReasoningField is where the reasoning came, and where it goes back.
	ReasoningField string `json:"reasoningField,omitempty"`
	// ExtraContent is a call's, byte for byte; it may hold a signature.
	ExtraContent json.RawMessage `json:"extraContent,omitempty"`
}

func (m openAIMetadata) encode() json.RawMessage {
	raw, err := chat.Marshal(map[string]openAIMetadata{"openai": m})
	if err != nil {
		return nil // ExtraContent came out of a decoder, so it is JSON
	}
	return raw
}

// readMetadata gives the zero value for metadata of other dialects.
func readMetadata(raw json.RawMessage) openAIMetadata {
	var m struct {
		OpenAI openAIMetadata `json:"openai"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return openAIMetadata{}
	}
	return m.OpenAI
}
