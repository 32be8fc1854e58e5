package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

// bench is a workspace in an empty folder, with a folder beside it that no
// call may reach.
type bench struct {
	dir, outside string
	workspace    *Workspace
	catalogue    *Catalogue
}

func newBench(t testing.TB) *bench {
	t.Helper()
	base := t.TempDir()
	b := &bench{dir: filepath.Join(base, "workspace"), outside: filepath.Join(base, "outside")}
	if err := os.Mkdir(b.outside, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(b.outside, "secret.txt"), "secret")
	w, err := OpenWorkspace(b.dir, WorkspaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	b.workspace = w
	if b.catalogue, err = NewCatalogue(w); err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// lookup finds a tool of the workspace.
func lookup(c *Catalogue, tool string) (chat.Tool, bool) {
	_, t, err := c.find(context.Background(), WorkspaceName, tool)
	return t, err == nil
}

func (b *bench) call(ctx context.Context, tool string, input any) chat.Result {
	raw, err := chat.Marshal(input)
	if err != nil {
		panic(err)
	}
	found, ok := lookup(b.catalogue, tool)
	if !ok {
		panic("no tool " + tool)
	}
	return b.catalogue.Call(ctx, found, raw, nil, nil)
}

// must returns the output of a call that has to succeed.
func (b *bench) must(t *testing.T, tool string, input any) map[string]any {
	t.Helper()
	r := b.call(t.Context(), tool, input)
	if r.Outcome != chat.OutcomeOK {
		t.Fatalf("%s: %s: %s", tool, r.Outcome, r.ErrorText)
	}
	var out map[string]any
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatalf("%s: the output is not a JSON object: %v", tool, err)
	}
	return out
}

type in = map[string]any

func TestWorkspaceTools(t *testing.T) {
	b := newBench(t)
	tools, err := b.catalogue.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type claims struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool }
	type row struct {
		Name, Tool, Title     string
		Auto, ReadOnly, Harms bool
	}
	var got []row
	for _, tool := range tools {
		var c claims
		if err := json.Unmarshal(tool.Annotations, &c); err != nil || c.ReadOnlyHint == nil || c.DestructiveHint == nil || c.IdempotentHint == nil || c.OpenWorldHint == nil {
			t.Fatalf("annotations of %s: %s (%v)", tool.Name, tool.Annotations, err)
		}
		if *c.OpenWorldHint || tool.Server != WorkspaceName || tool.ServerID != WorkspaceName || tool.Policy.Disabled || tool.Description == "" {
			t.Errorf("unexpected tool %+v", tool)
		}
		got = append(got, row{tool.Name, tool.Tool, tool.Title, tool.Policy.AutoApprove, *c.ReadOnlyHint, *c.DestructiveHint})
	}
	want := []row{
		{"workspace__list_files", "list_files", "List files", true, true, false},
		{"workspace__read_file", "read_file", "Read a file", true, true, false},
		{"workspace__write_file", "write_file", "Write a file", false, false, true},
		{"workspace__delete_file", "delete_file", "Delete a file", false, false, true},
		{"workspace__slow_task", "slow_task", "Run a slow task", false, true, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestWorkspaceSchemas(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		tool, input string
		valid       bool
	}{
		{"list_files", `{}`, true},
		{"list_files", `{"path":""}`, true},
		{"list_files", `{"path":"a"}`, true},
		{"list_files", `{"path":null}`, false},
		{"list_files", `{"folder":"a"}`, false},
		{"read_file", `{"path":"a"}`, true},
		{"read_file", `{"path":""}`, false},
		{"read_file", `{}`, false},
		{"write_file", `{"path":"a","content":""}`, true},
		{"write_file", `{"path":"a"}`, false},
		{"write_file", `{"path":"a","content":5}`, false},
		{"write_file", `{"path":"a","content":"","mode":511}`, false},
		{"write_file", `{"path":"a","content":"` + strings.Repeat("x", maxWrite+1) + `"}`, false},
		{"delete_file", `{"path":"` + strings.Repeat("x", 1025) + `"}`, false},
		{"slow_task", `{"seconds":0}`, true},
		{"slow_task", `{"seconds":600}`, true},
		{"slow_task", `{"seconds":601}`, false},
		{"slow_task", `{"seconds":-1}`, false},
		{"slow_task", `{"seconds":1.5}`, false},
		{"slow_task", `{"seconds":"5"}`, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %.40s", tt.tool, tt.input), func(t *testing.T) {
			tool, ok := lookup(b.catalogue, tt.tool)
			if !ok {
				t.Fatal("no such tool")
			}
			if err := b.catalogue.Validate(tool, json.RawMessage(tt.input)); (err == nil) != tt.valid {
				t.Errorf("validate: %v, want valid: %v", err, tt.valid)
			}
		})
	}
}

func TestOpenWorkspaceReportsAFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	if _, err := OpenWorkspace(filepath.Join(file, "workspace"), WorkspaceOptions{}); err == nil {
		t.Error("a workspace below a file was opened")
	}
}

func TestClosedWorkspaceFailsClearly(t *testing.T) {
	w, err := OpenWorkspace(t.TempDir(), WorkspaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := w.Call(t.Context(), "read_file", json.RawMessage(`{"path":"a"}`), func(string) {}, nobody)
	if err != nil || r.Outcome != chat.OutcomeFailed {
		t.Errorf("%+v, %v, want failed", r, err)
	}
}

func TestWorkspaceCallWithoutTheCatalogue(t *testing.T) {
	w, err := OpenWorkspace(t.TempDir(), WorkspaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := w.Call(t.Context(), "read_file", json.RawMessage(`{"path":5}`), func(string) {}, nobody)
	if err != nil || r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, "cannot be read") {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = w.Call(t.Context(), "slow_task", json.RawMessage(`{"seconds":601}`), func(string) {}, nobody)
	if err != nil || r.Outcome != chat.OutcomeFailed {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.Call(t.Context(), "none", json.RawMessage(`{}`), func(string) {}, nobody); err == nil {
		t.Error("a tool that is not there was called")
	}
}

func TestSlowTask(t *testing.T) {
	t.Run("reports each second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			tool, _ := lookup(b.catalogue, "slow_task")
			var told []string
			began := time.Now()
			r := b.catalogue.Call(t.Context(), tool, json.RawMessage(`{"seconds":3.0}`), func(text string) { told = append(told, text) }, nil)
			if r.Outcome != chat.OutcomeOK || string(r.Output) != `{"seconds":3}` {
				t.Errorf("%s: %s%s", r.Outcome, r.ErrorText, r.Output)
			}
			if diff := cmp.Diff([]string{"1/3", "2/3", "3/3"}, told); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("it took %v of the bubble's clock", took)
			}
		})
	})
	t.Run("stopped in the middle is unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
			defer cancel()
			began := time.Now()
			r := b.call(ctx, "slow_task", in{"seconds": 600})
			if r.Outcome != chat.OutcomeUnknown || time.Since(began) > 11*time.Second {
				t.Errorf("%s after %v: %s", r.Outcome, time.Since(began), r.ErrorText)
			}
		})
	})
	t.Run("of no seconds is done at once", func(t *testing.T) {
		b := newBench(t)
		if got := b.must(t, "slow_task", in{"seconds": 0}); got["seconds"] != 0.0 {
			t.Errorf("output %v", got)
		}
	})
}

func TestSwitchesOfTheWorkspace(t *testing.T) {
	b := newBench(t)
	w := b.workspace
	w.SetSwitches(chat.Switches{AutoApproveTools: []string{"write_file"}, AlwaysAskTools: []string{"read_file"}, DisabledTools: []string{"slow_task"}, Trusted: true})
	state, tools := w.State()
	if state.Phase != chat.ServerReady {
		t.Errorf("state %+v", state)
	}
	policies := map[string]chat.ToolPolicy{}
	for _, tool := range tools {
		policies[tool.Tool] = tool.Policy
	}
	want := map[string]chat.ToolPolicy{
		"list_files": {Trusted: true}, "read_file": {AlwaysAsk: true, Trusted: true}, "write_file": {AutoApprove: true, Trusted: true},
		"delete_file": {Trusted: true}, "slow_task": {Disabled: true, Trusted: true},
	}
	if diff := cmp.Diff(want, policies); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	if r := b.call(t.Context(), "slow_task", map[string]any{"seconds": 0}); r.Outcome != chat.OutcomeUnavailable {
		t.Errorf("a tool that is switched off gave %+v", r)
	}
	w.SetSwitches(chat.Switches{})
	b.must(t, "slow_task", map[string]any{"seconds": 0})
}
