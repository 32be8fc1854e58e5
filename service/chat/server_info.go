package chat

import (
	"encoding/json"
	"time"
)

// TransportBuiltIn is that of tools within this program. No server can be
// added with it.
const TransportBuiltIn Transport = "built-in"

// ServerPhase says how the connection to a tool server stands.
type ServerPhase string

// The phases of a connection.
const (
	ServerStarting ServerPhase = "starting" // being connected
	ServerReady    ServerPhase = "ready"    // its tools can be called
	ServerFailed   ServerPhase = "failed"   // lost or refused; tried again by itself
	ServerDisabled ServerPhase = "disabled" // switched off
)

// ServerInfo is what a person needs to know about a tool server.
type ServerInfo struct {
	ServerSettings
	// DisabledAutoApproveTools are those of Tools that ask, for whatever reason.
	DisabledAutoApproveTools []string     `json:"disabledAutoApproveTools"`
	State                    ServerState  `json:"state"`
	Tools                    []ServerTool `json:"tools"` // as the server last told them; none while it is not connected
}

// ServerState is how a tool server is doing.
type ServerState struct {
	Phase         ServerPhase `json:"phase"`
	Since         *time.Time  `json:"since,omitempty"`  // absent of what is built in
	Error         string      `json:"error,omitempty"`  // why it failed
	Stderr        []string    `json:"stderr,omitempty"` // the last lines of its process
	ServerName    string      `json:"serverName,omitempty"`
	ServerVersion string      `json:"serverVersion,omitempty"`
	Protocol      string      `json:"protocol,omitempty"`
}

// ServerTool is a tool as its server lists it.
type ServerTool struct {
	Name        string          `json:"name"`     // its own name on its server, as rules see it
	ToolName    string          `json:"toolName"` // as models know it
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"` // the server's claims; they allow nothing
	InputSchema json.RawMessage `json:"inputSchema,omitempty"` // only where one server's tools are asked for
	Policy      string          `json:"policy"`                // ToolPolicy.Word
}

// ServerTrial is what came of a trial connection.
type ServerTrial struct {
	State ServerState  `json:"state"`
	Tools []ServerTool `json:"tools"`
}

// InfoOf returns what a person needs to know of a server that is in a state and
// offers tools.
func InfoOf(s MCPServer, state ServerState, tools []Tool) ServerInfo {
	info := ServerInfo{ServerSettings: s.Shown(), State: state, Tools: ToolsOf(s, tools)}
	known := make([]string, len(tools))
	for i, t := range tools {
		known[i] = t.Tool
		info.Tools[i].InputSchema = nil
	}
	info.DisabledAutoApproveTools = s.DisabledAutoApproveTools(known)
	return info
}

// ToolsOf returns what is said of a server's tools, with their schemas. It is
// never nil.
func ToolsOf(s MCPServer, tools []Tool) []ServerTool {
	out := make([]ServerTool, len(tools))
	for i, t := range tools {
		out[i] = ServerTool{
			Name: t.Tool, ToolName: t.Name, Title: t.Title, Description: t.Description, Annotations: t.Annotations, InputSchema: t.InputSchema,
			Policy: s.Policy(t.Tool).Word(),
		}
	}
	return out
}

// Word says what the settings of a tool's server come to: "disabled",
// "always-ask", "auto-approve", or "ask", which is what nothing was said
// about. Rules come on top of it.
func (p ToolPolicy) Word() string {
	switch {
	case p.Disabled:
		return "disabled"
	case p.AlwaysAsk:
		return "always-ask"
	case p.AutoApprove:
		return "auto-approve"
	default:
		return "ask"
	}
}
