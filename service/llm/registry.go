package llm

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const demoProvider = "demo"

// Provider is a place where models answer, in the chat-completions dialect.
type Provider struct {
	ID    string // what comes before the "/" in a model's name
	Title string
	// BaseURL is as in [OpenAIOptions]. One that is not usable is reported by
	// Providers and by Resolve, not by NewRegistry.
	BaseURL string
	APIKey  string
	// FromEnvironment says that it was not set up in the settings.
	FromEnvironment bool
	// OmitUsage is as in [OpenAIOptions].
	OmitUsage bool
}

// RegistryOptions configures a Registry. The zero value knows only the demo.
type RegistryOptions struct {
	Providers []Provider
	// Demo is the model demo/guide.
	Demo Demo
	// Transport is what all providers are reached through; nil is a plain one.
	Transport http.RoundTripper
	// Now is the clock of the model lists' age; nil is time.Now.
	Now func() time.Time
	// HeaderTimeout and IdleTimeout are as in [OpenAIOptions].
	HeaderTimeout, IdleTimeout time.Duration
}

// Registry leads from a model's name to the model. It is safe for concurrent use.
type Registry struct {
	demo      Demo
	now       func() time.Time
	providers []*provider
}

// provider is a Provider with its model, or with what is wrong with it.
type provider struct {
	Provider
	model *OpenAI
	wrong string

	asking sync.Mutex // held while the provider is asked

	mu     sync.Mutex // guards what follows, for an instant
	list   []chat.ModelInfo
	failed string
	until  time.Time // when list and failed are to be asked for again
}

// NewRegistry returns a registry of the demo and opt.Providers. It makes no
// request. Of providers with one ID, the first counts.
func NewRegistry(opt RegistryOptions) *Registry {
	r := &Registry{demo: opt.Demo, now: opt.Now}
	if r.now == nil {
		r.now = time.Now
	}
	if opt.Transport == nil {
		opt.Transport = newTransport()
	}
	seen := map[string]bool{demoProvider: true}
	for _, p := range opt.Providers {
		if p.ID == "" || strings.Contains(p.ID, "/") || seen[p.ID] {
			continue
		}
		seen[p.ID] = true
		if p.Title == "" {
			p.Title = p.ID
		}
		held := &provider{Provider: p}
		model, err := NewOpenAI(OpenAIOptions{
			BaseURL: p.BaseURL, APIKey: p.APIKey, OmitUsage: p.OmitUsage, Transport: opt.Transport,
			HeaderTimeout: opt.HeaderTimeout, IdleTimeout: opt.IdleTimeout,
		})
		if err != nil {
			held.wrong = err.Error()
		} else {
			held.model = model
		}
		r.providers = append(r.providers, held)
	}
	return r
}

// Resolve returns the model called name ("provider/model") and the name by
// which its provider knows it. An unknown provider is a chat.ErrInvalid that
// says which there are; whether the provider knows the model shows when it is
// asked.
func (r *Registry) Resolve(name string) (Model, string, error) {
	id, bare, ok := strings.Cut(name, "/")
	if !ok || bare == "" {
		return nil, "", chat.Invalid("The model %q is not named as provider/model, such as demo/guide.", shorten(name))
	}
	if id == demoProvider {
		if bare != DemoModel {
			return nil, "", chat.Invalid("There is no model %q. The demo has only demo/guide.", shorten(name))
		}
		return r.demo, bare, nil
	}
	known := []string{demoProvider}
	for _, p := range r.providers {
		if p.ID == id {
			if p.model == nil {
				return nil, "", chat.Invalid("The provider %s cannot be used: %s.", id, p.wrong)
			}
			return p.model, bare, nil
		}
		known = append(known, p.ID)
	}
	return nil, "", chat.Invalid("There is no model provider %q. There are: %s.", shorten(id), strings.Join(known, ", "))
}

// Providers returns the demo and every provider, in the order given.
func (r *Registry) Providers() []chat.ProviderInfo {
	out := []chat.ProviderInfo{{ID: demoProvider, Title: "Demo", Configured: true}}
	for _, p := range r.providers {
		info := chat.ProviderInfo{ID: p.ID, Title: p.Title, FromEnvironment: p.FromEnvironment, Configured: p.model != nil, Error: p.wrong}
		if p.model != nil {
			u := *p.model.base
			u.User, u.RawQuery, u.Fragment = nil, "", ""
			info.BaseURL = u.String()
			p.mu.Lock()
			info.Error = p.failed
			p.mu.Unlock()
		}
		out = append(out, info)
	}
	return out
}

// Models returns demo/guide and what each provider lists, in the order of the
// providers and by name. A provider that cannot list its models contributes
// what it listed last, if anything; Providers says what is wrong. Lists are
// kept for 5 minutes, failures for 15 seconds; a provider gets 3 seconds.
func (r *Registry) Models(ctx context.Context) []chat.ModelInfo {
	out := []chat.ModelInfo{{Name: demoProvider + "/" + DemoModel, Provider: demoProvider, Title: "Demo guide (no language model)"}}
	lists := make([][]chat.ModelInfo, len(r.providers))
	var wg sync.WaitGroup
	for i, p := range r.providers {
		if p.model != nil {
			wg.Go(func() { lists[i] = p.models(ctx, r.now) })
		}
	}
	wg.Wait()
	return append(out, slices.Concat(lists...)...)
}
