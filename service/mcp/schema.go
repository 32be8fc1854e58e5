package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxProblems       = 20  // told of one input
	maxProblemText    = 300 // bytes
	maxCachedSchemas  = 512
	schemaURL         = "urn:assent:input-schema"
	noSchema          = `{"type":"object"}`
	maxSchemaBytes    = 1 << 20
	maxSchemaTokens   = 50_000
	maxExponentDigits = 4
	maxDigits         = 10_000
)

// schemas keeps compiled schemas by the digest of their text. The zero value
// is ready to use.
type schemas struct {
	mu       sync.Mutex
	compiled map[string]compiledSchema
}

type compiledSchema struct {
	schema *schema
	err    error
}

// schema is a compiled JSON Schema that can be checked in a bounded time.
type schema struct {
	*jsonschema.Schema
	costs costs
}

// validate holds input against a JSON Schema. A violation is a
// *chat.InputError; a schema that cannot be used is an error of kind
// chat.ErrInvalid, because an input that cannot be checked must not run.
func (s *schemas) validate(text, input json.RawMessage) error {
	if len(bytes.TrimSpace(text)) == 0 {
		text = json.RawMessage(noSchema)
	}
	compiled, err := s.get(text)
	if err != nil {
		return err
	}
	value, err := decodeExact(input)
	if err != nil {
		return &chat.InputError{Problems: []chat.InputProblem{{Message: "is not valid JSON: " + err.Error()}}}
	}
	if _, ok := value.(map[string]any); !ok {
		return &chat.InputError{Problems: []chat.InputProblem{{Message: "must be one JSON object"}}}
	}
	if at, ok := hugeNumber(value, ""); ok {
		return &chat.InputError{Problems: []chat.InputProblem{{Pointer: at, Message: "the number has too many digits"}}}
	}
	if err := compiled.costs.afford(compiled.Schema, value); err != nil {
		return chat.Invalid("The input cannot be checked: %s", chat.Sentence(err))
	}
	err = compiled.Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		if cyclic(invalid) {
			return chat.Invalid("The tool's schema cannot be used, so its input cannot be checked: it refers to itself without end.")
		}
		return &chat.InputError{Problems: problems(invalid)}
	}
	if err != nil {
		return chat.Invalid("The input cannot be checked: %s", chat.Sentence(err))
	}
	return nil
}

func (s *schemas) get(text json.RawMessage) (*schema, error) {
	key := chat.Digest(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.compiled[key]; ok {
		return c.schema, c.err
	}
	if s.compiled == nil || len(s.compiled) >= maxCachedSchemas {
		// Servers choose their schemas: a full cache starts anew rather than grow.
		s.compiled = map[string]compiledSchema{}
	}
	compiled, err := compile(text)
	if err != nil {
		err = chat.Invalid("The tool's schema cannot be used, so its input cannot be checked: %s", chat.Sentence(err))
	}
	s.compiled[key] = compiledSchema{compiled, err}
	return compiled, err
}

// compile makes a schema of its text. An error that is errCostly says that it
// would take too long to hold anything against it.
func compile(text json.RawMessage) (compiled *schema, err error) {
	// The schema was written by a server that nobody vouches for.
	defer func() {
		if p := recover(); p != nil {
			compiled, err = nil, fmt.Errorf("compile the schema: %v", p)
		}
	}()
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("%w: it is larger than %s", errCostly, size(maxSchemaBytes))
	}
	if n := tokens(text); n > maxSchemaTokens {
		return nil, fmt.Errorf("%w: it holds %d values, more than %d", errCostly, n, maxSchemaTokens)
	}
	doc, err := decodeExact(text)
	if err != nil {
		return nil, fmt.Errorf("decode the schema: %w", err)
	}
	if at, ok := hugeNumber(doc, ""); ok {
		return nil, fmt.Errorf("the number at %s has too many digits", at)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	costs, err := newCosts(root)
	if err != nil {
		return nil, err
	}
	return &schema{root, costs}, nil
}

// noLoader refuses every document that is not part of the schema itself: a
// tool's schema must not make this server fetch a URL or read a file.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the document %s is not part of the schema and is not fetched", url)
}

// decodeExact decodes one JSON value, its numbers digit for digit.
func decodeExact(raw []byte) (any, error) {
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}

// hugeNumber finds a number whose exact value takes more than some thousands of
// digits: the validator computes with exact values, and a few bytes of exponent
// would keep it busy for minutes.
func hugeNumber(value any, at string) (string, bool) {
	switch v := value.(type) {
	case json.Number:
		digits, exponent, ok := strings.Cut(strings.ToLower(v.String()), "e")
		if len(digits) > maxDigits {
			return at, true
		}
		if ok && len(strings.TrimLeft(exponent, "+-0")) > maxExponentDigits {
			return at, true
		}
	case []any:
		for i, item := range v {
			if found, ok := hugeNumber(item, fmt.Sprintf("%s/%d", at, i)); ok {
				return found, true
			}
		}
	case map[string]any:
		for key, item := range v {
			if found, ok := hugeNumber(item, at+"/"+pointerToken.Replace(key)); ok {
				return found, true
			}
		}
	}
	return "", false
}

var (
	pointerToken = strings.NewReplacer("~", "~0", "/", "~1")
	english      = message.NewPrinter(language.English)
)

// problems lists the leaves of a validation error: the violations themselves,
// without the branches of the schema that led to them.
func problems(e *jsonschema.ValidationError) []chat.InputProblem {
	var found []chat.InputProblem
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(found) == maxProblems {
			return
		}
		if len(e.Causes) == 0 {
			found = append(found, chat.InputProblem{
				Pointer: pointer(e.InstanceLocation),
				Message: shorten(e.ErrorKind.LocalizedString(english), maxProblemText),
			})
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	return found
}

// cyclic reports whether the fault lies in the schema, which the validator
// notices only on the way.
func cyclic(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.RefCycle)
	return ok || slices.ContainsFunc(e.Causes, cyclic)
}

func pointer(location []string) string {
	var b strings.Builder
	for _, token := range location {
		b.WriteByte('/')
		b.WriteString(pointerToken.Replace(token))
	}
	return b.String()
}
