//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, so that what it
// starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// A group that has no process left is not an error for either of these.

func terminateGroup(pid int) { syscall.Kill(-pid, syscall.SIGTERM) } //nolint:errcheck // it may have ended by itself

func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) } //nolint:errcheck // it may have ended by itself
