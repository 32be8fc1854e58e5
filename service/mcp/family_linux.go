package mcp

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// endWithUs makes the kernel end the process when this program ends, however it
// does. The thread that starts the process must live as long.
func endWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }

// descendants finds what a process started, and what those started. The handles
// are of these very processes, also when their ids belong to others.
func descendants(pid int) []*os.Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{} // by parent
	for _, entry := range entries {
		if child, err := strconv.Atoi(entry.Name()); err == nil {
			parent := parentOf(child)
			children[parent] = append(children[parent], child)
		}
	}
	var found []*os.Process
	parents := []int{pid}
	for len(parents) > 0 {
		parent := parents[0]
		parents = parents[1:]
		for _, child := range children[parent] {
			p, err := os.FindProcess(child)
			if err != nil {
				continue
			}
			if parentOf(child) != parent { // it ended before there was a handle
				p.Release() //nolint:errcheck // nothing was done with it
				continue
			}
			found, parents = append(found, p), append(parents, child)
		}
	}
	return found
}

// parentOf returns the parent of a process, 0 if it is not there.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// Its name, in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return parent
}
