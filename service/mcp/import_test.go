package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestParseImport(t *testing.T) {
	const stdio, web = chat.TransportStdio, chat.TransportHTTP
	tests := []struct {
		name string
		data string
		want []chat.MCPServer
	}{
		{"the common form, in the order of names",
			`{"other":1,"mcpServers":{"web":{"url":"https://example.org/mcp","headers":{"Authorization":"Bearer x"}},
			 "files":{"command":"npx","args":["-y","server","/data"],"env":{"A":"1"},"cwd":"/tmp","disabled":true,"alwaysAllow":["drop"]}}}`,
			[]chat.MCPServer{
				{Name: "files", Transport: stdio, Command: "npx", Args: []string{"-y", "server", "/data"}, Env: map[string]string{"A": "1"}, Dir: "/tmp", Disabled: true},
				{Name: "web", Transport: web, URL: "https://example.org/mcp", Headers: map[string]string{"Authorization": "Bearer x"}},
			}},
		{"as VS Code has it", `{"inputs":[],"servers":{"a":{"type":"http","url":"http://127.0.0.1:1/"},"b":{"type":"stdio","command":"b"}}}`,
			[]chat.MCPServer{{Name: "a", Transport: web, URL: "http://127.0.0.1:1/"}, {Name: "b", Transport: stdio, Command: "b"}}},
		{"other words for http", `{"mcpServers":{"a":{"type":"streamable-http","url":"http://h/"},"b":{"type":"streamableHttp","url":"http://h/"}}}`,
			[]chat.MCPServer{{Name: "a", Transport: web, URL: "http://h/"}, {Name: "b", Transport: web, URL: "http://h/"}}},
		{"a byte order mark", "\xef\xbb\xbf" + `{"mcpServers":{"a":{"command":"a"}}}`, []chat.MCPServer{{Name: "a", Transport: stdio, Command: "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseImport([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseImportErrors(t *testing.T) {
	many := map[string]any{}
	for i := range maxImportServers + 1 {
		many[fmt.Sprint(i)] = map[string]string{"command": "a"}
	}
	tooMany, err := json.Marshal(map[string]any{"mcpServers": many})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(s string) string { return `{"mcpServers":{"good":{"command":"a"},"the one":` + s + `}}` }
	tests := []struct {
		name, data string
		want       []string
	}{
		{"not JSON", `{"mcpServers":{"s3cret"`, []string{"not valid JSON", "at byte"}},
		{"a list", `[]`, []string{"not valid JSON"}},
		{"no servers", `{}`, []string{"no server"}},
		{"empty servers", `{"mcpServers":{}}`, []string{"no server"}},
		{"servers that are a list", `{"mcpServers":["s3cret"]}`, []string{"mcpServers", "array"}},
		{"too large", `{"a":"` + strings.Repeat("x", maxImport) + `"}`, []string{"larger"}},
		{"too many", string(tooMany), []string{"more than 100"}},
		{"one name twice", `{"mcpServers":{"x":{"command":"a"}},"servers":{"x":{"command":"a"}}}`, []string{`"x"`, "both"}},
		{"one name twice in one list", `{"mcpServers":{"x":{"command":"a"},"x":{"command":"s3cret"}}}`, []string{"/mcpServers/x", "twice"}},
		{"one member twice further down", `{"mcpServers":{"x":{"command":"a","args":[{"b":1,"b":"s3cret"}]}}}`, []string{"/mcpServers/x/args/0/b", "twice"}},
		{"not UTF-8", "{\"mcpServers\":{\"x\":{\"command\":\"s3cret\xff\"}}}", []string{"UTF-8"}},
		{"the name of the built-in server", `{"mcpServers":{"Workspace":{"command":"a"}}}`, []string{`"Workspace"`, "built-in"}},
		{"several mistakes", `{"mcpServers":{"a":{"type":"sse"},"b":{"command":"a"},"c":{"url":"s3cret"}}}`, []string{`"a"`, "SSE", `"c"`, "http"}},
		{"an entry that is no object", entry(`null`), []string{`"the one"`, "not an object"}},
		{"an entry of another type", entry(`{"command":["s3cret"]}`), []string{`"the one"`, "command", "array"}},
		{"neither command nor url", entry(`{}`), []string{`"the one"`, "command"}},
		{"both", entry(`{"command":"a","url":"http://s3cret/"}`), []string{`"the one"`, "url"}},
		{"the old SSE", entry(`{"type":"sse","url":"http://h/"}`), []string{`"the one"`, "SSE"}},
		{"an unknown type", entry(`{"type":"pigeon"}`), []string{`"the one"`, "type"}},
		{"a placeholder", entry(`{"command":"a","env":{"A":"Bearer ${input:token}"}}`), []string{`"the one"`, "${input:token}"}},
		{"a url that is none", entry(`{"url":"ftp://s3cret/"}`), []string{`"the one"`, "http"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseImport([]byte(tt.data))
			if !errors.Is(err, chat.ErrInvalid) || got != nil {
				t.Fatalf("got %v, %v", got, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not mention %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

// Whatever is imported can be started, asks for everything, and survives being
// written in the same form.
func FuzzParseImport(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"web":{"url":"https://example.org/mcp","headers":{"A":"b"}},"files":{"command":"npx","args":["-y"],"env":{"A":"1"}}}}`))
	f.Add([]byte(`{"servers":{"a":{"type":"http","url":"http://127.0.0.1:1/"}}}`))
	f.Add([]byte(`{"mcpServers":{"a":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, err := ParseImport(data)
		if err != nil {
			if !errors.Is(err, chat.ErrInvalid) || servers != nil {
				t.Fatalf("got %v with %v", servers, err)
			}
			return
		}
		again := map[string]any{}
		for _, s := range servers {
			if err := s.Check(); err != nil {
				t.Fatalf("an imported server cannot be started: %v", err)
			}
			if s.ID != "" || len(s.AutoApproveTools) > 0 {
				t.Fatalf("an import decided what is not its own: %+v", s)
			}
			again[s.Name] = map[string]any{
				"command": s.Command, "args": s.Args, "env": s.Env, "cwd": s.Dir, "url": s.URL, "headers": s.Headers, "disabled": s.Disabled,
			}
		}
		raw, err := json.Marshal(map[string]any{"mcpServers": again})
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > maxImport {
			return // escapes made it longer
		}
		second, err := ParseImport(raw)
		if err != nil {
			t.Fatalf("written again it cannot be read: %v", err)
		}
		if diff := cmp.Diff(servers, second, cmp.FilterValues(func(a, b []string) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
			cmp.FilterValues(func(a, b map[string]string) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); diff != "" {
			t.Fatalf("written again it is another (-first +second):\n%s", diff)
		}
	})
}
