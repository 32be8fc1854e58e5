package repotest

import (
	"strings"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

var adoptTests = map[string]func(*bench){
	"of servers in a file the switches are stored, and nothing else": func(b *bench) {
		one, two := stdio("my files"), remote("two")
		one.Switches = chat.Switches{AutoApproveTools: []string{"ls"}, DisabledTools: []string{"rm"}, Trusted: true}
		one.Source, two.Source, two.Disabled = chat.SourceFile, chat.SourceFile, true
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{two, one}); err != nil {
			b.Fatal(err)
		}
		want := chat.MCPServer{ID: "my files", Name: "my files", Source: chat.SourceFile, Switches: noSwitches, Version: 1}
		want.AutoApproveTools, want.DisabledTools, want.Trusted = []string{"ls"}, []string{"rm"}, true
		b.same("one", want, b.stored("my files"))
		b.same("two", chat.MCPServer{ID: "two", Name: "two", Source: chat.SourceFile, Switches: noSwitches, Version: 1}, b.stored("two"))
		b.same("record", []chat.ServerChange{
			{ServerID: "my files", Version: 1, Action: chat.ActionCreated, By: "-mcp-config", Via: chat.ViaRule, After: shown(want)},
		}, b.history("my files"), cmpopts.IgnoreFields(chat.ServerChange{}, "At"))
		if all := string(b.bytesOf()); strings.Contains(all, secret) {
			b.Error("a secret of the file is in the database")
		}
	},
	"what the person switched stays, however often the file is read": func(b *bench) {
		file := []chat.MCPServer{stdio("one")}
		if err := b.AdoptMCPServers(b.ctx, file); err != nil {
			b.Fatal(err)
		}
		want := b.edit("one", chat.MCPServerPatch{AutoApproveTools: &[]string{"ls"}})
		file[0].DisabledTools = []string{"rm"}
		if err := b.AdoptMCPServers(b.ctx, append(file, stdio("two"))); err != nil {
			b.Fatal(err)
		}
		b.same("one", want, b.stored("one"))
		b.same("names", []string{"workspace", "one", "two"}, b.serverNames())
	},
	"another program under the name asks for everything, and other keys are no other program": func(b *bench) {
		for name, tt := range map[string]struct {
			server      chat.MCPServer
			keys, other func(*chat.MCPServer)
		}{
			"process": {stdio("process"), func(s *chat.MCPServer) { s.Env = map[string]string{"TOKEN": "new"} }, func(s *chat.MCPServer) { s.Args = []string{"x"} }},
			"address": {remote("address"), func(s *chat.MCPServer) { s.Headers = map[string]string{"X": "new"} }, func(s *chat.MCPServer) { s.URL = "https://example.org/" }},
		} {
			adopt := func(s chat.MCPServer) {
				b.Helper()
				if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{s}); err != nil {
					b.Fatal(err)
				}
			}
			server := tt.server
			adopt(server)
			want := b.edit(name, chat.MCPServerPatch{AutoApproveTools: &[]string{"ls"}, AlwaysAskTools: &[]string{"cp"}, DisabledTools: &[]string{"rm"}, Trusted: ptr(true)})
			tt.keys(&server)
			adopt(server)
			b.same("with other keys", want, b.stored(name))

			tt.other(&server)
			adopt(server)
			was := want
			want.AutoApproveTools, want.Trusted, want.Version = []string{}, false, 3
			b.same("another program", want, b.stored(name), made)
			record := b.history(name)
			b.same("record", chat.ServerChange{ServerID: name, Version: 3, Action: chat.ActionChanged, By: "-mcp-config", Via: chat.ViaRule, Before: shown(was), After: shown(want)},
				record[0], cmpopts.IgnoreFields(chat.ServerChange{}, "At"), made)
			adopt(server)
			b.same("the same again", want, b.stored(name), made)

			// What was allowed of this one is not allowed of the first.
			b.edit(name, chat.MCPServerPatch{AutoApproveTools: &[]string{"mv"}})
			adopt(tt.server)
			b.same("the first again", []string{}, b.stored(name).AutoApproveTools)
			b.same("version", 5, b.stored(name).Version)
			// Of what allows nothing there is nothing to take back.
			adopt(server)
			b.same("version when nothing was allowed", 5, b.stored(name).Version)
			b.edit(name, chat.MCPServerPatch{AutoApproveTools: &[]string{"mv"}})
			adopt(server)
			b.same("the program is known nevertheless", []string{"mv"}, b.stored(name).AutoApproveTools)
			if all := string(b.bytesOf()); strings.Contains(all, secret) {
				b.Error("a secret of the file is in the database")
			}
		}
	},
	"a server that leaves the file leaves its name, and comes back asking for everything": func(b *bench) {
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("one"), stdio("two")}); err != nil {
			b.Fatal(err)
		}
		b.edit("one", chat.MCPServerPatch{AutoApproveTools: &[]string{"ls"}})
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("two")}); err != nil {
			b.Fatal(err)
		}
		b.same("names", []string{"workspace", "two"}, b.serverNames())
		if h := b.history("one"); len(h) != 3 || h[0].Action != chat.ActionDeleted || h[0].By != "-mcp-config" {
			b.Errorf("record: %+v", h)
		}
		mine := b.server(stdio("one")) // the name is free
		b.is(b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("one"), stdio("two")}), chat.ErrConflict)
		if err := b.DeleteMCPServer(b.ctx, mine.ID, ada); err != nil {
			b.Fatal(err)
		}
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("one")}); err != nil {
			b.Fatal(err)
		}
		b.same("one", chat.MCPServer{ID: "one", Name: "one", Source: chat.SourceFile, Switches: noSwitches, Version: 4}, b.stored("one"))
	},
	"a name that a person's server has is a conflict, and nothing is adopted": func(b *bench) {
		b.server(stdio("one"))
		err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("first"), stdio("one")})
		b.is(err, chat.ErrConflict)
		if !strings.Contains(err.Error(), "“one”") || !strings.Contains(err.Error(), "rename") {
			b.Errorf("got %v", err)
		}
		b.same("names", []string{"workspace", "one"}, b.serverNames())
		b.is(b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("workspace")}), chat.ErrConflict)
	},
	"a name that is the id of another server is a conflict": func(b *bench) {
		one := b.server(stdio("one"))
		b.is(b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio(one.ID)}), chat.ErrConflict)
		if err := b.DeleteMCPServer(b.ctx, one.ID, ada); err != nil {
			b.Fatal(err)
		}
		b.is(b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio(one.ID)}), chat.ErrConflict)
	},
	"a server of a file that was deleted is there again, as new": func(b *bench) {
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("one")}); err != nil {
			b.Fatal(err)
		}
		b.edit("one", chat.MCPServerPatch{AutoApproveTools: &[]string{"ls"}})
		b.run(`UPDATE mcp_servers SET deleted_at = created_at WHERE id = 'one'`)
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("one")}); err != nil {
			b.Fatal(err)
		}
		b.same("one", chat.MCPServer{ID: "one", Name: "one", Source: chat.SourceFile, Switches: noSwitches, Version: 3}, b.stored("one"))
		if h := b.history("one"); len(h) != 3 || h[0].Action != chat.ActionCreated {
			b.Errorf("record: %+v", h)
		}
	},
	"processes that start at once with one file adopt it once": func(b *bench) {
		names := []string{"a", "b", "c", "d"}
		var errs [4]error
		var fns []func()
		for i := range errs {
			fns = append(fns, func() {
				var file []chat.MCPServer
				for j := range names {
					file = append(file, stdio(names[(i+j)%len(names)]))
				}
				errs[i] = b.AdoptMCPServers(b.ctx, file)
			})
		}
		atOnce(fns...)
		for _, err := range errs {
			if err != nil {
				b.Error(err)
			}
		}
		b.same("names", append([]string{"workspace"}, names...), b.serverNames())
		for _, name := range names {
			if n := len(b.history(name)); n != 1 {
				b.Errorf("server %s is recorded %d times", name, n)
			}
		}
	},
}
