package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// What is kept of a result. A result is stored in a message, shown and sent to
// a model, so it cannot be as large as a server likes. Everything together is
// at most maxOutput, as JSON.
const (
	maxText   = 256 << 10 // of one text
	maxMedia  = 4 << 20   // of one image, sound or file, as it is before base64
	maxBlocks = 1000
	// maxTwins is how many texts are compared with the structured content.
	maxTwins = 10
	// noteRoom is kept free for the note that says what was left out.
	noteRoom = 1 << 10
)

// toolOutput is what a call gave, in the shape that the protocol gives it.
type toolOutput struct {
	Content           []json.RawMessage `json:"content"`
	StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
}

// result turns a server's answer into ours: bounded, and what was left out is
// said in it.
func result(r *sdk.CallToolResult, hidden secrets) (chat.Result, error) {
	if r.IsError {
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: hidden.text(failureText(r), maxErrorText)}, nil
	}
	out := toolOutput{Content: []json.RawMessage{}}
	room := maxOutput - noteRoom
	left := 0
	if r.StructuredContent != nil {
		raw, err := structured(r)
		if err != nil {
			return chat.Result{}, fmt.Errorf("encode the structured content: %w", err)
		}
		if len(raw) <= room {
			out.StructuredContent = raw
			room -= len(raw)
		} else {
			left++
		}
	}
	for i, c := range r.Content {
		if i == maxBlocks {
			left += len(r.Content) - i
			break
		}
		raw, err := chat.Marshal(bounded(c))
		if err != nil {
			return chat.Result{}, fmt.Errorf("encode the content: %w", err)
		}
		if len(raw)+1 > room {
			left++
			continue
		}
		room -= len(raw) + 1
		out.Content = append(out.Content, raw)
	}
	if left > 0 {
		raw, err := chat.Marshal(note("%d of the parts of the answer were left out: together they are larger than %s.", left, size(maxOutput)))
		if err != nil {
			return chat.Result{}, fmt.Errorf("encode the content: %w", err)
		}
		out.Content = append(out.Content, raw)
	}
	raw, err := chat.Marshal(out)
	if err != nil {
		return chat.Result{}, fmt.Errorf("encode the output: %w", err)
	}
	return chat.Result{Outcome: chat.OutcomeOK, Output: raw}, nil
}

// structured returns the structured content as JSON. The SDK has it decoded,
// and with it every large number rounded; a server is to send the same value
// as text too, and that one has its digits.
func structured(r *sdk.CallToolResult) (json.RawMessage, error) {
	tried := 0
	for _, c := range r.Content {
		text, ok := c.(*sdk.TextContent)
		// What is in a text was not counted when the message came.
		if !ok || tried == maxTwins || len(text.Text) > maxOutput || tokens([]byte(text.Text)) > maxTokens {
			continue
		}
		tried++
		var value any
		if json.Unmarshal([]byte(text.Text), &value) == nil && reflect.DeepEqual(value, r.StructuredContent) {
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(text.Text)); err == nil {
				return b.Bytes(), nil
			}
		}
	}
	return chat.Marshal(r.StructuredContent)
}

// bounded returns a block of content as it may be kept. The server's metadata
// is for clients that know it, which we do not.
func bounded(c sdk.Content) sdk.Content {
	switch c := c.(type) {
	case *sdk.TextContent:
		return &sdk.TextContent{Text: cut(c.Text), Annotations: c.Annotations}
	case *sdk.ImageContent:
		if len(c.Data) > maxMedia {
			return note("An image (%s, %s) was left out: it is too large.", mediaType(c.MIMEType), size(len(c.Data)))
		}
		return &sdk.ImageContent{Data: c.Data, MIMEType: c.MIMEType, Annotations: c.Annotations}
	case *sdk.AudioContent:
		if len(c.Data) > maxMedia {
			return note("A sound (%s, %s) was left out: it is too large.", mediaType(c.MIMEType), size(len(c.Data)))
		}
		return &sdk.AudioContent{Data: c.Data, MIMEType: c.MIMEType, Annotations: c.Annotations}
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return c
		}
		if len(c.Resource.Blob) > maxMedia {
			return note("The resource %s (%s, %s) was left out: it is too large.", shorten(c.Resource.URI, maxProblemText), mediaType(c.Resource.MIMEType), size(len(c.Resource.Blob)))
		}
		kept := *c.Resource
		kept.Text, kept.Meta = cut(kept.Text), nil
		return &sdk.EmbeddedResource{Resource: &kept, Annotations: c.Annotations}
	default:
		return c
	}
}

// cut shortens a text, and says so in it.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + fmt.Sprintf("\n[… cut here: the text has %s, of which %s are shown]", size(len(text)), size(maxText))
}

func note(format string, a ...any) *sdk.TextContent {
	return &sdk.TextContent{Text: "[" + fmt.Sprintf(format, a...) + "]"}
}

func mediaType(t string) string {
	if t == "" {
		return "of unknown type"
	}
	return shorten(t, 100)
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// failureText is what a tool said of its failure.
func failureText(r *sdk.CallToolResult) string {
	var texts []string
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok && strings.TrimSpace(text.Text) != "" {
			texts = append(texts, text.Text)
		}
	}
	if len(texts) == 0 {
		return "The tool failed and gave no reason."
	}
	return strings.Join(texts, "\n")
}
