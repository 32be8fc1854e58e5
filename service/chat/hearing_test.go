package chat_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

func hearing(output string) string {
	text, _ := chat.Hearing(chat.ToolCall{State: chat.CallOutputAvailable, Output: json.RawMessage(output)})
	return text
}

func TestModelsAreToldOfMediaAndNotGivenThem(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(make([]byte, 4033))
	for _, tt := range []struct{ name, output, want string }{
		{"a text alone", `{"content":[{"type":"text","text":"a  \u003cb\u003e"}]}`, ""},
		{"numbers and order", `{ "structuredContent":{"n":12345678901234567890,"data":1e2}, "content":[]}`, ""},
		{"an image", `{"content":[{"type":"image","mimeType":"image/png","data":"` + data + `"}]}`,
			`{"content":[{"text":"[image image/png, 4 kB, shown to the person]","type":"text"}]}`},
		{"a sound beside a text and values", `{"content":[{"type":"text","text":"<&>"},{"type":"audio","mimeType":"audio/wav","data":"AAAA"}],"structuredContent":{"n":12345678901234567890}}`,
			`{"content":[{"type":"text","text":"<&>"},{"text":"[audio audio/wav, 3 bytes, shown to the person]","type":"text"}],"structuredContent":{"n":12345678901234567890}}`},
		{"a file", `{"content":[{"type":"resource","resource":{"uri":"file:///a.zip","mimeType":"application/zip","blob":"` + strings.Repeat("A", 2_000_000) + `"}}]}`,
			`{"content":[{"text":"[file file:///a.zip application/zip, 1.5 MB, shown to the person]","type":"text"}]}`},
		{"an image of no type", `{"content":[{"type":"image","data":""}]}`, `{"content":[{"text":"[image of unknown type, 0 bytes, shown to the person]","type":"text"}]}`},
		{"a type that would end the note", `{"content":[{"type":"image","mimeType":"a]\n[b","data":"AA=="}]}`, `{"content":[{"text":"[image ab, 1 bytes, shown to the person]","type":"text"}]}`},
		{"a type without end", `{"content":[{"type":"image","mimeType":"` + strings.Repeat("x", 1000) + `","data":"AA=="}]}`,
			`{"content":[{"text":"[image ` + strings.Repeat("x", 200) + `…, 1 bytes, shown to the person]","type":"text"}]}`},
		{"other members", `{"z":1,"content":[{"type":"image","data":"AA=="}],"a":{"data":2}}`, `{"content":[{"text":"[image of unknown type, 1 bytes, shown to the person]","type":"text"}],"a":{"data":2},"z":1}`},

		{"a resource of text", `{"content":[{"type":"resource","resource":{"uri":"a","text":"\"blob\""}}]}`, ""},
		{"a link", `{"content":[{"type":"resource_link","uri":"a","data":"b"}]}`, ""},
		{"content that is a text", `{"path":"a","content":"\"data\" \"blob\"","data":"x"}`, ""},
		{"content of other things", `{"content":[1,null,"data",{"type":["image"],"data":1},{"type":"image","data":5}]}`, ""},
		{"no object", `[{"type":"image","data":"AA=="}]`, ""},
		{"null", `null`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.output
			}
			if got := hearing(tt.output); got != want {
				t.Errorf("got  %.300s\nwant %.300s", got, want)
			}
		})
	}
	if got := hearing(`"{\"content\":[{\"type\":\"image\",\"data\":\"AA==\"}]}"`); got != `{"content":[{"type":"image","data":"AA=="}]}` {
		t.Errorf("a text that looks like content became %s", got)
	}
}

func TestAResultIsToldInPart(t *testing.T) {
	const most = 256 << 10
	for _, filler := range []string{"x", "é", "𝄞"} {
		for _, n := range []int{most - 1, most, most + 1, most + 3, 4 * most} {
			text := "ab" + strings.Repeat(filler, n/len(filler))
			output, err := chat.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			got := hearing(string(output))
			if len(text) <= most {
				if got != text {
					t.Errorf("%d bytes of %s were changed", len(text), filler)
				}
				continue
			}
			kept, note, cut := strings.Cut(got, "\n[… cut here: the other ")
			if !cut || !strings.HasPrefix(text, kept) || len(kept) <= most-utf8.UTFMax || len(kept) > most || !utf8.ValidString(got) {
				t.Errorf("of %d bytes of %s, %d were kept: %q", len(text), filler, len(kept), note)
			}
			if left := len(text) - len(kept); left < 1000 && note != fmt.Sprintf("%d bytes of this result were left out]", left) {
				t.Errorf("the note says %q, and %d bytes were left out", note, left)
			}
		}
	}
	if got := hearing(`{"content":[{"type":"text","text":"` + strings.Repeat("x", most) + `"}]}`); len(got) > most+100 || !strings.Contains(got, "left out") {
		t.Errorf("of a result that is no text %d bytes are told", len(got))
	}
}

// Whatever a tool gave, what a model is told of it is bounded, and of content
// without media not a byte is another.
func TestHearingIsBoundedAndFaithful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []any
		media := false
		for range rapid.IntRange(0, 5).Draw(t, "blocks") {
			data := rapid.SliceOfN(rapid.Byte(), 60, 90).Draw(t, "data")
			kind := rapid.SampledFrom([]string{"text", "image", "audio", "resource", "resource_link"}).Draw(t, "type")
			block := map[string]any{"type": kind, "text": rapid.String().Draw(t, "text")}
			switch kind {
			case "image", "audio":
				block["data"], media = data, true
			case "resource":
				block["resource"], media = map[string]any{"uri": "u", "blob": data}, true
			}
			blocks = append(blocks, block)
		}
		values := map[string]any{"n": rapid.Int64().Draw(t, "n"), "data": rapid.String().Draw(t, "value")}
		output, err := chat.Marshal(map[string]any{"content": blocks, "structuredContent": values})
		if err != nil {
			t.Fatal(err)
		}
		got := hearing(string(output))
		if !media && got != string(output) {
			t.Fatalf("got %s, want %s", got, output)
		}
		var told struct {
			Content           []map[string]any
			StructuredContent json.RawMessage
		}
		if err := json.Unmarshal([]byte(got), &told); err != nil || len(told.Content) != len(blocks) {
			t.Fatalf("got %s: %v", got, err)
		}
		for i, block := range told.Content {
			was := blocks[i].(map[string]any)
			if was["data"] != nil || was["resource"] != nil {
				if text, ok := block["text"].(string); block["type"] != "text" || !ok || !strings.HasSuffix(text, "bytes, shown to the person]") || len(block) != 2 {
					t.Fatalf("block %d is told as %v", i, block)
				}
			} else if block["type"] != was["type"] || block["text"] != was["text"] {
				t.Fatalf("block %d is told as %v, was %v", i, block, was)
			}
		}
		if want, err := chat.Marshal(values); err != nil || string(told.StructuredContent) != string(want) {
			t.Fatalf("the values became %s, were %s", told.StructuredContent, want)
		}
	})
}
