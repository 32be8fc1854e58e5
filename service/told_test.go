package service_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// told is what the service tells: changes to watchers, turns to the engine,
// settings to the connections of tool servers. It connects to nothing: a server
// is ready from when it is applied, and offers what a test says.
type told struct {
	mu       sync.Mutex
	news     *sync.Cond // of everything below
	changes  []chat.Change
	settings []chat.SettingsKind
	hinted   []chat.SettingsKind // to this instance
	wakes    int
	canceled []chat.Epochs
	answered []string
	applied  [][]chat.MCPServer // each time
	restarts []string
	tried    []chat.MCPServer

	phases map[string]chat.ServerPhase // of servers, where it is another than one would think
	offers map[string][]chat.Tool      // by server; the identity is that of the connection
	fails  int                         // how often Apply goes on failing

	parse   func(file []byte) ([]chat.MCPServer, error)
	trial   chat.ServerState
	trialOf []chat.Tool
	refuses error // Restart and Test
}

func newTold() *told {
	t := &told{
		// The server of the tool that waiting asks for is stored nowhere.
		phases: map[string]chat.ServerPhase{"s": chat.ServerReady},
		offers: map[string][]chat.Tool{"s": {tool("s", "s", "t")}},
	}
	t.news = sync.NewCond(&t.mu)
	return t
}

func (t *told) heard(what func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what()
	t.news.Broadcast()
}

func (t *told) Publish(_ context.Context, c chat.Change) {
	t.heard(func() { t.changes = append(t.changes, c) })
}
func (t *told) Settings(what chat.SettingsKind) {
	t.heard(func() { t.settings = append(t.settings, what) })
}
func (t *told) Hint(what chat.SettingsKind) {
	t.heard(func() { t.hinted = append(t.hinted, what) })
}
func (t *told) Wake() { t.heard(func() { t.wakes++ }) }
func (t *told) Cancel(stopped chat.Epochs) {
	t.heard(func() { t.canceled = append(t.canceled, stopped) })
}
func (t *told) Answered(questionID string) {
	t.heard(func() { t.answered = append(t.answered, questionID) })
}

func (t *told) Apply(_ context.Context, servers []chat.MCPServer) (err error) {
	t.heard(func() {
		if t.fails > 0 {
			t.fails--
			err = chat.Unavailable("It is not applied.")
			return
		}
		t.applied = append(t.applied, slices.Clone(servers))
	})
	return err
}

// connected is what was applied last. The caller holds the lock.
func (t *told) connected(serverID string) (chat.MCPServer, bool) {
	if len(t.applied) == 0 {
		return chat.MCPServer{}, false
	}
	for _, s := range t.applied[len(t.applied)-1] {
		if s.ID == serverID {
			return s, true
		}
	}
	return chat.MCPServer{}, false
}

func (t *told) Connected(serverID string) (chat.MCPServer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.connected(serverID)
}

func (t *told) State(serverID string) (chat.ServerState, []chat.Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	server, ok := t.connected(serverID)
	state := chat.ServerState{Phase: t.phases[serverID]}
	switch {
	case state.Phase != "":
	case !ok:
		return chat.ServerState{}, nil
	case server.Problem != "":
		state = chat.ServerState{Phase: chat.ServerFailed, Error: server.Problem}
	case server.Disabled:
		state.Phase = chat.ServerDisabled
	default:
		state.Phase = chat.ServerReady
	}
	if state.Phase != chat.ServerReady {
		return state, nil
	}
	tools := slices.Clone(t.offers[serverID])
	for i := range tools {
		if ok {
			tools[i].Identity = server.Identity
		}
	}
	return state, tools
}

func (t *told) Restart(serverID string) error {
	t.heard(func() { t.restarts = append(t.restarts, serverID) })
	return t.refuses
}

func (t *told) Parse(file []byte) ([]chat.MCPServer, error) { return t.parse(file) }

func (t *told) Test(_ context.Context, s chat.MCPServer) (chat.ServerState, []chat.Tool, error) {
	t.heard(func() { t.tried = append(t.tried, s) })
	return t.trial, t.trialOf, t.refuses
}

// Validate takes any input but {"bad":…}.
func (*told) Validate(_ chat.Tool, input json.RawMessage) error {
	if strings.Contains(string(input), "bad") {
		return &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/bad", Message: "is not allowed"}}}
	}
	return nil
}

// offer says what tools a server has from now on; none takes it away.
func (t *told) offer(serverID string, tools ...chat.Tool) {
	t.heard(func() { t.offers[serverID] = tools })
}

// phase says how a server is doing from now on; "" is as one would think.
func (t *told) phase(serverID string, phase chat.ServerPhase) {
	t.heard(func() { t.phases[serverID] = phase })
}

// hints are the kinds of settings of which watchers were told since the last
// time.
func (t *told) hints() []chat.SettingsKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	hints := t.settings
	t.settings = nil
	return hints
}

// count reads one of the members.
func (t *told) count(of func() int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return of()
}

// until waits until something holds of what was told. It gives up in the end,
// so that a test fails and does not hang.
func (t *told) until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	over := false
	patience := time.AfterFunc(3*time.Minute, func() { t.heard(func() { over = true }) })
	defer patience.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for !holds() {
		if over {
			tb.Fatalf("still not: %s", what)
		}
		t.news.Wait()
	}
}

func tool(serverID, server, name string) chat.Tool {
	return chat.Tool{Name: server + "__" + name, Server: server, ServerID: serverID, Tool: name, InputSchema: json.RawMessage(`{}`)}
}
