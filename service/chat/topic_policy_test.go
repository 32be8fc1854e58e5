package chat_test

import (
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestWhatIsSaidOfATool(t *testing.T) {
	t.Parallel()
	own := chat.ToolPolicy{AutoApprove: true, Trusted: true}
	for _, tt := range []struct {
		name   string
		policy chat.TopicPolicy
		tool   chat.Tool
		want   chat.ToolPolicy
	}{
		{"what is stored holds, and not what the tool brings", chat.TopicPolicy{Switches: &chat.Switches{AlwaysAskTools: []string{"t"}}}, chat.Tool{Tool: "t", Policy: own}, chat.ToolPolicy{AlwaysAsk: true}},
		{"nothing stored of the tool is nothing said", chat.TopicPolicy{Switches: &chat.Switches{AutoApproveTools: []string{"u"}}}, chat.Tool{Tool: "t", Policy: own}, chat.ToolPolicy{}},
		{"what is allowed", chat.TopicPolicy{Switches: &chat.Switches{AutoApproveTools: []string{"t"}, Trusted: true}}, chat.Tool{Tool: "t"}, own},
		{"of a server that is switched off none runs", chat.TopicPolicy{Switches: &chat.Switches{AutoApproveTools: []string{"t"}}, ServerDisabled: true}, chat.Tool{Tool: "t"},
			chat.ToolPolicy{AutoApprove: true, Disabled: true}},
		{"a tool by its own name, not the model's", chat.TopicPolicy{Switches: &chat.Switches{DisabledTools: []string{"s__t"}}}, chat.Tool{Tool: "t", Name: "s__t"}, chat.ToolPolicy{}},
		{"of a server that was deleted nothing is allowed", chat.TopicPolicy{}, chat.Tool{Tool: "t", Identity: "i", Policy: own}, chat.ToolPolicy{}},
		{"what it switched off stays off", chat.TopicPolicy{}, chat.Tool{Tool: "t", Identity: "i", Policy: chat.ToolPolicy{AutoApprove: true, Disabled: true}}, chat.ToolPolicy{Disabled: true}},
		{"of a server that is not stored, what it brings", chat.TopicPolicy{}, chat.Tool{Tool: "t", Policy: own}, own},
	} {
		if got := tt.policy.ToolPolicy(tt.tool); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
