package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// WorkspaceName is the name, and the id, of the built-in server.
const WorkspaceName = chat.WorkspaceName

// Workspace is the built-in tool server: files in one folder, and a task that
// takes its time. No path leads out of the folder: neither "..", nor an
// absolute path, nor a symbolic link.
type Workspace struct {
	root  *os.Root
	after func(time.Duration) <-chan time.Time
	tools []workspaceTool
	// switches, if they were set, say which tools may do what.
	switches atomic.Pointer[chat.Switches]
	// writing makes "created" true when calls run side by side.
	writing sync.Mutex
}

// WorkspaceOptions change how a workspace works. The zero value is right for
// everything but tests.
type WorkspaceOptions struct {
	After func(time.Duration) <-chan time.Time // time.After if nil
}

type workspaceTool struct {
	chat.Tool
	run func(ctx context.Context, input json.RawMessage, progress func(string)) (any, error)
}

// OpenWorkspace returns the workspace in dir, which is made if it does not
// exist. Close releases it.
func OpenWorkspace(dir string, o WorkspaceOptions) (*Workspace, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the workspace folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the workspace folder: %w", err)
	}
	w := &Workspace{root: root, after: o.After}
	if w.after == nil {
		w.after = time.After
	}
	w.tools = w.table()
	return w, nil
}

// Close releases the folder. Calls that come later fail.
func (w *Workspace) Close() error {
	if err := w.root.Close(); err != nil {
		return fmt.Errorf("close the workspace folder: %w", err)
	}
	return nil
}

// Name is "workspace".
func (w *Workspace) Name() string { return WorkspaceName }

// ID is "workspace": there is one.
func (w *Workspace) ID() string { return WorkspaceName }

// SetSwitches says what the tools may do, from now on.
func (w *Workspace) SetSwitches(s chat.Switches) { w.switches.Store(&s) }

// State says how the workspace is doing, which is always well, and what it
// offers.
func (w *Workspace) State() (chat.ServerState, []chat.Tool) {
	return chat.ServerState{Phase: chat.ServerReady}, w.list()
}

// Tools lists the tools. Until SetSwitches says otherwise, those that read
// files are approved automatically, and the others ask.
func (w *Workspace) Tools(context.Context) ([]chat.Tool, error) { return w.list(), nil }

func (w *Workspace) list() []chat.Tool {
	switches := w.switches.Load()
	tools := make([]chat.Tool, len(w.tools))
	for i, t := range w.tools {
		tools[i] = t.Tool
		if switches != nil {
			tools[i].Policy = switches.Policy(t.Tool.Tool)
		}
	}
	return tools
}

// Call runs a tool; none of them asks anything. What the tool itself found
// wrong is a Result with OutcomeFailed; the error is that of ctx, or says that
// there is no such tool, or that it is switched off.
func (w *Workspace) Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), _ Ask) (chat.Result, error) {
	for _, t := range w.tools {
		if t.Tool.Tool != tool {
			continue
		}
		if s := w.switches.Load(); s != nil && s.Policy(tool).Disabled {
			return chat.Result{}, chat.Unavailable("The tool %s of the workspace is switched off.", tool)
		}
		out, err := t.run(ctx, input, progress)
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return chat.Result{}, err
		}
		if err != nil {
			return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: err.Error()}, nil
		}
		raw, err := chat.Marshal(out)
		if err != nil {
			return chat.Result{}, fmt.Errorf("encode the output of %s: %w", tool, err)
		}
		return chat.Result{Outcome: chat.OutcomeOK, Output: raw}, nil
	}
	return chat.Result{}, chat.NotFound("The workspace has no tool %q.", tool)
}

// Annotations are the same kind of claims that MCP servers make of their tools.
type annotations struct {
	ReadOnlyHint    bool `json:"readOnlyHint"`
	DestructiveHint bool `json:"destructiveHint"`
	IdempotentHint  bool `json:"idempotentHint"`
	OpenWorldHint   bool `json:"openWorldHint"`
}

func (w *Workspace) table() []workspaceTool {
	const (
		path    = `{"type":"string","minLength":1,"maxLength":1024,"description":"Path of a file in the workspace, relative to it, with / between folders, such as notes/today.txt"}`
		folder  = `{"type":"string","maxLength":1024,"description":"Path of a folder in the workspace, relative to it; the workspace itself if left out"}`
		content = `{"type":"string","maxLength":1048576,"description":"The whole new content of the file, at most 1 MiB of UTF-8"}`
		seconds = `{"type":"integer","minimum":0,"maximum":600,"description":"How long the task takes, in seconds"}`
	)
	reads := annotations{ReadOnlyHint: true, IdempotentHint: true}
	changes := annotations{DestructiveHint: true, IdempotentHint: true}
	ask, auto := chat.ToolPolicy{}, chat.ToolPolicy{AutoApprove: true}
	return []workspaceTool{
		newTool("list_files", "List files", "List the files and folders in one folder of the workspace.",
			`"path":`+folder, ``, reads, auto, w.listFiles),
		newTool("read_file", "Read a file", "Read a text file of the workspace, at most its first 256 KiB.",
			`"path":`+path, `"path"`, reads, auto, w.readFile),
		newTool("write_file", "Write a file", "Create a file in the workspace, or replace the whole content of one. Folders on the way are created.",
			`"path":`+path+`,"content":`+content, `"path","content"`, changes, ask, w.writeFile),
		newTool("delete_file", "Delete a file", "Delete one file of the workspace for good.",
			`"path":`+path, `"path"`, changes, ask, w.deleteFile),
		newTool("slow_task", "Run a slow task", "Do nothing for a number of seconds and report progress: a stand-in for work that takes long.",
			`"seconds":`+seconds, `"seconds"`, reads, ask, w.slowTask),
	}
}

// newTool makes a tool of a function from its decoded input to its output.
func newTool[In any](name, title, description, properties, required string, hints annotations, policy chat.ToolPolicy,
	run func(ctx context.Context, in In, progress func(string)) (any, error),
) workspaceTool {
	claims, err := chat.Marshal(hints)
	if err != nil {
		panic(err) // four booleans
	}
	return workspaceTool{
		Tool: chat.Tool{
			Name: chat.ToolName(WorkspaceName, name), Server: WorkspaceName, ServerID: WorkspaceName, Tool: name,
			Title: title, Description: description, Annotations: claims, Policy: policy,
			InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`),
		},
		run: func(ctx context.Context, input json.RawMessage, progress func(string)) (any, error) {
			var in In
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, failed("The input cannot be read: %v.", err)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return run(ctx, in, progress)
		},
	}
}

type slowInput struct {
	Seconds json.Number `json:"seconds"` // 5.0 is an integer to JSON Schema, and not to Go
}

type slowOutput struct {
	Seconds int `json:"seconds"`
}

func (w *Workspace) slowTask(ctx context.Context, in slowInput, progress func(string)) (any, error) {
	seconds, err := in.Seconds.Float64()
	if err != nil || seconds < 0 || seconds > 600 {
		return nil, failure("The number of seconds must be an integer from 0 to 600.")
	}
	n := int(seconds)
	for i := 1; i <= n; i++ {
		select {
		case <-w.after(time.Second):
			progress(fmt.Sprintf("%d/%d", i, n))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return slowOutput{n}, nil
}
