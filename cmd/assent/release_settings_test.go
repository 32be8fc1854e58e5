package main

import (
	"strings"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// What databases hold from schema 3 on: tool servers that people added, whose
// connections are encrypted, what was allowed for good, and assistants.
func init() {
	scenes = append(scenes, scene{
		name: "crate",
		ready: func(w *world) {
			defer w.asOwner()()
			b := newBox(w.t, "note", "look", "keep")
			server := w.addServer(map[string]any{"name": "crate", "url": b.url, "headers": map[string]string{"X-Key": "a test's"}})
			w.want(200, "PATCH", serverPath(server.ID), map[string]any{"autoApproveTools": []string{"look"}})
			w.want(201, "POST", "/assistants", map[string]any{"name": "Careful", "systemPrompt": "Be careful.", "mode": "ask-all", "mcpServerIds": []string{server.ID}})
		},
		model: func(text string) llmtest.Turn {
			switch text {
			case "crate":
				return llmtest.Calls(crateCall("note", "crate-a"), crateCall("keep", "crate-b"))
			case "crate look":
				return llmtest.Calls(crateCall("look", "crate-c"), crateCall("keep", "crate-d"))
			}
			return llmtest.Text("fine")
		},
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.pending(topic)[1].ApprovalID, "approved": true, "remember": "always-allow"})
		},
		says: func(w *world, _ string) []string {
			return []string{"/assistants", serverPath(w.crate().ID) + "/versions", serverPath("workspace") + "/versions"}
		},
		goesOn: func(w *world, topic string) {
			// The server that the release knew is gone: its card can be denied.
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.pending(topic)[0].ApprovalID, "approved": false})
			w.until(topic, chat.TopicDone)
			server := w.crate()
			if strings.Join(server.AutoApproveTools, " ") != "look keep" || len(server.Headers) != 1 || server.State.Phase == chat.ServerFailed && strings.Contains(server.State.Error, "key") {
				w.t.Errorf("the server is %+v", server)
			}
			defer w.asOwner()()
			b := newBox(w.t, "note", "look", "keep")
			w.want(200, "PATCH", serverPath(server.ID), map[string]any{"url": b.url, "headers": map[string]any{"X-Key": "another"}})
			w.server(server.ID, chat.ServerReady)
			w.send(topic, "crate look") // a server at another address asks for everything anew
			w.eventually(func() bool { return len(w.pending(topic)) == 2 }, func() string { return "no cards" })
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"decisions": []any{
				map[string]any{"approvalId": w.pending(topic)[0].ApprovalID, "approved": true}, map[string]any{"approvalId": w.pending(topic)[1].ApprovalID, "approved": false},
			}})
			w.until(topic, chat.TopicDone)
			if got := strings.Join(b.runs(), "|"); got != "look crate-c" {
				w.t.Errorf("the server ran %s", got)
			}
		},
	})
}

func crateCall(tool, text string) llmtest.Call {
	return llmtest.Call{ID: "call-" + text, Name: "crate__" + tool, Args: `{"text":"` + text + `"}`}
}

// asOwner makes requests the owner's until the function that it returns is
// called.
func (w *world) asOwner() func() {
	w.t.Helper()
	token := w.token
	w.ready(w.base)
	return func() { w.token = token }
}

// crate is the server that was added.
func (w *world) crate() chat.ServerInfo {
	w.t.Helper()
	var list struct {
		Servers []chat.ServerInfo `json:"servers"`
	}
	w.want(200, "GET", "/mcp-servers", nil).into(w.t, &list)
	for _, s := range list.Servers {
		if s.Name == "crate" {
			return s
		}
	}
	w.t.Fatal("the server is not there")
	return chat.ServerInfo{}
}
