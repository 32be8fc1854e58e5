package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
	"github.com/assent-chat/assent/service/mcp"
)

// member is what a world knows of itself as one of several servers, and of the
// others.
type member struct {
	name    string // empty for the only one
	others  []*world
	turns   atomic.Int64
	address atomic.Pointer[string] // nil while it is down
	end     func()                 // ends this server alone; safe to call twice
	modelAt string                 // see watched
}

// pair puts another server beside this one, with the same key.
func (w *world) pair() {
	w.t.Helper()
	other := &world{t: w.t, dir: filepath.Join(w.dir, "two"), databaseURL: w.databaseURL, probe: w.probe}
	w.name, other.name = "one", "two"
	w.others = []*world{other}
	w.share([]byte(strings.Repeat("5a", 32)))
}

// share gives all servers the key.
func (w *world) share(key []byte) {
	w.t.Helper()
	for _, i := range w.servers() {
		data := filepath.Join(i.dir, "data")
		if err := os.MkdirAll(data, 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "secret.key"), key, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// servers are this one and the others.
func (w *world) servers() []*world { return append([]*world{w}, w.others...) }

// running tells whether this server is up.
func (w *world) running() bool { return w.address.Load() != nil }

// next is the server whose turn it is to be asked something, and its address.
func (w *world) next() (*world, string) {
	all := w.servers()
	for range all {
		i := all[int(w.turns.Add(1)-1)%len(all)]
		if at := i.address.Load(); at != nil && len(all) > 1 {
			return i, *at
		}
	}
	return w, w.base
}

// bring starts those servers that do not run, as the test has set up the first.
func (w *world) bring(start func(*world)) {
	w.t.Helper()
	for _, i := range w.servers() {
		if i.running() {
			continue
		}
		if i != w {
			i.model = w.model
			i.flags = append([]string{"-workspace", filepath.Join(w.dir, "data", "workspace")}, w.flags...)
		}
		start(i)
	}
	w.stop = func() {
		for _, i := range w.servers() {
			i.end()
		}
	}
}

// up says that the server runs until it is ended, here or with the test.
func (w *world) up(end func()) {
	base := w.base
	w.address.Store(&base)
	w.end = sync.OnceFunc(func() {
		w.address.Store(nil)
		end()
	})
	w.t.Cleanup(w.end)
}

// watched is where one of several servers finds the model: at an address of
// its own, so that it is known who asks.
func (w *world) watched(model *llmtest.Server) string {
	if w.name == "" {
		return model.URL
	}
	if w.modelAt == "" {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.probe.atWork(w.name)
			model.ServeHTTP(rw, r)
		}))
		w.t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		w.modelAt = s.URL + "/v1"
	}
	return w.modelAt
}

// seen is the probe of one of several servers: it is known who calls it.
type seen struct {
	*probe
	by string
}

func (s seen) Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), ask mcp.Ask) (chat.Result, error) {
	s.atWork(s.by)
	return s.probe.Call(ctx, tool, input, progress, ask)
}

// atWork notes which server was the last to ask the model or to start a tool.
func (p *probe) atWork(name string) {
	if name == "" {
		return
	}
	fresh := p.path("at-work-" + name)
	if os.WriteFile(fresh, []byte(name), 0o600) == nil {
		_ = os.Rename(fresh, p.path("at-work")) // atWork falls back to the first
	}
}

// atWork is the server that works, or was the last to.
func (w *world) atWork() *world {
	name, _ := os.ReadFile(w.probe.path("at-work")) // none has worked yet
	for _, i := range w.servers() {
		if i.name == string(name) && i.running() {
			return i
		}
	}
	return w
}

func TestSeveralServersAreAskedInTurn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.start()
		asked := func() map[string]int {
			times := map[string]int{}
			for range 4 {
				i, base := w.next()
				if base != i.base {
					t.Errorf("%s is at %s, not at %s", i.name, i.base, base)
				}
				times[i.name]++
			}
			return times
		}
		if got := asked(); got["one"] != 2 || got["two"] != 2 {
			t.Errorf("asked %v times", got)
		}
		w.others[0].end()
		if got := asked(); got["one"] != 4 {
			t.Errorf("with one down: asked %v times", got)
		}
		w.topic()
		w.start()
		w.end()
		if got := asked(); got["two"] != 4 {
			t.Errorf("with the other down: asked %v times", got)
		}
		w.topic()
	}, "instances")
}
