//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// lookup finds a tool in the catalogue.
func (r *real) lookup(t *testing.T, tool string) (chat.Tool, bool) {
	t.Helper()
	_, found, err := r.catalogue.find(t.Context(), r.ID(), tool)
	return found, err == nil
}

// run calls a tool as a turn does: through the catalogue.
func (r *real) run(t *testing.T, ctx context.Context, tool, input string, progress func(string)) chat.Result {
	t.Helper()
	found, ok := r.lookup(t, tool)
	if !ok {
		t.Fatalf("there is no tool %s: %+v", tool, state(r))
	}
	return r.catalogue.Call(ctx, found, json.RawMessage(input), progress, nil)
}

func (r *real) must(t *testing.T, tool, input string) string {
	t.Helper()
	got := r.run(t, t.Context(), tool, input, nil)
	if got.Outcome != chat.OutcomeOK {
		t.Fatalf("%s gave %s: %s", tool, got.Outcome, got.ErrorText)
	}
	return text(t, got)
}

func TestPublishedEverythingServer(t *testing.T) {
	config := node("everything", published(t, "server-everything"), "stdio")
	config.Env = map[string]string{"GREETING": "hello there"}
	config.DisabledTools, config.AutoApproveTools = []string{"gzip-file-as-resource"}, []string{"echo"}
	r := startReal(t, config, ClientOptions{})

	t.Run("its tools, and who must be asked for them", func(t *testing.T) {
		tools, err := r.catalogue.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		policies := map[string]chat.ToolPolicy{}
		for _, tool := range tools {
			policies[tool.Tool] = tool.Policy
			if tool.Name != "everything__"+tool.Tool || tool.Title == "" || tool.Description == "" {
				t.Errorf("described as %+v", tool)
			}
		}
		if !policies["echo"].AutoApprove || policies["get-sum"].AutoApprove || !policies["gzip-file-as-resource"].Disabled {
			t.Errorf("policies %+v", policies)
		}
		for _, name := range []string{"trigger-sampling-request", "get-roots-list", "trigger-url-elicitation"} {
			if _, ok := policies[name]; ok {
				t.Errorf("%s is offered, though what it needs is not advertised", name)
			}
		}
		s := state(r)
		if s.ServerName == "" || s.Protocol != "2025-11-25" {
			t.Errorf("state %+v", s)
		}
	})
	t.Run("a call", func(t *testing.T) {
		if got := r.must(t, "echo", `{"message":"12345678901234567 <&>"}`); got != "Echo: 12345678901234567 <&>" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a tool that is switched off does not run", func(t *testing.T) {
		if got := r.run(t, t.Context(), "gzip-file-as-resource", `{}`, nil); got.Outcome != chat.OutcomeUnavailable {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("its environment", func(t *testing.T) {
		got := r.must(t, "get-env", `{}`)
		var env map[string]string
		if err := json.Unmarshal([]byte(got), &env); err != nil {
			t.Fatal(err)
		}
		for name := range env {
			if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR", "GREETING"}, name) {
				t.Errorf("it was given %s", name)
			}
		}
		if env["GREETING"] != "hello there" {
			t.Errorf("it was not given what was configured: %v", env)
		}
	})
	t.Run("an image", func(t *testing.T) {
		out := r.run(t, t.Context(), "get-tiny-image", `{}`, nil)
		if !strings.Contains(string(out.Output), `{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo`) {
			t.Errorf("got %s %.300s", out.Outcome, out.Output)
		}
	})
	t.Run("structured content", func(t *testing.T) {
		out := r.run(t, t.Context(), "get-structured-content", `{"location":"Chicago"}`, nil)
		var got toolOutput
		if err := json.Unmarshal(out.Output, &got); err != nil || !strings.Contains(string(got.StructuredContent), `"temperature":`) {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("resources", func(t *testing.T) {
		out := r.run(t, t.Context(), "get-resource-links", `{"count":2}`, nil)
		if got := strings.Count(string(out.Output), `"type":"resource_link"`); got != 2 {
			t.Errorf("%d links in %s", got, out.Output)
		}
	})
	t.Run("an input that breaks the schema is not sent", func(t *testing.T) {
		if got := r.run(t, t.Context(), "get-sum", `{"a":"one","b":2}`, nil); got.Outcome != chat.OutcomeInvalid {
			t.Errorf("got %+v", got)
		}
		got, err := r.Call(t.Context(), "get-sum", json.RawMessage(`{"a":"one","b":2}`), func(string) {}, nobody)
		if err != nil || got.Outcome != chat.OutcomeFailed || !strings.Contains(got.ErrorText, "-32602") {
			t.Errorf("sent all the same it gave %+v, %v", got, err)
		}
	})
	t.Run("an unknown tool", func(t *testing.T) {
		if _, ok := r.lookup(t, "no-such-tool"); ok {
			t.Error("it was found")
		}
		if _, err := r.Call(t.Context(), "no-such-tool", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("progress", func(t *testing.T) {
		var got []string
		r.run(t, t.Context(), "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, func(s string) { got = append(got, s) })
		if len(got) < 3 || !slices.Equal(got, []string{"1/4", "2/4", "3/4", "4/4"}[:len(got)]) { // the last one may come after the result
			t.Errorf("progress %q", got)
		}
	})
	t.Run("a stopped call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got := r.run(t, ctx, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { cancel() })
		if got.Outcome != chat.OutcomeUnknown {
			t.Errorf("got %+v", got)
		}
		if got := r.must(t, "echo", `{"message":"after"}`); got != "Echo: after" {
			t.Errorf("the next call gave %q", got)
		}
	})
	t.Run("a crash in the middle of a call", func(t *testing.T) {
		killed := 0
		var once sync.Once
		got := r.run(t, t.Context(), "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) {
			once.Do(func() { killed = r.kill(t) })
		})
		if got.Outcome != chat.OutcomeUnknown {
			t.Errorf("got %+v", got)
		}
		await(t, r.Client, func(s chat.ServerState) bool { return s.Phase == chat.ServerReady && r.started() > killed })
		if got := r.must(t, "echo", `{"message":"again"}`); got != "Echo: again" {
			t.Errorf("the call after the reconnect gave %q", got)
		}
	})
	t.Run("nothing is left of it", func(t *testing.T) {
		r.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.processes {
			if !ends(t, strconv.Itoa(p.cmd.Process.Pid)) {
				t.Errorf("process %d still runs", p.cmd.Process.Pid)
			}
		}
	})
}

func (r *real) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.processes)
}

func TestPublishedFilesystemServer(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := startReal(t, node("files", published(t, "server-filesystem"), root), ClientOptions{})
	file := filepath.Join(root, "a.txt")
	input := func(path, content string) string {
		raw, err := json.Marshal(map[string]string{"path": path, "content": content})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	r.must(t, "write_file", input(file, "héllo\n"))
	if got, err := os.ReadFile(file); err != nil || string(got) != "héllo\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if got := r.must(t, "read_text_file", fmt.Sprintf(`{"path":%q}`, file)); got != "héllo\n" {
		t.Errorf("read %q", got)
	}
	outside := filepath.Join(filepath.Dir(root), "outside.txt")
	if got := r.run(t, t.Context(), "write_file", input(outside, "x"), nil); got.Outcome != chat.OutcomeFailed || !strings.Contains(got.ErrorText, "Access denied") {
		t.Errorf("a path outside the root gave %+v", got)
	}
	if _, err := os.Stat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file outside: %v", err)
	}
	// As text and as structured content: an answer of 32 MiB.
	huge := filepath.Join(root, "huge.txt")
	if err := os.WriteFile(huge, bytes.Repeat([]byte("x"), 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out := r.run(t, t.Context(), "read_text_file", fmt.Sprintf(`{"path":%q}`, huge), nil)
	if out.Outcome != chat.OutcomeOK || len(out.Output) > maxText+1000 || !strings.Contains(string(out.Output), "cut here: the text has 16.0 MiB") || !strings.Contains(string(out.Output), "1 of the parts") {
		t.Errorf("a huge result gave %s, %d bytes, ending in %q, %s", out.Outcome, len(out.Output), out.Output[max(0, len(out.Output)-200):], out.ErrorText)
	}
	if r.must(t, "get_file_info", fmt.Sprintf(`{"path":%q}`, file)); r.started() != 1 {
		t.Errorf("the session did not live on: %d processes", r.started())
	}

	tool, ok := r.lookup(t, "read_text_file")
	var hints map[string]any
	if err := json.Unmarshal(tool.Annotations, &hints); !ok || err != nil || hints["readOnlyHint"] != true {
		t.Errorf("annotations %s, %v", tool.Annotations, err)
	}
	if _, claimed := hints["destructiveHint"]; claimed {
		t.Errorf("a hint that the server did not give: %s", tool.Annotations)
	}
}

func TestPublishedMemoryServer(t *testing.T) {
	config := node("memory", published(t, "server-memory"))
	config.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}
	m := NewManager(ClientOptions{})
	t.Cleanup(m.Close)
	state, tools, err := m.Test(t.Context(), config)
	if err != nil || state.Phase != chat.ServerReady || len(tools) == 0 {
		t.Fatalf("the trial gave %+v, %d tools, %v", state, len(tools), err)
	}
	r := startReal(t, config, ClientOptions{})
	r.must(t, "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote the first program"]}]}`)
	r.Restart()
	await(t, r.Client, func(s chat.ServerState) bool { return s.Phase == chat.ServerReady && r.started() == 2 })
	if got := r.must(t, "search_nodes", `{"query":"first program"}`); !strings.Contains(got, "Ada") {
		t.Errorf("after a restart it remembers %q", got)
	}
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

func TestPublishedServerOverHTTP(t *testing.T) {
	port := freePort(t)
	first := listen(t, port)
	r := startReal(t, chat.MCPServer{
		ID: "id-web", Name: "web", Transport: chat.TransportHTTP, URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port),
	}, ClientOptions{})
	if got := r.must(t, "echo", `{"message":"over HTTP"}`); got != "Echo: over HTTP" {
		t.Errorf("got %q", got)
	}
	var got []string
	r.run(t, t.Context(), "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, func(s string) { got = append(got, s) })
	if diff := cmp.Diff([]string{"1/4", "2/4", "3/4", "4/4"}[:len(got)], got); diff != "" || len(got) < 3 {
		t.Errorf("progress %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got := r.run(t, ctx, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { cancel() }); got.Outcome != chat.OutcomeUnknown {
		t.Errorf("a stopped call gave %+v", got)
	}

	var once sync.Once
	result := r.run(t, t.Context(), "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { once.Do(first.kill) })
	if result.Outcome != chat.OutcomeUnknown {
		t.Errorf("a call whose server was killed gave %+v", result)
	}
	if got := r.unlisted(t, "echo", `{"message":"to nobody"}`); got.Outcome != chat.OutcomeUnavailable {
		t.Errorf("a call to a server that is gone gave %+v", got)
	}
	await(t, r.Client, inPhase(chat.ServerFailed))
	listen(t, port)
	await(t, r.Client, inPhase(chat.ServerReady))
	if got := r.must(t, "echo", `{"message":"again"}`); got != "Echo: again" {
		t.Errorf("after the restart got %q", got)
	}
}

// unlisted calls a tool that need not be listed any more.
func (r *real) unlisted(t *testing.T, tool, input string) chat.Result {
	t.Helper()
	return r.catalogue.Call(t.Context(), chat.Tool{ServerID: r.ID(), Tool: tool}, json.RawMessage(input), nil, nil)
}
