package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bodies checks bodies against the schemas of the contract. Each schema is
// compiled when it is needed first.
type bodies struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer into the contract
}

const location = "contract.json"

func newBodies(doc *openapi3.T) (*bodies, error) {
	text, err := doc.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode the contract: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("decode the contract: %w", err)
	}
	b := &bodies{compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	b.compiler.AssertFormat()
	if err := b.compiler.AddResource(location, value); err != nil {
		return nil, fmt.Errorf("add the contract: %w", err)
	}
	return b, nil
}

// schema is the one at the pointer.
func (b *bodies) schema(pointer string) (*jsonschema.Schema, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := b.compiler.Compile(location + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile the schema at %s: %w", pointer, err)
	}
	b.schemas[pointer] = s
	return s, nil
}

// check holds a JSON body against the schema that the contract has for its
// media type. at is where the contract describes the body. Of other media
// types only that the contract has them is checked.
func (b *bodies) check(at string, content openapi3.Content, header http.Header, body []byte) error {
	media := mediaType(header)
	if len(content) == 0 {
		if len(body) > 0 {
			return errors.New("there is a body where none belongs")
		}
		return nil
	}
	if content[media] == nil {
		return fmt.Errorf("the media type %q is not in the contract", media)
	}
	if media != "application/json" && media != "application/problem+json" {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	s, err := b.schema(at + "/content/" + escape(media) + "/schema")
	if err != nil {
		return err
	}
	return s.Validate(value)
}

func (c contract) checkRequest(input *openapi3filter.RequestValidationInput, header http.Header, body []byte) error {
	ref := input.Route.Operation.RequestBody
	if ref == nil || ref.Value == nil {
		if len(body) > 0 {
			return errors.New("there is a body where none belongs")
		}
		return nil
	}
	if len(body) == 0 && !ref.Value.Required {
		return nil
	}
	return c.bodies.check(pointer(ref.Ref, operation(input)+"/requestBody"), ref.Value.Content, header, body)
}

// checkAnswer is asked of answers whose status the contract has.
func (c contract) checkAnswer(input *openapi3filter.RequestValidationInput, resp *http.Response, body []byte) error {
	ref := input.Route.Operation.Responses.Status(resp.StatusCode)
	if ref == nil || ref.Value == nil {
		return errors.New("the status is not in the contract")
	}
	at := operation(input) + "/responses/" + strconv.Itoa(resp.StatusCode)
	if resp.StatusCode == http.StatusSeeOther {
		body = nil // a word for people that net/http adds
	}
	return c.bodies.check(pointer(ref.Ref, at), ref.Value.Content, resp.Header, body)
}

func operation(input *openapi3filter.RequestValidationInput) string {
	return "#/paths/" + escape(input.Route.Path) + "/" + strings.ToLower(input.Route.Method)
}

// pointer is where a thing stands that is described by reference or in place.
func pointer(ref, place string) string {
	if ref != "" {
		return ref
	}
	return place
}

// escape makes a key a piece of a JSON pointer in a URL's fragment.
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)
}

func mediaType(header http.Header) string {
	m, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return m
}
