package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		config.DisabledTools, config.AutoApproveTools = []string{"drop"}, []string{"read"}
		c := StartClient(config, ClientOptions{dial: f.dial})
		defer c.Close()
		got, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []chat.Tool{
			{
				Name: "fake__drop", Server: "fake", ServerID: "id-fake", Tool: "drop", Title: "Drop it",
				InputSchema: json.RawMessage(`{"type":"object"}`),
				Annotations: json.RawMessage(`{"idempotentHint":false,"readOnlyHint":false,"title":"Drop it"}`),
				Policy:      chat.ToolPolicy{Disabled: true},
			},
			{
				Name: "fake__read", Server: "fake", ServerID: "id-fake", Tool: "read", Title: "Read a thing", Description: "Reads.",
				InputSchema: json.RawMessage(`{"properties":{"n":{"type":"integer"}},"type":"object"}`),
				Annotations: json.RawMessage(`{"destructiveHint":false,"idempotentHint":false,"readOnlyHint":true}`),
				Policy:      chat.ToolPolicy{AutoApprove: true},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		wantState := State{Phase: PhaseReady, ToolCount: 2, ServerName: "fake", ServerVersion: "7", Protocol: "2026-07-28"}
		if diff := cmp.Diff(wantState, c.State(), cmpopts.IgnoreFields(State{}, "Since")); diff != "" {
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
			chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "The tool asked for more input while it ran, which cannot be given here."}},
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
		if _, err := c.Call(t.Context(), "gone", nil, func(string) {}); !errors.Is(err, chat.ErrNotFound) {
			t.Errorf("a tool that is not there gave %v", err)
		}
		if _, err := c.Call(t.Context(), "drop", nil, func(string) {}); !errors.Is(err, chat.ErrUnavailable) {
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
		if _, err := c.Call(t.Context(), "work", nil, func(s string) { got = append(got, s) }); err != nil {
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
			r, err := c.Call(ctx, "block", nil, func(string) {})
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

func TestCrashWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		began := f.blocking(t)
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		go func() { <-began; f.cut() }()
		r, err := c.Call(t.Context(), "block", nil, func(string) {})
		if err != nil || r.Outcome != chat.OutcomeUnknown || !strings.Contains(r.ErrorText, "lost") {
			t.Fatalf("the call that was cut off: %+v, %v", r, err)
		}
		synctest.Wait()
		if s := c.State(); s.Phase != PhaseFailed || s.Error != "the fake was cut" {
			t.Errorf("state after the crash: %+v", s)
		}
		if _, err := c.Call(t.Context(), "ping", nil, func(string) {}); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("a call before the server is back gave %v", err)
		}
		if _, err := c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("tools before the server is back gave %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the call after the reconnect gave %+v", r)
		}
		select {
		case <-began:
			t.Error("the call was sent again")
		default:
		}
		want := []Phase{PhaseStarting, PhaseReady, PhaseFailed, PhaseStarting, PhaseReady}
		if diff := cmp.Diff(want, told.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

func TestReconnectBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		f.setRefuse(errors.New("refused"))
		c := f.start(t, ClientOptions{})
		time.Sleep(4 * time.Minute)
		f.setRefuse(nil)
		f.mu.Lock()
		var waits []time.Duration
		for i := range f.dials[1:] {
			waits = append(waits, f.dials[i+1].Sub(f.dials[i]).Round(time.Second))
		}
		f.mu.Unlock()
		s := time.Second
		if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Minute)
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the call after the outage gave %+v", r)
		}
		before, _ := f.counts()
		f.cut() // after a minute of life the waits begin anew
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if after, _ := f.counts(); after != before+1 {
			t.Errorf("a server that had been steady was not connected again after the first wait")
		}
	})
}

func TestRestartDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{MinBackoff: time.Hour})
		synctest.Wait()
		c.Restart()
		synctest.Wait()
		if dials, _ := f.counts(); dials != 2 || c.State().Phase != PhaseReady {
			t.Errorf("after a restart: %d sessions, %s", dials, c.State().Phase)
		}
		f.cut()
		synctest.Wait()
		c.Restart() // a server that failed need not be waited for either
		synctest.Wait()
		if dials, _ := f.counts(); dials != 3 || c.State().Phase != PhaseReady {
			t.Errorf("after a restart of a failed one: %d sessions, %s", dials, c.State().Phase)
		}
	})
}

func TestChangedToolsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "a"})
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		synctest.Wait()
		_, before := f.counts()
		for _, name := range []string{"b", "c", "d"} {
			f.add(&sdk.Tool{Name: name}, nil)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, lists := f.counts(); lists != before+1 {
			t.Errorf("the tools were listed %d times for one burst of changes", lists-before)
		}
		tools, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"fake__a", "fake__b", "fake__c", "fake__d"}, toolNames(tools)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		if last := told.seen[len(told.seen)-1]; last.Phase != PhaseReady || last.ToolCount != 4 {
			t.Errorf("the change was told as %+v", last)
		}
	})
}

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

func TestHungServerDelaysNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		silent := make(chan struct{})
		f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				select {
				case <-silent:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return next(ctx, method, req)
			}
		})
		defer close(silent)
		c := f.start(t, ClientOptions{})
		began := time.Now()
		_, err := c.Tools(t.Context())
		if !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("the list ended after %v with %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err = c.Call(t.Context(), "x", nil, func(string) {}); !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 0 {
			t.Errorf("the second one waited too: %v, %v", time.Since(began), err)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if s := c.State(); s.Phase != PhaseFailed || !strings.Contains(s.Error, "did not answer in time") {
			t.Errorf("state after the start's time: %+v", s)
		}
	})
}

// Some servers answer nothing before they are initialized, also not the
// question of what they speak.
func TestServerThatKnowsOnlyTheOldHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "server/discover" {
					<-ctx.Done()
				}
				return next(ctx, method, req)
			}
		})
		c := f.start(t, ClientOptions{})
		time.Sleep(2 * time.Minute)
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" || c.State().Protocol != "2025-11-25" {
			t.Errorf("got %+v in the state %+v", r, c.State())
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if sent := f.sent.String(); strings.Contains(sent, `"roots"`) || !strings.Contains(sent, `"capabilities":{}`) {
			t.Errorf("the old handshake advertises something:\n%s", sent)
		}
	})
}

func TestServerThatReadsNothingIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{})
		call(t, c, "ping", `{}`)
		pause := func(until chan struct{}) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.paused = until
		}
		end := make(chan struct{})
		defer close(end)
		pause(end)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			time.Sleep(2 * time.Second)
			pause(nil) // for the next session
		}()
		large := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 1<<20))
		if r, err := c.Call(ctx, "ping", json.RawMessage(large), func(string) {}); err != nil || r.Outcome != chat.OutcomeUnknown {
			t.Errorf("a call to a server that reads nothing gave %+v, %v", r, err)
		}
		synctest.Wait()
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the next call gave %+v", r)
		}
		if dials, _ := f.counts(); dials != 2 {
			t.Errorf("%d sessions, want a second one", dials)
		}
	})
}

func TestCallsWaitForAServerThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		dial := f.dial
		c := StartClient(fakeConfig, ClientOptions{dial: func(s chat.MCPServer, stderr *ring) (*wire, error) {
			time.Sleep(5 * time.Second)
			return dial(s, stderr)
		}})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "ping", nil, func(string) {}); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("a call that was not waited for gave %v", err)
		}
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("got %+v", r)
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		began := f.blocking(t)
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		go func() { <-began; c.Close(); c.Close() }()
		if r := call(t, c, "block", `{}`); r.Outcome != chat.OutcomeUnknown {
			t.Errorf("the call ended as %+v", r)
		}
		c.Close()
		if _, err := c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("tools of a closed client gave %v", err)
		}
		if phases := told.phases(); phases[len(phases)-1] != PhaseDisabled {
			t.Errorf("the end was told as %v", phases)
		}
	})
}

func TestServerWithTooManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		for i := range maxTools + 1 {
			f.add(&sdk.Tool{Name: fmt.Sprint("t", i)}, nil)
		}
		c := f.start(t, ClientOptions{})
		synctest.Wait()
		if s := c.State(); s.Phase != PhaseFailed || !strings.Contains(s.Error, "more than 1000") {
			t.Errorf("state: %+v", s)
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
		if s := c.State(); s.Error != "no such file: /opt/•••" {
			t.Errorf("the state says %q", s.Error)
		}
		if _, err := c.Tools(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error says %v", err)
		}
	})
}
