package chat_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestTopicStartsFromAnAssistant(t *testing.T) {
	t.Parallel()
	a := chat.Assistant{ID: "as1", Name: "Ops", Model: "p/m", SystemPrompt: "Be brief.", MCPServerIDs: []string{"s1"}, Mode: chat.ModeAskAll}
	every, none := a, a
	every.MCPServerIDs, none.MCPServerIDs = nil, []string{}
	for _, tt := range []struct {
		name string
		a    chat.Assistant
		asks chat.NewTopic
		want chat.NewTopic
	}{
		{"with nothing said", a, chat.NewTopic{}, chat.NewTopic{AssistantID: "as1", Model: "p/m", SystemPrompt: "Be brief.", MCPServerIDs: []string{"s1"}}},
		{"with all said", a, chat.NewTopic{Title: "T", Model: "q/n", SystemPrompt: "Be long.", MCPServerIDs: []string{"s2"}, Mode: chat.ModeTrustedReadOnly},
			chat.NewTopic{Title: "T", AssistantID: "as1", Model: "q/n", SystemPrompt: "Be long.", MCPServerIDs: []string{"s2"}, Mode: chat.ModeTrustedReadOnly}},
		{"with no servers wanted", a, chat.NewTopic{MCPServerIDs: []string{}}, chat.NewTopic{AssistantID: "as1", Model: "p/m", SystemPrompt: "Be brief.", MCPServerIDs: []string{}}},
		{"one of every server", every, chat.NewTopic{}, chat.NewTopic{AssistantID: "as1", Model: "p/m", SystemPrompt: "Be brief."}},
		{"one of no server", none, chat.NewTopic{}, chat.NewTopic{AssistantID: "as1", Model: "p/m", SystemPrompt: "Be brief.", MCPServerIDs: []string{}}},
		{"one without a model", chat.Assistant{ID: "as1"}, chat.NewTopic{}, chat.NewTopic{AssistantID: "as1"}},
	} {
		if diff := cmp.Diff(tt.want, tt.a.Start(tt.asks)); diff != "" { // the mode is not copied: it holds as it will be
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	a.Start(chat.NewTopic{}).MCPServerIDs[0] = "other"
	if a.MCPServerIDs[0] != "s1" {
		t.Error("the topic has the assistant's own list")
	}
}

func TestServersOfAnAssistantAsClientsSeeThem(t *testing.T) {
	t.Parallel()
	const zero = `"createdAt":"0001-01-01T00:00:00Z","updatedAt":"0001-01-01T00:00:00Z"}`
	for want, ids := range map[string][]string{ // absent is every server, empty is none
		`{"id":"a","name":"A","mode":"default","version":1,` + zero:                      nil,
		`{"id":"a","name":"A","mcpServerIds":[],"mode":"default","version":1,` + zero:    {},
		`{"id":"a","name":"A","mcpServerIds":["s"],"mode":"default","version":1,` + zero: {"s"},
	} {
		got, err := chat.Marshal(chat.Assistant{ID: "a", Name: "A", Mode: chat.ModeDefault, Version: 1, MCPServerIDs: ids})
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
}
