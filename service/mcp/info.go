package mcp

import "github.com/assent-chat/assent/service/chat"

// Info says how the workspace is doing, which is always well.
func (w *Workspace) Info() chat.ServerInfo {
	tools := make([]chat.Tool, len(w.tools))
	for i, t := range w.tools {
		tools[i] = t.Tool
	}
	return chat.ServerInfo{
		ID: w.ID(), Name: w.Name(), Transport: chat.TransportBuiltIn,
		State: chat.ServerState{Phase: chat.ServerReady}, Tools: chat.InfoOf(tools),
	}
}

// Info says how the server is doing and what it offers. It does not wait for a
// server that is being connected: that has no tools yet.
func (c *Client) Info() chat.ServerInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tools []chat.Tool
	if c.session != nil {
		tools = c.toolsLocked(c.session)
	}
	s := c.stateLocked()
	return chat.ServerInfo{
		ID: c.config.ID, Name: c.config.Name, Transport: c.config.Transport,
		State: chat.ServerState{
			Phase: chat.ServerPhase(s.Phase), Since: &s.Since, Error: s.Error, Stderr: s.Stderr,
			ServerName: s.ServerName, ServerVersion: s.ServerVersion, Protocol: s.Protocol,
		},
		Tools: chat.InfoOf(tools),
	}
}

// Info says how every server is doing, in the order of their settings, those
// that are switched off included.
func (m *Manager) Info() []chat.ServerInfo {
	var infos []chat.ServerInfo
	for _, c := range m.all() {
		infos = append(infos, c.Info())
	}
	return infos
}
