// Package apitest holds what is said over HTTP in tests against openapi.yaml.
package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	assent "github.com/assent-chat/assent"
)

// Unchecked is a request header that says that the request breaks the
// contract on purpose. It is not sent on; the answer is checked all the same.
const Unchecked = "X-Unchecked-Request"

// Transport returns a transport that fails the test when a request or an
// answer is not as the contract has it. Paths that the contract does not know,
// such as those of the page, are not checked. Of an event stream the status and
// the media type are checked, and its body is left to the reader. base may be
// nil for http.DefaultTransport.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, report: func(err error) { t.Errorf("%v", err) }}
}

// Contract is the parsed contract. It must not be modified.
func Contract(t testing.TB) *openapi3.T {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return c.doc
}

// contract is openapi.yaml, ready to be held against.
type contract struct {
	doc    *openapi3.T
	router routers.Router
	bodies *bodies
}

var load = sync.OnceValues(func() (contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(assent.Contract)
	if err != nil {
		return contract{}, fmt.Errorf("load the contract: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return contract{}, fmt.Errorf("the contract is not valid: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return contract{}, fmt.Errorf("route the contract: %w", err)
	}
	bodies, err := newBodies(doc)
	return contract{doc, router, bodies}, err
})

type transport struct {
	base   http.RoundTripper
	report func(error)
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := load()
	if err != nil {
		return nil, err
	}
	unchecked := r.Header.Get(Unchecked) != ""
	sent := r.Clone(r.Context())
	sent.Header.Del(Unchecked)
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
		_ = r.Body.Close()
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	input, known := c.find(sent, body)
	if known && !unchecked {
		err := errors.Join(openapi3filter.ValidateRequest(r.Context(), input), c.checkRequest(input, sent.Header, body))
		if err != nil {
			t.report(fmt.Errorf("%s %s: the request breaks the contract: %s", r.Method, r.URL.Path, short(err)))
		}
	}
	resp, err := t.base.RoundTrip(sent)
	if err != nil || !known {
		return resp, err
	}
	return resp, t.check(c, input, resp)
}

// find says which operation a request is; false if the contract has none.
func (c contract) find(r *http.Request, body []byte) (*openapi3filter.RequestValidationInput, bool) {
	probe := r.Clone(r.Context())
	if probe.Method == http.MethodHead {
		probe.Method = http.MethodGet
	}
	probe.URL.Host, probe.URL.Scheme, probe.Host = "", "", "" // the contract's server is "/"
	probe.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := c.router.FindRoute(probe)
	if err != nil {
		return nil, false
	}
	for name, value := range params { // as it stands in the path
		if text, err := url.PathUnescape(value); err == nil {
			params[name] = text
		}
	}
	return &openapi3filter.RequestValidationInput{
		Request: probe, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc, // a test of its own
			IncludeResponseStatus: true,
			// It would compile the schema of a body anew each time.
			ExcludeRequestBody: true, ExcludeResponseBody: true,
		},
	}, true
}

func (t *transport) check(c contract, input *openapi3filter.RequestValidationInput, resp *http.Response) error {
	broken := openapi3filter.ValidateResponse(input.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: input.Options,
	})
	stream := mediaType(resp.Header) == "text/event-stream"
	if !stream && resp.Request.Method != http.MethodHead {
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("read the answer's body: %w", err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		if broken == nil {
			broken = c.checkAnswer(input, resp, body)
		}
	}
	if broken != nil {
		t.report(fmt.Errorf("%s %s: the answer %d breaks the contract: %s", input.Request.Method, input.Request.URL.Path, resp.StatusCode, short(broken)))
	}
	return nil
}

// short leaves the schema and the value out of a validator's error.
func short(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\nSchema:")
	return text
}
