//go:build linux

package mcp

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestProcessEndsWithThisProgramHoweverItEnds(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), `ASSENT_TEST_PARENT_OF=trap "" TERM HUP; exec sleep 600`)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(line)
	if !alive(t, pid) {
		t.Fatalf("there is no process %s", pid)
	}
	parent.Process.Kill()
	parent.Wait()
	if !ends(t, pid) {
		t.Errorf("process %s outlives its parent", pid)
	}
}
