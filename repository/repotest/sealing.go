package repotest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// bytesOf is what the database holds of tool servers: of SQLite every byte of
// its files, of PostgreSQL the rows.
func (b *bench) bytesOf() []byte {
	b.Helper()
	var all []byte
	if b.options.Path != "" {
		for _, end := range []string{"", "-wal"} {
			raw, err := os.ReadFile(b.options.Path + end)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				b.Fatal(err)
			}
			all = append(all, raw...)
		}
		return all
	}
	for _, table := range []string{"mcp_servers", "mcp_server_versions"} {
		all = append(all, b.text(`SELECT string_agg(CAST(r AS text), ' ') FROM `+table+` r`)...)
	}
	return all
}

func (b *bench) problem(s *repository.Store, id string) string {
	b.Helper()
	servers, err := s.MCPServers(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, server := range servers {
		if server.ID != id {
			continue
		}
		if server.Problem != "" && (server.Command != "" || server.URL != "" || server.Env != nil || server.Identity != "") {
			b.Errorf("with a problem it is %+v", server)
		}
		one, err := s.MCPServer(b.ctx, id)
		if err != nil {
			b.Fatal(err)
		}
		b.same("alone and in the list", server, one)
		return server.Problem
	}
	b.Fatalf("server %s is not listed", id)
	return ""
}

var sealTests = map[string]func(*bench){
	"no part of a connection is in the database's bytes": func(b *bench) {
		one, two := b.server(stdio("plain-one")), b.server(remote("plain-two"))
		b.edit(one.ID, chat.MCPServerPatch{Env: &map[string]*string{"TOKEN": ptr(secret + "changed")}, AutoApproveTools: &[]string{"plain-tool"}})
		b.edit(two.ID, chat.MCPServerPatch{Headers: &map[string]*string{"X-Key": ptr(secret + "changed")}, URL: ptr("https://example.com/" + secret + "other")})
		if err := b.DeleteMCPServer(b.ctx, two.ID, ada); err != nil {
			b.Fatal(err)
		}
		all := b.bytesOf()
		for _, plain := range []string{"plain-one", "plain-two", "plain-tool"} { // else it was not looked for in the right place
			if !bytes.Contains(all, []byte(plain)) {
				b.Errorf("%s is not there", plain)
			}
		}
		for _, hidden := range []string{secret, "TOKEN", "Authorization", "example.com", "--token"} {
			if bytes.Contains(all, []byte(hidden)) {
				b.Errorf("%s is there", hidden)
			}
		}
		b.same("sealed of what was deleted", "", b.text(`SELECT sealed FROM mcp_servers WHERE name = 'plain-two'`))
	},
	"one connection is sealed in another way each time, and has one identity": func(b *bench) {
		one, two := b.server(stdio("one")), b.server(stdio("two"))
		if one.Identity != two.Identity {
			b.Error("the identities differ")
		}
		first, second := b.text(`SELECT sealed FROM mcp_servers WHERE name = 'one'`), b.text(`SELECT sealed FROM mcp_servers WHERE name = 'two'`)
		if first == second || len(first) != len(second) || !strings.HasPrefix(first, "v1:") {
			b.Errorf("sealed as %s and %s", first, second)
		}
	},
	"a server that was stored with another key is listed with the problem, and is whole when it is entered again": func(b *bench) {
		was, other := b.server(stdio("one")), b.beside(key(2))
		if b.problem(b.Store, was.ID) != "" {
			b.Error("it has a problem under its own key")
		}
		if text := b.problem(other, was.ID); !strings.Contains(text, "right key") || !strings.Contains(text, "enter") {
			b.Errorf("the problem is %q", text)
		}
		if other.Identity(was) == b.Identity(was) {
			b.Error("identities do not depend on the key")
		}
		// Its tools can be switched, and that loses nothing.
		_, err := other.UpdateMCPServer(b.ctx, was.ID, patched(chat.MCPServerPatch{DisabledTools: &[]string{"rm"}}), grace)
		if err != nil {
			b.Fatal(err)
		}
		now := b.stored(was.ID)
		was.DisabledTools, was.Version, was.UpdatedAt = []string{"rm"}, 2, now.UpdatedAt
		b.same("under its own key", was, now)
		record, _, err := other.MCPServerVersions(b.ctx, was.ID, chat.Page{Limit: 10})
		if err != nil || len(record) != 2 || record[0].After.Command != "" || record[0].After.Name != "one" {
			b.Errorf("the record under the other key: %+v, %v", record, err)
		}
		// What is entered anew must be all of it: nothing can be kept.
		_, err = other.UpdateMCPServer(b.ctx, was.ID, patched(chat.MCPServerPatch{Command: ptr("x"), Env: &map[string]*string{"TOKEN": nil}}), grace)
		b.is(err, chat.ErrInvalid)
		got, err := other.UpdateMCPServer(b.ctx, was.ID, patched(chat.MCPServerPatch{Command: ptr("x"), Env: &map[string]*string{"TOKEN": ptr("new")}}), grace)
		if err != nil || got.Problem != "" || got.Command != "x" || got.Env["TOKEN"] != "new" || got.Identity == "" || got.DisabledTools[0] != "rm" {
			b.Fatalf("got %+v, %v", got, err)
		}
		if b.problem(other, was.ID) != "" || b.problem(b.Store, was.ID) == "" {
			b.Error("it was not stored with the other key")
		}
	},
	"without a key no server can be added, and tools can be switched": func(b *bench) {
		was, without := b.server(stdio("one")), b.beside(nil)
		_, err := without.CreateMCPServers(b.ctx, []chat.MCPServer{stdio("two")}, ada)
		b.is(err, chat.ErrConflict)
		if text := b.problem(without, was.ID); !strings.Contains(text, "without its key") {
			b.Errorf("the problem is %q", text)
		}
		_, err = without.UpdateMCPServer(b.ctx, was.ID, patched(chat.MCPServerPatch{Command: ptr("x")}), ada)
		b.is(err, chat.ErrConflict)
		for _, id := range []string{was.ID, "workspace"} {
			if _, err := without.UpdateMCPServer(b.ctx, id, patched(chat.MCPServerPatch{Trusted: ptr(true)}), ada); err != nil {
				b.Error(err)
			}
		}
		if id := without.Identity(was); id != "" {
			b.Errorf("the identity is %q", id)
		}
		if err := without.DeleteMCPServer(b.ctx, was.ID, ada); err != nil {
			b.Error(err)
		}
	},
	"a damaged row, and one that was put in another's place, is a problem of that server alone": func(b *bench) {
		one, two, three := b.server(stdio("one")), b.server(stdio("two")), b.server(stdio("three"))
		for _, damage := range []string{
			`(SELECT s.sealed FROM mcp_servers s WHERE s.name = 'two')`, `'v1:' || substr(sealed, 9)`, `'v2:' || substr(sealed, 4)`, `'v1:!'`, `''`,
		} {
			kept := b.text(`SELECT sealed FROM mcp_servers WHERE name = 'one'`)
			b.run(`UPDATE mcp_servers SET sealed = ` + damage + ` WHERE name = 'one'`)
			if b.problem(b.Store, one.ID) == "" || b.problem(b.Store, two.ID)+b.problem(b.Store, three.ID) != "" {
				b.Errorf("%s is not seen", damage)
			}
			b.run(`UPDATE mcp_servers SET sealed = '` + kept + `' WHERE name = 'one'`)
			b.same("put back", one, b.stored(one.ID))
		}
		b.run(`UPDATE mcp_servers SET transport = 'http' WHERE name = 'one'`)
		if b.problem(b.Store, one.ID) == "" {
			b.Error("another transport is not seen")
		}
	},
}
