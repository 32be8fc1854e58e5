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

	applying chan struct{} // held by the one change that is made, also while clients close

	mu      sync.Mutex
	closed  bool
	clients []*Client // in the order of the settings
}

// NewManager returns a manager of no servers. Its options hold for each client.
func NewManager(o ClientOptions) *Manager {
	return &Manager{options: o, applying: make(chan struct{}, 1)}
}

// Apply makes the servers those of configs: it starts what is new, stops what
// is gone, and connects anew what is reached in another way. A server whose
// name or policy alone changed keeps its connection. It does not wait for
// connections; it does wait until what is stopped has ended. Settings that are
// wrong, or not unique by id and name, change nothing, and neither does a ctx
// that ends while another change is made.
func (m *Manager) Apply(ctx context.Context, configs []chat.MCPServer) error {
	for _, config := range configs {
		if config.Problem != "" {
			continue // there is nothing that could be checked
		}
		if err := config.Check(); err != nil {
			return err
		}
	}
	err := distinct(configs, func(s chat.MCPServer) string { return s.ID }, func(s chat.MCPServer) string { return s.Name })
	if err != nil {
		return err
	}
	select {
	case m.applying <- struct{}{}:
	default: // only who has to wait may give up
		select {
		case m.applying <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-m.applying }()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return chat.Unavailable("The server is shutting down.")
	}
	old := map[string]*Client{}
	for _, c := range m.clients {
		old[c.ID()] = c
	}
	m.mu.Unlock()

	kept := map[string]*Client{}
	for _, config := range configs {
		if c := old[config.ID]; c != nil && sameConnection(c.settings(), config) {
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

// sameConnection reports whether a client may keep its connection. What an
// identity was given to stays with it: tools that were listed under one are
// never called under another.
func sameConnection(a, b chat.MCPServer) bool {
	return a.SameConnection(b) && a.Identity == b.Identity && a.Problem == b.Problem
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

// State says how a server is doing, and what it offers: nothing while it is not
// connected. It waits for nothing. The phase of one that there is not is "".
func (m *Manager) State(serverID string) (chat.ServerState, []chat.Tool) {
	c, err := m.client(serverID)
	if err != nil {
		return chat.ServerState{}, nil
	}
	return c.State()
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
func (m *Manager) Test(ctx context.Context, config chat.MCPServer) (chat.ServerState, []chat.Tool, error) {
	if err := config.Check(); err != nil {
		return chat.ServerState{}, nil, err
	}
	config.Disabled = false
	settled := make(chan chat.ServerState, 1)
	o := m.options
	o.OnState = func(_ string, s chat.ServerState) {
		if s.Phase == chat.ServerStarting {
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
		if s.Phase != chat.ServerReady {
			return s, nil, nil
		}
		tools, err := c.Tools(ctx)
		if err != nil { // lost again within this instant
			now, _ := c.State()
			return chat.ServerState{Phase: chat.ServerFailed, Since: s.Since, Error: err.Error(), Stderr: now.Stderr}, nil, nil
		}
		return s, tools, nil
	case <-ctx.Done():
		s, _ := c.State()
		s.Phase, s.Error = chat.ServerFailed, "the server did not answer in time"
		return s, nil, nil
	}
}

// Close ends all connections and their processes, and returns when they are
// gone. Nothing can be applied afterwards.
func (m *Manager) Close() {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
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
