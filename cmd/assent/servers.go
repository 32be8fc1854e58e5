package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/mcp"
)

// maxServersFile is more than a file of tool servers may have.
const maxServersFile = 4 << 20

// readServers reads the tool servers of a file, in the form that desktop
// programs keep them in. A server's name is its id: in a file nothing else
// stays the same. No error shows a value of the file.
func readServers(path string) ([]chat.MCPServer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxServersFile))
	if err != nil {
		return nil, err
	}
	servers, err := mcp.ParseImport(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range servers {
		servers[i].ID, servers[i].Source = servers[i].Name, chat.SourceFile
	}
	return servers, nil
}

// toolServers are all servers that tools come from: the built-in one, the
// extra ones, of which nothing is stored, and those that people added.
type toolServers struct {
	workspace *mcp.Workspace
	extra     []mcp.Server
	manager   *mcp.Manager
	catalogue *mcp.Catalogue
	log       *slog.Logger

	mu        sync.Mutex
	connected map[string]chat.MCPServer // by id
}

// Apply makes the servers those of the settings.
func (s *toolServers) Apply(ctx context.Context, servers []chat.MCPServer) error {
	connected := make(map[string]chat.MCPServer, len(servers))
	var added []chat.MCPServer
	for _, server := range servers {
		connected[server.ID] = server
		if server.Source == chat.SourceBuiltIn {
			s.workspace.SetSwitches(server.Switches)
		} else {
			added = append(added, server)
		}
	}
	if err := s.manager.Apply(ctx, added); err != nil {
		return err
	}
	s.mu.Lock()
	s.connected = connected
	s.mu.Unlock()
	return s.catalogue.Set(slices.Concat([]mcp.Server{s.workspace}, s.extra, s.manager.Servers())...)
}

// State says how a server is doing, and what tools it last told of. The phase
// of one that there is not is "".
func (s *toolServers) State(serverID string) (chat.ServerState, []chat.Tool) {
	if serverID == s.workspace.ID() {
		return s.workspace.State()
	}
	for _, server := range s.extra {
		if server.ID() == serverID {
			tools, err := server.Tools(context.Background()) // in this process
			if err != nil {
				return chat.ServerState{Phase: chat.ServerFailed, Error: err.Error()}, nil
			}
			return chat.ServerState{Phase: chat.ServerReady}, tools
		}
	}
	return s.manager.State(serverID)
}

// Connected gives the settings that a server was connected by.
func (s *toolServers) Connected(serverID string) (chat.MCPServer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, ok := s.connected[serverID]
	return server, ok
}

func (s *toolServers) Restart(serverID string) error { return s.manager.Restart(serverID) }

func (s *toolServers) Test(ctx context.Context, server chat.MCPServer) (chat.ServerState, []chat.Tool, error) {
	return s.manager.Test(ctx, server)
}

func (s *toolServers) Parse(file []byte) ([]chat.MCPServer, error) { return mcp.ParseImport(file) }

// topicTools offers to a topic the tools of the servers that it names, or of
// all of them.
type topicTools struct {
	*mcp.Catalogue
	log *slog.Logger
}

// Tools lists what can be listed: a server that does not answer must not stop
// a turn that needs none of its tools.
func (t topicTools) Tools(ctx context.Context, topic chat.Topic) ([]chat.Tool, error) {
	tools, err := t.ToolsOf(ctx, topic.MCPServerIDs)
	if err != nil {
		t.log.WarnContext(ctx, "some tools cannot be listed", slog.Any("error", err))
	}
	return tools, nil
}
