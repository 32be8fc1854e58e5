package api

import (
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestImportTakesAFileAsItIs(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for body, want := range map[string]string{
		`{"mcpServers":{"a":{"command":"x","env":{"N":"1"}}},"theme":1.10}` + "\n": "",
		"\ufeff{ \"servers\": {} }":                 `{ "servers": {} }`,
		" \n{\"mcpServers\":{\"a\":{\"args\":[]}}}": "",
	} {
		if want == "" {
			want = body
		}
		if got := b.bad("POST", "/mcp-servers/import", body, asOwner...); got.status != 201 || got.body != `{"servers":[],"skipped":[]}` {
			t.Errorf("%q: answered %d %s", body, got.status, got.body)
		}
		if b.svc.file != want {
			t.Errorf("the service was given %q, want %q", b.svc.file, want)
		}
	}
	if b.svc.by != (chat.Decider{Name: "owner", Via: chat.ViaAPI}) {
		t.Errorf("imported by %+v", b.svc.by)
	}
	for query, want := range map[string]string{"": "ImportMCPServers", "?existing=": "ImportMCPServers", "?existing=refuse": "ImportMCPServers", "?existing=skip": "ImportMCPServers skip"} {
		got := b.bad("POST", "/mcp-servers/import"+query, `{}`, asOwner...)
		if call := b.svc.last(); got.status != 201 || call != want {
			t.Errorf("%q: answered %d, and the service was asked %s", query, got.status, call)
		}
		if skipped := strings.HasSuffix(got.body, `,"skipped":["off"]}`); skipped != strings.HasSuffix(want, "skip") {
			t.Errorf("%q: answered %s", query, got.body)
		}
	}
	for _, tt := range []struct{ path, body, detail string }{
		{"?existing=replace", `{}`, "existing must be one of refuse, skip."},
		{"", ` `, "The body is empty; it must be a JSON object."},
		{"", `["hunter2"]`, "The body must be an object."},
		{"", `"hunter2"`, "The body must be an object."},
		{"", `{"mcpServers":{"a":{"env":{"A":"hunter2`, "The body is not valid JSON: it ends too early."},
		{"", `{"mcpServers":{"a":{"env":{"A":hunter2}}}}`, "The body is not valid JSON at byte 32."},
		{"", `{"mcpServers":{"a":{"env":{"A":"hunter2\u0000"}}}}`, `The body holds the character \u0000, which cannot be stored.`},
		{"", "{\"mcpServers\":{\"a\":{\"env\":{\"A\":\"hunter2\xff\"}}}}", "The body is not valid UTF-8."},
		{"", `{} {}`, "The body holds more than one JSON value."},
	} {
		got := b.bad("POST", "/mcp-servers/import"+tt.path, tt.body, asOwner...)
		if p := got.problem(t, 400); p["detail"] != tt.detail || strings.Contains(got.body, "hunter2") {
			t.Errorf("%q: %s, want %s", tt.body, got.body, tt.detail)
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %s", call)
	}
}
