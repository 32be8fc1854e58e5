package chat_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

func TestSettingsAsClientsSeeThem(t *testing.T) {
	t.Parallel()
	const switches = `"disabledTools":[],"autoApproveTools":[],"alwaysAskTools":[],"trusted":false`
	for want, s := range map[string]chat.MCPServer{
		`{"id":"1","name":"files","source":"settings","transport":"stdio","command":"npx","args":["-y","x"],"env":{"TOKEN":null},"dir":"/srv","disabled":true,` +
			`"disabledTools":["a"],"autoApproveTools":["b"],"alwaysAskTools":["c"],"trusted":true,"version":4,` +
			`"createdAt":"2026-11-30T12:00:00Z","updatedAt":"2026-11-30T12:01:00Z"}`: {
			ID: "1", Name: "files", Source: chat.SourceSettings, Transport: chat.TransportStdio, Command: "npx", Args: []string{"-y", "x"},
			Env: map[string]string{"TOKEN": "s3cret"}, Dir: "/srv", Disabled: true, Version: 4, CreatedAt: noon, UpdatedAt: later, Identity: "i", Problem: "p",
			Switches: chat.Switches{DisabledTools: []string{"a"}, AutoApproveTools: []string{"b"}, AlwaysAskTools: []string{"c"}, Trusted: true},
		},
		`{"id":"2","name":"web","source":"file","transport":"http","url":"https://•••@a/mcp?key=•••","headers":{"Authorization":null},"disabled":false,` + switches + `,"version":0}`: {
			ID: "2", Name: "web", Source: chat.SourceFile, Transport: chat.TransportHTTP, URL: "https://u:s3cret@a/mcp?key=s3cret",
			Headers: map[string]string{"Authorization": "Bearer s3cret"},
		},
		`{"id":"workspace","name":"workspace","source":"built-in","transport":"built-in","disabled":false,` + switches + `,"version":1}`: {
			ID: "workspace", Name: "workspace", Source: chat.SourceBuiltIn, Transport: chat.TransportBuiltIn, Version: 1,
		},
		`{"id":"","name":"","source":"settings","transport":"","disabled":false,` + switches + `,"version":0}`: {},
	} {
		got, err := chat.Marshal(s.Shown())
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestShownIsACopy(t *testing.T) {
	t.Parallel()
	s := chat.MCPServer{Args: []string{"a"}, Switches: chat.Switches{DisabledTools: []string{"a"}, AutoApproveTools: []string{"b"}, AlwaysAskTools: []string{"c"}}, CreatedAt: noon, UpdatedAt: noon}
	shown := s.Shown()
	shown.Args[0], shown.DisabledTools[0], shown.AutoApproveTools[0], shown.AlwaysAskTools[0] = "x", "x", "x", "x"
	*shown.CreatedAt, *shown.UpdatedAt = later, later
	if s.Args[0] != "a" || s.Policy("a") != (chat.ToolPolicy{Disabled: true}) || s.Policy("b") != (chat.ToolPolicy{AutoApprove: true}) || !s.CreatedAt.Equal(noon) || !s.UpdatedAt.Equal(noon) {
		t.Errorf("the server has changed: %+v", s)
	}
}

func TestAddressAsItIsShown(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                                  "",
		"https://a":                         "https://a",
		"https://a/":                        "https://a/",
		"http://127.0.0.1:8080/x/y":         "http://127.0.0.1:8080/x/y",
		"https://[::1]:8080/x":              "https://[::1]:8080/x",
		"https://a/@scope/x":                "https://a/@scope/x",
		"https://s3cret@a/x":                "https://•••@a/x",
		"https://u:s3cret@a":                "https://•••@a",
		"https://u:s3@cret@a/x":             "https://•••@a/x",
		"https://@a/x":                      "https://•••@a/x",
		"https://a?s3cret":                  "https://a?•••",
		"https://a/x?":                      "https://a/x?•••",
		"https://a/x?k=s3cret":              "https://a/x?k=•••",
		"https://a/x?k=":                    "https://a/x?k=•••",
		"https://a/x?=s3cret":               "https://a/x?=•••",
		"https://a/x?k=s3=cret&s3cret&&l=1": "https://a/x?k=•••&•••&•••&l=•••",
		"https://a/x?k=s3;l=cret":           "https://a/x?k=•••",
		"https://a/x?k=s3?cret":             "https://a/x?k=•••",
		"https://u:p@a/x?k=https://u:p@b":   "https://•••@a/x?k=•••",
		// What Check refuses, and a file or another release may hold.
		"s3cret":                "•••",
		"u:s3cret@a/x":          "•••",
		"u:s3cret@a?x=http://b": "•••",
		"ftp://u:s3cret@a/x":    "•••",
		"HTTPS://u:s3cret@a/x":  "•••",
		"://s3cret":             "•••",
		"https://":              "https://",
		"https:///s3":           "https:///s3",
	} {
		if got := (chat.MCPServer{URL: address}).Shown().URL; got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

// Whatever an address that passes the check holds, the program that calls it
// sees the secrets of it where they are hidden.
func TestAddressHidesWhatACallerSees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b.org", ":", "/", "//", "?", "@", "=", "&", ";", "[", "]", "[::1]", "80", "%40", `\`, "é"}), 0, 12).Draw(t, "pieces")
		address := rapid.SampledFrom([]string{"http://", "https://"}).Draw(t, "scheme") + strings.Join(pieces, "")
		server := chat.MCPServer{Name: "s", Transport: chat.TransportHTTP, URL: address}
		if server.Check() != nil {
			return
		}
		shown := server.Shown().URL
		before, query, asks := strings.Cut(shown, "?")
		if asks {
			for pair := range strings.SplitSeq(query, "&") {
				if _, value, _ := strings.Cut(pair, "="); value != "•••" && pair != "•••" {
					t.Fatalf("%s is shown as %s", address, shown)
				}
			}
		}
		u, err := url.Parse(address)
		if err != nil {
			return // no caller uses it
		}
		if u.Host == "" {
			t.Fatalf("%s has no host", address)
		}
		if u.User != nil && !strings.HasPrefix(before, u.Scheme+"://•••@") {
			t.Fatalf("%s is shown as %s", address, shown)
		}
		if u.User == nil && u.RawQuery == "" && !u.ForceQuery && shown != address {
			t.Fatalf("%s is shown as %s, though nothing of it is secret", address, shown)
		}
	})
}

// No secret is in what is shown, wherever it stands.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`s3cret[a-z0-9]{1,5}`)
		values := rapid.MapOfN(rapid.StringMatching(`[A-Z]{1,3}`), secret, 0, 3)
		s := chat.MCPServer{Env: values.Draw(t, "env"), Headers: values.Draw(t, "headers"), Identity: secret.Draw(t, "identity"), Problem: secret.Draw(t, "problem"),
			URL: "https://" + secret.Draw(t, "user") + ":" + secret.Draw(t, "password") + "@a/mcp?key=" + secret.Draw(t, "key") + "&" + secret.Draw(t, "bare")}
		for _, v := range []any{s.Shown(), chat.InfoOf(s, chat.ServerState{}, nil), chat.ServerChange{Before: ptr(s.Shown()), After: ptr(s.Shown())}} {
			raw, err := chat.Marshal(v)
			if err != nil || strings.Contains(string(raw), "s3cret") {
				t.Fatalf("%s, %v", raw, err)
			}
			for name := range s.Env {
				if !strings.Contains(string(raw), `"`+name+`":null`) {
					t.Fatalf("%s does not say that there is a value of %s", raw, name)
				}
			}
		}
	})
}

func ptr[T any](v T) *T { return &v }

// TestWhatIsOfTheConnection says of each member of a patch who may change it: a
// new one that nobody thought of here fails it.
func TestWhatIsOfTheConnection(t *testing.T) {
	t.Parallel()
	switches := []string{"DisabledTools", "AutoApproveTools", "AlwaysAskTools", "DisabledAutoApproveTools", "KnownTools", "Trusted", "Version"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[chat.MCPServerPatch]()) {
		var p chat.MCPServerPatch
		reflect.ValueOf(&p).Elem().FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
		if p.Connects() == slices.Contains(switches, f.Name) {
			t.Errorf("%s: %v", f.Name, p.Connects())
		}
	}
	if (chat.MCPServerPatch{}).Connects() {
		t.Error("an empty patch changes a connection")
	}
}

func stored() chat.MCPServer {
	return chat.MCPServer{
		ID: "1", Name: "files", Source: chat.SourceSettings, Transport: chat.TransportStdio, Command: "npx", Args: []string{"-y"},
		Env: map[string]string{"A": "s3cret-a", "B": "s3cret-b"}, Version: 4, Identity: "i", CreatedAt: noon, UpdatedAt: noon,
		Switches: chat.Switches{DisabledTools: []string{"drop"}, AutoApproveTools: []string{"read"}, AlwaysAskTools: []string{"write"}},
	}
}

func remote() chat.MCPServer {
	return chat.MCPServer{
		ID: "2", Name: "web", Transport: chat.TransportHTTP, URL: "https://u:s3cret@a/mcp?key=s3cret", Headers: map[string]string{"Authorization": "Bearer s3cret"}, Version: 1,
	}
}

func TestPatchOfAServer(t *testing.T) {
	t.Parallel()
	builtIn := chat.MCPServer{ID: "workspace", Name: "workspace", Source: chat.SourceBuiltIn, Transport: chat.TransportBuiltIn, Version: 1}
	file := stored()
	file.Source = chat.SourceFile
	broken := chat.MCPServer{ID: "3", Name: "b", Source: chat.SourceSettings, Transport: chat.TransportStdio, Problem: "Another key.", Version: 1}
	known := []string{"read", "write", "drop", "new"}
	names := func(list ...string) *[]string { return &list }
	type values = map[string]*string
	for _, tt := range []struct {
		name   string
		server chat.MCPServer
		patch  chat.MCPServerPatch
		change func(*chat.MCPServer) // nil if it is refused
		err    error
		says   string
	}{
		{"nothing", stored(), chat.MCPServerPatch{}, func(*chat.MCPServer) {}, nil, ""},
		{"at the version that it has", stored(), chat.MCPServerPatch{Version: ptr(4), Name: ptr("f")}, func(s *chat.MCPServer) { s.Name = "f" }, nil, ""},
		{"at another version", stored(), chat.MCPServerPatch{Version: ptr(3), Name: ptr("f")}, nil, chat.ErrConflict, "version 4"},
		{"everything of a process", stored(), chat.MCPServerPatch{Name: ptr("f"), Command: ptr("node"), Args: names("a", "b"), Env: &values{"A": nil, "C": ptr("c")}, Dir: ptr("/srv"), Disabled: ptr(true)},
			func(s *chat.MCPServer) {
				s.Name, s.Command, s.Args, s.Dir, s.Disabled = "f", "node", []string{"a", "b"}, "/srv", true
				s.Env = map[string]string{"A": "s3cret-a", "C": "c"}
				s.AutoApproveTools = nil // another program was allowed
			}, nil, ""},
		{"no environment any more", stored(), chat.MCPServerPatch{Env: &values{}}, func(s *chat.MCPServer) { s.Env = nil }, nil, ""},
		{"an environment of null", stored(), chat.MCPServerPatch{Env: new(values)}, func(s *chat.MCPServer) { s.Env = nil }, nil, ""},
		{"no arguments any more", stored(), chat.MCPServerPatch{Args: new([]string)}, func(s *chat.MCPServer) { s.Args, s.AutoApproveTools = nil, nil }, nil, ""},
		{"a variable that is not there is kept", stored(), chat.MCPServerPatch{Name: ptr("f"), Env: &values{"Z=s3cret": nil}}, nil, chat.ErrInvalid, `"Z…"`},
		{"a variable under its name in small letters", stored(), chat.MCPServerPatch{Env: &values{"a": nil}}, nil, chat.ErrInvalid, `"a"`},
		{"a name that is none", stored(), chat.MCPServerPatch{Name: ptr(""), DisabledTools: names()}, nil, chat.ErrInvalid, "name"},
		{"the name of the built-in server", stored(), chat.MCPServerPatch{Name: ptr("WORKSPACE")}, nil, chat.ErrInvalid, "built-in"},
		{"an address for a process", stored(), chat.MCPServerPatch{URL: ptr("https://a")}, nil, chat.ErrInvalid, "neither"},
		{"no command", stored(), chat.MCPServerPatch{Command: ptr("")}, nil, chat.ErrInvalid, "command"},

		{"the address as it was shown", remote(), chat.MCPServerPatch{URL: ptr("https://•••@a/mcp?key=•••"), Headers: &values{"Authorization": nil}}, func(*chat.MCPServer) {}, nil, ""},
		{"the address as it is", remote(), chat.MCPServerPatch{URL: ptr("https://u:s3cret@a/mcp?key=s3cret")}, func(*chat.MCPServer) {}, nil, ""},
		{"another address", remote(), chat.MCPServerPatch{URL: ptr("https://b")}, func(s *chat.MCPServer) { s.URL = "https://b" }, nil, ""},
		{"the address without its secrets", remote(), chat.MCPServerPatch{URL: ptr("https://a/mcp")}, func(s *chat.MCPServer) { s.URL = "https://a/mcp" }, nil, ""},
		{"half of the address as it was shown", remote(), chat.MCPServerPatch{URL: ptr("https://•••@b/mcp")}, nil, chat.ErrInvalid, "write it out"},
		{"no address", remote(), chat.MCPServerPatch{URL: ptr("")}, nil, chat.ErrInvalid, "http or https"},
		{"another header", remote(), chat.MCPServerPatch{Headers: &values{"X-Key": ptr("k")}}, func(s *chat.MCPServer) { s.Headers = map[string]string{"X-Key": "k"} }, nil, ""},
		{"a header that is not there is kept", remote(), chat.MCPServerPatch{Headers: &values{"X-Key: s3cret": nil}}, nil, chat.ErrInvalid, `"X-Key…"`},
		{"a header that smuggles another", remote(), chat.MCPServerPatch{Headers: &values{"A": ptr("s3cret\r\nB: c")}}, nil, chat.ErrInvalid, "cannot be sent"},

		{"the connection of the built-in server", builtIn, chat.MCPServerPatch{Disabled: ptr(true)}, nil, chat.ErrConflict, "part of this program"},
		{"the switches of the built-in server", builtIn, chat.MCPServerPatch{DisabledTools: names("x"), Trusted: ptr(true)}, func(s *chat.MCPServer) { s.DisabledTools, s.Trusted = []string{"x"}, true }, nil, ""},
		{"the connection of a server in a file", file, chat.MCPServerPatch{Args: names("x")}, nil, chat.ErrConflict, "in a file"},
		{"the switches of a server in a file", file, chat.MCPServerPatch{DisabledTools: names()}, func(s *chat.MCPServer) { s.DisabledTools = nil }, nil, ""},

		{"what cannot be read is switched off and renamed", broken, chat.MCPServerPatch{Name: ptr("old"), Disabled: ptr(true), DisabledTools: names("x")},
			func(s *chat.MCPServer) { s.Name, s.Disabled, s.DisabledTools = "old", true, []string{"x"} }, nil, ""},
		{"what cannot be read gets no bad name", broken, chat.MCPServerPatch{Name: ptr(" ")}, nil, chat.ErrInvalid, "name"},
		{"what cannot be read is not patched in part", broken, chat.MCPServerPatch{Args: names("x")}, nil, chat.ErrInvalid, "command"},
		{"what cannot be read keeps no values", broken, chat.MCPServerPatch{Command: ptr("npx"), Env: &values{"A": nil}}, nil, chat.ErrInvalid, "its value is needed"},
		{"what cannot be read is written anew", broken, chat.MCPServerPatch{Command: ptr("npx"), Env: &values{"A": ptr("a")}},
			func(s *chat.MCPServer) { s.Command, s.Env = "npx", map[string]string{"A": "a"} }, nil, ""},

		{"a tool twice in a list", stored(), chat.MCPServerPatch{DisabledTools: names("x", "y", "x")}, func(s *chat.MCPServer) { s.DisabledTools = []string{"x", "y"} }, nil, ""},
		{"a tool that was always asked for may run", stored(), chat.MCPServerPatch{AutoApproveTools: names("write")},
			func(s *chat.MCPServer) { s.AutoApproveTools, s.AlwaysAskTools = []string{"write"}, nil }, nil, ""},
		{"a tool that ran is always asked for", stored(), chat.MCPServerPatch{AlwaysAskTools: names("read")},
			func(s *chat.MCPServer) { s.AutoApproveTools, s.AlwaysAskTools = nil, []string{"read"} }, nil, ""},
		{"both lists at once", stored(), chat.MCPServerPatch{AutoApproveTools: names("write"), AlwaysAskTools: names("read")},
			func(s *chat.MCPServer) { s.AutoApproveTools, s.AlwaysAskTools = []string{"write"}, []string{"read"} }, nil, ""},
		{"one tool in both lists", stored(), chat.MCPServerPatch{AutoApproveTools: names("x"), AlwaysAskTools: names("y", "x")}, nil, chat.ErrInvalid, `"x"`},
		{"the list of tools that ask", stored(), chat.MCPServerPatch{DisabledAutoApproveTools: names("read", "drop")},
			func(s *chat.MCPServer) {
				s.AutoApproveTools, s.AlwaysAskTools = []string{"write", "new"}, []string{"read"}
			}, nil, ""},
		{"the list of tools that ask, and that of those that pass", stored(), chat.MCPServerPatch{AutoApproveTools: names("drop"), DisabledAutoApproveTools: names("write")}, nil, chat.ErrInvalid, "name either"},
		{"the list of tools that ask, and that of those that always ask", stored(), chat.MCPServerPatch{AlwaysAskTools: names("drop"), DisabledAutoApproveTools: names("write")}, nil, chat.ErrInvalid, "name either"},
		{"too many tools", stored(), chat.MCPServerPatch{AlwaysAskTools: ptr(make([]string, 1001))}, nil, chat.ErrInvalid, "at most 1000"},
		{"a tool without a name", stored(), chat.MCPServerPatch{AutoApproveTools: names("x", "")}, nil, chat.ErrInvalid, "1 to 256"},
		{"a tool of too long a name", stored(), chat.MCPServerPatch{DisabledAutoApproveTools: names(strings.Repeat("x", 257))}, nil, chat.ErrInvalid, "1 to 256"},
		{"a good name and a bad list", stored(), chat.MCPServerPatch{Name: ptr("f"), DisabledTools: names("")}, nil, chat.ErrInvalid, "1 to 256"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.server
			if tt.change != nil {
				tt.change(&want)
			}
			got, err := tt.patch.Apply(tt.server, known)
			if !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v that says %q", err, tt.err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error quotes a secret: %v", err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A patch writes to nothing that it was given, its outcome is good or it
// changes nothing, and applying it again changes nothing more.
func TestPatchKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tool := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		list := func(name string) *[]string { return rapid.Ptr(rapid.SliceOfN(tool, 0, 4), true).Draw(t, name) }
		s := stored()
		s.Switches = someSwitches(t)
		p := chat.MCPServerPatch{
			Name: rapid.Ptr(rapid.SampledFrom([]string{"x", "", "workspace"}), true).Draw(t, "new name"), Command: rapid.Ptr(rapid.SampledFrom([]string{"x", ""}), true).Draw(t, "command"), Args: list("args"),
			DisabledTools: list("disabled"), AutoApproveTools: list("auto"), AlwaysAskTools: list("always"), DisabledAutoApproveTools: list("asking"),
			Trusted: rapid.Ptr(rapid.Bool(), true).Draw(t, "trust"),
		}
		if rapid.Bool().Draw(t, "has env") {
			p.Env = ptr(rapid.MapOfN(rapid.SampledFrom([]string{"A", "B", "C"}), rapid.Ptr(rapid.Just("new"), true), 0, 3).Draw(t, "env"))
		}
		known := rapid.SliceOfDistinct(tool, rapid.ID[string]).Draw(t, "known")
		before, env := whole(s.Switches), maps.Clone(s.Env)
		patch, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}

		got, err := p.Apply(s, known)
		if diff := cmp.Diff(before, whole(s.Switches)); diff != "" || !maps.Equal(env, s.Env) {
			t.Fatalf("the server that was given has changed: %s", diff)
		}
		if after, _ := json.Marshal(p); string(after) != string(patch) {
			t.Fatalf("the patch has changed from %s to %s", patch, after)
		}
		if err != nil {
			if !errors.Is(err, chat.ErrInvalid) || !got.SameSettings(s) {
				t.Fatalf("refused with %v, and became %+v", err, got)
			}
			return
		}
		checkSwitches(t, got.Switches)
		if err := got.Check(); err != nil {
			t.Fatalf("became what is not allowed: %v", err)
		}
		if again, err := p.Apply(got, known); err != nil || !again.SameSettings(got) {
			t.Fatalf("applied again: %v, %+v", err, again)
		}
		if got.ID != s.ID || got.Source != s.Source || got.Transport != s.Transport || got.Version != s.Version || got.Identity != s.Identity {
			t.Fatalf("became another: %+v", got)
		}
	})
}

func TestWhatOthersSeeOfSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"", ""},
		{"https://example.org", "https://example.org"},
		{"https://example.org/", "https://example.org/•••"},
		{"https://example.org/a/secret", "https://example.org/•••"},
		{"https://example.org?secret", "https://example.org/•••"},
		{"http://127.0.0.1:8080/?key=secret", "http://127.0.0.1:8080/•••"},
		{"https://user:secret@example.org/mcp", "https://•••@example.org/•••"},
	} {
		got := chat.MCPServer{Transport: chat.TransportHTTP, URL: tt.url}.Shown().ForOthers().URL
		if got != tt.want {
			t.Errorf("%s is shown as %s, want %s", tt.url, got, tt.want)
		}
	}
	whole := chat.MCPServer{Transport: chat.TransportStdio, Command: "npx", Args: []string{"--key", "secret"}}.Shown()
	if got := whole.ForOthers().Args; len(got) != 1 || got[0] != "•••" || whole.Args[1] != "secret" {
		t.Errorf("the arguments are shown as %q", got)
	}
}
