package mcp

import (
	"context"
	"sync"

	"github.com/assent-chat/assent/service/chat"
)

// Manager keeps the clients of all tool servers that people added. It is safe
// for concurrent use.
type Manager struct {
	options ClientOptions

	applying sync.Mutex // one change at a time; held while clients close

	mu      sync.Mutex
	closed  bool
	clients []*Client // in the order of the settings
}

// NewManager returns a manager of no servers. Its options hold for each client.
func NewManager(o ClientOptions) *Manager { return &Manager{options: o} }

// Apply makes the servers those of configs: it starts what is new, stops what
// is gone, and connects anew what is reached in another way. A server whose
// name or policy alone changed keeps its connection. It does not wait for
// connections; it does wait until what is stopped has ended, also when ctx
// ends. Settings that are wrong, or not unique by id and name, change nothing.
func (m *Manager) Apply(_ context.Context, configs []chat.MCPServer) error {
	ids, names := map[string]bool{}, map[string]bool{}
	for _, config := range configs {
		if err := config.Check(); err != nil {
			return err
		}
		if config.ID == "" || ids[config.ID] {
			return chat.Conflict("The id of the tool server %s is not unique.", config.Name)
		}
		if names[config.Name] {
			return chat.Conflict("Two tool servers have the name %s.", config.Name)
		}
		ids[config.ID], names[config.Name] = true, true
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return &chat.Error{Kind: chat.ErrUnavailable, Detail: "The server is shutting down."}
	}
	old := map[string]*Client{}
	for _, c := range m.clients {
		old[c.ID()] = c
	}
	m.mu.Unlock()

	kept := map[string]*Client{}
	for _, config := range configs {
		if c := old[config.ID]; c != nil && c.settings().SameConnection(config) {
			kept[config.ID] = c
			delete(old, config.ID)
		}
	}
	closeAll(old)
	clients := make([]*Client, len(configs))
	for i, config := range configs {
		if c := kept[config.ID]; c != nil {
			c.configure(config)
			clients[i] = c
			continue
		}
		clients[i] = StartClient(config, m.options)
	}
	m.mu.Lock()
	m.clients = clients
	m.mu.Unlock()
	return nil
}

func closeAll(clients map[string]*Client) {
	var closing sync.WaitGroup
	for _, c := range clients {
		closing.Go(c.Close)
	}
	closing.Wait()
}

// Servers returns the servers that are not switched off, in the order of their
// settings, for a Catalogue.
func (m *Manager) Servers() []Server {
	var servers []Server
	for _, c := range m.all() {
		if !c.settings().Disabled {
			servers = append(servers, c)
		}
	}
	return servers
}

// States returns the state of every server, by id.
func (m *Manager) States() map[string]State {
	states := map[string]State{}
	for _, c := range m.all() {
		states[c.ID()] = c.State()
	}
	return states
}

// Tools lists the tools of one server, which need not be in a catalogue: what
// its settings page shows. An unknown id is an error of kind chat.ErrNotFound.
func (m *Manager) Tools(ctx context.Context, serverID string) ([]chat.Tool, error) {
	c, err := m.client(serverID)
	if err != nil {
		return nil, err
	}
	return c.Tools(ctx)
}

// Restart connects one server anew, at once.
func (m *Manager) Restart(serverID string) error {
	c, err := m.client(serverID)
	if err != nil {
		return err
	}
	c.Restart()
	return nil
}

// Test connects to a server for a trial, lists its tools, and closes the
// connection again, all within ctx. It gives the state that the connection
// reached, which says what went wrong if it was none; the error is of settings
// that are wrong.
func (m *Manager) Test(ctx context.Context, config chat.MCPServer) (State, []chat.Tool, error) {
	if err := config.Check(); err != nil {
		return State{}, nil, err
	}
	config.Disabled = false
	settled := make(chan State, 1)
	o := m.options
	o.Elicit = nil // nothing is called, so there is nothing to ask
	o.OnState = func(_ string, s State) {
		if s.Phase == PhaseStarting {
			return
		}
		select {
		case settled <- s:
		default: // the first counts
		}
	}
	c := StartClient(config, o)
	defer c.Close()
	select {
	case s := <-settled:
		if s.Phase != PhaseReady {
			return s, nil, nil
		}
		tools, err := c.Tools(ctx)
		if err != nil { // lost again within this instant
			return State{Phase: PhaseFailed, Since: s.Since, Error: err.Error(), Stderr: c.State().Stderr}, nil, nil
		}
		return s, tools, nil
	case <-ctx.Done():
		s := c.State()
		s.Phase, s.Error = PhaseFailed, "the server did not answer in time"
		return s, nil, nil
	}
}

// Close ends all connections and their processes, and returns when they are
// gone. Nothing can be applied afterwards.
func (m *Manager) Close() {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.mu.Lock()
	m.closed = true
	clients := map[string]*Client{}
	for _, c := range m.clients {
		clients[c.ID()] = c
	}
	m.clients = nil
	m.mu.Unlock()
	closeAll(clients)
}

func (m *Manager) all() []*Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clients
}

func (m *Manager) client(serverID string) (*Client, error) {
	for _, c := range m.all() {
		if c.ID() == serverID {
			return c, nil
		}
	}
	return nil, chat.NotFound("There is no tool server %s.", serverID)
}
