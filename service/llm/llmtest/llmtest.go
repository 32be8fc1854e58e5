// Package llmtest is a model provider that says what it is told to. It speaks
// the chat-completions dialect over HTTP, and it is as strict about a
// request's history as the real ones are.
package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	maxBody     = 16 << 20
	maxRequests = 1000 // that are remembered
)

// Fake is a provider as an http.Handler. It serves POST …/chat/completions and
// GET …/models under any prefix. It is safe for concurrent use.
type Fake struct {
	rule func(n int, r Request) Turn
	stop chan struct{}
	once sync.Once
	gone chan int

	mu         sync.Mutex
	n          int
	requests   []Request
	violations []string
	models     []string
}

// Handler returns a provider that answers the n-th request, counted from 1,
// with rule(n, request). It outlives every test, so a long-lived fake can
// answer by rules. A request that a real provider refuses is answered with
// 400, recorded in Violations, and not counted.
func Handler(rule func(n int, r Request) Turn) *Fake {
	return &Fake{rule: rule, stop: make(chan struct{}), gone: make(chan int, maxRequests), models: []string{"fake-model"}}
}

// Close ends every turn that waits. It does no more, and may be called twice.
func (f *Fake) Close() { f.once.Do(func() { close(f.stop) }) }

// SetModels sets what GET models lists; at first it is "fake-model".
func (f *Fake) SetModels(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.models = slices.Clone(ids)
}

// Requests returns the accepted requests in the order in which they came, the
// last thousand of them.
func (f *Fake) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Violations returns what was wrong with each request that was refused.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// Left gives the number of each request whose client left while its turn was
// waiting or being written.
func (f *Fake) Left() <-chan int { return f.gone }

// ServeHTTP answers one request.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		f.serveModels(w)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		f.serveCompletion(w, r)
	default:
		refuse(w, http.StatusNotFound, "there is no "+r.Method+" "+r.URL.Path)
	}
}

func (f *Fake) serveModels(w http.ResponseWriter) {
	f.mu.Lock()
	data := []any{}
	for _, id := range f.models {
		data = append(data, map[string]any{"id": id, "object": "model", "created": 1, "owned_by": "fake"})
	}
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data}) // a client that left has no use for it
}

func (f *Fake) serveCompletion(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body cannot be read")
		return
	}
	req, err := decodeRequest(r.Header, body)
	wrong := ""
	if err != nil {
		wrong = err.Error()
	} else {
		wrong = violation(req)
	}
	if wrong != "" {
		f.mu.Lock()
		f.violations = append(f.violations, wrong)
		f.mu.Unlock()
		refuse(w, http.StatusBadRequest, wrong)
		return
	}

	f.mu.Lock()
	f.n++
	n := f.n
	f.requests = append(f.requests, req)
	if extra := len(f.requests) - maxRequests; extra > 0 {
		f.requests = slices.Delete(f.requests, 0, extra)
	}
	f.mu.Unlock()

	a := &answer{w: w, r: r, stop: f.stop, model: req.Model, usage: req.IncludeUsage}
	a.left = sync.OnceFunc(func() {
		select {
		case f.gone <- n:
		default: // nobody has looked for a thousand requests
		}
	})
	for _, s := range f.rule(n, req).steps {
		if !s(a) {
			return
		}
	}
	a.end()
}

// refuse answers with an error in the provider's own words.
func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
}

// Server is a Fake that listens on a port of its own.
type Server struct {
	*Fake
	// URL is the base URL of the dialect: requests go to URL + "/chat/completions".
	URL string
}

// New starts a server that answers the n-th request with the n-th turn, and
// ends with the test. A request too many, a turn left over, or a request that
// a real provider would refuse fails the test.
func New(t testing.TB, turns ...Turn) *Server {
	t.Helper()
	f := Handler(func(n int, _ Request) Turn {
		if n > len(turns) {
			t.Errorf("the model was asked %d times, but has only %d turns", n, len(turns))
			return Status(http.StatusInternalServerError, nil, `{"error":{"message":"no more turns"}}`)
		}
		return turns[n-1]
	})
	s := Start(t, f)
	t.Cleanup(func() { // before the server ends
		if n := len(f.Requests()); n < len(turns) {
			t.Errorf("the model was asked %d times, want %d", n, len(turns))
		}
		for _, v := range f.Violations() {
			t.Errorf("the model was sent what a provider refuses: %s", v)
		}
	})
	return s
}

// Start serves f on a port of its own until the test ends.
func Start(t testing.TB, f *Fake) *Server {
	t.Helper()
	ts := httptest.NewServer(f)
	t.Cleanup(func() {
		f.Close()
		ts.CloseClientConnections()
		ts.Close()
	})
	return &Server{Fake: f, URL: ts.URL + "/v1"}
}
