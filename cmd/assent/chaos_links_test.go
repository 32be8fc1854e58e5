//go:build chaos

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// toxiproxyModule is the proxy that the links between the servers and their
	// database go through. It is built once, into a folder outside of the
	// repository, and is no dependency of the module.
	toxiproxyModule = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
	// toxiproxyEnv names the program, where it cannot be built.
	toxiproxyEnv = "ASSENT_TEST_TOXIPROXY"
)

// buildToxiproxy gives the path of the proxy's program.
func buildToxiproxy(ctx context.Context) (string, error) {
	if given := os.Getenv(toxiproxyEnv); given != "" {
		return given, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(toxiproxyModule, "@")
	program := filepath.Join(cache, "assent", "toxiproxy-"+version)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(program), "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "install", toxiproxyModule)
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s (without a network, name the program of Toxiproxy's server by %s): %w: %s", toxiproxyModule, toxiproxyEnv, err, bytes.TrimSpace(out))
	}
	return program, os.Rename(filepath.Join(dir, "server"), program)
}

// links are the connections between the servers and the database, each server's
// by a name of its own.
type links struct {
	api    string
	client *http.Client
	cmd    *exec.Cmd
	done   chan struct{} // closed when the proxy has ended
}

// openLinks starts the proxy on loopback. It dies with the test.
func openLinks(t *testing.T, log io.Writer) *links {
	t.Helper()
	program, err := buildToxiproxy(t.Context())
	if err != nil {
		t.Fatalf("the links to the database need Toxiproxy: %v", err)
	}
	l := &links{client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}}
	for range 5 { // between the look for a free port and its use, another may take it
		if err = l.start(t.Context(), program, log); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("start Toxiproxy: %v", err)
	}
	t.Cleanup(func() {
		l.client.CloseIdleConnections()
		l.end()
	})
	return l
}

func (l *links) start(ctx context.Context, program string, log io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	if err := ln.Close(); err != nil {
		return err
	}
	l.api = "http://127.0.0.1:" + port
	l.cmd = exec.Command(program, "-host", "127.0.0.1", "-port", port)
	l.cmd.Env = append(os.Environ(), "LOG_LEVEL=warn")
	l.cmd.Stdout, l.cmd.Stderr = log, log
	l.done = make(chan struct{})
	err = bound(l.cmd, func() (<-chan struct{}, error) {
		if err := l.cmd.Start(); err != nil {
			return nil, err
		}
		go func() {
			_ = l.cmd.Wait() // it is killed
			close(l.done)
		}()
		return l.done, nil
	})
	if err != nil {
		return err
	}
	for range 200 {
		if err = l.do("GET", "/proxies", nil, nil); err == nil {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			break
		}
	}
	l.end()
	return err
}

// end kills the proxy, which keeps nothing.
func (l *links) end() {
	_ = l.cmd.Process.Kill() // it may have ended by itself
	<-l.done
}

// do makes a request of the proxy's API.
func (l *links) do(method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), method, l.api+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		return cmp.Or(err, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(raw)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// lay makes the link of that name and gives the address of its near end.
func (l *links) lay(name, to string) (string, error) {
	var made struct {
		Listen string `json:"listen"`
	}
	err := l.do("POST", "/proxies", map[string]any{"name": name, "listen": "127.0.0.1:0", "upstream": to, "enabled": true}, &made)
	return made.Listen, err
}

// cut ends the link's connections and refuses new ones.
func (l *links) cut(name string) error {
	return l.do("POST", "/proxies/"+name, map[string]any{"enabled": false}, nil)
}

// mend takes connections again. Meanwhile a connection of somebody may have
// been given the link's port.
func (l *links) mend(name string) error {
	var err error
	for range 200 {
		if err = l.do("POST", "/proxies/"+name, map[string]any{"enabled": true}, nil); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		pause(context.Background(), 50*time.Millisecond)
	}
	return err
}

// toxic is what a link suffers from. Its names and attributes are Toxiproxy's.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // "upstream" is to the database
	Toxicity   float64        `json:"toxicity"`
	Attributes map[string]int `json:"attributes"`
}

func (l *links) add(name string, x toxic) error {
	return l.do("POST", "/proxies/"+name+"/toxics", x, nil)
}

func (l *links) remove(name string, x toxic) error {
	return l.do("DELETE", "/proxies/"+name+"/toxics/"+x.Name, nil, nil)
}
