package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/mcp"
)

// probe is a tool server whose tools write what they do to an append-only log
// of their own, one line when they start and one when they end. Tests hold
// everything that the server says against that log.
//
//	note   asks     peek   is allowed     off   is disabled
//
// With "hold" a call waits until release(text) before it ends.
type probe struct {
	dir string
	mu  sync.Mutex
	// text is the schema of the member "text"; {"type":"string"} if empty.
	text string
	slow time.Duration // how long every call takes at least
}

// change gives every tool another schema for "text", as a new version of the
// server would.
func (p *probe) change(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

type probeInput struct {
	Text string      `json:"text"`
	Hold bool        `json:"hold"`
	Fail bool        `json:"fail"`
	N    json.Number `json:"n"`
}

func newProbe(dir string) (*probe, error) {
	return &probe{dir: dir}, os.MkdirAll(dir, 0o700)
}

func (p *probe) Name() string { return "probe" }
func (p *probe) ID() string   { return "probe" }

func (p *probe) Tools(context.Context) ([]chat.Tool, error) {
	p.mu.Lock()
	text := cmp.Or(p.text, `{"type":"string"}`)
	p.mu.Unlock()
	schema := json.RawMessage(`{"type":"object","properties":{"text":` + text + `,"hold":{"type":"boolean"},"fail":{"type":"boolean"},"n":{"type":"integer"}},"required":["text"],"additionalProperties":false}`)
	var tools []chat.Tool
	for name, policy := range map[string]chat.ToolPolicy{"note": {}, "peek": {AutoApprove: true}, "off": {Disabled: true}} {
		tools = append(tools, chat.Tool{
			Name: chat.ToolName("probe", name), Server: "probe", ServerID: "probe", Tool: name, Title: "Probe: " + name,
			InputSchema: schema, Annotations: json.RawMessage(`{"readOnlyHint":false}`), Policy: policy,
		})
	}
	return tools, nil
}

func (p *probe) Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), _ mcp.Ask) (chat.Result, error) {
	var in probeInput
	if err := json.Unmarshal(input, &in); err != nil {
		return chat.Result{}, err
	}
	if err := p.write("start", tool, in.Text, string(input)); err != nil {
		return chat.Result{}, err
	}
	progress("begun")
	if p.slow > 0 && !pause(ctx, p.slow) {
		return chat.Result{}, ctx.Err()
	}
	if in.Hold {
		// The log and the release are files, so that the test can be in another
		// process than the tool, and survive it.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(p.path("release-" + in.Text)); err == nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return chat.Result{}, ctx.Err()
			}
		}
	}
	if err := p.write("end", tool, in.Text, string(input)); err != nil {
		return chat.Result{}, err
	}
	if in.Fail {
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "the probe was told to fail"}, nil
	}
	out, err := json.Marshal("did " + in.Text)
	return chat.Result{Outcome: chat.OutcomeOK, Output: out}, err
}

// pause waits, and says whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *probe) path(name string) string {
	return filepath.Join(p.dir, strings.NewReplacer("/", "_", "\\", "_").Replace(name))
}

func (p *probe) write(words ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.OpenFile(p.path("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(words, "\t"))
	return errors.Join(err, f.Sync(), f.Close())
}

// release lets the call with the text end.
func (p *probe) release(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(p.path("release-"+text), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// logged is one line of the probe's log.
type logged struct{ event, tool, text, input string }

func (p *probe) log(t *testing.T) []logged {
	t.Helper()
	f, err := os.Open(p.path("log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []logged
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.SplitN(s.Text(), "\t", 4)
		if len(w) == 4 { // a kill may cut the last line
			lines = append(lines, logged{w[0], w[1], w[2], w[3]})
		}
	}
	return lines
}

// starts counts how often the call with the text was started.
func (p *probe) starts(t *testing.T, text string) int {
	t.Helper()
	n := 0
	for _, l := range p.log(t) {
		if l.event == "start" && l.text == text {
			n++
		}
	}
	return n
}
