package repotest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

// secret is a text of which every secret of the tests holds a part.
const secret = "hunter2-"

func stdio(name string) chat.MCPServer {
	return chat.MCPServer{
		Name: name, Transport: chat.TransportStdio, Command: "/opt/" + secret + "bin/serve", Args: []string{"--token", secret + "arg", "<&>"},
		Env: map[string]string{"TOKEN": secret + "env", "EMPTY": ""}, Dir: "/srv/" + secret + "dir",
	}
}

func remote(name string) chat.MCPServer {
	return chat.MCPServer{
		Name: name, Transport: chat.TransportHTTP, URL: "https://ada:" + secret + "user@example.com/" + secret + "path?key=" + secret + "query",
		Headers: map[string]string{"Authorization": "Bearer " + secret + "header"},
	}
}

// server adds a tool server.
func (b *bench) server(s chat.MCPServer) chat.MCPServer {
	b.Helper()
	made, err := b.CreateMCPServers(b.ctx, []chat.MCPServer{s}, ada)
	if err != nil || len(made) != 1 {
		b.Fatal(made, err)
	}
	return made[0]
}

// edit changes a tool server by a patch.
func (b *bench) edit(id string, p chat.MCPServerPatch) chat.MCPServer {
	b.Helper()
	return must[chat.MCPServer](b)(b.UpdateMCPServer(b.ctx, id, patched(p), grace))
}

func patched(p chat.MCPServerPatch) func(chat.MCPServer) (chat.MCPServer, error) {
	return func(s chat.MCPServer) (chat.MCPServer, error) { return p.Apply(s, nil) }
}

func (b *bench) stored(id string) chat.MCPServer {
	b.Helper()
	return must[chat.MCPServer](b)(b.MCPServer(b.ctx, id))
}

func (b *bench) serverNames() []string {
	b.Helper()
	servers, err := b.MCPServers(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	names := []string{}
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

func (b *bench) history(id string) []chat.ServerChange {
	b.Helper()
	changes, next, err := b.MCPServerVersions(b.ctx, id, chat.Page{Limit: 100})
	if err != nil || next != "" {
		b.Fatal(next, err)
	}
	return changes
}

func shown(s chat.MCPServer) *chat.ServerSettings {
	v := s.Shown()
	return &v
}

var (
	noSwitches = chat.Switches{DisabledTools: []string{}, AutoApproveTools: []string{}, AlwaysAskTools: []string{}}
	made       = cmpopts.IgnoreFields(chat.MCPServer{}, "ID", "Identity", "CreatedAt", "UpdatedAt")
)

var serverTests = map[string]func(*bench){
	"a new database has the built-in server, whose tools that read run without asking": func(b *bench) {
		want := chat.MCPServer{ID: "workspace", Name: "workspace", Source: chat.SourceBuiltIn, Transport: chat.TransportBuiltIn, Switches: noSwitches, Version: 1}
		want.AutoApproveTools = []string{"list_files", "read_file"}
		b.same("servers", []chat.MCPServer{want}, must[[]chat.MCPServer](b)(b.MCPServers(b.ctx)))
		b.same("server", want, b.stored("workspace"))
		b.same("record", []chat.ServerChange{
			{ServerID: "workspace", Version: 1, Action: chat.ActionCreated, By: "assent", Via: chat.ViaRule, After: shown(want)},
		}, b.history("workspace"), cmpopts.IgnoreFields(chat.ServerChange{}, "At"))
	},
	"servers are read as they were added, in their order": func(b *bench) {
		one, two := stdio("one"), remote("two")
		one.Switches = chat.Switches{DisabledTools: []string{"rm"}, AutoApproveTools: []string{"ls\x00", "€"}, AlwaysAskTools: []string{"mv"}, Trusted: true}
		two.Disabled = true
		got, err := b.CreateMCPServers(b.ctx, []chat.MCPServer{one, two}, ada)
		if err != nil {
			b.Fatal(err)
		}
		one.Source, one.Version, two.Source, two.Version, two.Switches = chat.SourceSettings, 1, chat.SourceSettings, 1, noSwitches
		b.same("added", []chat.MCPServer{one, two}, got, made)
		for _, s := range got {
			if s.ID == "" || s.CreatedAt.IsZero() || !s.CreatedAt.Equal(s.UpdatedAt) || len(s.Identity) != 64 || s.Identity != b.Identity(s) {
				b.Errorf("got %+v", s)
			}
			b.same("read", s, b.stored(s.ID))
		}
		b.server(stdio("three"))
		b.same("order", []string{"workspace", "one", "two", "three"}, b.serverNames())
		none, err := b.CreateMCPServers(b.ctx, nil, ada)
		if err != nil || len(none) != 0 {
			b.Errorf("none: %v, %v", none, err)
		}
	},
	"two servers of one name are a conflict, and of several all or none are added": func(b *bench) {
		b.server(stdio("one"))
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("filed")}); err != nil {
			b.Fatal(err)
		}
		for _, names := range [][]string{{"two", "one"}, {"two", "two"}, {"two", "workspace"}, {"two", "filed"}} {
			_, err := b.CreateMCPServers(b.ctx, []chat.MCPServer{stdio(names[0]), stdio(names[1])}, ada)
			b.is(err, chat.ErrConflict)
			if !strings.Contains(err.Error(), names[1]) {
				b.Errorf("the conflict does not name %s: %v", names[1], err)
			}
		}
		b.same("names", []string{"workspace", "one", "filed"}, b.serverNames())
		two := b.server(stdio("two"))
		_, err := b.UpdateMCPServer(b.ctx, two.ID, patched(chat.MCPServerPatch{Name: ptr("one")}), ada)
		b.is(err, chat.ErrConflict)
		b.same("unharmed", two, b.stored(two.ID))
		if err := b.DeleteMCPServer(b.ctx, two.ID, ada); err != nil {
			b.Fatal(err)
		}
		if again := b.server(stdio("two")); again.ID == two.ID {
			b.Error("an id is given a second time")
		}
	},
	"of two that add one name at once one wins": func(b *bench) {
		for round := range rounds {
			var errs [2]error
			add := func(i int) func() {
				return func() {
					_, errs[i] = b.CreateMCPServers(b.ctx, []chat.MCPServer{stdio(fmt.Sprint("round ", round))}, ada)
				}
			}
			atOnce(add(0), add(1))
			if (errs[0] == nil) == (errs[1] == nil) {
				b.Fatal(errs)
			}
			for _, err := range errs {
				if err != nil {
					b.is(err, chat.ErrConflict)
				}
			}
		}
	},
	"a change is a version, and one that changes nothing is none": func(b *bench) {
		was := b.server(stdio("old"))
		got := b.edit(was.ID, chat.MCPServerPatch{
			Name: ptr("new"), Args: &[]string{"-v"}, Env: &map[string]*string{"TOKEN": nil, "MORE": ptr("x")}, Disabled: ptr(true),
			AutoApproveTools: &[]string{"ls"}, Version: ptr(1),
		})
		want := was
		want.Name, want.Args, want.Disabled, want.AutoApproveTools, want.Version = "new", []string{"-v"}, true, []string{"ls"}, 2
		want.Env = map[string]string{"TOKEN": secret + "env", "MORE": "x"}
		b.same("changed", want, got, made)
		if got.ID != was.ID || got.Identity == was.Identity || !got.CreatedAt.Equal(was.CreatedAt) || got.UpdatedAt.Before(was.UpdatedAt) {
			b.Errorf("got %+v", got)
		}
		b.same("read", got, b.stored(was.ID))
		b.same("again", got, b.edit(was.ID, chat.MCPServerPatch{Name: ptr("new"), AutoApproveTools: &[]string{"ls"}}))
		_, err := b.UpdateMCPServer(b.ctx, was.ID, patched(chat.MCPServerPatch{Name: ptr("newer"), Version: ptr(1)}), ada)
		b.is(err, chat.ErrConflict)
		b.same("unharmed", got, b.stored(was.ID))
		if n := len(b.history(was.ID)); n != 2 {
			b.Errorf("%d entries", n)
		}
	},
	"nobody else changes a server that is being changed": func(b *bench) {
		held := false
		_, err := b.UpdateMCPServer(b.ctx, "workspace", func(s chat.MCPServer) (chat.MCPServer, error) {
			held, s.Trusted = b.held("workspace"), true
			return s, nil
		}, ada)
		if err != nil || !held || b.held("workspace") {
			b.Errorf("held while it is changed: %v, after: %v, %v", held, b.held("workspace"), err)
		}
	},
	"what of a server never changes stays, whatever an edit says": func(b *bench) {
		was := b.server(stdio("one"))
		got := must[chat.MCPServer](b)(b.UpdateMCPServer(b.ctx, was.ID, func(s chat.MCPServer) (chat.MCPServer, error) {
			s.ID, s.Source, s.Transport, s.Version, s.Name = "x", chat.SourceBuiltIn, chat.TransportHTTP, 77, "two"
			return s, nil
		}, ada))
		was.Name, was.Version, was.UpdatedAt = "two", 2, got.UpdatedAt
		b.same("server", was, got)
	},
	"of what is built in, or in a file, the switches alone are changed": func(b *bench) {
		if err := b.AdoptMCPServers(b.ctx, []chat.MCPServer{stdio("filed")}); err != nil {
			b.Fatal(err)
		}
		for _, id := range []string{"workspace", "filed"} {
			was := b.stored(id)
			got := b.edit(id, chat.MCPServerPatch{AutoApproveTools: &[]string{"read_file"}, AlwaysAskTools: &[]string{"list_files"}, DisabledTools: &[]string{"delete_file"}, Trusted: ptr(true)})
			want := was
			want.Version = 2
			want.Switches = chat.Switches{DisabledTools: []string{"delete_file"}, AutoApproveTools: []string{"read_file"}, AlwaysAskTools: []string{"list_files"}, Trusted: true}
			b.same("changed", want, got)
			for _, edit := range []func(*chat.MCPServer){
				func(s *chat.MCPServer) { s.Name = "other" }, func(s *chat.MCPServer) { s.Disabled = true }, func(s *chat.MCPServer) { s.Command = "x" },
			} {
				_, err := b.UpdateMCPServer(b.ctx, id, func(s chat.MCPServer) (chat.MCPServer, error) { edit(&s); return s, nil }, ada)
				b.is(err, chat.ErrConflict)
			}
			b.is(b.DeleteMCPServer(b.ctx, id, ada), chat.ErrConflict)
			b.same("unharmed", got, b.stored(id))
		}
	},
	"every change is recorded: who, by what way, before and after, and no secret": func(b *bench) {
		v1 := b.server(stdio("old"))
		v2 := b.edit(v1.ID, chat.MCPServerPatch{Trusted: ptr(true)})
		v3 := b.edit(v1.ID, chat.MCPServerPatch{Env: &map[string]*string{"TOKEN": ptr(secret + "new"), "EMPTY": nil}})
		if err := b.DeleteMCPServer(b.ctx, v1.ID, ada); err != nil {
			b.Fatal(err)
		}
		got := b.history(v1.ID)
		want := []chat.ServerChange{
			{ServerID: v1.ID, Version: 4, Action: chat.ActionDeleted, By: "ada", Via: chat.ViaAPI, Before: shown(v3)},
			{ServerID: v1.ID, Version: 3, Action: chat.ActionChanged, By: "grace", Via: chat.ViaWeb, Before: shown(v2), After: shown(v3), Secrets: true},
			{ServerID: v1.ID, Version: 2, Action: chat.ActionChanged, By: "grace", Via: chat.ViaWeb, Before: shown(v1), After: shown(v2)},
			{ServerID: v1.ID, Version: 1, Action: chat.ActionCreated, By: "ada", Via: chat.ViaAPI, After: shown(v1)},
		}
		b.same("record", want, got, cmpopts.IgnoreFields(chat.ServerChange{}, "At"))
		var paged []chat.ServerChange
		cursor := ""
		for range 10 {
			page, next, err := b.MCPServerVersions(b.ctx, v1.ID, chat.Page{Limit: 1, Cursor: cursor})
			if err != nil || len(page) != 1 || page[0].At.IsZero() {
				b.Fatal(page, err)
			}
			paged = append(paged, page...)
			if cursor = next; next == "" {
				break
			}
		}
		b.same("page by page", got, paged)
		_, _, err := b.MCPServerVersions(b.ctx, v1.ID, chat.Page{Limit: 1, Cursor: "x"})
		b.is(err, chat.ErrMalformed)
		_, _, err = b.MCPServerVersions(b.ctx, "none", chat.Page{Limit: 1})
		b.is(err, chat.ErrNotFound)
	},
	"a server that is not there is not found, one that was deleted is gone": func(b *bench) {
		was := b.server(stdio("x"))
		if err := b.DeleteMCPServer(b.ctx, was.ID, ada); err != nil {
			b.Fatal(err)
		}
		b.same("listed", []string{"workspace"}, b.serverNames())
		for id, want := range map[string]error{"none": chat.ErrNotFound, was.ID: chat.ErrGone} {
			_, err := b.MCPServer(b.ctx, id)
			b.is(err, want)
			_, err = b.UpdateMCPServer(b.ctx, id, patched(chat.MCPServerPatch{Trusted: ptr(true)}), ada)
			b.is(err, want)
			b.is(b.DeleteMCPServer(b.ctx, id, ada), want)
		}
	},
	"changes of one server that race are all kept, each as one version": func(b *bench) {
		was := b.server(stdio("x"))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := b.UpdateMCPServer(b.ctx, was.ID, func(s chat.MCPServer) (chat.MCPServer, error) {
					s.Switches = s.WithAutoApprove(fmt.Sprint("tool ", i), true)
					return s, nil
				}, ada); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		now := b.stored(was.ID)
		if len(now.AutoApproveTools) != 8 || now.Version != 9 {
			b.Fatalf("got %+v", now)
		}
		for i, c := range b.history(was.ID) {
			if c.Version != 9-i || c.After.Version != c.Version || len(c.After.AutoApproveTools) != c.Version-1 {
				b.Errorf("entry %d is version %d: %+v", i, c.Version, c.After)
			}
		}
	},
	"there are only so many servers": func(b *bench) {
		var many []chat.MCPServer
		for i := range 200 {
			many = append(many, remote(fmt.Sprint(i)))
		}
		got, err := b.CreateMCPServers(b.ctx, many, ada)
		if err != nil {
			b.Fatal(err)
		}
		_, err = b.CreateMCPServers(b.ctx, []chat.MCPServer{remote("one more")}, ada)
		b.is(err, chat.ErrInvalid)
		if err := b.DeleteMCPServer(b.ctx, got[0].ID, ada); err != nil {
			b.Fatal(err)
		}
		b.server(remote("in its place"))
	},
	"the policy of a topic has the switches of a server, and the mode of the assistant": func(b *bench) {
		server := b.server(stdio("x"))
		server = b.edit(server.ID, chat.MCPServerPatch{AutoApproveTools: &[]string{"ls"}, Trusted: ptr(true)})
		assistant := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "a", Model: "m", Mode: chat.ModeTrustedReadOnly}))
		topic, _, err := b.CreateTopic(b.ctx, chat.NewTopic{Model: "m", AssistantID: assistant.ID})
		if err != nil || topic.AssistantID != assistant.ID {
			b.Fatal(topic, err)
		}
		policy := func(serverID string) chat.TopicPolicy {
			b.Helper()
			return must[chat.TopicPolicy](b)(b.TopicPolicy(b.ctx, topic.ID, serverID))
		}
		b.same("switches", &server.Switches, policy(server.ID).Switches)
		for _, none := range []string{"", "none"} {
			if got := policy(none).Switches; got != nil {
				b.Errorf("the switches of %q are %+v", none, got)
			}
		}
		b.same("modes", []chat.Mode{chat.ModeDefault, chat.ModeTrustedReadOnly}, policy("").Modes)
		must[chat.Assistant](b)(b.UpdateAssistant(b.ctx, assistant.ID, chat.AssistantPatch{Mode: ptr(chat.ModeAskAll)}))
		b.same("modes, later", []chat.Mode{chat.ModeDefault, chat.ModeAskAll}, policy("").Modes)
		if err := b.DeleteAssistant(b.ctx, assistant.ID); err != nil {
			b.Fatal(err)
		}
		b.same("modes of a deleted assistant", []chat.Mode{chat.ModeDefault, chat.ModeAskAll}, policy("").Modes)
		if err := b.DeleteMCPServer(b.ctx, server.ID, ada); err != nil {
			b.Fatal(err)
		}
		if got := policy(server.ID).Switches; got != nil {
			b.Errorf("a deleted server has switches: %+v", got)
		}
	},
}
