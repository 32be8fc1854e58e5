package service

import (
	"context"
	"log/slog"

	"github.com/assent-chat/assent/service/chat"
)

// Start connects to the tool servers of the settings and of the file. It does
// not wait for connections. Cards may have waited meanwhile for tools that are
// not there any more: Run asks about them again.
func (s *Service) Start(ctx context.Context) error {
	if err := s.store.AdoptMCPServers(ctx, s.opt.FileServers); err != nil {
		return err
	}
	s.ToolsChanged()
	return s.apply(ctx)
}

// all lists the tool servers: what is stored, with the connections of those
// that are configured in a file. A server that has left the file is left out.
func (s *Service) all(ctx context.Context) ([]chat.MCPServer, error) {
	stored, err := s.store.MCPServers(ctx)
	if err != nil {
		return nil, err
	}
	servers := stored[:0]
	for _, server := range stored {
		if server, ok := s.whole(server); ok {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// whole is a stored server with its connection.
func (s *Service) whole(stored chat.MCPServer) (chat.MCPServer, bool) {
	if stored.Source == chat.SourceSettings && stored.Problem == "" {
		if err := stored.Check(); err != nil { // by a release that knows better; it stops no other server
			stored.Problem = err.Error()
		}
	}
	if stored.Source != chat.SourceFile {
		return stored, true
	}
	for _, server := range s.opt.FileServers {
		if server.ID == stored.ID {
			server.Switches, server.Version = stored.Switches, stored.Version
			return server, true
		}
	}
	return chat.MCPServer{}, false
}

// one reads a tool server.
func (s *Service) one(ctx context.Context, id string) (chat.MCPServer, error) {
	stored, err := s.store.MCPServer(ctx, id)
	if err != nil {
		return chat.MCPServer{}, err
	}
	server, ok := s.whole(stored)
	if !ok {
		return chat.MCPServer{}, chat.NotFound("The tool server %s is not in the file any more.", id)
	}
	return server, nil
}

// apply makes the connections those of the settings.
func (s *Service) apply(ctx context.Context) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	servers, err := s.all(ctx)
	if err != nil {
		return err
	}
	return s.servers.Apply(ctx, servers)
}

// settingsChanged does what follows from a change of servers that is committed.
func (s *Service) settingsChanged(ctx context.Context) {
	if err := s.apply(context.WithoutCancel(ctx)); err != nil {
		s.log.WarnContext(ctx, "settings of tool servers are stored, but do not hold yet", slog.Any("error", err))
		s.mu.Lock()
		s.stale = true // Run goes on trying
		s.mu.Unlock()
	}
	s.live.Settings(chat.SettingsServers)
	s.ToolsChanged()
}

// applyStale applies the settings if that failed before.
func (s *Service) applyStale(ctx context.Context) error {
	s.mu.Lock()
	stale := s.stale
	s.stale = false
	s.mu.Unlock()
	if !stale {
		return nil
	}
	err := s.apply(ctx)
	if err != nil {
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
	}
	return err
}

func (s *Service) info(server chat.MCPServer) chat.ServerInfo {
	state, tools := s.servers.State(server.ID)
	if state.Phase == "" { // added by another instance a moment ago
		state.Phase = chat.ServerStarting
		if server.Disabled {
			state.Phase = chat.ServerDisabled
		}
	}
	return chat.InfoOf(server, state, tools)
}

// MCPServers lists the tool servers and says how they are doing.
func (s *Service) MCPServers(ctx context.Context) ([]chat.ServerInfo, error) {
	servers, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]chat.ServerInfo, len(servers))
	for i, server := range servers {
		infos[i] = s.info(server)
	}
	return infos, nil
}

// MCPServer reads a tool server and says how it is doing.
func (s *Service) MCPServer(ctx context.Context, id string) (chat.ServerInfo, error) {
	server, err := s.one(ctx, id)
	if err != nil {
		return chat.ServerInfo{}, err
	}
	return s.info(server), nil
}

// MCPServerTools lists the tools of a server as it last told of them, with
// their schemas; none while it is not connected.
func (s *Service) MCPServerTools(ctx context.Context, id string) ([]chat.ServerTool, error) {
	server, err := s.one(ctx, id)
	if err != nil {
		return nil, err
	}
	_, tools := s.servers.State(id)
	return chat.ToolsOf(server, tools), nil
}

// CreateMCPServer adds a tool server and begins to connect to it. All its
// tools ask.
func (s *Service) CreateMCPServer(ctx context.Context, server chat.MCPServer, by chat.Decider) (chat.ServerInfo, error) {
	server.Switches = chat.Switches{}
	if err := server.Check(); err != nil {
		return chat.ServerInfo{}, err
	}
	made, err := s.store.CreateMCPServers(ctx, []chat.MCPServer{server}, by)
	if err != nil {
		return chat.ServerInfo{}, err
	}
	s.settingsChanged(ctx)
	return s.info(made[0]), nil
}

// ImportMCPServers adds the tool servers of the common settings file: all of
// them, or none. Those whose names are taken are passed over with
// skipExisting, and ErrConflict without it.
func (s *Service) ImportMCPServers(ctx context.Context, file []byte, skipExisting bool, by chat.Decider) (added []chat.ServerInfo, skipped []string, err error) {
	servers, err := s.servers.Parse(file)
	if err != nil {
		return nil, nil, err
	}
	if skipExisting {
		stored, err := s.store.MCPServers(ctx)
		if err != nil {
			return nil, nil, err
		}
		taken := map[string]bool{}
		for _, server := range stored {
			taken[server.Name] = true
		}
		fresh := servers[:0]
		for _, server := range servers {
			if taken[server.Name] {
				skipped = append(skipped, server.Name)
			} else {
				fresh = append(fresh, server)
			}
		}
		servers = fresh
	}
	if len(servers) == 0 {
		return nil, skipped, nil
	}
	made, err := s.store.CreateMCPServers(ctx, servers, by)
	if err != nil {
		return nil, nil, err
	}
	s.settingsChanged(ctx)
	for _, server := range made {
		added = append(added, s.info(server))
	}
	return added, skipped, nil
}

// UpdateMCPServer changes a tool server. Switches of tools hold from the next
// verdict on; cards that wait stay as they are, unless the change is one of the
// connection: then they are asked again.
func (s *Service) UpdateMCPServer(ctx context.Context, id string, p chat.MCPServerPatch, by chat.Decider) (chat.ServerInfo, error) {
	if _, err := s.one(ctx, id); err != nil {
		return chat.ServerInfo{}, err
	}
	_, tools := s.servers.State(id)
	known := make([]string, len(tools))
	for i, t := range tools {
		known[i] = t.Tool
	}
	if _, err := s.store.UpdateMCPServer(ctx, id, func(now chat.MCPServer) (chat.MCPServer, error) { return p.Apply(now, known) }, by); err != nil {
		return chat.ServerInfo{}, err
	}
	s.settingsChanged(ctx)
	return s.MCPServer(ctx, id)
}

// DeleteMCPServer removes a tool server. Calls of its tools that wait are asked
// about again, as of a tool that is gone; those that run end as unknown.
func (s *Service) DeleteMCPServer(ctx context.Context, id string, by chat.Decider) error {
	if err := s.store.DeleteMCPServer(ctx, id, by); err != nil {
		return err
	}
	s.settingsChanged(ctx)
	return nil
}

// MCPServerVersions lists what was done to a tool server, the newest first.
func (s *Service) MCPServerVersions(ctx context.Context, id string, p chat.Page) ([]chat.ServerChange, string, error) {
	return s.store.MCPServerVersions(ctx, id, p)
}

// RestartMCPServer connects a tool server anew. It does not wait for it.
func (s *Service) RestartMCPServer(ctx context.Context, id string) (chat.ServerInfo, error) {
	server, err := s.one(ctx, id)
	if err != nil {
		return chat.ServerInfo{}, err
	}
	switch {
	case server.Source == chat.SourceBuiltIn:
		return chat.ServerInfo{}, chat.Conflict("The server %s is part of this program and always runs.", server.Name)
	case server.Disabled:
		return chat.ServerInfo{}, chat.Conflict("The server %s is switched off.", server.Name)
	case server.Problem != "":
		return chat.ServerInfo{}, chat.Conflict("%s", server.Problem)
	}
	if err := s.servers.Restart(id); err != nil {
		return chat.ServerInfo{}, err
	}
	return s.info(server), nil
}

// TestMCPServer connects to a server for a trial, lists its tools, and stores
// nothing. That the server cannot be reached is what the trial says, and no
// error.
func (s *Service) TestMCPServer(ctx context.Context, server chat.MCPServer) (chat.ServerTrial, error) {
	state, tools, err := s.servers.Test(ctx, server)
	if err != nil {
		return chat.ServerTrial{}, err
	}
	return chat.ServerTrial{State: state, Tools: chat.ToolsOf(server, tools)}, nil
}

// TestStoredMCPServer is TestMCPServer for a server with a patch that is not
// stored.
func (s *Service) TestStoredMCPServer(ctx context.Context, id string, p chat.MCPServerPatch) (chat.ServerTrial, error) {
	server, err := s.one(ctx, id)
	if err != nil {
		return chat.ServerTrial{}, err
	}
	if server.Source == chat.SourceBuiltIn {
		return chat.ServerTrial{}, chat.Conflict("The server %s is part of this program and always runs.", server.Name)
	}
	if server, err = p.Apply(server, nil); err != nil {
		return chat.ServerTrial{}, err
	}
	return s.TestMCPServer(ctx, server)
}

// checkServers says which of the ids is that of no tool server.
func (s *Service) checkServers(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if state, _ := s.servers.State(id); state.Phase != "" {
			continue
		}
		switch _, err := s.store.MCPServer(ctx, id); { // one that cannot be connected is one, too
		case chat.Missing(err):
			return chat.Invalid("There is no tool server %s.", id)
		case err != nil:
			return err
		}
	}
	return nil
}
