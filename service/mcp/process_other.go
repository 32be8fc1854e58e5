//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// There are no process groups here: the process alone is ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill() //nolint:errcheck // it may have ended by itself
	}
}
