package mcp

import "time"

// Phase says how the connection to a tool server stands.
type Phase string

// The phases of a connection.
const (
	PhaseStarting Phase = "starting" // being connected
	PhaseReady    Phase = "ready"    // its tools can be called
	PhaseFailed   Phase = "failed"   // lost or refused; tried again by itself
	PhaseDisabled Phase = "disabled" // switched off, or closed
)

// State is what a person needs to know about the connection to a tool server.
// It holds no value of the server's environment or headers.
type State struct {
	Phase         Phase     `json:"phase"`
	Since         time.Time `json:"since"`
	Error         string    `json:"error,omitempty"`  // why it failed
	Stderr        []string  `json:"stderr,omitempty"` // the last lines of a process
	ToolCount     int       `json:"toolCount"`
	ServerName    string    `json:"serverName,omitempty"` // as the server calls itself
	ServerVersion string    `json:"serverVersion,omitempty"`
	Protocol      string    `json:"protocol,omitempty"`
}
