package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestClientDescribesTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := false
		f := newFake(t,
			&sdk.Tool{Name: "drop", Annotations: &sdk.ToolAnnotations{Title: "Drop it"}},
			&sdk.Tool{
				Name: "read", Title: "Read a thing", Description: "Reads.",
				InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
				Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no},
			},
		)
		config := fakeConfig
		config.DisabledTools, config.AutoApproveTools, config.Identity = []string{"drop"}, []string{"read"}, "1d"
		c := StartClient(config, ClientOptions{dial: f.dial})
		defer c.Close()
		got, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []chat.Tool{
			{
				Name: "fake__drop", Server: "fake", ServerID: "id-fake", Tool: "drop", Title: "Drop it", Identity: "1d",
				InputSchema: json.RawMessage(`{"type":"object"}`),
				Annotations: json.RawMessage(`{"idempotentHint":false,"readOnlyHint":false,"title":"Drop it"}`),
				Policy:      chat.ToolPolicy{Disabled: true},
			},
			{
				Name: "fake__read", Server: "fake", ServerID: "id-fake", Tool: "read", Title: "Read a thing", Description: "Reads.", Identity: "1d",
				InputSchema: json.RawMessage(`{"properties":{"n":{"type":"integer"}},"type":"object"}`),
				Annotations: json.RawMessage(`{"destructiveHint":false,"idempotentHint":false,"readOnlyHint":true}`),
				Policy:      chat.ToolPolicy{AutoApprove: true},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		if _, told := c.State(); !cmp.Equal(want, told) {
			t.Errorf("with the state it told of %+v", told)
		}
		wantState := chat.ServerState{Phase: chat.ServerReady, ServerName: "fake", ServerVersion: "7", Protocol: "2026-07-28"}
		if diff := cmp.Diff(wantState, state(c), cmpopts.IgnoreFields(chat.ServerState{}, "Since")); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		if _, lists := f.counts(); lists != 1 {
			t.Errorf("the server was asked for its tools %d times, want once", lists)
		}
	})
}

func TestClientOutcomes(t *testing.T) {
	answer := func(r *sdk.CallToolResult, err error) sdk.ToolHandler {
		return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return r, err }
	}
	said := func(s string) []sdk.Content { return []sdk.Content{&sdk.TextContent{Text: s}} }
	tests := []struct {
		name    string
		handler sdk.ToolHandler
		want    chat.Result
	}{
		{"a text", answer(&sdk.CallToolResult{Content: said("hello")}, nil),
			chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`)}},
		{"nothing", answer(&sdk.CallToolResult{}, nil),
			chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`{"content":[]}`)}},
		{"a failure", answer(&sdk.CallToolResult{IsError: true, Content: said("no such row")}, nil),
			chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "no such row"}},
		{"a failure without words", answer(&sdk.CallToolResult{IsError: true}, nil),
			chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "The tool failed and gave no reason."}},
		{"a refusal by the protocol", answer(nil, &jsonrpc.Error{Code: -32602, Message: "n is missing."}),
			chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "The tool server refused the call: n is missing (error -32602)."}},
		{"a code that also stands for a timeout", answer(nil, &jsonrpc.Error{Code: -32001, Message: "Request timed out"}),
			unknown("The connection to the tool server was lost while the tool ran")},
		{"a code that also stands for a closed connection", answer(nil, &jsonrpc.Error{Code: -32004, Message: "closing"}),
			unknown("The connection to the tool server was lost while the tool ran")},
		{"a question that nobody can be asked", answer(&sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"a": &sdk.ElicitParams{Message: "sure?"}}}, nil),
			chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "The tool asked for something that it did not get, and did not go on: nobody answered."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.add(&sdk.Tool{Name: "x"}, tt.handler)
				c := f.start(t, ClientOptions{})
				if diff := cmp.Diff(tt.want, call(t, c, "x", `{}`)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestClientCallsOnlyWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "drop"})
		config := fakeConfig
		config.DisabledTools = []string{"drop"}
		c := StartClient(config, ClientOptions{dial: f.dial})
		defer c.Close()
		if _, err := c.Call(t.Context(), "gone", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrNotFound) {
			t.Errorf("a tool that is not there gave %v", err)
		}
		if _, err := c.Call(t.Context(), "drop", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("a tool that is switched off gave %v", err)
		}
	})
}

func TestClientKeepsEveryDigit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.add(&sdk.Tool{Name: "echo"}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			raw := r.Params.Arguments
			return &sdk.CallToolResult{StructuredContent: raw, Content: []sdk.Content{&sdk.TextContent{Text: string(raw)}}}, nil
		})
		c := f.start(t, ClientOptions{})
		const input = `{"id":12345678901234567891,"big":9007199254740993,"text":"<&>","__proto__":{"a":1}}`
		r := call(t, c, "echo", input)
		var out toolOutput
		if err := json.Unmarshal(r.Output, &out); err != nil {
			t.Fatal(err)
		}
		if got := string(out.StructuredContent); got != input {
			t.Errorf("structured content %s, want %s", got, input)
		}
	})
}

func TestProgressReachesItsOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		late := make(chan func())
		f.add(&sdk.Tool{Name: "work"}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			tell := func(p *sdk.ProgressNotificationParams) {
				p.ProgressToken = r.Params.GetProgressToken()
				if err := r.Session.NotifyProgress(context.WithoutCancel(ctx), p); err != nil {
					t.Error(err)
				}
			}
			tell(&sdk.ProgressNotificationParams{Progress: 1, Total: 4})
			tell(&sdk.ProgressNotificationParams{Progress: 2.5})
			tell(&sdk.ProgressNotificationParams{Progress: 3, Total: 4, Message: "three\x00"})
			tell(&sdk.ProgressNotificationParams{Progress: 3, ProgressToken: "call-999"})
			time.Sleep(time.Second) // notifications are handled beside the answer
			go func() { late <- func() { tell(&sdk.ProgressNotificationParams{Progress: 4, Total: 4}) } }()
			return &sdk.CallToolResult{}, nil
		})
		c := f.start(t, ClientOptions{})
		var got []string
		if _, err := c.Call(t.Context(), "work", nil, func(s string) { got = append(got, s) }, nobody); err != nil {
			t.Fatal(err)
		}
		(<-late)()
		synctest.Wait()
		if diff := cmp.Diff([]string{"1/4", "2.5", "three\uFFFD", "3"}, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
}

// blocking adds a tool that says when it began and then never ends by itself.
func (f *fake) blocking(t *testing.T) (began chan struct{}) {
	began = make(chan struct{}, 8)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	f.add(&sdk.Tool{Name: "block"}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		began <- struct{}{}
		<-over // it does not listen to cancellation either, as most do not
		return &sdk.CallToolResult{}, nil
	})
	return began
}

func TestStoppedCallIsUnknownAndTheSessionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		began := f.blocking(t)
		c := f.start(t, ClientOptions{})
		for _, stop := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-began; cancel(stop) }()
			r, err := c.Call(ctx, "block", nil, func(string) {}, nobody)
			if err != nil || r.Outcome != chat.OutcomeUnknown || !strings.Contains(r.ErrorText, "stopped") {
				t.Errorf("stopped by %v: %+v, %v", stop, r, err)
			}
		}
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the next call gave %+v", r)
		}
		if dials, _ := f.counts(); dials != 1 {
			t.Errorf("%d sessions, want the first one only", dials)
		}
	})
}

func TestSecretsStayHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := fakeConfig
		config.Env = map[string]string{"TOKEN": "s3cret-value"}
		f := newFake(t)
		f.add(&sdk.Tool{Name: "x"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "401 for s3cret-value"}}}, nil
		})
		c := StartClient(config, ClientOptions{dial: f.dial, MinBackoff: time.Second})
		defer c.Close()
		if r := call(t, c, "x", `{}`); r.ErrorText != "401 for •••" {
			t.Errorf("the failure says %q", r.ErrorText)
		}
		f.setRefuse(errors.New("no such file: /opt/s3cret-value"))
		f.cut()
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := state(c); s.Error != "no such file: /opt/•••" {
			t.Errorf("the state says %q", s.Error)
		}
		if _, err := c.Tools(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error says %v", err)
		}
	})
}

func TestWhatAServerSaysIsShownWithoutSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "s3cret-value-that-is-long"
		config := fakeConfig
		config.Env = map[string]string{"TOKEN": secret}
		f := newFake(t)
		f.server = sdk.NewServer(&sdk.Implementation{Name: strings.Repeat("x", maxProblemText-10) + secret, Version: secret}, nil)
		f.add(&sdk.Tool{Name: "described", Title: secret, Description: strings.Repeat("x", maxDescription-10) + secret}, nil)
		f.add(&sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", maxErrorText-10) + secret}}}, nil
		})
		f.add(&sdk.Tool{Name: "refuse"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: 7, Message: secret}
		})
		f.add(&sdk.Tool{Name: "work"}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Message: strings.Repeat("x", maxProgress-10) + secret,
			})
			time.Sleep(time.Second) // notifications are handled beside the answer
			return &sdk.CallToolResult{}, err
		})
		f.asks(&sdk.ElicitParams{Message: "Is it " + secret + "?"}, nil)
		c := StartClient(config, ClientOptions{dial: f.dial})
		defer c.Close()
		tools, err := c.Tools(t.Context())
		if err != nil || len(tools) != 5 {
			t.Fatalf("tools %v, %v", tools, err)
		}
		s := state(c)
		said := []string{s.ServerName, s.ServerVersion, call(t, c, "fail", `{}`).ErrorText, call(t, c, "refuse", `{}`).ErrorText}
		for _, tool := range tools {
			said = append(said, tool.Title, tool.Description)
		}
		if _, err := c.Call(t.Context(), "work", nil, func(text string) { said = append(said, text) }, nobody); err != nil {
			t.Fatal(err)
		}
		callAsking(t, c, func(_ context.Context, q chat.Question) (chat.Answer, error) {
			said = append(said, q.Message)
			return chat.Answer{Action: chat.AnswerDecline}, nil
		})
		for _, text := range said {
			if strings.Contains(text, "s3") {
				t.Errorf("%d bytes that end in %q", len(text), text[max(0, len(text)-50):])
			}
		}
		if len(said) != 4+2*5+2 {
			t.Errorf("%d texts", len(said))
		}
	})
}
