package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestWhatAStatusSaysOfACall(t *testing.T) {
	const plain, toNobody = "not you", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	const refusal = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such table"}}`
	const failed, unknown, never = chat.OutcomeFailed, chat.OutcomeUnknown, chat.Outcome("never began")
	tests := []struct {
		name          string
		status        int
		session, auth bool // whether the server has sessions, and whether it says how to sign in
		body          string
		want          chat.Outcome
	}{
		{"a session that is gone", 404, true, false, plain, never},
		{"a session that is gone, with an answer to nobody", 404, true, false, toNobody, never},
		{"an answer of the server in a session", 404, true, false, refusal, failed},
		{"an answer of the server", 404, false, false, refusal, failed},
		{"nothing at the address, and no session", 404, false, false, plain, unknown},
		{"sign in first", 401, false, true, plain, never},
		{"a tool that could not sign in elsewhere", 401, false, false, plain, unknown},
		{"an answer of the server that is also a 401", 401, true, true, refusal, failed},
		{"not for these", 403, false, true, plain, never},
		{"a tool that may not", 403, true, false, plain, unknown},
		{"an answer of the server that is also a 403", 403, false, false, refusal, failed},
		{"a bad request", 400, false, false, plain, unknown},
		{"a bad request, says the server", 400, false, false, refusal, failed},
		{"a gateway that gave up", 504, true, false, plain, unknown},
		{"a gateway that gave up in words of the protocol", 502, true, false, refusal, unknown},
		{"too many", 429, false, false, plain, unknown},
		{"a fault", 500, false, false, plain, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb(t, &sdk.StreamableHTTPOptions{Stateless: !tt.session})
			c := w.connect(t, ClientOptions{})
			await(t, c, inPhase(chat.ServerReady))
			w.onCall(t, func(rw http.ResponseWriter, id string, r *http.Request) {
				if got := r.Header.Get("Mcp-Session-Id") != ""; got != tt.session {
					t.Errorf("the call is of a session: %v", got)
				}
				if tt.auth {
					rw.Header().Set("WWW-Authenticate", "Bearer")
				}
				rw.WriteHeader(tt.status)
				fmt.Fprint(rw, strings.ReplaceAll(tt.body, "ID", id))
			})
			r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody)
			got, text := r.Outcome, r.ErrorText
			if errors.Is(err, chat.ErrUnavailable) {
				got, text = never, err.Error()
			}
			if got != tt.want || strings.Contains(text, "s3cret") {
				t.Errorf("the call gave %+v, %v", r, err)
			}
			if status := fmt.Sprint(tt.status, " ", http.StatusText(tt.status)); tt.want == unknown && !strings.Contains(text, status) {
				t.Errorf("the status is not told: %s", text)
			}
			w.setAnswer(nil)
			await(t, c, func(s chat.ServerState) bool {
				r, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody)
				return s.Phase == chat.ServerReady && err == nil && r.Outcome == chat.OutcomeOK
			})
		})
	}
}

// The SDK's own server answers 404 when a tool calls for a method that is not
// there.
func TestAToolThatFailsWithMethodNotFoundRan(t *testing.T) {
	w := newWeb(t, nil)
	ran := false
	w.add(&sdk.Tool{Name: "drop"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ran = true
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such table"}
	})
	if r := call(t, w.connect(t, ClientOptions{}), "drop", `{}`); r.Outcome != chat.OutcomeFailed || !ran {
		t.Errorf("it ran: %v, and the call gave %+v", ran, r)
	}
}

func TestTransientRefusalLeavesTheOutcomeOpen(t *testing.T) {
	w := newWeb(t, nil)
	c := w.connect(t, ClientOptions{})
	await(t, c, inPhase(chat.ServerReady))
	w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			http.Error(rw, "upstream timed out", http.StatusGatewayTimeout)
		}
		return r.Method == http.MethodPost
	})
	if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeUnknown {
		t.Errorf("a gateway that gave up gave %+v", r)
	}
}
