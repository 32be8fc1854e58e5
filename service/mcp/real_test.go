//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

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
		if got := r.run(t.Context(), t, "gzip-file-as-resource", `{}`, nil); got.Outcome != chat.OutcomeUnavailable {
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
		out := r.run(t.Context(), t, "get-tiny-image", `{}`, nil)
		if !strings.Contains(string(out.Output), `{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo`) {
			t.Errorf("got %s %.300s", out.Outcome, out.Output)
		}
	})
	t.Run("structured content", func(t *testing.T) {
		out := r.run(t.Context(), t, "get-structured-content", `{"location":"Chicago"}`, nil)
		var got toolOutput
		if err := json.Unmarshal(out.Output, &got); err != nil || !strings.Contains(string(got.StructuredContent), `"temperature":`) {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("resources", func(t *testing.T) {
		out := r.run(t.Context(), t, "get-resource-links", `{"count":2}`, nil)
		if got := strings.Count(string(out.Output), `"type":"resource_link"`); got != 2 {
			t.Errorf("%d links in %s", got, out.Output)
		}
	})
	t.Run("an input that breaks the schema is not sent", func(t *testing.T) {
		if got := r.run(t.Context(), t, "get-sum", `{"a":"one","b":2}`, nil); got.Outcome != chat.OutcomeInvalid {
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
		r.run(t.Context(), t, "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, func(s string) { got = append(got, s) })
		if !isProgress(got) {
			t.Errorf("progress %q", got)
		}
	})
	t.Run("a stopped call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got := r.run(ctx, t, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { cancel() })
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
		got := r.run(t.Context(), t, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) {
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
	if got := r.run(t.Context(), t, "write_file", input(outside, "x"), nil); got.Outcome != chat.OutcomeFailed || !strings.Contains(got.ErrorText, "Access denied") {
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
	out := r.run(t.Context(), t, "read_text_file", fmt.Sprintf(`{"path":%q}`, huge), nil)
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
	r.run(t.Context(), t, "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, func(s string) { got = append(got, s) })
	if !isProgress(got) {
		t.Errorf("progress %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got := r.run(ctx, t, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { cancel() }); got.Outcome != chat.OutcomeUnknown {
		t.Errorf("a stopped call gave %+v", got)
	}

	var once sync.Once
	result := r.run(t.Context(), t, "trigger-long-running-operation", `{"duration":60,"steps":600}`, func(string) { once.Do(first.kill) })
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
