package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestWhatIsAdvertised(t *testing.T) {
	sent := func(t *testing.T, o ClientOptions) string {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		call(t, f.start(t, o), "ping", `{}`)
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.sent.String()
	}
	synctest.Test(t, func(t *testing.T) {
		if got := sent(t, ClientOptions{}); !strings.Contains(got, `/clientCapabilities":{}`) {
			t.Errorf("without an asker something is advertised:\n%s", got)
		}
		elicit := func(context.Context, Elicitation) (ElicitAnswer, error) { return ElicitAnswer{}, nil }
		if got := sent(t, ClientOptions{Elicit: elicit}); !strings.Contains(got, `/clientCapabilities":{"elicitation":{"form":{}}}`) {
			t.Errorf("with an asker not forms alone are advertised:\n%s", got)
		}
	})
}

func TestSamplingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.add(&sdk.Tool{Name: "think"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"a": &sdk.CreateMessageParams{MaxTokens: 1}}}, nil
		})
		if r := call(t, f.start(t, ClientOptions{}), "think", `{}`); r.Outcome != chat.OutcomeFailed {
			t.Errorf("a tool that wants a model of ours gave %+v", r)
		}
	})
}

func TestElicitation(t *testing.T) {
	ask := func(answers chan<- *sdk.ElicitResult) sdk.ToolHandler {
		return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if a, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
				answers <- a
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Action}}}, nil
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{
				Mode: "form", Message: "Which?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`),
			}}}, nil
		}
	}
	t.Run("the question reaches the person and the answer the tool", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, answers := newFake(t), make(chan *sdk.ElicitResult, 1)
			f.add(&sdk.Tool{Name: "ask"}, ask(answers))
			var asked Elicitation
			c := f.start(t, ClientOptions{Elicit: func(_ context.Context, e Elicitation) (ElicitAnswer, error) {
				asked = e
				return ElicitAnswer{Action: ElicitAccept, Content: json.RawMessage(`{"a":"left"}`)}, nil
			}})
			if r := call(t, c, "ask", `{}`); text(t, r) != "accept" {
				t.Errorf("the tool ended as %+v", r)
			}
			want := Elicitation{ServerID: "id-fake", Message: "Which?", Schema: json.RawMessage(`{"properties":{"a":{"type":"string"}},"type":"object"}`)}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
			if a := <-answers; a.Content["a"] != "left" {
				t.Errorf("the tool heard %+v", a)
			}
		})
	})
	t.Run("a question that fails tells the server nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.add(&sdk.Tool{Name: "ask"}, ask(make(chan *sdk.ElicitResult, 1)))
			c := f.start(t, ClientOptions{Elicit: func(context.Context, Elicitation) (ElicitAnswer, error) {
				return ElicitAnswer{}, errors.New("database password is hunter2")
			}})
			if r := call(t, c, "ask", `{}`); r.Outcome == chat.OutcomeOK || strings.Contains(r.ErrorText, "hunter2") {
				t.Errorf("the call gave %+v", r)
			}
		})
	})
	t.Run("a lost connection ends the question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.add(&sdk.Tool{Name: "ask"}, ask(make(chan *sdk.ElicitResult, 1)))
			asked, ended := make(chan struct{}), make(chan struct{})
			c := f.start(t, ClientOptions{Elicit: func(ctx context.Context, _ Elicitation) (ElicitAnswer, error) {
				close(asked)
				<-ctx.Done()
				close(ended)
				return ElicitAnswer{}, ctx.Err()
			}})
			go func() { <-asked; f.cut() }()
			if r := call(t, c, "ask", `{}`); r.Outcome != chat.OutcomeUnknown {
				t.Errorf("the call gave %+v", r)
			}
			<-ended
		})
	})
}
