//go:build unix

package mcp

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func shell(script string) chat.MCPServer {
	return chat.MCPServer{ID: "id-sh", Name: "sh", Transport: chat.TransportStdio, Command: "sh", Args: []string{"-c", script}}
}

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
	for hang := time.Now().Add(time.Minute); time.Now().Before(hang); runtime.Gosched() {
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
	p, stderr := startShell(t, `echo '{"a":1}'; echo done >&2; exit 3`)
	<-p.ended
	out, err := io.ReadAll(&messages{from: p.stdout, stray: stderr})
	if err != nil || string(out) != "{\"a\":1}\n" {
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

func TestOnlyMessagesReachTheSession(t *testing.T) {
	const in = "Starting…\n{\"a\":1}\r\n\n  [info] hello\n {\"b\":\"x\\n{\"}\nno newline"
	const want = "{\"a\":1}\r\n{\"b\":\"x\\n{\"}\n"
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	}
	for name, reader := range readers {
		t.Run(name, func(t *testing.T) {
			stray := &ring{}
			got, err := io.ReadAll(iotest.OneByteReader(&messages{from: io.NopCloser(reader(strings.NewReader(in))), stray: stray}))
			if err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			got, err = io.ReadAll(&messages{from: io.NopCloser(reader(strings.NewReader(in))), stray: &ring{}})
			if err != nil || string(got) != want {
				t.Errorf("in large pieces: %q, %v", got, err)
			}
			if diff := cmp.Diff([]string{"Starting…", "[info] hello"}, stray.last()); diff != "" {
				t.Errorf("stray lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRingKeepsTheLastLines(t *testing.T) {
	var many bytes.Buffer
	for i := range 100 {
		many.WriteString("line " + strconv.Itoa(i) + "\n\n")
	}
	g := &ring{}
	g.read(&many)
	if last := g.last(); len(last) != maxStderrLines || last[0] != "line 80" || last[19] != "line 99" {
		t.Errorf("kept %q", last)
	}
	g = &ring{secrets: newSecrets(chat.MCPServer{Env: map[string]string{"A": "s3cret-value"}})}
	g.read(strings.NewReader(strings.Repeat("x", 100<<10) + "s3cret-value\n" + strings.Repeat("s3cret-value ", 1000) + "\nNUL \x00 and \xff\n"))
	last := g.last()
	if len(last) != 3 || last[2] != "NUL \uFFFD and \uFFFD" {
		t.Errorf("kept %d lines, the last of them %q", len(last), last[len(last)-1])
	}
	for _, line := range last {
		if strings.Contains(line, "s3cret") || len(line) > maxStderrLine {
			t.Errorf("a line of %d bytes: %.100q", len(line), line)
		}
	}
	g = &ring{}
	g.read(strings.NewReader(strings.Repeat(strings.Repeat("y", 1000)+"\n", 20)))
	if n := len(strings.Join(g.last(), "")); n > maxStderrBytes || n < maxStderrBytes-1000 {
		t.Errorf("%d bytes are kept", n)
	}
	var none *ring
	if none.last() != nil {
		t.Error("no ring has lines")
	}
}

func TestSecrets(t *testing.T) {
	s := newSecrets(chat.MCPServer{
		URL:     "https://user:pass%20word@example.org/mcp/0123456789abcdef?key=k3y/value&n=1",
		Headers: map[string]string{"Authorization": "Bearer t0ken", "X-Key": "Zm9v=="},
		Env:     map[string]string{"LONG": "abcd-efgh", "SHORT": "abcd", "FLAG": "on", "PEM": "-----BEGIN-----\nMIIabc\n-----END-----\n"},
	})
	tests := []struct{ in, want string }{
		{"Bearer t0ken", "•••"},
		{"the token t0ken is old", "the token ••• is old"},
		{`Post "https://example.org/mcp/0123456789abcdef": EOF`, `Post "https://example.org/mcp/•••": EOF`},
		{`Post "https://user:***@example.org/mcp?key=k3y/value&n=1": EOF`, `Post "https://user:***@example.org/mcp?•••": EOF`},
		{"key k3y%2Fvalue", "key •••"},
		{"pass word", "•••"},
		{"abcd-efgh and abcd", "••• and •••"},
		{"it is on", "it is on"},
		{"PEM line MIIabc", "PEM line •••"},
	}
	for _, tt := range tests {
		if got := s.hide(tt.in); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := (secrets{}).hide("as it is"); got != "as it is" {
		t.Errorf("without secrets: %q", got)
	}
}
