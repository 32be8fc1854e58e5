package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func tools(names ...string) []chat.Tool {
	var out []chat.Tool
	for _, name := range names {
		out = append(out, chat.Tool{
			Name: "s__" + name, Server: "s", ServerID: "1", Tool: name, Title: "Do " + name, Description: "It does " + name + ".",
			Annotations: json.RawMessage(`{"a":1}`), InputSchema: json.RawMessage(`{"type":"object"}`),
			Policy: chat.ToolPolicy{AutoApprove: true}, // what a client of the server holds is not what is said
		})
	}
	return out
}

func TestToolsOfSaysWhatTheSettingsOfTheirServerComeTo(t *testing.T) {
	t.Parallel()
	s := chat.MCPServer{ID: "1", Name: "s", Switches: chat.Switches{
		DisabledTools: []string{"off", "gone"}, AutoApproveTools: []string{"runs", "both", "off"}, AlwaysAskTools: []string{"both"}, Trusted: true,
	}}
	want := []chat.ServerTool{}
	for _, tool := range []struct{ name, policy string }{{"asks", "ask"}, {"runs", "auto-approve"}, {"both", "always-ask"}, {"off", "disabled"}} {
		want = append(want, chat.ServerTool{
			Name: tool.name, ToolName: "s__" + tool.name, Title: "Do " + tool.name, Description: "It does " + tool.name + ".",
			Annotations: json.RawMessage(`{"a":1}`), InputSchema: json.RawMessage(`{"type":"object"}`), Policy: tool.policy,
		})
	}
	offered := tools("asks", "runs", "both", "off")
	if diff := cmp.Diff(want, chat.ToolsOf(s, offered)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info := chat.InfoOf(s, chat.ServerState{Phase: chat.ServerReady}, offered)
	if diff := cmp.Diff([]string{"asks", "both"}, info.DisabledAutoApproveTools); diff != "" {
		t.Errorf("tools that ask (-want +got):\n%s", diff)
	}
	for i := range want {
		want[i].InputSchema = nil // a list of all servers' would be large
	}
	if diff := cmp.Diff(want, info.Tools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(offered[0].InputSchema) != `{"type":"object"}` {
		t.Error("the tools that were given have changed")
	}
	s.Disabled = true
	for _, tool := range chat.ToolsOf(s, offered) {
		if tool.Policy != "disabled" {
			t.Errorf("%s of a server that is switched off is %s", tool.Name, tool.Policy)
		}
	}
}

func TestInfoOfAServerThatIsAway(t *testing.T) {
	t.Parallel()
	info := chat.InfoOf(chat.MCPServer{ID: "1", Name: "s", Transport: chat.TransportStdio, Command: "x", Version: 1},
		chat.ServerState{Phase: chat.ServerFailed, Error: "It ended."}, nil)
	want := `{"id":"1","name":"s","source":"settings","transport":"stdio","command":"x","disabled":false,` +
		`"disabledTools":[],"autoApproveTools":[],"alwaysAskTools":[],"trusted":false,"version":1,` +
		`"disabledAutoApproveTools":[],"state":{"phase":"failed","error":"It ended."},"tools":[]}`
	if raw, err := chat.Marshal(info); err != nil || string(raw) != want {
		t.Errorf("got %s, %v\nwant %s", raw, err, want)
	}
}
