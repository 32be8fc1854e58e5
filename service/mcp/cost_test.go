package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// levels is a schema of n levels, the first of which is at #/$defs/d0, and each
// of which is level, with NEXT as the reference to the next one.
func levels(n int, level string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{"d%d":{"type":["string","object","array"]}`, n)
	for i := range n {
		fmt.Fprintf(&b, `,"d%d":%s`, i, strings.ReplaceAll(level, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
	}
	return b.String() + "}}"
}

func nested(n int, open, inside, end string) string {
	return `{"a":` + strings.Repeat(open, n) + inside + strings.Repeat(end, n) + "}"
}

func TestSchemasThatWouldNeverEndAreRefused(t *testing.T) {
	for _, level := range []string{
		`{"allOf":[NEXT,NEXT]}`, `{"anyOf":[NEXT,NEXT]}`, `{"oneOf":[NEXT,NEXT]}`, `{"not":{"allOf":[NEXT,NEXT]}}`,
		`{"if":NEXT,"then":NEXT,"else":NEXT}`, `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`, `{"allOf":[NEXT],"anyOf":[NEXT]}`,
		`{"$ref":"#/$defs/d40","allOf":[NEXT,NEXT]}`,
	} {
		if _, err := compile(json.RawMessage(levels(40, level))); !errors.Is(err, errCostly) {
			t.Errorf("%s: %v", level, err)
		}
		var s schemas
		err := s.validate(json.RawMessage(levels(40, level)), json.RawMessage(`{"a":"x"}`))
		if !errors.Is(err, chat.ErrInvalid) || !strings.Contains(err.Error(), "would take too long to check") {
			t.Errorf("%s: %v", level, err)
		}
	}
	pattern := `{"properties":{"a":{"pattern":"((((a{10}){10}){10}){10}){2}"}}}`
	if _, err := compile(json.RawMessage(pattern)); err == nil {
		t.Error("a pattern of a hundred thousand letters can be used")
	}
	many := `{"enum":[` + strings.Repeat("0,", maxSchemaTokens) + "1]}"
	if _, err := compile(json.RawMessage(many)); !errors.Is(err, errCostly) {
		t.Errorf("a schema of very many values: %v", err)
	}
}

func TestInputsThatWouldNeverEndAreRefused(t *testing.T) {
	const tree = `{"$defs":{"d":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/d"},{"$ref":"#/$defs/d"}]}}}},"$ref":"#/$defs/d"}`
	const old = `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"d":{"properties":{"a":{"allOf":[{"$ref":"#/definitions/d"},{"$ref":"#/definitions/d"}]}}}},"allOf":[{"$ref":"#/definitions/d"}]}`
	const dynamic = `{"$dynamicAnchor":"d","properties":{"a":{"allOf":[{"$dynamicRef":"#d"},{"$dynamicRef":"#d"}]}}}`
	const recursive = `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"allOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}}`
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	list := func(n int, item string) string { return `{"a":[` + strings.Repeat(item+",", n) + item + "]}" }
	tests := []struct{ name, schema, input string }{
		{"properties", levels(40, `{"properties":{"b":NEXT},"additionalProperties":NEXT,"unevaluatedProperties":NEXT}`), nested(40, `{"b":`, "1", "}")},
		{"properties and patterns", levels(40, `{"properties":{"b":NEXT},"patternProperties":{"^b":NEXT}}`), nested(40, `{"b":`, "1", "}")},
		{"lists", levels(40, `{"items":NEXT,"contains":NEXT}`), nested(40, "[", "1", "]")},
		{"a schema that refers to itself", tree, deep(60)},
		{"as it was written before", old, deep(60)},
		{"a dynamic one", dynamic, deep(60)},
		{"a recursive one", recursive, deep(60)},
		{"a large pattern and a long text", `{"properties":{"a":{"pattern":"^(a|b|c){1000}$"}}}`, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`},
		{"many patterns and many names", `{"patternProperties":{"(a{100}){9}":{},"(b{100}){9}":{}}}`, `{"` + strings.Repeat("a", 1<<20) + `":1}`},
		{"many choices for many values", `{"properties":{"a":{"items":{"enum":[` + strings.Repeat(`"x",`, 10_000) + `"y"]}}}}`, list(10_000, `"z"`)},
		{"many names that are required of many", `{"properties":{"a":{"items":{"required":[` + names(10_000) + `]}}}}`, list(10_000, `{}`)},
		{"numbers of many digits", `{"properties":{"a":{"items":{"multipleOf":0.3}}}}`, list(1000, strings.Repeat("1", maxDigits))},
		{"a number of more", `{}`, `{"a":` + strings.Repeat("1", maxDigits+1) + "}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s schemas
			err := s.validate(json.RawMessage(tt.schema), json.RawMessage(tt.input))
			if !errors.Is(err, chat.ErrInvalid) || !strings.Contains(err.Error(), "too large together") && !strings.Contains(err.Error(), "too many digits") {
				t.Errorf("got %.300v", err)
			}
		})
	}
}

// names are n names, all different.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"n%d",`, i)
	}
	return b.String() + `"last"`
}

func TestLargeInputsAndSchemasThatEndAreChecked(t *testing.T) {
	const comment = `{"$defs":{"c":{"type":"object","properties":{"text":{"type":"string"},"a":{"$ref":"#/$defs/c"},"all":{"type":"array","items":{"$ref":"#/$defs/c"}}},"required":["text"]}},"$ref":"#/$defs/c"}`
	deep := strings.Repeat(`{"text":"x","a":`, 60) + `{"text":"x"}` + strings.Repeat("}", 60)
	blocks := `{"properties":{"a":{"type":"array","items":{"oneOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"object","properties":{"b":{"type":"string"}},"required":["c"]},`, 30), ",") + `,{"type":"string"}]}}}`
	tests := []struct{ name, schema, input string }{
		{"a schema that refers to itself", comment, deep},
		{"and a wide input", comment, `{"text":"","all":[` + strings.Repeat(`{"text":"x"},`, 10_000) + `{"text":"x"}]}`},
		{"many kinds of blocks", blocks + "}", `{"a":[` + strings.Repeat(`"x",`, 2000) + `"x"]}`},
		{"levels that are used once", levels(1000, `{"allOf":[NEXT]}`), `{"a":"x"}`},
		{"ten that are used twice", levels(10, `{"allOf":[NEXT,NEXT]}`), `{"a":"x"}`},
		{"a file", `{"properties":{"a":{"type":"string","minLength":1,"maxLength":2000000,"pattern":"^[a-z]+$"}}}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		{"a long list of different items", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + names(10_000) + `]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s schemas
			if err := s.validate(json.RawMessage(tt.schema), json.RawMessage(tt.input)); err != nil {
				t.Errorf("got %.300v", err)
			}
		})
	}
}
