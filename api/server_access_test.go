package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestOnlyTheOwnerManagesServers(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const detail = "Only the owner may add, change, test, restart and delete tool servers."
	refused := append([]operation{
		{"POST", "/mcp-servers", `not even JSON`, 0, ""},
		{"POST", "/mcp-servers/import?existing=x", `{}`, 0, ""},
		{"DELETE", "/mcp-servers/%00", "", 0, ""},
	}, ownersOperations...)
	for _, member := range []string{`"name":"n"`, `"command":"x"`, `"args":[]`, `"env":{}`, `"dir":""`, `"url":""`, `"headers":{}`, `"disabled":false`} {
		refused = append(refused,
			operation{"PATCH", "/mcp-servers/s1", `{` + member + `}`, 0, ""},
			operation{"PATCH", "/mcp-servers/s1", `{"trusted":true,` + member + `}`, 0, ""})
	}
	for _, op := range refused {
		for name, headers := range map[string][]string{
			"a token":  nil,
			"a cookie": {"Authorization", "Cookie: assent_session=" + session, "Origin: " + b.url},
		} {
			p := b.bad(op.method, op.path, op.body, headers...).problem(t, 403)
			if p["type"] != "/problems/forbidden" || p["title"] != "Forbidden" || p["detail"] != detail {
				t.Errorf("%s %s %s by %s: %v", op.method, op.path, op.body, name, p)
			}
		}
		b.bad(op.method, op.path, op.body, "Authorization").problem(t, 401)
		if call := b.svc.last(); call != "" {
			t.Errorf("%s %s %s: the service was asked %s", op.method, op.path, op.body, call)
		}
		p := b.bad(op.method, op.path, op.body, append([]string{"Origin: https://evil.example"}, asOwner...)...).problem(t, 403)
		if p["type"] != "/problems/cross-origin" {
			t.Errorf("%s %s from a foreign page: %v", op.method, op.path, p)
		}
	}
	body := `{"disabledTools":["a"],"autoApproveTools":["b"],"alwaysAskTools":["c"],"disabledAutoApproveTools":["c"],"knownTools":["c"],"trusted":false,"version":2}`
	if got := b.do("PATCH", "/mcp-servers/s1", body); got.status != 200 {
		t.Errorf("switches by another principal: answered %d %s", got.status, got.body)
	}
	if b.svc.by != (chat.Decider{Name: "ada", Via: chat.ViaAPI}) {
		t.Errorf("switched by %+v", b.svc.by)
	}
}

func TestWithoutAuthenticationEverybodyIsTheOwner(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.NoAuth = true })
	for _, op := range ownersOperations {
		if got := b.do(op.method, op.path, op.body, "Authorization"); got.status != op.status {
			t.Errorf("%s %s: answered %d %s", op.method, op.path, got.status, got.body)
		}
	}
}

func TestAnswersHoldNoSecret(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	patch := `{"headers":{"Authorization":"` + hidden + `"},"url":"https://x:` + hidden + `@example.com/?k=` + hidden + `"}`
	whole := `{"name":"web",` + strings.TrimPrefix(patch, "{")
	operations := []operation{
		{"GET", "/mcp-servers", "", 200, ""}, {"GET", "/mcp-servers/s1", "", 200, ""}, {"GET", "/mcp-servers/s1/versions", "", 200, ""},
		{"POST", "/mcp-servers", whole, 201, ""}, {"POST", "/mcp-servers/test", whole, 200, ""}, {"PATCH", "/mcp-servers/s1", patch, 200, ""},
		{"POST", "/mcp-servers/s1/test", patch, 200, ""}, {"POST", "/mcp-servers/s1/restart", "", 200, ""},
		{"POST", "/mcp-servers/import?existing=skip", `{"mcpServers":{"web":` + patch + `}}`, 201, ""},
	}
	for _, op := range operations {
		if got := b.do(op.method, op.path, op.body, asOwner...); got.status != op.status || strings.Contains(got.body, hidden) {
			t.Errorf("%s %s: answered %d %s", op.method, op.path, got.status, got.body)
		}
	}
	b.svc.err = fmt.Errorf("seal %s: %w", hidden, chat.ErrUnavailable)
	for _, op := range operations {
		if got := b.do(op.method, op.path, op.body, asOwner...); got.status != 503 || strings.Contains(got.body, hidden) {
			t.Errorf("%s %s: answered %d %s", op.method, op.path, got.status, got.body)
		}
	}
}

// Arguments and paths may hold a key, and what a process or an address answers
// may quote them. Who does not manage servers does not see them.
func TestWhatOthersThanTheOwnerSeeOfServers(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	failed := chat.ServerState{Phase: chat.ServerFailed, Error: "It ended: --key=" + hidden + " is wrong.", Stderr: []string{"I was given " + hidden}}
	b.svc.servers = []chat.ServerInfo{
		chat.InfoOf(chat.MCPServer{ID: "s1", Name: "one", Transport: chat.TransportStdio, Command: "npx", Args: []string{"-y", "--key=" + hidden}, Version: 1, CreatedAt: at, UpdatedAt: at}, failed, nil),
		chat.InfoOf(chat.MCPServer{ID: "s2", Name: "two", Transport: chat.TransportHTTP, URL: "https://example.com/mcp/" + hidden, Version: 1, CreatedAt: at, UpdatedAt: at}, failed, nil),
	}
	for i, server := range b.svc.servers {
		path := "/mcp-servers/" + server.ID
		b.svc.servers[0], b.svc.servers[i] = b.svc.servers[i], b.svc.servers[0] // the first is the one that is read
		for _, op := range []operation{
			{"GET", "/mcp-servers", "", 200, ""}, {"GET", path, "", 200, ""}, {"PATCH", path, `{"trusted":true}`, 200, ""}, {"GET", path + "/versions", "", 200, ""},
		} {
			if got := b.do(op.method, op.path, op.body, asOwner...); got.status != 200 || !strings.Contains(got.body, hidden) {
				t.Errorf("%s %s by the owner: answered %d %s", op.method, op.path, got.status, got.body)
			}
			for name, headers := range map[string][]string{"a token": nil, "a cookie": {"Authorization", "Cookie: assent_session=" + session, "Origin: " + b.url}} {
				got := b.do(op.method, op.path, op.body, headers...)
				if got.status != 200 || strings.Contains(got.body, hidden) || strings.Contains(got.body, "stderr") || !strings.Contains(got.body, "•••") {
					t.Errorf("%s %s by %s: answered %d %s", op.method, op.path, name, got.status, got.body)
				}
				if states := !strings.HasSuffix(op.path, "versions"); states != strings.Contains(got.body, `"error":"It cannot be reached. The owner can see why."`) {
					t.Errorf("%s %s by %s says of the failure: %s", op.method, op.path, name, got.body)
				}
			}
		}
	}
	ready := chat.InfoOf(chat.MCPServer{ID: "s1", Name: "one", Transport: chat.TransportStdio, Command: "npx"}, chat.ServerState{Phase: chat.ServerReady}, nil)
	b.svc.servers = []chat.ServerInfo{ready}
	if got := b.do("GET", "/mcp-servers/s1", ""); strings.Contains(got.body, "error") || strings.Contains(got.body, "•••") {
		t.Errorf("of a server without arguments that is ready: %s", got.body)
	}
}
