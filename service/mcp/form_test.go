package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestWhatCannotBeAskedIsRefused(t *testing.T) {
	form := func(schema string) *sdk.ElicitParams {
		return &sdk.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(schema)}
	}
	field := func(schema string) *sdk.ElicitParams {
		return form(`{"type":"object","properties":{"a":` + schema + `}}`)
	}
	tests := []struct {
		name   string
		params *sdk.ElicitParams
		why    string // contained in the refusal; "" if it can be asked
	}{
		{"a plain yes or no", &sdk.ElicitParams{Message: strings.Repeat("m", maxQuestion)}, ""},
		{"no field", form(`{"type":"object"}`), ""},
		{"what zod writes", form(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","title":"T","properties":{"a":{"type":"boolean","default":true}},"required":["a"],"additionalProperties":false}`), ""},
		{"a text", field(`{"type":"string","minLength":1,"maxLength":9,"format":"email","pattern":"^a","description":"d","x-hint":1}`), ""},
		{"a number", field(`{"type":"number","minimum":0.5,"maximum":1e3}`), ""},
		{"a choice", field(`{"type":"string","enum":["a","b"],"enumNames":["A","B"]}`), ""},
		{"a choice with titles", field(`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`), ""},
		{"a choice of several", field(`{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":2}`), ""},
		{"a choice of several with titles", field(`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`), ""},

		{"an address", &sdk.ElicitParams{Mode: "url", URL: "https://example.com", Message: "Go there."}, "only forms"},
		{"a long message", &sdk.ElicitParams{Message: strings.Repeat("m", maxQuestion+1)}, "larger than 10 KiB"},
		{"a large schema", field(`{"type":"string","description":"` + strings.Repeat("d", maxForm) + `"}`), "larger than 64 KiB"},
		{"no JSON", &sdk.ElicitParams{RequestedSchema: json.RawMessage(`{`)}, "cannot be read"},
		{"no object", form(`true`), "is not an object"},
		{"null", form(`null`), "is not an object"},
		{"no type", form(`{"properties":{}}`), `type "object"`},
		{"a list", form(`{"type":"array","items":{"type":"string"}}`), `type "object"`},
		{"other properties", form(`{"type":"object","additionalProperties":{"type":"object"}}`), "additionalProperties"},
		{"a reference", form(`{"type":"object","$ref":"https://example.com/schema"}`), "$ref"},
		{"alternatives", form(`{"type":"object","anyOf":[{"required":["a"]}]}`), "anyOf"},
		{"properties that are a list", form(`{"type":"object","properties":[]}`), "properties"},
		{"a nested object", field(`{"type":"object","properties":{}}`), `"a"`},
		{"a field of two types", field(`{"type":["string","null"]}`), `"a"`},
		{"a field of any type", field(`{}`), `"a"`},
		{"a field that is no schema", field(`true`), `"a"`},
		{"a field that refers to another", field(`{"type":"string","$ref":"#/properties/b"}`), `"a"`},
		{"a field of conditions", field(`{"type":"string","not":{"const":"a"}}`), `"a"`},
		{"a list of anything", field(`{"type":"array","items":{"type":"string"}}`), `"a"`},
		{"a list of lists", field(`{"type":"array","items":{"type":"array","enum":[["a"]]}}`), `"a"`},
		{"a list without items", field(`{"type":"array"}`), `"a"`},
		{"choices that are objects", field(`{"type":"string","oneOf":[{"type":"object"}]}`), `"a"`},
		{"no choice", field(`{"type":"string","oneOf":[]}`), `"a"`},
		{"a pattern that is none", field(`{"type":"string","pattern":"("}`), "cannot be used"},
		{"a bound that is none", field(`{"type":"string","maxLength":-1}`), "cannot be used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, asked := &session{}, 0
			end := live(t, s, func(context.Context, chat.Question) (chat.Answer, error) {
				asked++
				return chat.Answer{Action: chat.AnswerDecline}, nil
			})
			defer end()
			_, err := s.asked(t.Context(), tt.params)
			if tt.why == "" && err != nil || tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("got %v, want %q", err, tt.why)
			}
			if (asked == 1) != (tt.why == "") {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}
