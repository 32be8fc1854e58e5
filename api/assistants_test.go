package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestAssistantsAreTakenAsTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		body string
		want chat.NewAssistant
	}{
		{`{"name":" A <b> "}`, chat.NewAssistant{Name: " A <b> "}},
		{`{"name":"a","description":"d","model":"demo/guide","systemPrompt":"p\n","mcpServerIds":["a b","` + strings.Repeat("é", 64) + `"],"mode":"ask-all"}`,
			chat.NewAssistant{Name: "a", Description: "d", Model: "demo/guide", SystemPrompt: "p\n", MCPServerIDs: []string{"a b", strings.Repeat("é", 64)}, Mode: chat.ModeAskAll}},
		{`{"name":"a","mcpServerIds":[]}`, chat.NewAssistant{Name: "a", MCPServerIDs: []string{}}},
		{`{"name":"a","mcpServerIds":null}`, chat.NewAssistant{Name: "a"}},
	} {
		got := b.do("POST", "/assistants", tt.body)
		if got.status != 201 || got.header.Get("Location") != "/assistants/as1" || !strings.Contains(got.body, `"name":"A <helper>"`) || !strings.Contains(got.body, `"mcpServerIds":[]`) {
			t.Errorf("%s: answered %d %s %s", tt.body, got.status, got.header.Get("Location"), got.body)
		}
		if diff := cmp.Diff(tt.want, b.svc.newAssistant); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", tt.body, diff)
		}
	}
	name, empty, model, mode, version := "n", "", "demo/guide", chat.ModeDefault, 2
	none, every, some := []string{}, []string(nil), []string{"a"}
	for _, tt := range []struct {
		body string
		want chat.AssistantPatch
	}{
		{`{"name":"n","description":"","model":"demo/guide","systemPrompt":"","mode":"default","version":2}`, chat.AssistantPatch{Name: &name, Description: &empty, Model: &model, SystemPrompt: &empty, Mode: &mode, Version: &version}},
		{`{"mcpServerIds":null}`, chat.AssistantPatch{MCPServerIDs: &every}},
		{`{"mcpServerIds":[]}`, chat.AssistantPatch{MCPServerIDs: &none}},
		{`{"mcpServerIds":["a"]}`, chat.AssistantPatch{MCPServerIDs: &some}},
	} {
		if got := b.do("PATCH", "/assistants/as1", tt.body); got.status != 200 {
			t.Errorf("%s: answered %d %s", tt.body, got.status, got.body)
		}
		if diff := cmp.Diff(tt.want, b.svc.assistantPatch); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", tt.body, diff)
		}
	}
	if got := b.do("GET", "/assistants", ""); strings.Count(got.body, "mcpServerIds") != 1 {
		t.Errorf("one of the two has a list of servers, and the answer is %s", got.body)
	}
}

func TestAssistantsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	items := strings.TrimSuffix(strings.Repeat(`"a",`, 101), ",")
	for _, tt := range []struct{ members, detail string }{
		{`"name":" "`, "name must not be blank."},
		{`"name":"` + strings.Repeat("a", 101) + `"`, "name must have at most 100 characters."},
		{`"name":null`, "name must be a string."},
		{`"name":"n","description":"` + strings.Repeat("a", 1001) + `"`, "description must have at most 1000 characters."},
		{`"name":"n","model":"` + strings.Repeat("a", 201) + `"`, "model must have at most 200 characters."},
		{`"name":"n","systemPrompt":"` + strings.Repeat("a", 100001) + `"`, "systemPrompt must have at most 100000 characters."},
		{`"name":"n","mcpServerIds":"a"`, "mcpServerIds must be an array."},
		{`"name":"n","mcpServerIds":[null]`, "mcpServerIds/0 must be a string."},
		{`"name":"n","mcpServerIds":["a",""]`, "mcpServerIds/1 must not be empty."},
		{`"name":"n","mcpServerIds":["` + strings.Repeat("é", 65) + `"]`, "mcpServerIds/0 must have at most 64 characters."},
		{`"name":"n","mcpServerIds":[` + items + `]`, "mcpServerIds must have at most 100 items."},
		{`"name":"n","mode":"free"`, "mode must be one of ask-all, default, trusted-read-only."},
		{`"name":"n","mode":""`, "mode must be one of ask-all, default, trusted-read-only."},
		{`"name":"n","id":"x"`, "id is not a member that this request has."},
	} {
		for method, path := range map[string]string{"POST": "/assistants", "PATCH": "/assistants/as1"} {
			if p := b.bad(method, path, `{`+tt.members+`}`).problem(t, 400); p["detail"] != tt.detail {
				t.Errorf("%s %.60s: %v, want %s", method, tt.members, p["detail"], tt.detail)
			}
		}
	}
	for _, tt := range []struct{ method, body, detail string }{
		{"POST", `{}`, "name is required."},
		{"POST", `{"name":"n","version":1}`, "version is not a member that this request has."},
		{"PATCH", `{}`, "The body names nothing to change."},
		{"PATCH", `{"version":1}`, "The body names nothing to change."},
		{"PATCH", `{"name":"n","version":0}`, "version must be at least 1."},
	} {
		path := "/assistants"
		if tt.method == "PATCH" {
			path += "/as1"
		}
		if p := b.bad(tt.method, path, tt.body).problem(t, 400); p["detail"] != tt.detail {
			t.Errorf("%s %s: %v, want %s", tt.method, tt.body, p["detail"], tt.detail)
		}
	}
	for method, body := range map[string]string{"GET": "", "PATCH": `{"name":"n"}`, "DELETE": ""} {
		for _, id := range []string{"%00", "a%20b", strings.Repeat("a", 65)} {
			b.bad(method, "/assistants/"+id, body).problem(t, 404)
		}
	}
	b.bad("POST", "/assistants", `{"name":"`+strings.Repeat("a", maxBody)+`"}`).problem(t, 413)
	b.bad("PATCH", "/assistants/as1", `{"name":"`+strings.Repeat("a", maxBody)+`"}`).problem(t, 413)
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %s", call)
	}
}

func TestATopicMayStartFromAnAssistantAndWithoutServers(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for body, want := range map[string]chat.NewTopic{
		`{"assistantId":"as1"}`:                   {AssistantID: "as1"},
		`{"assistantId":"as1","mcpServerIds":[]}`: {AssistantID: "as1", MCPServerIDs: []string{}},
		`{"mcpServerIds":["a b"]}`:                {MCPServerIDs: []string{"a b"}},
	} {
		if got := b.do("POST", "/topics", body); got.status != 201 {
			t.Errorf("%s: answered %d %s", body, got.status, got.body)
		}
		if diff := cmp.Diff(want, b.svc.topic); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", body, diff)
		}
	}
}
