package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// process is a server in a process of its own, and a client of its HTTP.
type process struct {
	cmd   *exec.Cmd
	base  string // "http://127.0.0.1:port"
	token string
	done  chan struct{} // closed when the process has ended
}

// startProcess starts this program as a server with its data in dir, on a
// free loopback port and with no model but the demo's, and waits until it is
// ready.
func startProcess(ctx context.Context, dir string, stderr io.Writer) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, "serve", "-addr", "127.0.0.1:0", "-data-dir", dir, "-log", "warn")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	return startCommand(ctx, cmd, dir, stderr, func(string) {})
}

// startCommand starts a server by cmd and waits until it is ready. Each line
// that it prints is given to line, on another goroutine.
func startCommand(ctx context.Context, cmd *exec.Cmd, dir string, stderr io.Writer, line func(string)) (*process, error) {
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	ready := make(chan string, 1)
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
			if _, base, ok := strings.Cut(lines.Text(), "is ready on "); ok {
				ready <- base
			}
		}
		_ = cmd.Wait() // how it ended is for the caller to judge; here it is killed
	}()
	wait := time.NewTimer(time.Minute)
	defer wait.Stop()
	select {
	case p.base = <-ready:
	case <-p.done:
		return nil, fmt.Errorf("the server ended before it was ready: %s", cmd.ProcessState)
	case <-wait.C:
		p.kill()
		return nil, errors.New("the server was not ready within a minute")
	case <-ctx.Done():
		p.kill()
		return nil, ctx.Err()
	}
	secret, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		p.kill()
		return nil, err
	}
	p.token = strings.TrimSpace(string(secret))
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process at once, as a crash would, and waits until it is gone.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// call makes one API request. An answer that is not a success is an error
// with the problem's text.
func (p *process) call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if into == nil || len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// wait looks at the topic's status until it is the one wanted.
func (p *process) wait(ctx context.Context, topicID string, want chat.TopicState) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	var last chat.Status
	for {
		if err := p.call(ctx, "GET", "/topics/"+topicID+"/status", nil, &last); err != nil {
			return err
		}
		if last.Status == want {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("the topic is %q for two minutes, not %q", last.Status, want)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wireMessage is what the client side here reads of a message.
type wireMessage struct {
	ID       string     `json:"id"`
	Parts    chat.Parts `json:"parts"`
	Metadata struct {
		Status chat.MessageStatus `json:"status"`
		Epoch  int64              `json:"epoch"`
	} `json:"metadata"`
}

func (m wireMessage) lastText() string {
	text := ""
	for _, p := range m.Parts {
		if t, ok := p.(chat.Text); ok {
			text = t.Text
		}
	}
	return text
}

// path is the "path" that a call was given.
func (m wireMessage) path(toolCallID string) string {
	for _, c := range m.Parts.Calls() {
		if c.Call.ToolCallID == toolCallID {
			var in struct {
				Path string `json:"path"`
			}
			if json.Unmarshal(c.Call.Input, &in) == nil {
				return in.Path
			}
		}
	}
	return ""
}
