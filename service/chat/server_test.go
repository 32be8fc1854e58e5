package chat_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

func TestServerCheck(t *testing.T) {
	t.Parallel()
	stdio := chat.MCPServer{ID: "1", Name: "files", Transport: chat.TransportStdio, Command: "npx", Args: []string{"-y"}, Env: map[string]string{"TOKEN": "s3cret-value"}}
	web := chat.MCPServer{ID: "2", Name: "web", Transport: chat.TransportHTTP, URL: "https://example.org/mcp", Headers: map[string]string{"Authorization": "Bearer s3cret-value"}}
	change := func(s chat.MCPServer, f func(*chat.MCPServer)) chat.MCPServer { f(&s); return s }
	tests := []struct {
		name   string
		server chat.MCPServer
		want   string // in the error; "" for none
	}{
		{"a command", stdio, ""},
		{"an address", web, ""},
		{"a name with blanks inside", change(stdio, func(s *chat.MCPServer) { s.Name = "my files" }), ""},
		{"no name", change(stdio, func(s *chat.MCPServer) { s.Name = "" }), "name"},
		{"blanks around the name", change(stdio, func(s *chat.MCPServer) { s.Name = " files" }), "name"},
		{"the name of the built-in server", change(stdio, func(s *chat.MCPServer) { s.Name = "WorkSpace" }), "built-in"},
		{"a name that no address can hold", change(stdio, func(s *chat.MCPServer) { s.Name = ".." }), "name"},
		{"a name that turns the reading around", change(stdio, func(s *chat.MCPServer) { s.Name = "a\u202eb" }), "name"},
		{"a line break in the name", change(stdio, func(s *chat.MCPServer) { s.Name = "fi\nles" }), "name"},
		{"a name that is too long", change(stdio, func(s *chat.MCPServer) { s.Name = strings.Repeat("é", 65) }), "name"},
		{"another transport", change(stdio, func(s *chat.MCPServer) { s.Transport = "sse" }), "transport"},
		{"no command", change(stdio, func(s *chat.MCPServer) { s.Command = " " }), "needs a command"},
		{"a command with an address", change(stdio, func(s *chat.MCPServer) { s.URL = web.URL }), "neither a url"},
		{"NUL in an argument", change(stdio, func(s *chat.MCPServer) { s.Args = []string{"a\x00"} }), "NUL"},
		{"a variable without a name", change(stdio, func(s *chat.MCPServer) { s.Env = map[string]string{"": "s3cret-value"} }), "environment variable"},
		{"a variable with its value in the name", change(stdio, func(s *chat.MCPServer) { s.Env = map[string]string{"A=s3cret-value": ""} }), `"A…"`},
		{"NUL in the folder", change(stdio, func(s *chat.MCPServer) { s.Dir = "s3cret-value\x00" }), "NUL"},
		{"a command with headers", change(stdio, func(s *chat.MCPServer) { s.Headers = web.Headers }), "neither a url"},
		{"NUL in a variable", change(stdio, func(s *chat.MCPServer) { s.Env = map[string]string{"A": "s3cret-value\x00"} }), "environment variable"},
		{"a file address", change(web, func(s *chat.MCPServer) { s.URL = "file:///s3cret-value" }), "http or https"},
		{"an address without a host", change(web, func(s *chat.MCPServer) { s.URL = "http:///s3cret-value" }), "http or https"},
		{"an address with a port", change(web, func(s *chat.MCPServer) { s.URL = "http://127.0.0.1:8080" }), ""},
		{"an address with a user", change(web, func(s *chat.MCPServer) { s.URL = "https://user:s3cret@[::1]:8080/mcp?key=s3cret" }), ""},
		{"an address with a scope in its path", change(web, func(s *chat.MCPServer) { s.URL = "https://example.org/@scope/a:b" }), ""},
		{"an address that ends at the port", change(web, func(s *chat.MCPServer) { s.URL = "http://:80/s3cret" }), "http or https"},
		{"a user without a host", change(web, func(s *chat.MCPServer) { s.URL = "https://user:s3cret@/" }), "http or https"},
		{"a slash in a password", change(web, func(s *chat.MCPServer) { s.URL = "https://user:s3/cret@example.org/" }), "http or https"},
		{"a question mark in a password", change(web, func(s *chat.MCPServer) { s.URL = "https://user:s3?cret@example.org/" }), "http or https"},
		{"an IPv6 address that is not closed", change(web, func(s *chat.MCPServer) { s.URL = "https://[::1/s3cret" }), "http or https"},
		{"something after an IPv6 address", change(web, func(s *chat.MCPServer) { s.URL = "https://[::1]x/s3cret" }), "http or https"},
		{"two ports", change(web, func(s *chat.MCPServer) { s.URL = "https://a:1:2/s3cret" }), "http or https"},
		{"a backslash", change(web, func(s *chat.MCPServer) { s.URL = `https://a\@s3cret` }), "http or https"},
		{"a blank in an address", change(web, func(s *chat.MCPServer) { s.URL = "https://a/s3 cret" }), "http or https"},
		{"a fragment", change(web, func(s *chat.MCPServer) { s.URL = "https://a/#s3cret" }), "http or https"},
		{"a line break in an address", change(web, func(s *chat.MCPServer) { s.URL = "https://a/\ns3cret" }), "http or https"},
		{"an address with a command", change(web, func(s *chat.MCPServer) { s.Command = "npx" }), "no command"},
		{"a header of the protocol", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"Mcp-Session-Id": "s3cret-value"} }), "protocol"},
		{"a header that smuggles another", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"A": "s3cret-value\r\nB: c"} }), "cannot be sent"},
		{"a header with its value in the name", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"Authorization: Bearer s3cret": ""} }), `"Authorization…"`},
		{"a header without a name", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"": "s3cret"} }), "cannot be sent"},
		{"one header in two ways of writing", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"X-Key": "s3cret-1", "x-key": "s3cret-2"} }), "twice"},
		{"an address with variables", change(web, func(s *chat.MCPServer) { s.Env = stdio.Env }), "no command"},
		{"a header with a blank in its name", change(web, func(s *chat.MCPServer) { s.Headers = map[string]string{"A b": "s3cret-value"} }), "cannot be sent"},
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
			if !errors.Is(err, chat.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an invalid setting that mentions %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error quotes a secret: %v", err)
			}
		})
	}
}

func TestNewServerAsksForEveryTool(t *testing.T) {
	t.Parallel()
	s := chat.MCPServer{Switches: chat.Switches{DisabledTools: []string{"drop"}}}
	if diff := cmp.Diff(chat.ToolPolicy{}, s.Policy("read")); diff != "" {
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

func TestPolicyOfATool(t *testing.T) {
	t.Parallel()
	s := chat.Switches{DisabledTools: []string{"off", "all"}, AutoApproveTools: []string{"runs", "all"}, AlwaysAskTools: []string{"asks", "all"}, Trusted: true}
	for tool, want := range map[string]struct {
		chat.ToolPolicy
		word   string
		allows bool
	}{
		"new":  {chat.ToolPolicy{Trusted: true}, "ask", false},
		"off":  {chat.ToolPolicy{Trusted: true, Disabled: true}, "disabled", false},
		"runs": {chat.ToolPolicy{Trusted: true, AutoApprove: true}, "auto-approve", true},
		"RUNS": {chat.ToolPolicy{Trusted: true}, "ask", false},
		"asks": {chat.ToolPolicy{Trusted: true, AlwaysAsk: true}, "always-ask", false},
		"all":  {chat.ToolPolicy{Trusted: true, Disabled: true, AutoApprove: true, AlwaysAsk: true}, "disabled", false},
		"":     {chat.ToolPolicy{Trusted: true}, "ask", false},
	} {
		p := s.Policy(tool)
		if p != want.ToolPolicy || p.Word() != want.word || p.Allows() != want.allows {
			t.Errorf("%q: got %+v (%s, %v), want %+v", tool, p, p.Word(), p.Allows(), want)
		}
	}
	if (chat.ToolPolicy{AutoApprove: true, AlwaysAsk: true}).Allows() || (chat.ToolPolicy{AutoApprove: true, Disabled: true}).Allows() {
		t.Error("auto-approve outranks what asks or is switched off")
	}
}

// What the settings page shows and stores is the list of tools that ask.
func TestListOfToolsThatAsk(t *testing.T) {
	t.Parallel()
	known := []string{"read", "write", "drop"}
	s := chat.Switches{}.WithDisabledAutoApproveTools(known, []string{"write", "drop"})
	if !s.Policy("read").AutoApprove || s.Policy("write") != (chat.ToolPolicy{}) {
		t.Errorf("the tool off the list is not the one that passes, or the others are more than asked for: %+v", s)
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
	if asks := (chat.Switches{}).DisabledAutoApproveTools(nil); asks == nil || len(asks) > 0 {
		t.Errorf("no tools are %v", asks)
	}

	put := s.WithDisabledAutoApproveTools(known, known) // write was taken off, and is put back
	want := map[string]chat.ToolPolicy{"read": {}, "write": {AlwaysAsk: true}, "drop": {}}
	for tool, policy := range want {
		if got := put.Policy(tool); got != policy {
			t.Errorf("%s is %+v, want %+v", tool, got, policy)
		}
	}
	if gone := s.WithDisabledAutoApproveTools(nil, []string{"write", "never heard of"}); !gone.Policy("write").AlwaysAsk || gone.Policy("never heard of") != (chat.ToolPolicy{}) {
		t.Errorf("of tools that are away: %+v", gone)
	}
	if again := put.WithAutoApprove("write", true); again.Policy("write") != (chat.ToolPolicy{AutoApprove: true}) {
		t.Errorf("what is always asked for stays so when it is allowed: %+v", again)
	}
}

// someSwitches are switches as they can come to be: no tool is in both lists.
func someSwitches(t *rapid.T) chat.Switches {
	s := chat.Switches{Trusted: rapid.Bool().Draw(t, "trusted")}
	for _, tool := range []string{"a", "b", "c", "d", "e"} {
		switch rapid.IntRange(0, 2).Draw(t, tool) {
		case 1:
			s.AutoApproveTools = append(s.AutoApproveTools, tool)
		case 2:
			s.AlwaysAskTools = append(s.AlwaysAskTools, tool)
		}
		if rapid.Bool().Draw(t, tool+" off") {
			s.DisabledTools = append(s.DisabledTools, tool)
		}
	}
	// Room at the end of a list must not be written to.
	s.AutoApproveTools, s.AlwaysAskTools = slices.Grow(s.AutoApproveTools, 3), slices.Grow(s.AlwaysAskTools, 3)
	return s
}

// whole is the switches with what lies in the room at the end of their lists.
func whole(s chat.Switches) chat.Switches {
	for _, list := range []*[]string{&s.DisabledTools, &s.AutoApproveTools, &s.AlwaysAskTools} {
		*list = slices.Clone((*list)[:cap(*list)])
	}
	return s
}

// checkSwitches says what no switches may be.
func checkSwitches(t *rapid.T, s chat.Switches) {
	t.Helper()
	for _, list := range [][]string{s.DisabledTools, s.AutoApproveTools, s.AlwaysAskTools} {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) < len(list) {
			t.Fatalf("a tool is in a list twice: %+v", s)
		}
	}
	for _, tool := range s.AutoApproveTools {
		if slices.Contains(s.AlwaysAskTools, tool) {
			t.Fatalf("%s runs without asking, and is always asked for: %+v", tool, s)
		}
	}
}

func TestListOfToolsThatAskRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-g]`), rapid.ID[string])
		known, list := names.Draw(t, "known"), names.Draw(t, "list")
		s := someSwitches(t)
		before := whole(s)

		if same := s.WithDisabledAutoApproveTools(known, s.DisabledAutoApproveTools(known)); !cmp.Equal(s, same, cmpopts.EquateEmpty()) {
			t.Fatalf("storing what was shown changed %+v to %+v", s, same)
		}
		next := s.WithDisabledAutoApproveTools(known, list)
		checkSwitches(t, next)
		if diff := cmp.Diff(before, whole(s)); diff != "" {
			t.Fatalf("what was given has changed (-want +got):\n%s", diff)
		}
		for _, tool := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			was, is := s.Policy(tool), next.Policy(tool)
			want := was
			switch {
			case slices.Contains(list, tool) && was.AutoApprove:
				want.AutoApprove, want.AlwaysAsk = false, true
			case !slices.Contains(list, tool) && slices.Contains(known, tool):
				want.AutoApprove, want.AlwaysAsk = true, false
			}
			if is != want {
				t.Fatalf("%s was %+v and is %+v, want %+v", tool, was, is, want)
			}
			for _, approve := range []bool{true, false} {
				one := next.WithAutoApprove(tool, approve)
				checkSwitches(t, one)
				want := chat.ToolPolicy{Disabled: is.Disabled, AutoApprove: approve, Trusted: is.Trusted}
				if got := one.Policy(tool); got != want {
					t.Fatalf("%s is %+v after auto-approve %v", tool, got, approve)
				}
				for _, other := range []string{"a", "b", "c"} {
					if other != tool && one.Policy(other) != next.Policy(other) {
						t.Fatalf("%s changed with %s", other, tool)
					}
				}
			}
		}
	})
}

// TestWhatChangesAServer changes one member after the other: a new member that
// nobody thought of here fails it.
func TestWhatChangesAServer(t *testing.T) {
	t.Parallel()
	a := chat.MCPServer{
		ID: "1", Name: "a", Source: chat.SourceSettings, Transport: chat.TransportStdio, Command: "x", Args: []string{"1"}, Env: map[string]string{"A": "1"},
		Dir: "/", URL: "http://a", Headers: map[string]string{"H": "1"}, Version: 1,
		Switches: chat.Switches{DisabledTools: []string{"t"}, AutoApproveTools: []string{"t"}, AlwaysAskTools: []string{"t"}},
	}
	const connection, settings, secrets = "connection", "settings", "secrets"
	notices := map[string][]string{
		"ID": {connection, settings}, "Name": {settings}, "Source": nil, "Transport": {connection, settings}, "Command": {connection, settings},
		"Args": {connection, settings}, "Env": {connection, settings, secrets}, "Dir": {connection, settings}, "URL": {connection, settings, secrets},
		"Headers": {connection, settings, secrets}, "Disabled": {connection, settings}, "DisabledTools": {settings}, "AutoApproveTools": {settings},
		"AlwaysAskTools": {settings}, "Trusted": {settings}, "Identity": nil, "Problem": nil, "Version": nil, "CreatedAt": nil, "UpdatedAt": nil,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[chat.MCPServer]()) {
		if f.Anonymous {
			continue
		}
		want, known := notices[f.Name]
		if !known {
			t.Errorf("nothing is said of %s", f.Name)
			continue
		}
		b := a
		switch v := reflect.ValueOf(&b).Elem().FieldByIndex(f.Index).Addr().Interface().(type) {
		case *string:
			*v += "x"
		case *chat.ServerSource:
			*v += "x"
		case *chat.Transport:
			*v += "x"
		case *bool:
			*v = !*v
		case *int:
			*v++
		case *[]string:
			*v = append(slices.Clone(*v), "x")
		case *map[string]string:
			*v = map[string]string{"A": "2"}
		case *time.Time:
			*v = noon
		default:
			t.Fatalf("cannot change %s", f.Name)
		}
		var got []string
		for what, same := range map[string]bool{connection: a.SameConnection(b), settings: a.SameSettings(b), secrets: a.SameSecrets(b)} {
			if !same {
				got = append(got, what)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a change of %s (-want +got):\n%s", f.Name, diff)
		}
	}
}
