//go:build unix

package mcp

import (
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func startShell(t *testing.T, script string) (*process, *ring) {
	t.Helper()
	stderr := &ring{}
	p, err := startProcess(shell(script), os.Getenv, stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, stderr
}

// ends reports whether a process ends: it was killed, and what the kernel does
// then takes its moment.
func ends(t *testing.T, pid string) bool {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for hang := time.Now().Add(time.Minute); time.Now().Before(hang); <-look.C {
		if !alive(t, pid) {
			return true
		}
	}
	return false
}

// alive reports whether a process runs; one that ended and was not reaped by
// whoever adopted it does not.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestProcessTakesItsChildrenAlong(t *testing.T) {
	tests := []struct{ name, script string }{
		{"it ends when its input does", `sleep 600 & echo $!; cat >/dev/null`},
		{"it must be told", `sleep 600 & echo $!; exec sleep 600`},
		{"it listens to nothing", `trap "" TERM; sleep 600 & echo $!; while :; do sleep 600; done`},
		{"it is gone already", `sleep 600 & echo $!`},
		{"they left the group", `setsid sleep 600 & echo $!; cat >/dev/null`},
		{"they left the group and listen to nothing", `trap "" TERM; setsid sh -c 'while :; do sleep 600; done' & echo $!; while :; do sleep 600; done`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _ := startShell(t, tt.script)
			line := make([]byte, 20)
			n, err := p.stdout.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			child := strings.TrimSpace(string(line[:n]))
			p.close()
			p.close()
			for _, pid := range []string{child, strconv.Itoa(p.cmd.Process.Pid)} {
				if !ends(t, pid) {
					t.Errorf("process %s still runs", pid)
				}
			}
		})
	}
}

func TestOutputOfAnEndedProcessIsReadToItsEnd(t *testing.T) {
	p, stderr := startShell(t, `echo '{"jsonrpc":"2.0","method":"notifications/progress"}'; echo done >&2; exit 3`)
	<-p.ended
	out, err := readAll(t, newLines(p.stdout, p.stdin, stderr))
	if want := `{"jsonrpc":"2.0","method":"notifications/progress"}`; !errors.Is(err, io.EOF) || len(out) != 1 || out[0] != want {
		t.Errorf("output %q, %v", out, err)
	}
	if diff := cmp.Diff([]string{"done"}, stderr.last()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
	if p.err == nil || p.err.Error() != "exit status 3" {
		t.Errorf("it ended with %v", p.err)
	}
}

func TestProcessThatCannotStart(t *testing.T) {
	none, nowhere := shell(""), shell("")
	none.Command, nowhere.Dir = "/no/such/program", "/no/such/folder"
	for _, s := range []chat.MCPServer{none, nowhere} {
		if p, err := startProcess(s, os.Getenv, &ring{}); err == nil || !strings.Contains(err.Error(), "start the process") {
			t.Errorf("got %v, %v", p, err)
		}
	}
}

func TestProcessGetsOnlyItsEnvironment(t *testing.T) {
	getenv := func(name string) string {
		return map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/home/a", "LANG": "C", "ASSENT_TOKEN": "s3cret", "TMPDIR": ""}[name]
	}
	s := shell("env; cat >/dev/null")
	s.Env = map[string]string{"HOME": "/home/b", "KEY": "a=b c"}
	p, err := startProcess(s, getenv, &ring{})
	if err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	out, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	p.close()
	var got []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if name, _, _ := strings.Cut(line, "="); !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_", "PATH"}, name) { // of the shell
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"HOME=/home/b", "KEY=a=b c", "LANG=C"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestClientSaysWhyAProcessEnded(t *testing.T) {
	s := shell(`echo "no database at $URL" >&2; exit 7`)
	s.Env = map[string]string{"URL": "postgres://s3cret"}
	c := StartClient(s, ClientOptions{})
	defer c.Close()
	state := await(t, c, inPhase(chat.ServerFailed))
	if state.Error != "the process ended: exit status 7" {
		t.Errorf("the state says %q", state.Error)
	}
	if diff := cmp.Diff([]string{"no database at •••"}, state.Stderr); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}
