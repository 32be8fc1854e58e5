package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

type block struct {
	Type, Text, Data, MIMEType, URI string
	Resource                        *struct{ URI, Text, Blob string }
}

func blocks(t *testing.T, r *sdk.CallToolResult) (out struct {
	Content           []block
	StructuredContent json.RawMessage
}, size int) {
	t.Helper()
	got, err := result(r, secrets{})
	if err != nil || got.Outcome != chat.OutcomeOK {
		t.Fatalf("result %+v, %v", got, err)
	}
	if err := json.Unmarshal(got.Output, &out); err != nil {
		t.Fatal(err)
	}
	return out, len(got.Output)
}

func TestResultKeepsWhatFits(t *testing.T) {
	r := &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: strings.Repeat("x", maxText), Meta: sdk.Meta{"own": "secret of the server's"}},
		&sdk.ImageContent{Data: []byte("PNG"), MIMEType: "image/png"},
		&sdk.AudioContent{Data: []byte("WAV"), MIMEType: "audio/wav"},
		&sdk.ResourceLink{URI: "file:///a", Name: "a"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Text: "b"}},
		&sdk.EmbeddedResource{},
	}}
	out, size := blocks(t, r)
	var types []string
	for _, b := range out.Content {
		types = append(types, b.Type)
	}
	if diff := cmp.Diff([]string{"text", "image", "audio", "resource_link", "resource", "resource"}, types); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if len(out.Content[0].Text) != maxText || out.Content[1].Data != "UE5H" || out.Content[4].Resource.Text != "b" {
		t.Errorf("what fits was changed: %.200v", out.Content[1:])
	}
	if size > maxText+2000 {
		t.Errorf("the output has %d bytes: metadata was kept", size)
	}
}

func TestResultIsCutVisibly(t *testing.T) {
	big := make([]byte, maxMedia+1)
	tests := []struct {
		name    string
		content sdk.Content
		want    string // at the end of the text that is there instead
	}{
		{"a text", &sdk.TextContent{Text: strings.Repeat("ü", maxText)}, "[… cut here: the text has 512 KiB, of which 256 KiB are shown]"},
		{"an image", &sdk.ImageContent{Data: big, MIMEType: "image/png"}, "[An image (image/png, 4.0 MiB) was left out: it is too large.]"},
		{"a sound", &sdk.AudioContent{Data: big}, "[A sound (of unknown type, 4.0 MiB) was left out: it is too large.]"},
		{"a file", &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", MIMEType: "a/b", Blob: big}}, "[The resource file:///a (a/b, 4.0 MiB) was left out: it is too large.]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, size := blocks(t, &sdk.CallToolResult{Content: []sdk.Content{tt.content}})
			if got := out.Content[0]; got.Type != "text" || !strings.HasSuffix(got.Text, tt.want) {
				t.Errorf("got %s %.100q…", got.Type, got.Text)
			}
			if size > maxText+1000 {
				t.Errorf("%d bytes are left", size)
			}
		})
	}
	t.Run("the text of a resource", func(t *testing.T) {
		resource := &sdk.ResourceContents{URI: "file:///a", Text: strings.Repeat("x", 2*maxText)}
		out, _ := blocks(t, &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: resource}}})
		if got := out.Content[0].Resource.Text; !strings.HasSuffix(got, "are shown]") {
			t.Errorf("%d bytes are left", len(got))
		}
		if len(resource.Text) != 2*maxText {
			t.Error("the server's answer was written to")
		}
	})
}

func TestResultIsBoundedAsAWhole(t *testing.T) {
	image := &sdk.ImageContent{Data: make([]byte, 2<<20), MIMEType: "image/png"}
	huge := strings.Repeat("x", maxOutput)
	many := make([]sdk.Content, maxBlocks+7)
	for i := range many {
		many[i] = &sdk.TextContent{Text: "x"}
	}
	tests := []struct {
		name   string
		result *sdk.CallToolResult
		kept   int
		left   int
	}{
		{"images that together are too large", &sdk.CallToolResult{Content: []sdk.Content{image, image, image, image, &sdk.TextContent{Text: "end"}}}, 3, 2},
		{"structured content that alone is", &sdk.CallToolResult{StructuredContent: map[string]any{"a": huge}, Content: []sdk.Content{image}}, 1, 1},
		{"a text of control characters", &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("\x01", maxText)}}}, 1, 0},
		{"a great many blocks", &sdk.CallToolResult{Content: many}, maxBlocks, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, size := blocks(t, tt.result)
			if size > maxOutput {
				t.Errorf("%d bytes, more than %d", size, maxOutput)
			}
			said := ""
			if last := out.Content[len(out.Content)-1]; strings.Contains(last.Text, "were left out") {
				said = last.Text
				out.Content = out.Content[:len(out.Content)-1]
			}
			if len(out.Content) != tt.kept {
				t.Errorf("%d blocks are kept, want %d", len(out.Content), tt.kept)
			}
			if want := fmt.Sprintf("[%d of the parts", tt.left); tt.left > 0 && !strings.HasPrefix(said, want) || tt.left == 0 && said != "" {
				t.Errorf("it is said that %q", said)
			}
		})
	}
}

func TestStructuredContentKeepsItsDigits(t *testing.T) {
	const exact = `{"b":12345678901234567891,"a":1}`
	var rounded any
	if err := json.Unmarshal([]byte(exact), &rounded); err != nil {
		t.Fatal(err)
	}
	out, _ := blocks(t, &sdk.CallToolResult{StructuredContent: rounded, Content: []sdk.Content{
		&sdk.TextContent{Text: "not it"}, &sdk.TextContent{Text: `{"b":1}`}, &sdk.TextContent{Text: " " + exact + "\n"},
	}})
	if got := string(out.StructuredContent); got != exact {
		t.Errorf("got %s, want %s", got, exact)
	}
	out, _ = blocks(t, &sdk.CallToolResult{StructuredContent: map[string]any{"a": "<&>"}})
	if got := string(out.StructuredContent); got != `{"a":"<&>"}` {
		t.Errorf("without a text: %s", got)
	}
}

func TestFailureTextIsBounded(t *testing.T) {
	got, err := result(&sdk.CallToolResult{IsError: true, Content: []sdk.Content{
		&sdk.ImageContent{}, &sdk.TextContent{Text: "first\x00"}, &sdk.TextContent{Text: " "}, &sdk.TextContent{Text: strings.Repeat("x", 1<<20)},
	}}, secrets{})
	if err != nil || got.Outcome != chat.OutcomeFailed || !strings.HasPrefix(got.ErrorText, "first\uFFFD\nxx") || len(got.ErrorText) > 16<<10 {
		t.Errorf("outcome %s, %d bytes, %.20q, %v", got.Outcome, len(got.ErrorText), got.ErrorText, err)
	}
}

// What is in a text was not counted when the message came.
func TestTextsAreNotDecodedWithoutBounds(t *testing.T) {
	bomb := "[" + strings.Repeat("{},", maxTokens) + "1.0]"
	var same any
	if err := json.Unmarshal([]byte(bomb), &same); err != nil {
		t.Fatal(err)
	}
	// Were it decoded, its digits would be taken.
	out, _ := blocks(t, &sdk.CallToolResult{StructuredContent: same, Content: []sdk.Content{&sdk.TextContent{Text: bomb}}})
	if got := string(out.StructuredContent); !strings.HasSuffix(got, "{},1]") {
		t.Errorf("structured content of %d bytes that ends in %q", len(got), got[max(0, len(got)-20):])
	}
	texts := []sdk.Content{}
	for range maxTwins {
		texts = append(texts, &sdk.TextContent{Text: "1"})
	}
	out, _ = blocks(t, &sdk.CallToolResult{StructuredContent: 2.5, Content: append(texts, &sdk.TextContent{Text: "2.50"})})
	if string(out.StructuredContent) != "2.5" {
		t.Errorf("after %d texts one more was compared: %s", maxTwins, out.StructuredContent)
	}
}
