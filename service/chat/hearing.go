package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxHeard is how much of one result a model is told, in bytes. A result is
// told again with every step, and none of them should fill what the model can
// take in.
const maxHeard = 256 << 10

// Hearing is what the model is told of a call, and whether the call failed to
// do its work. Denied, cancelled, expired, failed and unknown are told apart.
// Of an output it is told the texts and the values, not images, sounds and
// files, and no more than maxHeard bytes.
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
	if len(output) > 0 && output[0] == '"' && json.Unmarshal(output, &s) == nil {
		return heard(s)
	}
	return heard(string(withoutMedia(output)))
}

// heard cuts a text to what a model is told of it.
func heard(text string) string {
	if len(text) <= maxHeard {
		return text
	}
	end := maxHeard
	for end > maxHeard-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + fmt.Sprintf("\n[… cut here: the other %s of this result were left out]", amount(len(text)-end))
}

// withoutMedia returns a tool's output with a note in place of each image,
// sound and file in it, which would reach a model as base64, mean nothing to
// it, and cost more than all the rest. An output without any is returned as it
// is. The content of tool servers has them as MCP does: in the list content,
// of type image and audio with data, or of type resource with a blob.
func withoutMedia(output json.RawMessage) json.RawMessage {
	if !bytes.Contains(output, []byte(`"data"`)) && !bytes.Contains(output, []byte(`"blob"`)) {
		return output
	}
	var members map[string]json.RawMessage
	var content []json.RawMessage
	if json.Unmarshal(output, &members) != nil || json.Unmarshal(members["content"], &content) != nil {
		return output
	}
	noted := false
	for i, block := range content {
		if text, ok := mediaNote(block); ok {
			note, err := Marshal(map[string]string{"type": "text", "text": text})
			if err != nil {
				return output // two strings
			}
			content[i], noted = note, true
		}
	}
	if !noted {
		return output
	}
	var b bytes.Buffer
	b.WriteString(`{"content":[`)
	for i, block := range content {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(block)
	}
	b.WriteByte(']')
	delete(members, "content")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, err := Marshal(name)
		if err != nil {
			return output // a string
		}
		b.WriteByte(',')
		b.Write(key)
		b.WriteByte(':')
		b.Write(members[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// mediaNote says what a block of content holds that is not for a model to
// read, or reports false.
func mediaNote(block json.RawMessage) (string, bool) {
	var c struct {
		Type     string  `json:"type"`
		Data     *string `json:"data"`
		MIMEType string  `json:"mimeType"`
		Resource struct {
			URI      string  `json:"uri"`
			MIMEType string  `json:"mimeType"`
			Blob     *string `json:"blob"`
		} `json:"resource"`
	}
	if json.Unmarshal(block, &c) != nil {
		return "", false
	}
	switch {
	case (c.Type == "image" || c.Type == "audio") && c.Data != nil:
		return fmt.Sprintf("[%s %s, %s, shown to the person]", c.Type, plain(c.MIMEType, "of unknown type"), amount(decodedLen(*c.Data))), true
	case c.Type == "resource" && c.Resource.Blob != nil:
		return fmt.Sprintf("[file %s %s, %s, shown to the person]", plain(c.Resource.URI, "without a name"),
			plain(c.Resource.MIMEType, "of unknown type"), amount(decodedLen(*c.Resource.Blob))), true
	}
	return "", false
}

// plain returns a name as it can stand in a note, or what to say without it.
func plain(name, without string) string {
	const limit = 200
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == '[' || r == ']' || r == 0x7f {
			return -1
		}
		return r
	}, name)
	if len(name) > limit {
		name = strings.ToValidUTF8(name[:limit], "") + "…"
	}
	if name == "" {
		return without
	}
	return name
}

// decodedLen is how many bytes a base64 text stands for.
func decodedLen(text string) int {
	return len(strings.TrimRight(text, "=")) * 3 / 4
}

func amount(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
	}
}
