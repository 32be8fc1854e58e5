package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestServerCheck(t *testing.T) {
	stdio := MCPServer{ID: "1", Name: "files", Transport: TransportStdio, Command: "npx", Args: []string{"-y"}, Env: map[string]string{"TOKEN": "s3cret-value"}}
	web := MCPServer{ID: "2", Name: "web", Transport: TransportHTTP, URL: "https://example.org/mcp", Headers: map[string]string{"Authorization": "Bearer s3cret-value"}}
	change := func(s MCPServer, f func(*MCPServer)) MCPServer { f(&s); return s }
	tests := []struct {
		name   string
		server MCPServer
		want   string // in the error; "" for none
	}{
		{"a command", stdio, ""},
		{"an address", web, ""},
		{"a name with blanks inside", change(stdio, func(s *MCPServer) { s.Name = "my files" }), ""},
		{"no name", change(stdio, func(s *MCPServer) { s.Name = "" }), "name"},
		{"blanks around the name", change(stdio, func(s *MCPServer) { s.Name = " files" }), "name"},
		{"a line break in the name", change(stdio, func(s *MCPServer) { s.Name = "fi\nles" }), "name"},
		{"a name that is too long", change(stdio, func(s *MCPServer) { s.Name = strings.Repeat("é", 65) }), "name"},
		{"another transport", change(stdio, func(s *MCPServer) { s.Transport = "sse" }), "transport"},
		{"no command", change(stdio, func(s *MCPServer) { s.Command = " " }), "needs a command"},
		{"a command with an address", change(stdio, func(s *MCPServer) { s.URL = web.URL }), "neither a url"},
		{"NUL in an argument", change(stdio, func(s *MCPServer) { s.Args = []string{"a\x00"} }), "NUL"},
		{"a variable without a name", change(stdio, func(s *MCPServer) { s.Env = map[string]string{"": "s3cret-value"} }), "environment variable"},
		{"NUL in a variable", change(stdio, func(s *MCPServer) { s.Env = map[string]string{"A": "s3cret-value\x00"} }), "environment variable"},
		{"a file address", change(web, func(s *MCPServer) { s.URL = "file:///s3cret-value" }), "http or https"},
		{"an address without a host", change(web, func(s *MCPServer) { s.URL = "http:///s3cret-value" }), "http or https"},
		{"an address with a command", change(web, func(s *MCPServer) { s.Command = "npx" }), "no command"},
		{"a header of the protocol", change(web, func(s *MCPServer) { s.Headers = map[string]string{"Mcp-Session-Id": "s3cret-value"} }), "protocol"},
		{"a header that smuggles another", change(web, func(s *MCPServer) { s.Headers = map[string]string{"A": "s3cret-value\r\nB: c"} }), "cannot be sent"},
		{"a header with a blank in its name", change(web, func(s *MCPServer) { s.Headers = map[string]string{"A b": "s3cret-value"} }), "cannot be sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.server.Check()
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an invalid setting that mentions %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error quotes a secret: %v", err)
			}
		})
	}
}

func TestNewServerAsksForEveryTool(t *testing.T) {
	s := MCPServer{DisabledTools: []string{"drop"}}
	if diff := cmp.Diff(ToolPolicy{}, s.Policy("read")); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if !s.Policy("drop").Disabled {
		t.Error("a disabled tool is not disabled")
	}
	s.Disabled = true
	if !s.Policy("read").Disabled {
		t.Error("a tool of a disabled server is not disabled")
	}
}

// What the settings page shows and stores is the list of tools that ask.
func TestListOfToolsThatAsk(t *testing.T) {
	known := []string{"read", "write", "drop"}
	s := MCPServer{}.WithDisabledAutoApproveTools(known, []string{"write", "drop"})
	if !s.Policy("read").AutoApprove || s.Policy("write").AutoApprove {
		t.Errorf("the tool off the list is not the one that passes: %v", s.AutoApproveTools)
	}
	if s.Policy("later").AutoApprove {
		t.Error("a tool that the server brings later passes unasked")
	}
	s = s.WithAutoApprove("write", true).WithAutoApprove("write", true)
	if diff := cmp.Diff([]string{"drop"}, s.DisabledAutoApproveTools(known)); diff != "" {
		t.Errorf("tools that ask after allowing one (-want +got):\n%s", diff)
	}
	s = s.WithAutoApprove("read", false)
	if diff := cmp.Diff([]string{"read", "drop"}, s.DisabledAutoApproveTools(known)); diff != "" {
		t.Errorf("tools that ask after taking one back (-want +got):\n%s", diff)
	}
	away := s.WithDisabledAutoApproveTools(nil, nil)
	if !away.Policy("write").AutoApprove {
		t.Error("storing the list while the server is away took back what was allowed")
	}
}

func TestListOfToolsThatAskRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-e]`), rapid.ID[string])
		known, list := names.Draw(t, "known"), names.Draw(t, "list")
		s := MCPServer{AutoApproveTools: names.Draw(t, "allowed")}.WithDisabledAutoApproveTools(known, list)
		asks := map[string]bool{}
		for _, tool := range s.DisabledAutoApproveTools(known) {
			asks[tool] = true
		}
		for _, tool := range list {
			if s.Policy(tool).AutoApprove {
				t.Fatalf("%s is on the list and passes", tool)
			}
			delete(asks, tool)
		}
		if len(asks) > 0 {
			t.Fatalf("%v ask and are not on the list %v", asks, list)
		}
	})
}

func TestSameConnection(t *testing.T) {
	a := MCPServer{ID: "1", Name: "a", Transport: TransportStdio, Command: "x", Args: []string{"1"}, Env: map[string]string{"A": "1"}}
	b := a
	b.Name, b.DisabledTools, b.AutoApproveTools = "b", []string{"x"}, []string{"y"}
	if !a.SameConnection(b) {
		t.Error("a name or a policy takes a new connection")
	}
	b.Env = map[string]string{"A": "2"}
	if a.SameConnection(b) {
		t.Error("another environment takes no new connection")
	}
}

func TestServerKeepsItsPolicyInJSON(t *testing.T) {
	want := MCPServer{ID: "1", Name: "a", Transport: TransportStdio, Command: "x", AutoApproveTools: []string{"read"}, DisabledTools: []string{"drop"}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got MCPServer
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
}
