package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestServersAreTakenAsTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		name, body string
		want       chat.MCPServer
	}{
		{
			"a command", `{"name":" Ä/b ","command":"x","args":["","a b"],"env":{"A.B":"1","":""},"dir":"/d","disabled":true}`,
			chat.MCPServer{Name: " Ä/b ", Transport: chat.TransportStdio, Command: "x", Args: []string{"", "a b"}, Env: map[string]string{"A.B": "1", "": ""}, Dir: "/d", Disabled: true},
		},
		{
			"an address", `{"name":"n","url":"https://u:p@example.com/?k=v","headers":{"Authorization":"Bearer x"}}`,
			chat.MCPServer{Name: "n", Transport: chat.TransportHTTP, URL: "https://u:p@example.com/?k=v", Headers: map[string]string{"Authorization": "Bearer x"}},
		},
		{"nothing but a name", `{"name":"n"}`, chat.MCPServer{Name: "n", Transport: chat.TransportStdio}},
		{"a transport against the rest", `{"name":"n","transport":"stdio","url":"x"}`, chat.MCPServer{Name: "n", Transport: chat.TransportStdio, URL: "x"}},
		{"the other", `{"name":"n","transport":"http","command":"x"}`, chat.MCPServer{Name: "n", Transport: chat.TransportHTTP, Command: "x"}},
		{"a name of 64 characters", `{"name":"` + strings.Repeat("é", 64) + `"}`, chat.MCPServer{Name: strings.Repeat("é", 64), Transport: chat.TransportStdio}},
	} {
		if strings.Contains(tt.body, `"":""`) { // an environment variable without a name
			b.bad("POST", "/mcp-servers", tt.body, asOwner...).problem(t, 400)
			tt.body = strings.Replace(tt.body, `,"":""`, "", 1)
			delete(tt.want.Env, "")
		}
		tt.want.Source = chat.SourceSettings
		for path, status := range map[string]int{"/mcp-servers": 201, "/mcp-servers/test": 200} {
			b.svc.server = chat.MCPServer{}
			got := b.do("POST", path, tt.body, asOwner...)
			if got.status != status {
				t.Errorf("%s, %s: answered %d %s", tt.name, path, got.status, got.body)
			}
			if diff := cmp.Diff(tt.want, b.svc.server); diff != "" {
				t.Errorf("%s, %s: the service was given (-want +got):\n%s", tt.name, path, diff)
			}
		}
	}
	if got := b.do("POST", "/mcp-servers", `{"name":"n"}`, asOwner...); got.header.Get("Location") != "/mcp-servers/s1" {
		t.Errorf("Location is %q", got.header.Get("Location"))
	}
	if b.svc.by != (chat.Decider{Name: "owner", Via: chat.ViaAPI}) {
		t.Errorf("added by %+v", b.svc.by)
	}
}

func TestChangesOfServersAreTakenAsTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	name, empty, yes, no, version, value := "n", "", true, false, 3, "v"
	pairs := map[string]*string{"A": &value, "B": nil, "C": &empty}
	for _, tt := range []struct {
		body string
		want chat.MCPServerPatch
	}{
		{`{"name":"n","command":"","args":[],"dir":"","url":"","disabled":false,"version":3}`, chat.MCPServerPatch{Name: &name, Command: &empty, Args: &[]string{}, Dir: &empty, URL: &empty, Disabled: &no, Version: &version}},
		{`{"env":{"A":"v","B":null,"C":""},"headers":{}}`, chat.MCPServerPatch{Env: &pairs, Headers: &map[string]*string{}}},
		{`{"headers":{"A":"v","B":null,"C":""}}`, chat.MCPServerPatch{Headers: &pairs}},
		{`{"disabledTools":["a","a"],"autoApproveTools":[],"alwaysAskTools":["b"],"disabledAutoApproveTools":[],"knownTools":[],"trusted":true}`, chat.MCPServerPatch{
			DisabledTools: &[]string{"a", "a"}, AutoApproveTools: &[]string{}, AlwaysAskTools: &[]string{"b"}, DisabledAutoApproveTools: &[]string{}, KnownTools: &[]string{}, Trusted: &yes,
		}},
		{`{"disabledAutoApproveTools":["b"],"knownTools":["a","b"]}`, chat.MCPServerPatch{DisabledAutoApproveTools: &[]string{"b"}, KnownTools: &[]string{"a", "b"}}},
	} {
		for method, path := range map[string]string{"PATCH": "/mcp-servers/s1", "POST": "/mcp-servers/s1/test"} {
			b.svc.serverPatch = chat.MCPServerPatch{}
			if got := b.do(method, path, tt.body, asOwner...); got.status != 200 {
				t.Errorf("%s %s: answered %d %s", path, tt.body, got.status, got.body)
			}
			if diff := cmp.Diff(tt.want, b.svc.serverPatch); diff != "" {
				t.Errorf("%s %s: the service was given (-want +got):\n%s", path, tt.body, diff)
			}
		}
	}
	for _, body := range []string{"", "{}", " "} { // a trial may change nothing
		b.svc.serverPatch = chat.MCPServerPatch{Name: &name}
		got := b.bad("POST", "/mcp-servers/s1/test", body, asOwner...)
		if want := `{"state":{"phase":"failed","error":"the process ended","stderr":["no"]},"tools":[]}`; got.status != 200 || got.body != want {
			t.Errorf("%q: answered %d %s, want %s", body, got.status, got.body, want)
		}
		if diff := cmp.Diff(chat.MCPServerPatch{}, b.svc.serverPatch); diff != "" {
			t.Errorf("%q: the service was given (-want +got):\n%s", body, diff)
		}
	}
	if got := b.do("POST", "/mcp-servers/test", `{"name":"n"}`, asOwner...); !strings.Contains(got.body, `"maximum":12345678901234567890`) {
		t.Errorf("digits of a schema are lost: %s", got.body)
	}
}

// badServers are members that no server has. They are tried in every request
// that describes a server.
var badServers = []struct{ members, detail string }{
	{`"name":""`, "name"}, // two words for it: see the test
	{`"name":"` + strings.Repeat("é", 65) + `"`, "name must have at most 64 characters."},
	{`"name":7`, "name must be a string."},
	{`"command":["hunter2"]`, "command must be a string."},
	{`"command":"` + strings.Repeat("hunter2", 600) + `"`, "command must have at most 4096 characters."},
	{`"args":"hunter2"`, "args must be an array."},
	{`"args":["a",{"x":"hunter2"}]`, "args/1 must be a string."},
	{`"args":[` + strings.TrimSuffix(strings.Repeat(`"hunter2",`, 201), ",") + `]`, "args must have at most 200 items."},
	{`"args":["a","` + strings.Repeat("hunter2", 2400) + `"]`, "args/1 must have at most 16384 characters."},
	{`"env":["hunter2"]`, "env must be an object."},
	{`"env":null`, "env must be an object."},
	{`"env":{"A":7}`, "env/A must be a string."},
	{`"env":{"A":{"hunter2":1}}`, "env/A must be a string."},
	{`"env":{"A":"hunter2","A":"x"}`, "env/A is there twice."},
	{`"env":{"A":"x","":"hunter2"}`, "env must have names of 1 to 256 characters."},
	{`"env":{"` + strings.Repeat("é", 257) + `":"hunter2"}`, "env must have names of 1 to 256 characters."},
	{`"env":{` + manyPairs(201) + `}`, "env must have at most 200 members."},
	{`"env":{"A":"x","a/b.c[0]":"` + strings.Repeat("hunter2", 2400) + `"}`, "env/a~1b.c[0] must have at most 16384 characters."},
	{`"headers":"hunter2"`, "headers must be an object."},
	{`"headers":{"X":true}`, "headers/X must be a string."},
	{`"headers":{"":"hunter2"}`, "headers must have names of 1 to 256 characters."},
	{`"headers":{` + manyPairs(201) + `}`, "headers must have at most 200 members."},
	{`"headers":{"X":"` + strings.Repeat("hunter2", 2400) + `"}`, "headers/X must have at most 16384 characters."},
	{`"dir":"` + strings.Repeat("hunter2", 600) + `"`, "dir must have at most 4096 characters."},
	{`"url":"` + strings.Repeat("hunter2", 1200) + `"`, "url must have at most 8192 characters."},
	{`"url":{"hunter2":1}`, "url must be a string."},
	{`"disabled":"hunter2"`, "disabled must be a boolean."},
	{`"disabled":null`, "disabled must be a boolean."},
	{`"source":"hunter2"`, "source is not a member that this request has."},
	{`"id":"hunter2"`, "id is not a member that this request has."},
	{`"Command":"hunter2"`, "Command is not a member that this request has."},
	{`"command":"\u0000hunter2"`, `The body holds the character \u0000, which cannot be stored.`},
	{`"env":{"A":"hunter2\ud800"}`, "The body holds half of a surrogate pair, which is no character."},
	{`"env":{"A":"hunter2}`, "The body is not valid JSON: it ends too early."},
	{`"env":{"A":hunter2}`, "The body is not valid JSON at byte"},
}

func manyPairs(n int) string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf(`"X%d":"hunter2"`, i))
	}
	return strings.Join(pairs, ",")
}

func TestServersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	refuse := func(method, path, body, detail string) {
		t.Helper()
		got := b.bad(method, path, body, asOwner...)
		if p := got.problem(t, 400); !strings.HasPrefix(fmt.Sprint(p["detail"]), detail) {
			t.Errorf("%s %s %.60s: %v, want %s", method, path, body, p["detail"], detail)
		}
		if strings.Contains(got.body, "hunter2") {
			t.Errorf("%s %s %.60s: the problem repeats a value: %s", method, path, body, got.body)
		}
		if call := b.svc.last(); call != "" {
			t.Errorf("%s %s %.60s: the service was asked %s", method, path, body, call)
		}
	}
	for _, tt := range badServers {
		for _, path := range []string{"/mcp-servers", "/mcp-servers/test"} {
			body := `{"name":"n",` + tt.members + `}`
			if strings.HasPrefix(tt.members, `"name"`) {
				body = `{` + tt.members + `}`
			}
			refuse("POST", path, body, tt.detail)
		}
		refuse("PATCH", "/mcp-servers/s1", `{`+tt.members+`}`, tt.detail)
		refuse("POST", "/mcp-servers/s1/test", `{`+tt.members+`}`, tt.detail)
	}
	for _, path := range []string{"/mcp-servers", "/mcp-servers/test"} {
		refuse("POST", path, `{"command":"hunter2"}`, "name is required.")
		refuse("POST", path, `{"name":""}`, "name is required.")
		refuse("POST", path, `{"name":"n","transport":"hunter2"}`, "transport must be one of stdio, http.")
		refuse("POST", path, `{"name":"n","transport":"built-in"}`, "transport must be one of stdio, http.")
		refuse("POST", path, `{"name":"n","transport":""}`, "transport must be one of stdio, http.")
		refuse("POST", path, `{"name":"n","env":{"A":null}}`, "env/A must be a string.")
		refuse("POST", path, `{"name":"n","headers":{"A":null}}`, "headers/A must be a string.")
		refuse("POST", path, `{"name":"n","trusted":true}`, "trusted is not a member that this request has.")
		refuse("POST", path, `["hunter2"]`, "The body must be an object.")
	}
	long := `"` + strings.Repeat("é", 257) + `"`
	for method, path := range map[string]string{"PATCH": "/mcp-servers/s1", "POST": "/mcp-servers/s1/test"} {
		refuse(method, path, `{"name":""}`, "name must not be empty.")
		refuse(method, path, `{"transport":"http"}`, "transport is not a member that this request has.")
		refuse(method, path, `{"trusted":"hunter2"}`, "trusted must be a boolean.")
		refuse(method, path, `{"trusted":true,"version":0}`, "version must be at least 1.")
		refuse(method, path, `{"trusted":true,"version":"1"}`, "version must be an integer of at most 32 bits.")
		refuse(method, path, `null`, "The body must be an object.")
		for _, list := range []string{"disabledTools", "autoApproveTools", "alwaysAskTools", "disabledAutoApproveTools", "knownTools"} {
			refuse(method, path, `{"`+list+`":null}`, list+" must be an array.")
			refuse(method, path, `{"`+list+`":{"hunter2":1}}`, list+" must be an array.")
			refuse(method, path, `{"`+list+`":["a",1]}`, list+"/1 must be a string.")
			refuse(method, path, `{"`+list+`":["a",""]}`, list+"/1 must not be empty.")
			refuse(method, path, `{"`+list+`":["a",`+long+`]}`, list+"/1 must have at most 256 characters.")
			refuse(method, path, `{"`+list+`":[`+strings.TrimSuffix(strings.Repeat(`"a",`, 1001), ",")+`]}`, list+" must have at most 1000 items.")
		}
	}
	refuse("PATCH", "/mcp-servers/s1", `{}`, "The body names nothing to change.")
	refuse("PATCH", "/mcp-servers/s1", `{"version":1}`, "The body names nothing to change.")
	refuse("PATCH", "/mcp-servers/s1", ` `, "The body is empty; it must be a JSON object.")
	refuse("POST", "/mcp-servers/s1/restart", `{"hunter2":1}`, "This request takes no body.")
}

func TestWhatAServerMayBeAtMost(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	args := strings.TrimSuffix(strings.Repeat(`"a",`, 200), ",")
	value := strings.Repeat("é", 16384)
	most := `"command":"` + strings.Repeat("é", 4096) + `","args":[` + args + `],"env":{` + manyPairs(199) + `,"` + strings.Repeat("é", 256) + `":"` + value + `"},"dir":"` + strings.Repeat("é", 4096) + `","url":"` + strings.Repeat("a", 8192) + `"`
	list := `[` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("é", 30)+`",`, 1000), ",") + `]`
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/mcp-servers", `{"name":"n",` + most + `}`, 201},
		{"POST", "/mcp-servers/test", `{"name":"n",` + most + `}`, 200},
		{"PATCH", "/mcp-servers/s1", `{` + most + `}`, 200},
		{"POST", "/mcp-servers/s1/test", `{` + most + `}`, 200},
		{"PATCH", "/mcp-servers/s1", `{"disabledTools":` + list + `,"alwaysAskTools":` + list + `}`, 200},
		{"PATCH", "/mcp-servers/s1", `{"autoApproveTools":["` + strings.Repeat("é", 256) + `"]}`, 200},
		{"POST", "/mcp-servers", `{"name":"n","url":"u","headers":{` + manyPairs(199) + `,"X":"` + value + `"}}`, 201},
	} {
		if got := b.do(tt.method, tt.path, tt.body, asOwner...); got.status != tt.status {
			t.Errorf("%s %s: answered %d %.200s", tt.method, tt.path, got.status, got.body)
		}
	}
	b.svc.last()
	large := `{"name":"n","x":"` + strings.Repeat("a", maxSettingsBody) + `"}`
	for _, tt := range []struct {
		method, path, body, detail string
	}{
		{"POST", "/mcp-servers", large, "The body may have at most 262144 bytes."},
		{"POST", "/mcp-servers/test", large, "The body may have at most 262144 bytes."},
		{"PATCH", "/mcp-servers/s1", large, "The body may have at most 262144 bytes."},
		{"POST", "/mcp-servers/s1/test", large, "The body may have at most 262144 bytes."},
		{"POST", "/topics/t1/messages/m1/questions/q1", large, "The body may have at most 262144 bytes."},
		{"POST", "/mcp-servers/import", `{"mcpServers":{},"x":"` + strings.Repeat("a", maxBody) + `"}`, "The body may have at most 1048576 bytes."},
	} {
		if p := b.bad(tt.method, tt.path, tt.body, asOwner...).problem(t, 413); p["detail"] != tt.detail {
			t.Errorf("%s %s: %v", tt.method, tt.path, p["detail"])
		}
		b.bad(tt.method, tt.path, `{"name":"n"}`, append([]string{"Content-Type", "Content-Type: text/plain"}, asOwner...)...).problem(t, 415)
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %s", call)
	}
	file := `{"mcpServers":{},"x":"` + strings.Repeat("a", maxBody-30) + `"}`
	if got := b.do("POST", "/mcp-servers/import", file, asOwner...); got.status != 201 {
		t.Errorf("a file of %d bytes: answered %d", len(file), got.status)
	}
}

func TestServersByAnyName(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for path, id := range map[string]string{
		"s1": "s1", "a%20b": "a b", "a%2Fb": "a/b", "a%2fb%20%25": "a/b %", "%C3%A9": "é", "é": "é", "a+b": "a+b", "a%3Fb": "a?b", "a%2520b": "a%20b",
		"test": "test", "import": "import", "tools": "tools", strings.Repeat("%C3%A9", 64): strings.Repeat("é", 64), strings.Repeat("a%2F", 32): strings.Repeat("a/", 32),
	} {
		for _, op := range []operation{
			{"GET", "", "", 200, "MCPServer "}, {"PATCH", "", `{"trusted":true}`, 200, "UpdateMCPServer "}, {"DELETE", "", "", 204, "DeleteMCPServer "},
			{"GET", "/tools", "", 200, "MCPServerTools "}, {"GET", "/versions", "", 200, "MCPServerVersions "},
			{"POST", "/test", "", 200, "TestStoredMCPServer "}, {"POST", "/restart", "", 200, "RestartMCPServer "},
		} {
			got := b.do(op.method, "/mcp-servers/"+path+op.path, op.body, asOwner...)
			if call := b.svc.last(); got.status != op.status || strings.TrimSuffix(call, " 50 ") != op.call+id {
				t.Errorf("%s %s%s: answered %d, and the service was asked %q", op.method, path, op.path, got.status, call)
			}
		}
	}
	for _, path := range []string{"%00", "a%0Ab", "%FF", strings.Repeat("%C3%A9", 65), strings.Repeat("a%2F", 33), "a%2F%00", "%E2%80%A8"} {
		for _, op := range []operation{
			{"GET", "", "", 0, ""}, {"PATCH", "", `{"trusted":true}`, 0, ""}, {"DELETE", "", "", 0, ""}, {"GET", "/tools", "", 0, ""},
			{"GET", "/versions", "", 0, ""}, {"POST", "/test", "", 0, ""}, {"POST", "/restart", "", 0, ""},
		} {
			b.bad(op.method, "/mcp-servers/"+path+op.path, op.body, asOwner...).problem(t, 404)
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %s", call)
	}
	for path, allow := range map[string]string{
		"/mcp-servers/a%2Fb": "GET, PATCH, DELETE, HEAD", "/mcp-servers/s1/tools": "GET, HEAD", "/mcp-servers/s1/restart": "POST", "/mcp-servers": "GET, POST, HEAD",
	} {
		got := b.bad("PUT", path, "{}", asOwner...)
		if got.problem(t, 405); got.header.Get("Allow") != allow {
			t.Errorf("%s: Allow is %q, want %q", path, got.header.Get("Allow"), allow)
		}
	}
}
