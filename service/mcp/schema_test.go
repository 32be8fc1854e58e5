package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestValidatePointsAtEachViolation(t *testing.T) {
	tests := []struct {
		name, schema, input string
		want                []string // pointers
	}{
		{"valid", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x"}`, nil},
		{"no schema means any object", ``, `{"a":1}`, nil},
		{"no schema still means an object", ``, `[1]`, []string{""}},
		{"not JSON", `{}`, `{"a":`, []string{""}},
		{"two values", `{}`, `{} {}`, []string{""}},
		{"missing member", `{"required":["a"]}`, `{}`, []string{""}},
		{"unknown member", `{"additionalProperties":false}`, `{"b":1}`, []string{""}},
		{"nested", `{"properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":[1,"x",2,null]}`, []string{"/a/1", "/a/3"}},
		{"escaped key", `{"properties":{"a/b~c":{"type":"integer"}}}`, `{"a/b~c":"x"}`, []string{"/a~1b~0c"}},
		{"number in text", `{"properties":{"n":{"type":"integer"}}}`, `{"n":"5"}`, []string{"/n"}},
		{"reference inside the schema", `{"properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"maxLength":2}}}`, `{"a":"xyz"}`, []string{"/a"}},
		{"older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"const":1}}}`, `{"a":2}`, []string{"/a"}},
		{"one above 2^53 is not 2^53", `{"properties":{"n":{"const":9007199254740993}}}`, `{"n":9007199254740992}`, []string{"/n"}},
		{"above 2^53, exactly", `{"properties":{"n":{"const":9007199254740993}}}`, `{"n":9007199254740993}`, nil},
		{"one too many above 2^53", `{"properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`, []string{"/n"}},
		{"5.0 is an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":5.0}`, nil},
		{"exponent that would take for ever", `{"properties":{"n":{"items":{"type":"integer"}}}}`, `{"n":[1,1e999999]}`, []string{"/n/1"}},
		{"small exponent", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1e+0003}`, nil},
		{"__proto__ is a key like any other", `{"properties":{"__proto__":{"type":"integer"}}}`, `{"__proto__":"x"}`, []string{"/__proto__"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s schemas
			err := s.validate(json.RawMessage(tt.schema), json.RawMessage(tt.input))
			if tt.want == nil {
				if err != nil {
					t.Fatalf("validate: %v", err)
				}
				return
			}
			invalid, ok := errors.AsType[*chat.InputError](err)
			if !ok {
				t.Fatalf("validate gave %v, want an *chat.InputError", err)
			}
			var got []string
			for _, p := range invalid.Problems {
				got = append(got, p.Pointer)
				if p.Message == "" {
					t.Errorf("the problem at %q has no message", p.Pointer)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pointers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateRefusesSchemasThatCannotBeUsed(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(secret, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	fetched := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched <- r.URL.Path
		fmt.Fprint(w, `{}`)
	}))
	defer web.Close()
	tests := []struct{ name, schema string }{
		{"not JSON", `{`},
		{"not a schema", `[]`},
		{"unknown type", `{"type":"thing"}`},
		{"pattern that cannot be compiled", `{"properties":{"a":{"pattern":"("}}}`},
		{"reference to a file", `{"$ref":"file://` + secret + `"}`},
		{"reference to the network", `{"$ref":"` + web.URL + `/schema.json"}`},
		{"metaschema from the network", `{"$schema":"` + web.URL + `/meta.json"}`},
		{"reference to nothing", `{"$ref":"#/$defs/none"}`},
		{"endless reference", `{"$ref":"#"}`},
		{"exponent", `{"properties":{"n":{"maximum":1e999999}}}`},
		{"too large", `{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s schemas
			for range 2 { // the second time from the cache
				err := s.validate(json.RawMessage(tt.schema), json.RawMessage(`{"a":"x"}`))
				if !errors.Is(err, chat.ErrInvalid) {
					t.Fatalf("validate gave %v, want an error of kind ErrInvalid", err)
				}
				if _, ok := errors.AsType[*chat.InputError](err); ok {
					t.Fatalf("validate blamed the input: %v", err)
				}
			}
		})
	}
	if len(fetched) > 0 {
		t.Errorf("a schema made the server fetch %s", <-fetched)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var s schemas
	long := strings.Repeat("é", 1000)
	items := strings.TrimSuffix(strings.Repeat(`"`+long+`",`, 100), ",")
	err := s.validate(json.RawMessage(`{"properties":{"a":{"items":{"pattern":"^x"}}}}`), json.RawMessage(`{"a":[`+items+`]}`))
	invalid, ok := errors.AsType[*chat.InputError](err)
	if !ok || len(invalid.Problems) != maxProblems {
		t.Fatalf("validate gave %v, want %d problems", err, maxProblems)
	}
	for _, p := range invalid.Problems {
		if len(p.Message) > maxProblemText || !strings.HasSuffix(p.Message, "…") {
			t.Errorf("a message of %d bytes, ending in %q", len(p.Message), p.Message[len(p.Message)-8:])
		}
	}
}

func TestSchemaCacheIsBounded(t *testing.T) {
	var s schemas
	for i := range maxCachedSchemas + 10 {
		if err := s.validate(fmt.Appendf(nil, `{"description":"%d"}`, i), json.RawMessage(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.compiled); n > maxCachedSchemas {
		t.Errorf("%d schemas are kept, at most %d should be", n, maxCachedSchemas)
	}
	one, err := s.get(json.RawMessage(`{"description":"again"}`))
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := s.get(json.RawMessage(`{"description":"again"}`)); one != two {
		t.Error("the same schema was compiled twice")
	}
}
