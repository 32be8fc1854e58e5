package chat_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

// What was allowed was a tool of a certain program, at a certain address. The
// keys that it is given do not make it another.
func TestWhatWasAllowedEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	allowing := func(s chat.MCPServer) chat.MCPServer {
		s.Switches = chat.Switches{DisabledTools: []string{"drop"}, AutoApproveTools: []string{"read"}, AlwaysAskTools: []string{"write"}, Trusted: true}
		return s
	}
	process, address, bare := allowing(stored()), allowing(remote()), allowing(stored())
	bare.Args, address.URL = nil, "https://a/mcp?key=s3cret"
	type values = map[string]*string
	names := func(list ...string) *[]string { return &list }
	for _, tt := range []struct {
		name   string
		server chat.MCPServer
		patch  chat.MCPServerPatch
		auto   []string
		trust  bool
	}{
		{"another command", process, chat.MCPServerPatch{Command: ptr("node")}, nil, false},
		{"other arguments", process, chat.MCPServerPatch{Args: names("-y", "x")}, nil, false},
		{"other arguments of the same letters", process, chat.MCPServerPatch{Args: names("-", "y")}, nil, false},
		{"no arguments", process, chat.MCPServerPatch{Args: names()}, nil, false},
		{"another folder", process, chat.MCPServerPatch{Dir: ptr("/srv")}, nil, false},
		{"another host", address, chat.MCPServerPatch{URL: ptr("https://b/mcp?key=s3cret")}, nil, false},
		{"another path", address, chat.MCPServerPatch{URL: ptr("https://a/other?key=s3cret")}, nil, false},
		{"another command, and who may run it", process, chat.MCPServerPatch{Command: ptr("node"), AutoApproveTools: names("ls"), Trusted: ptr(true)}, []string{"ls"}, true},
		{"another command, that is trusted", process, chat.MCPServerPatch{Command: ptr("node"), Trusted: ptr(true)}, nil, true},
		{"another command, and what it asks for", process, chat.MCPServerPatch{Command: ptr("node"), DisabledAutoApproveTools: names("write")}, []string{"read", "new"}, false},

		{"the same command", process, chat.MCPServerPatch{Command: ptr("npx"), Args: names("-y"), Dir: ptr("")}, []string{"read"}, true},
		{"still no arguments", bare, chat.MCPServerPatch{Args: &[]string{}}, []string{"read"}, true},
		{"the address as it was shown", address, chat.MCPServerPatch{URL: ptr("https://a/mcp?key=•••")}, []string{"read"}, true},
		{"another environment", process, chat.MCPServerPatch{Env: &values{"A": ptr("other"), "C": ptr("c")}}, []string{"read"}, true},
		{"other headers", address, chat.MCPServerPatch{Headers: &values{"Authorization": ptr("other")}}, []string{"read"}, true},
		{"another name, and switched off", process, chat.MCPServerPatch{Name: ptr("f"), Disabled: ptr(true)}, []string{"read"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.patch.Apply(tt.server, []string{"read", "write", "new"})
			if err != nil {
				t.Fatal(err)
			}
			want := chat.Switches{DisabledTools: []string{"drop"}, AutoApproveTools: tt.auto, AlwaysAskTools: []string{"write"}, Trusted: tt.trust}
			if diff := cmp.Diff(want, got.Switches, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if before := allowing(stored()).Switches; cmp.Diff(before, tt.server.Switches) != "" {
				t.Errorf("the server that was given has changed: %+v", tt.server.Switches)
			}
		})
	}
}

func TestTheListOfToolsThatAskIsOfThoseThatWereSeen(t *testing.T) {
	t.Parallel()
	names := func(list ...string) *[]string { return &list }
	known := []string{"read", "write", "new"}
	for _, tt := range []struct {
		name   string
		asking []string
		seen   *[]string
		auto   []string
		always []string
	}{
		{"whoever says nothing has seen all", []string{"write"}, nil, []string{"read", "new"}, []string{"write"}},
		{"what came since goes on asking", []string{"write"}, names("read", "write"), []string{"read"}, []string{"write"}},
		{"what was seen and is no more is not allowed for later", []string{"write"}, names("read", "gone"), []string{"read"}, []string{"write"}},
		{"whoever has seen none allows none", nil, names(), []string{"read"}, []string{"write"}},
		{"what is listed asks, seen or not", []string{"read"}, names(), nil, []string{"write", "read"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := (chat.MCPServerPatch{DisabledAutoApproveTools: &tt.asking, KnownTools: tt.seen}).Apply(stored(), known)
			if err != nil {
				t.Fatal(err)
			}
			want := chat.Switches{DisabledTools: []string{"drop"}, AutoApproveTools: tt.auto, AlwaysAskTools: tt.always}
			if diff := cmp.Diff(want, got.Switches, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"read", "write", "new"}, known); diff != "" {
				t.Errorf("the list that was given has changed: %s", diff)
			}
		})
	}
	// Without the list it says nothing.
	if got, err := (chat.MCPServerPatch{KnownTools: names()}).Apply(stored(), known); err != nil || !got.SameSettings(stored()) {
		t.Errorf("got %v, %+v", err, got.Switches)
	}
}
