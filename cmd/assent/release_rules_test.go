package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// What databases hold from schema 2 on: rules, modes, and the cards of tool
// servers that a file names.
func init() {
	beforeStart = append(beforeStart, func(w *world) {
		b := newBox(w.t, "note", "look")
		path := filepath.Join(w.dir, "mcp.json")
		if err := os.WriteFile(path, []byte(`{"mcpServers":{"box":{"type":"http","url":"`+b.url+`"}}}`), 0o600); err != nil {
			w.t.Fatal(err)
		}
		if len(w.flags) == 0 {
			w.flags = []string{"-mcp-config", path}
		}
	})
	scenes = append(scenes, scene{
		name: "rules",
		model: func(text string) llmtest.Turn {
			if text == "rules" {
				return llmtest.Calls(call("note", "rules-denied"), call("note", "rules-allowed"), call("note", "rules-asked"))
			}
			return llmtest.Calls(call("note", "rules-denied"), call("peek", "rules-peek"))
		},
		play: func(w *world, topic string) {
			w.until(topic, chat.TopicAwaitingApproval) // nothing is known of any yet
			w.want(200, "POST", "/topics/"+topic+"/stop", nil)
			for _, rule := range []map[string]any{
				{"name": "Never", "verdict": "deny", "expression": `has(input.text) && input.text == "rules-denied"`, "reason": "House rules."},
				{"name": "At once", "verdict": "allow", "expression": `has(input.text) && input.text == "rules-allowed"`},
				{"name": "Off", "verdict": "deny", "expression": `true`, "enabled": false},
				{"name": "Gone", "verdict": "deny", "expression": `false`},
			} {
				var made chat.Rule
				w.want(201, "POST", "/policy/rules", rule).into(w.t, &made)
				switch rule["name"] {
				case "Never":
					w.want(200, "PATCH", "/policy/rules/"+made.ID, map[string]any{"reason": "House rules, changed."})
				case "Gone":
					w.want(204, "DELETE", "/policy/rules/"+made.ID, nil)
				}
			}
			w.want(202, "POST", "/topics/"+topic+"/messages/"+w.last(topic).ID+"/regenerate", nil)
			w.eventually(func() bool { return len(w.pending(topic)) == 1 }, func() string { return "the rules do not hold" })
			w.want(200, "PATCH", "/topics/"+topic, map[string]any{"mode": "ask-all"})
		},
		says: func(w *world, topic string) []string {
			paths := []string{"/policy/rules", "/policy/explain?topicId=" + topic + "&toolCallId=call-rules-asked"}
			var list struct {
				Rules []chat.Rule `json:"rules"`
			}
			w.want(200, "GET", "/policy/rules", nil).into(w.t, &list)
			for _, rule := range list.Rules {
				paths = append(paths, "/policy/rules/"+rule.ID+"/versions")
			}
			return paths
		},
		goesOn: func(w *world, topic string) {
			w.approve(topic, "rules-asked")
			w.until(topic, chat.TopicDone)
			w.ran(map[string]int{"rules-denied": 0, "rules-allowed": 0, "rules-asked": 1})
			w.send(topic, "rules again")
			w.eventually(func() bool { return len(w.pending(topic)) == 1 }, func() string { return "ask-all does not hold" })
			if c := w.calls(topic)[0]; c.State != chat.CallOutputDenied || c.Approval.Reason != "House rules, changed." {
				w.t.Errorf("the rule that denies made %+v of it", c)
			}
			w.deny(topic, "rules-peek", "")
			w.until(topic, chat.TopicDone)
		},
	}, scene{
		name:  "box",
		ready: func(w *world) { w.connected("box") },
		model: func(string) llmtest.Turn { return llmtest.Calls(boxCall("note", "box-a")) },
		play:  waitsForDecision,

		asksAnew: true,
		goesOn: func(w *world, topic string) {
			w.connected("box")
			w.eventually(func() bool { return len(w.pending(topic)) == 1 }, func() string { return "the card is gone" })
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.pending(topic)[0].ApprovalID, "approved": true})
			w.until(topic, chat.TopicDone)
			if c := w.calls(topic)[0]; c.State != chat.CallOutputAvailable || c.ToolMetadata.Outcome != chat.OutcomeOK {
				w.t.Errorf("the call is %+v", c)
			}
		},
	})
}

func (w *world) connected(name string) {
	w.t.Helper()
	last := ""
	w.eventually(func() bool {
		r := w.want(200, "GET", "/mcp-servers", nil)
		last = string(r.body)
		var list struct {
			Servers []struct {
				Name  string
				State struct{ Phase string }
			}
		}
		if err := json.Unmarshal(r.body, &list); err != nil {
			w.t.Fatal(err)
		}
		for _, s := range list.Servers {
			if s.Name == name {
				return s.State.Phase == "ready"
			}
		}
		return false
	}, func() string { return "the server is not connected: " + last })
}
