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
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestAnswersToNobodyEndNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		began, finish := make(chan struct{}), make(chan struct{})
		f.add(&sdk.Tool{Name: "x"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			close(began)
			<-finish
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil
		})
		c := f.start(t, ClientOptions{})
		go func() {
			<-began
			f.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"what?"}}`)
			f.say(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}`)
			f.say(`{"jsonrpc":"2.0","id":12345,"error":{"code":-32602,"message":"what?"}}`)
			close(finish)
		}()
		if r := call(t, c, "x", `{}`); r.Outcome != chat.OutcomeOK {
			t.Errorf("the call gave %+v", r)
		}
		if dials, _ := f.counts(); dials != 1 {
			t.Errorf("%d sessions", dials)
		}
	})
}

func TestNothingThatEndsASessionIsAnAnswer(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":[1],"error":{"code":-32602,"message":"no"}}`, // "parse error" to the SDK
		`{"jsonrpc":"2.0","method":7}`,
		`{"jsonrpc":"2.0"`,
	} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				began := f.blocking(t)
				c := f.start(t, ClientOptions{})
				go func() { <-began; f.say(line) }()
				if r := call(t, c, "block", `{}`); r.Outcome != chat.OutcomeUnknown {
					t.Errorf("the call gave %+v", r)
				}
			})
		})
	}
}

// A server may stop reading while a large call is written, and then say that
// its tools changed.
func TestCloseEndsWhateverTheServerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{})
		call(t, c, "ping", `{}`)
		end := make(chan struct{})
		defer close(end)
		f.pause(end)
		result := make(chan chat.Result, 1)
		go func() { result <- call(t, c, "ping", fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 1<<20))) }()
		synctest.Wait()
		f.add(&sdk.Tool{Name: "new"}, nil)
		time.Sleep(time.Second) // the tools are being listed
		c.Close()
		if r := <-result; r.Outcome != chat.OutcomeUnknown {
			t.Errorf("the call gave %+v", r)
		}
	})
}

func TestToolsThatCannotBeListedAgainAreNotKept(t *testing.T) {
	kinds := map[string]func(ctx context.Context) error{
		"no answer":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"an error":   func(context.Context) error { return errors.New("no table of tools") },
		"no reading": nil,
	}
	for name, answer := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, &sdk.Tool{Name: "a"})
				f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
					return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
						if _, lists := f.counts(); method == "tools/list" && lists == 1 && answer != nil {
							f.list()
							return nil, answer(ctx)
						}
						return next(ctx, method, req)
					}
				})
				c := f.start(t, ClientOptions{})
				synctest.Wait()
				end := make(chan struct{})
				defer close(end)
				if answer == nil {
					f.pause(end) // after the next that it reads
					f.say(`{"jsonrpc":"2.0","id":"a","method":"ping"}`)
				}
				f.add(&sdk.Tool{Name: "b"}, nil)
				time.Sleep(time.Second)
				f.pause(nil)
				time.Sleep(65 * time.Second)
				synctest.Wait()
				if dials, _ := f.counts(); dials != 2 || state(c).Phase != chat.ServerReady {
					t.Errorf("%d sessions, state %+v", dials, state(c))
				}
				tools, err := c.Tools(t.Context())
				if diff := cmp.Diff([]string{"fake__a", "fake__b"}, toolNames(tools)); diff != "" || err != nil {
					t.Errorf("tools (-want +got):\n%s%v", diff, err)
				}
			})
		})
	}
}

func TestServerThatAsksAndDoesNotHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{MinBackoff: time.Hour})
		synctest.Wait()
		for i := range 3 * maxOpen { // it hears: nothing happens
			f.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"a%d","method":"ping"}`, i))
			synctest.Wait()
		}
		if s := state(c); s.Phase != chat.ServerReady {
			t.Fatalf("state %+v", s)
		}
		end := make(chan struct{})
		defer close(end)
		f.pause(end)
		go func() {
			for i := range 3 * maxOpen {
				f.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"b%d","method":"ping"}`, i))
			}
		}()
		synctest.Wait()
		if s := state(c); s.Phase != chat.ServerFailed || !strings.Contains(s.Error, "asks more than it hears") {
			t.Errorf("state %+v", s)
		}
	})
}

func TestServerThatReadsNothingIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{})
		call(t, c, "ping", `{}`)
		end := make(chan struct{})
		defer close(end)
		f.pause(end)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			time.Sleep(2 * time.Second)
			f.pause(nil) // for the next session
		}()
		large := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 1<<20))
		if r, err := c.Call(ctx, "ping", json.RawMessage(large), func(string) {}, nobody); err != nil || r.Outcome != chat.OutcomeUnknown {
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
