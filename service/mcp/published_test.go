//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// published returns the program of a published tool server.
func published(t *testing.T, name string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("testdata/servers/node_modules/@modelcontextprotocol", name, "dist/index.js"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the published tool servers are not installed; run: .ci/install servers (%v)", err)
	}
	return program
}

func node(name string, args ...string) chat.MCPServer {
	return chat.MCPServer{ID: "id-" + name, Name: name, Transport: chat.TransportStdio, Command: "node", Args: args}
}

// real is a client of a published server, and its processes.
type real struct {
	*Client
	catalogue *Catalogue

	mu        sync.Mutex
	processes []*process
}

func startReal(t *testing.T, config chat.MCPServer, o ClientOptions) *real {
	t.Helper()
	r := &real{}
	o.MinBackoff = 1
	o.dial = func(s chat.MCPServer, stderr *ring) (*wire, error) {
		if s.Transport == chat.TransportHTTP {
			return dialHTTP(s)
		}
		p, err := startProcess(s, os.Getenv, stderr)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.processes = append(r.processes, p)
		r.mu.Unlock()
		return processWire(p, stderr), nil
	}
	r.Client = StartClient(config, o)
	t.Cleanup(r.Close)
	await(t, r.Client, inPhase(chat.ServerReady))
	r.catalogue = newCatalogue(t, r.Client)
	return r
}

// kill ends the newest process and its group, and returns how many there were.
func (r *real) kill(t *testing.T) int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := syscall.Kill(-r.processes[len(r.processes)-1].cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	return len(r.processes)
}

func (r *real) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.processes)
}

// lookup finds a tool in the catalogue.
func (r *real) lookup(t *testing.T, tool string) (chat.Tool, bool) {
	t.Helper()
	_, found, err := r.catalogue.find(t.Context(), r.ID(), tool)
	return found, err == nil
}

// run calls a tool as a turn does: through the catalogue.
func (r *real) run(ctx context.Context, t *testing.T, tool, input string, progress func(string)) chat.Result {
	t.Helper()
	found, ok := r.lookup(t, tool)
	if !ok {
		t.Fatalf("there is no tool %s: %+v", tool, state(r))
	}
	return r.catalogue.Call(ctx, found, json.RawMessage(input), progress, nil)
}

// unlisted calls a tool that need not be listed any more.
func (r *real) unlisted(t *testing.T, tool, input string) chat.Result {
	t.Helper()
	return r.catalogue.Call(t.Context(), chat.Tool{ServerID: r.ID(), Tool: tool}, json.RawMessage(input), nil, nil)
}

func (r *real) must(t *testing.T, tool, input string) string {
	t.Helper()
	got := r.run(t.Context(), t, tool, input, nil)
	if got.Outcome != chat.OutcomeOK {
		t.Fatalf("%s gave %s: %s", tool, got.Outcome, got.ErrorText)
	}
	return text(t, got)
}

// listening is a published server over HTTP, on a port of this machine alone.
type listening struct {
	port int
	cmd  *exec.Cmd
}

func listen(t *testing.T, port int) *listening {
	t.Helper()
	preload, err := filepath.Abs("testdata/servers/loopback.cjs")
	if err != nil {
		t.Fatal(err)
	}
	l := &listening{port: port, cmd: exec.Command("node", "--require", preload, published(t, "server-everything"), "streamableHttp")}
	l.cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	ownGroup(l.cmd)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.kill)
	return l
}

func (l *listening) kill() {
	killGroup(l.cmd.Process.Pid)
	l.cmd.Wait() // twice is an error that changes nothing
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// isProgress reports whether these are the four steps of a tool, the last of
// which may come after the result.
func isProgress(got []string) bool {
	all := []string{"1/4", "2/4", "3/4", "4/4"}
	return slices.Equal(got, all) || slices.Equal(got, all[:3])
}
