package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestEnvironmentNamesProviders(t *testing.T) {
	t.Parallel()
	ollama := func(base string) []llm.Provider {
		return []llm.Provider{{ID: "ollama", Title: "Ollama", BaseURL: base, FromEnvironment: true}}
	}
	for _, tt := range []struct {
		name string
		env  map[string]string
		want []llm.Provider
	}{
		{"nothing", nil, nil},
		{"blank", map[string]string{"OPENAI_API_KEY": " ", "OLLAMA_HOST": ""}, nil},
		{"a key", map[string]string{"OPENAI_API_KEY": "k"}, []llm.Provider{{ID: "openai", Title: "OpenAI", BaseURL: "https://api.openai.com/v1", APIKey: "k", FromEnvironment: true}}},
		{"a base", map[string]string{"OPENAI_BASE_URL": "http://x/v1"}, []llm.Provider{{ID: "openai", Title: "OpenAI", BaseURL: "http://x/v1", FromEnvironment: true}}},
		{"host and port", map[string]string{"OLLAMA_HOST": "box:1234"}, ollama("http://box:1234/v1")},
		{"a host", map[string]string{"OLLAMA_HOST": "box"}, ollama("http://box:11434/v1")},
		{"a port", map[string]string{"OLLAMA_HOST": ":1234"}, ollama("http://127.0.0.1:1234/v1")},
		{"every interface", map[string]string{"OLLAMA_HOST": "0.0.0.0"}, ollama("http://127.0.0.1:11434/v1")},
		{"a URL", map[string]string{"OLLAMA_HOST": "http://box:1234"}, ollama("http://box:1234/v1")},
		{"a URL without a port", map[string]string{"OLLAMA_HOST": "https://box/ollama/"}, ollama("https://box:443/ollama/v1")},
		{"a plain URL without a port", map[string]string{"OLLAMA_HOST": "http://box"}, ollama("http://box:80/v1")},
		{"IPv6", map[string]string{"OLLAMA_HOST": "[::1]"}, ollama("http://[::1]:11434/v1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := llm.Environment(func(k string) string { return tt.env[k] })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegistryResolvesNames(t *testing.T) {
	t.Parallel()
	srv := llmtest.New(t, llmtest.Text("from the provider"))
	r := llm.NewRegistry(llm.RegistryOptions{
		Demo: llm.Demo{Pause: noPause},
		Providers: []llm.Provider{
			{ID: "openai", BaseURL: srv.URL, APIKey: testKey},
			{ID: "openai", BaseURL: "http://second.invalid"},
			{ID: "a/b", BaseURL: srv.URL}, {ID: "", BaseURL: srv.URL}, {ID: "demo", BaseURL: srv.URL},
			{ID: "broken", BaseURL: "nonsense"},
		},
	})
	t.Run("the demo", func(t *testing.T) {
		m, bare, err := r.Resolve("demo/guide")
		if err != nil || bare != "guide" {
			t.Fatalf("%q, %v", bare, err)
		}
		wantOK(t, stream(t.Context(), m, hello()), chat.FinishStop)
	})
	t.Run("a provider, with a name that holds a slash", func(t *testing.T) {
		m, bare, err := r.Resolve("openai/meta/llama-4")
		if err != nil || bare != "meta/llama-4" {
			t.Fatalf("%q, %v", bare, err)
		}
		got := stream(t.Context(), m, hello())
		wantOK(t, got, chat.FinishStop)
		if got.text(chat.StreamText) != "from the provider" {
			t.Errorf("text %q", got.text(chat.StreamText))
		}
	})
	for name, says := range map[string]string{
		"nobody/x":   "There are: demo, openai, broken.",
		"demo/other": "demo/guide",
		"guide":      "provider/model",
		"openai/":    "provider/model",
		"":           "provider/model",
		"broken/x":   "cannot be used",
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			m, _, err := r.Resolve(name)
			if m != nil || !errors.Is(err, chat.ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, %v; want an invalid that says %q", m, err, says)
			}
		})
	}
}

func TestRegistryShowsProvidersWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := llm.NewRegistry(llm.RegistryOptions{Providers: []llm.Provider{
		{ID: "openai", Title: "OpenAI", BaseURL: "https://user:pass@host/v1?key=secret#x", APIKey: testKey, FromEnvironment: true},
		{ID: "broken", BaseURL: "http://user:pass@ host"},
	}})
	got, err := json.Marshal(r.Providers())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"id":"demo","title":"Demo","fromEnvironment":false,"configured":true},` +
		`{"id":"openai","title":"OpenAI","baseUrl":"https://host/v1","fromEnvironment":true,"configured":true},` +
		`{"id":"broken","title":"broken","fromEnvironment":false,"configured":false,"error":"the base URL of the provider is not a URL"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestRegistryListsModels(t *testing.T) {
	t.Parallel()
	fake := llmtest.Handler(nil)
	fake.SetModels("b", "a", "a", "", "text-embedding-3", "whisper-1", "evil\x1b[0m", strings.Repeat("x", 201))
	srv := llmtest.Start(t, fake)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order "+testKey, http.StatusInternalServerError)
	}))
	t.Cleanup(down.Close)
	r := llm.NewRegistry(llm.RegistryOptions{Providers: []llm.Provider{
		{ID: "down", Title: "Down", BaseURL: down.URL, APIKey: testKey},
		{ID: "up", Title: "Up", BaseURL: srv.URL, FromEnvironment: true},
		{ID: "broken", BaseURL: "x"},
	}})
	want := []chat.ModelInfo{
		{Name: "demo/guide", Provider: "demo", Title: "Demo guide (no language model)"},
		{Name: "up/a", Provider: "up", Title: "a (Up)", FromEnvironment: true},
		{Name: "up/b", Provider: "up", Title: "b (Up)", FromEnvironment: true},
	}
	if diff := cmp.Diff(want, r.Models(t.Context())); diff != "" {
		t.Error(diff)
	}
	info := r.Providers()[1]
	if !info.Configured || !strings.Contains(info.Error, "out of order [key]") {
		t.Errorf("the provider that is down: %+v", info)
	}
}

// counted is a registry with one provider that lists what list says, and the
// number of times that it was asked.
func counted(now func() time.Time, list func(context.Context) (int, string, error)) (*llm.Registry, *atomic.Int64) {
	var n atomic.Int64
	return llm.NewRegistry(llm.RegistryOptions{
		Now:       now,
		Providers: []llm.Provider{{ID: "p", BaseURL: "http://fake/v1"}},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			n.Add(1)
			code, body, err := list(r.Context())
			if err != nil {
				return nil, err
			}
			rec := httptest.NewRecorder()
			rec.WriteHeader(code)
			fmt.Fprint(rec, body)
			return rec.Result(), nil
		}),
	}), &n
}

func TestRegistryRemembersLists(t *testing.T) {
	t.Parallel()
	const one = `{"data":[{"id":"m"}]}`
	t.Run("a list for 5 minutes, a failure for 15 seconds, and the last list meanwhile", func(t *testing.T) {
		t.Parallel()
		at := time.Unix(1000, 0)
		code, body := 200, one
		r, n := counted(func() time.Time { return at }, func(context.Context) (int, string, error) { return code, body, nil })
		look := func(asked int64, models int, failed bool) {
			t.Helper()
			got := r.Models(t.Context())
			if n.Load() != asked || len(got) != models || (r.Providers()[1].Error != "") != failed {
				t.Errorf("asked %d times, %d models, error %q; want %d, %d, %v", n.Load(), len(got), r.Providers()[1].Error, asked, models, failed)
			}
		}
		look(1, 2, false)
		at = at.Add(5*time.Minute - 1)
		look(1, 2, false)
		code, body = 500, ""
		at = at.Add(1)
		look(2, 2, true)
		at = at.Add(15*time.Second - 1)
		look(2, 2, true)
		code, body = 200, "<html>"
		at = at.Add(1)
		look(3, 2, true)
		body = `{"data":[]}`
		at = at.Add(15 * time.Second)
		look(4, 1, false)
	})
	t.Run("callers that come together share one request", func(t *testing.T) {
		t.Parallel()
		at := time.Unix(1000, 0)
		r, n := counted(func() time.Time { return at }, func(context.Context) (int, string, error) { return 200, one, nil })
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := len(r.Models(t.Context())); got != 2 {
					t.Errorf("%d models", got)
				}
			})
		}
		wg.Wait()
		if n.Load() != 1 {
			t.Errorf("asked %d times", n.Load())
		}
	})
	t.Run("a provider that does not answer gets 3 seconds", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r, _ := counted(nil, func(ctx context.Context) (int, string, error) {
				<-ctx.Done()
				return 0, "", ctx.Err()
			})
			began := time.Now()
			got := r.Models(t.Context())
			if waited := time.Since(began); waited != 3*time.Second || len(got) != 1 {
				t.Errorf("waited %s, %d models", waited, len(got))
			}
			if e := r.Providers()[1].Error; e == "" {
				t.Error("no error is shown")
			}
		})
	})
	t.Run("a caller that leaves spoils nothing", func(t *testing.T) {
		t.Parallel()
		r, n := counted(nil, func(ctx context.Context) (int, string, error) {
			if ctx.Err() != nil {
				return 0, "", ctx.Err()
			}
			return 200, one, nil
		})
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		r.Models(gone)
		if e := r.Providers()[1].Error; e != "" {
			t.Errorf("error %q", e)
		}
		if got := r.Models(t.Context()); len(got) != 2 {
			t.Errorf("%d models after %d requests", len(got), n.Load())
		}
	})
}
