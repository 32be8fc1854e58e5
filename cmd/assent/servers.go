package main

import (
	"fmt"
	"io"
	"os"
	"slices"

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
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxServersFile))
	if err != nil {
		return nil, err
	}
	servers, err := mcp.ParseImport(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range servers {
		servers[i].ID = servers[i].Name
	}
	return servers, nil
}

// serverInfo fits the tool servers to the API: the built-in one, then the
// others.
type serverInfo struct {
	workspace *mcp.Workspace
	manager   *mcp.Manager
}

func (s serverInfo) Info() []chat.ServerInfo {
	return slices.Concat([]chat.ServerInfo{s.workspace.Info()}, s.manager.Info())
}
