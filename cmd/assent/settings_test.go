package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// as makes a request with another principal's token.
func (w *world) as(token string, status int, method, path string, body any) {
	w.t.Helper()
	mine := w.token
	w.token = token
	defer func() { w.token = mine }()
	w.want(status, method, path, body)
}

// principal makes a token for another principal.
func (w *world) principal(name string) (token string) {
	w.t.Helper()
	var out, errs bytes.Buffer
	if code := run(w.t.Context(), append([]string{"token", "new", name}, w.args()...), environment(), nil, &out, &errs); code != 0 {
		w.t.Fatalf("assent token new: %d %s", code, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func TestAServersSecretsAreWriteOnlyAndOutliveARestart(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says()
		w.start()
		b := newBox(t, "note")
		b.mu.Lock()
		b.header = nil
		b.mu.Unlock()
		const secret = "s3cret-value-of-a-header"
		server := w.addServer(map[string]any{"name": "box", "url": b.url + "/?key=another-s3cret", "headers": map[string]string{"Authorization": "Bearer " + secret}})
		sent := func() string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.header.Get("Authorization")
		}
		if sent() != "Bearer "+secret {
			t.Errorf("the server was sent %q", sent())
		}
		hidden := func(path string) string {
			t.Helper()
			r := w.want(200, "GET", path, nil)
			if strings.Contains(string(r.body), "s3cret") {
				t.Errorf("%s shows %s", path, r.body)
			}
			return string(r.body)
		}
		if text := hidden(serverPath(server.ID)); !strings.Contains(text, `"Authorization":null`) || !strings.Contains(text, "?key=•••") {
			t.Errorf("the settings are shown as %s", text)
		}
		hidden("/mcp-servers")

		// What was read can be sent back: nothing changes by it.
		shown := map[string]any{"url": server.URL, "headers": map[string]any{"Authorization": nil}}
		var same chat.ServerInfo
		w.want(200, "PATCH", serverPath(server.ID), shown).into(t, &same)
		if same.Version != server.Version {
			t.Errorf("version %d after a change of nothing", same.Version)
		}
		w.want(422, "PATCH", serverPath(server.ID), map[string]any{"headers": map[string]any{"X-Other": nil}})
		w.want(200, "PATCH", serverPath(server.ID), map[string]any{"headers": map[string]any{"Authorization": nil, "X-More": "more-s3cret"}, "version": server.Version})
		w.want(409, "PATCH", serverPath(server.ID), map[string]any{"name": "crate", "version": server.Version})
		hidden(serverPath(server.ID) + "/versions")

		w.stop()
		w.start()
		w.server(server.ID, chat.ServerReady)
		if sent() != "Bearer "+secret {
			t.Errorf("after a restart the server was sent %q", sent())
		}
		if w.databaseURL == "" { // the bytes of the database hold no secret
			for _, name := range []string{"assent.db", "assent.db-wal"} {
				raw, err := os.ReadFile(filepath.Join(w.dir, "data", name))
				if err == nil && strings.Contains(string(raw), "s3cret") {
					t.Errorf("%s holds a secret", name)
				}
			}
		}

		// Another key opens nothing, and says so; the person enters them anew.
		w.stop()
		if err := os.Remove(filepath.Join(w.dir, "data", "secret.key")); err != nil {
			t.Fatal(err)
		}
		w.start()
		lost := w.server(server.ID, chat.ServerFailed)
		if !strings.Contains(lost.State.Error, "key") {
			t.Errorf("the server is %+v", lost.State)
		}
		w.want(200, "PATCH", serverPath(server.ID), map[string]any{"url": b.url, "headers": map[string]any{"Authorization": "Bearer new"}})
		w.server(server.ID, chat.ServerReady)
		if sent() != "Bearer new" {
			t.Errorf("the server was sent %q", sent())
		}
		info, err := os.Stat(filepath.Join(w.dir, "data", "secret.key"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key is %v, %v", info, err)
		}
	})
}

func TestOnlyTheOwnerSaysWhatPrograms(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says()
		w.start()
		b := newBox(t, "note")
		server := w.addServer(map[string]any{"name": "box", "url": b.url})
		grace := w.principal("grace")
		add := map[string]any{"name": "mine", "command": "true"}
		for _, r := range []struct {
			method, path string
			body         any
		}{
			{"POST", "/mcp-servers", add},
			{"POST", "/mcp-servers/test", add},
			{"POST", "/mcp-servers/import", map[string]any{"mcpServers": map[string]any{"mine": map[string]any{"command": "true"}}}},
			{"PATCH", serverPath(server.ID), map[string]any{"headers": map[string]any{}}},
			{"PATCH", serverPath(server.ID), map[string]any{"disabled": true, "trusted": true}},
			{"POST", serverPath(server.ID) + "/test", nil},
			{"POST", serverPath(server.ID) + "/restart", nil},
			{"DELETE", serverPath(server.ID), nil},
		} {
			w.as(grace, http.StatusForbidden, r.method, r.path, r.body)
		}
		w.as(grace, 200, "GET", "/mcp-servers", nil)
		secretive := w.addServer(map[string]any{"name": "more", "url": b.url + "/place?key=1"})
		mine := w.token
		w.token = grace
		for _, path := range []string{"/mcp-servers", serverPath(secretive.ID), serverPath(secretive.ID) + "/versions"} {
			if r := w.want(200, "GET", path, nil); strings.Contains(string(r.body), "/place") || !strings.Contains(string(r.body), b.url+"/•••") {
				t.Errorf("%s shows another principal %s", path, r.body)
			}
		}
		w.token = mine
		w.as(grace, 200, "PATCH", serverPath(server.ID), map[string]any{"disabledTools": []string{"note"}})
		if got := w.server(server.ID, chat.ServerReady); got.Version != 2 || got.Tools[0].Policy != "disabled" {
			t.Errorf("the server is %+v", got)
		}
	})
}

func TestServersAreImportedTestedAndRestarted(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says()
		w.start()
		b := newBox(t, "note")
		file := `{"mcpServers":{"box":{"type":"http","url":"` + b.url + `","headers":{"X-Key":"s3cret-key"}},"broken":{"command":"sh","args":["-c","echo no luck >&2; exit 3"],"env":{"TOKEN":"s3cret-token"}}}}`
		var done struct {
			Servers []chat.ServerInfo `json:"servers"`
			Skipped []string          `json:"skipped"`
		}
		r := w.want(201, "POST", "/mcp-servers/import", file)
		r.into(t, &done)
		if len(done.Servers) != 2 || strings.Contains(string(r.body), "s3cret") {
			t.Fatalf("imported: %s", r.body)
		}
		box, broken := done.Servers[0], done.Servers[1]
		w.server(box.ID, chat.ServerReady)
		w.eventually(func() bool {
			return slices.Contains(w.server(broken.ID, chat.ServerFailed).State.Stderr, "no luck")
		}, func() string { return "what its process wrote is not shown" })

		conflict := w.want(409, "POST", "/mcp-servers/import", file)
		if text := string(conflict.body); !strings.Contains(text, "box") || strings.Contains(text, "s3cret") {
			t.Errorf("the problem says %s", text)
		}
		w.want(201, "POST", "/mcp-servers/import?existing=skip", strings.Replace(file, `"broken"`, `"fresh"`, 1)).into(t, &done)
		if len(done.Servers) != 1 || done.Servers[0].Name != "fresh" || !slices.Equal(done.Skipped, []string{"box"}) {
			t.Errorf("imported: %+v", done)
		}
		w.want(422, "POST", "/mcp-servers/import", `{"mcpServers":{"a":{"command":"x","env":{"K":"${input:key}"}}}}`)
		w.want(409, "POST", "/mcp-servers", map[string]any{"name": "box", "url": b.url})
		w.want(422, "POST", "/mcp-servers", map[string]any{"name": "Workspace", "url": b.url})

		var trial chat.ServerTrial
		w.want(200, "POST", "/mcp-servers/test", map[string]any{"name": "try", "url": b.url}).into(t, &trial)
		if trial.State.Phase != chat.ServerReady || len(trial.Tools) != 1 || trial.Tools[0].InputSchema == nil {
			t.Errorf("tried: %+v", trial)
		}
		w.want(200, "POST", "/mcp-servers/test", map[string]any{"name": "try", "command": "sh", "args": []string{"-c", "echo bad key >&2; exit 1"}}).into(t, &trial)
		if trial.State.Phase != chat.ServerFailed || trial.State.Error == "" || !slices.Contains(trial.State.Stderr, "bad key") {
			t.Errorf("tried: %+v", trial)
		}
		w.want(200, "POST", serverPath(box.ID)+"/test", map[string]any{"headers": map[string]any{"X-Key": nil}}).into(t, &trial)
		if trial.State.Phase != chat.ServerReady {
			t.Errorf("tried: %+v", trial)
		}
		w.want(200, "POST", serverPath(box.ID)+"/restart", nil)
		w.server(box.ID, chat.ServerReady)

		w.want(422, "PATCH", serverPath(box.ID), map[string]any{"disabledAutoApproveTools": []string{}, "alwaysAskTools": []string{"note"}})
		w.want(200, "PATCH", serverPath(box.ID), map[string]any{"disabled": true})
		w.server(box.ID, chat.ServerDisabled)
		w.want(409, "POST", serverPath(box.ID)+"/restart", nil)
		w.want(409, "POST", serverPath("workspace")+"/restart", nil)
		w.want(409, "PATCH", serverPath("workspace"), map[string]any{"name": "mine"})
		w.want(409, "DELETE", serverPath("workspace"), nil)
		w.want(204, "DELETE", serverPath(broken.ID), nil)
		w.want(410, "GET", serverPath(broken.ID), nil)
		w.want(404, "GET", serverPath("none"), nil)
	})
}

// Two servers have a tool of one name: what is said of one says nothing of the
// other, whatever models call them.
func TestToolsOfOneNameAreToldApart(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		long := strings.Repeat("long name ", 6)
		one, two := newBox(t, "note"), newBox(t, "note")
		var names []string
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			if r.Messages[len(r.Messages)-1].Role == "tool" {
				return llmtest.Text("ok")
			}
			return llmtest.Calls(
				llmtest.Call{ID: "1", Name: names[0], Args: `{"text":"a"}`}, llmtest.Call{ID: "2", Name: names[1], Args: `{"text":"b"}`},
			)
		})
		w.start()
		for name, b := range map[string]*box{long + "1": one, long + "2": two} {
			w.addServer(map[string]any{"name": name, "url": b.url})
		}
		var list struct {
			Servers []chat.ServerInfo `json:"servers"`
		}
		w.want(200, "GET", "/mcp-servers", nil).into(t, &list)
		var ids []string
		for _, want := range []string{long + "1", long + "2"} {
			for _, s := range list.Servers {
				if s.Name == want {
					ids, names = append(ids, s.ID), append(names, s.Tools[0].ToolName)
				}
			}
		}
		if len(names) != 2 || names[0] == names[1] || len(names[0]) > 64 {
			t.Fatalf("models know them as %q", names)
		}
		w.want(200, "PATCH", serverPath(ids[0]), map[string]any{"autoApproveTools": []string{"note"}})
		topic := w.waits()
		if cards := w.pending(topic); len(cards) != 1 || cards[0].Server != long+"2" {
			t.Errorf("the cards are %+v", cards)
		}
		w.approve(topic, "b")
		w.until(topic, chat.TopicDone)
		if a, b := one.runs(), two.runs(); !slices.Equal(a, []string{"note a"}) || !slices.Equal(b, []string{"note b"}) {
			t.Errorf("one ran %q, two %q", a, b)
		}
	})
}

func TestSwitchesOutrankRulesAsTheyShould(t *testing.T) {
	for name, tt := range map[string]struct {
		tool     string
		mode     chat.Mode
		switches map[string]any
		rule     chat.Verdict
		state    chat.CallState
		by       string
	}{
		"OffOverAllow":              {"note", "", map[string]any{"disabledTools": []string{"note"}}, chat.VerdictAllow, chat.CallOutputDenied, chat.ByDisabled},
		"AlwaysAskOverAllow":        {"note", "", map[string]any{"alwaysAskTools": []string{"note"}}, chat.VerdictAllow, chat.CallApprovalRequested, chat.ByAlwaysAsk},
		"AskRuleOverAutoApprove":    {"note", "", map[string]any{"autoApproveTools": []string{"note"}}, chat.VerdictAsk, chat.CallApprovalRequested, "ask rule"},
		"DenyOverAutoApprove":       {"note", "", map[string]any{"autoApproveTools": []string{"note"}}, chat.VerdictDeny, chat.CallOutputDenied, "deny rule"},
		"AskAllOverAutoApprove":     {"note", chat.ModeAskAll, map[string]any{"autoApproveTools": []string{"note"}}, "", chat.CallApprovalRequested, chat.ByAskAll},
		"AutoApprove":               {"note", "", map[string]any{"autoApproveTools": []string{"note"}}, "", chat.CallOutputAvailable, chat.ByAutoApprove},
		"AllowOverNothingSaid":      {"note", "", nil, chat.VerdictAllow, chat.CallOutputAvailable, "allow rule"},
		"ReadingOnATrustedServer":   {"look", chat.ModeTrustedReadOnly, map[string]any{"trusted": true}, "", chat.CallOutputAvailable, chat.ByTrustedReadOnly},
		"ReadingOnAServer":          {"look", chat.ModeTrustedReadOnly, nil, "", chat.CallApprovalRequested, chat.ByDefault},
		"ReadingInADefaultChat":     {"look", "", map[string]any{"trusted": true}, "", chat.CallApprovalRequested, chat.ByDefault},
		"WritingOnATrustedServer":   {"note", chat.ModeTrustedReadOnly, map[string]any{"trusted": true}, "", chat.CallApprovalRequested, chat.ByDefault},
		"AlwaysAskOverTrustedReads": {"look", chat.ModeTrustedReadOnly, map[string]any{"trusted": true, "alwaysAskTools": []string{"look"}}, "", chat.CallApprovalRequested, chat.ByAlwaysAsk},
	} {
		t.Run(name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, w *world) {
				_, server := w.boxed(boxCall(tt.tool, "a"))
				if tt.switches != nil {
					w.want(200, "PATCH", serverPath(server.ID), tt.switches)
				}
				if tt.rule != "" {
					w.rule(tt.rule, `server == "box"`)
				}
				topic := w.topic()
				if tt.mode != "" {
					w.want(200, "PATCH", "/topics/"+topic, map[string]any{"mode": tt.mode})
				}
				w.send(topic, "go")
				end := chat.TopicDone
				if tt.state == chat.CallApprovalRequested {
					end = chat.TopicAwaitingApproval
				}
				w.until(topic, end)
				c := w.calls(topic)[0]
				if c.State != tt.state || c.ToolMetadata.Rule != tt.by {
					t.Errorf("the call is %s by %q, want %s by %q", c.State, c.ToolMetadata.Rule, tt.state, tt.by)
				}
			})
		})
	}
}

func TestAssistantsStartTopics(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		_, server := w.boxed(boxCall("note", "a"))
		w.want(200, "PATCH", serverPath(server.ID), map[string]any{"autoApproveTools": []string{"note"}})
		var a chat.Assistant
		w.want(201, "POST", "/assistants", map[string]any{
			"name": "Careful", "description": "Asks for everything.", "model": fakeModel, "systemPrompt": "Be careful.", "mcpServerIds": []string{server.ID}, "mode": "ask-all",
		}).into(t, &a)
		w.want(422, "POST", "/assistants", map[string]any{"name": "x", "model": "no/model"})
		w.want(422, "POST", "/assistants", map[string]any{"name": "x", "mcpServerIds": []string{"none"}})
		w.want(422, "POST", "/topics", map[string]any{"assistantId": "none"})
		var topic chat.Topic
		w.want(201, "POST", "/topics", map[string]any{"assistantId": a.ID}).into(t, &topic)
		if topic.AssistantID != a.ID || topic.Model != fakeModel || topic.SystemPrompt != "Be careful." || !slices.Equal(topic.MCPServerIDs, []string{server.ID}) {
			t.Errorf("the topic is %+v", topic)
		}
		run := func(want chat.TopicState) chat.ToolCall {
			t.Helper()
			w.send(topic.ID, "go")
			w.until(topic.ID, want)
			return w.calls(topic.ID)[0]
		}
		if c := run(chat.TopicAwaitingApproval); c.ToolMetadata.Rule != chat.ByAskAll {
			t.Errorf("got %+v", c.ToolMetadata)
		}
		w.approve(topic.ID, "a")
		w.until(topic.ID, chat.TopicDone)
		last := w.model.Requests()[len(w.model.Requests())-1]
		if len(last.Tools) != 2 || last.Messages[0].Text() != "Be careful." {
			t.Errorf("the model was offered %d tools and told %q", len(last.Tools), last.Messages[0].Text())
		}

		// Its mode holds as it is now, and goes on to hold when it is gone.
		w.want(200, "PATCH", "/assistants/"+a.ID, map[string]any{"mode": "default", "systemPrompt": "Be quick."})
		if c := run(chat.TopicDone); c.ToolMetadata.Rule != chat.ByAutoApprove {
			t.Errorf("got %+v", c.ToolMetadata)
		}
		w.want(200, "PATCH", "/assistants/"+a.ID, map[string]any{"mode": "ask-all"})
		w.want(204, "DELETE", "/assistants/"+a.ID, nil)
		w.want(410, "GET", "/assistants/"+a.ID, nil)
		if c := run(chat.TopicAwaitingApproval); c.ToolMetadata.Rule != chat.ByAskAll {
			t.Errorf("got %+v", c.ToolMetadata)
		}
		w.want(422, "POST", "/topics", map[string]any{"assistantId": a.ID})

		// No servers is none, and not all.
		w.want(201, "POST", "/topics", map[string]any{"mcpServerIds": []string{}}).into(t, &topic)
		if raw, err := json.Marshal(topic); err != nil || !strings.Contains(string(raw), `"mcpServerIds":[]`) {
			t.Errorf("the topic is %s", raw)
		}
		w.send(topic.ID, "go")
		w.until(topic.ID, chat.TopicDone)
		if c := w.calls(topic.ID)[0]; c.ToolMetadata.Outcome != chat.OutcomeUnavailable {
			t.Errorf("got %+v", c)
		}
	})
}
