package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestInfoOfToolsSaysWhatTheirServersSettingsComeTo(t *testing.T) {
	t.Parallel()
	for want, policy := range map[string]chat.ToolPolicy{
		"ask":          {Trusted: true},
		"auto-approve": {AutoApprove: true},
		"always-ask":   {AlwaysAsk: true, AutoApprove: true},
		"disabled":     {Disabled: true, AlwaysAsk: true, AutoApprove: true},
	} {
		got := chat.InfoOf([]chat.Tool{{Name: "s__t", Server: "s", Tool: "t", Title: "Do it", Annotations: json.RawMessage(`{"a":1}`), Policy: policy}})
		if diff := cmp.Diff([]chat.ServerTool{{Name: "t", ToolName: "s__t", Title: "Do it", Annotations: json.RawMessage(`{"a":1}`), Policy: want}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if raw, err := json.Marshal(chat.InfoOf(nil)); err != nil || string(raw) != "[]" {
		t.Errorf("no tools are %s, %v", raw, err)
	}
}
