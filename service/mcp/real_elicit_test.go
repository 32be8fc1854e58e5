//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// asking finds the tool that asks the person. The server offers it only after
// it has seen what we advertise.
func (r *real) asking(t *testing.T) chat.Tool {
	t.Helper()
	var tool chat.Tool
	await(t, r.Client, func(chat.ServerState) (ok bool) {
		tool, ok = r.lookup(t, "trigger-elicitation-request")
		return ok
	})
	return tool
}

func TestPublishedServerAsks(t *testing.T) {
	port := freePort(t)
	over := listen(t, port)
	program := published(t, "server-everything")
	for name, config := range map[string]chat.MCPServer{
		"stdio": node("everything", program, "stdio"),
		"HTTP":  {ID: "id-web", Name: "web", Transport: chat.TransportHTTP, URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReal(t, config, ClientOptions{})
			tool := r.asking(t)
			var asked []chat.Question
			answer := chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"name":"Ada","check":true,"integer":7}`)}
			ask := func(_ context.Context, q chat.Question) (chat.Answer, error) {
				asked = append(asked, q)
				return answer, nil
			}
			got := r.catalogue.Call(t.Context(), tool, json.RawMessage(`{}`), nil, ask)
			var out toolOutput
			if err := json.Unmarshal(got.Output, &out); err != nil || len(out.Content) != 3 {
				t.Fatalf("accepted, the tool gave %+v (%v)", got, err)
			}
			if said := string(out.Content[1]); !strings.Contains(said, `User inputs:\n- Name: Ada\n- Agreed to terms: true\n- Favorite Integer: 7"`) {
				t.Errorf("the tool heard %s", said)
			}
			answer = chat.Answer{Action: chat.AnswerDecline}
			got = r.catalogue.Call(t.Context(), tool, json.RawMessage(`{}`), nil, ask)
			if !strings.Contains(text(t, got), "declined") {
				t.Errorf("declined, the tool gave %+v", got)
			}
			if len(asked) != 2 || asked[0].Message == "" || !strings.Contains(string(asked[0].Schema), `"titledMultipleSelectEnum"`) {
				t.Errorf("the questions were %+v", asked)
			}
			// The answers that the published form allows can be checked.
			if err := r.catalogue.Validate(chat.Tool{InputSchema: asked[0].Schema}, json.RawMessage(`{"name":"Ada","titledMultipleSelectEnum":["fish-2"]}`)); err != nil {
				t.Errorf("a right answer breaks the schema: %v", err)
			}
			if err := r.catalogue.Validate(chat.Tool{InputSchema: asked[0].Schema}, json.RawMessage(`{"name":"Ada","integer":101}`)); !errors.Is(err, chat.ErrInvalid) {
				t.Errorf("a wrong answer gave %v", err)
			}

			got = r.catalogue.Call(t.Context(), tool, json.RawMessage(`{}`), nil, nil)
			if got.Outcome != chat.OutcomeFailed {
				t.Errorf("with nobody to ask, the tool gave %+v", got)
			}

			ctx, stop := context.WithCancel(t.Context())
			got = r.catalogue.Call(ctx, tool, json.RawMessage(`{}`), nil, func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
				stop()
				<-ctx.Done()
				return chat.Answer{}, ctx.Err()
			})
			if got.Outcome != chat.OutcomeUnknown {
				t.Errorf("stopped while it asked, the tool gave %+v", got)
			}

			ended := false
			got = r.catalogue.Call(t.Context(), tool, json.RawMessage(`{}`), nil, func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
				if config.Transport == chat.TransportHTTP {
					over.kill()
				} else {
					r.kill(t)
				}
				<-ctx.Done()
				ended = true
				return chat.Answer{}, ctx.Err()
			})
			if got.Outcome != chat.OutcomeUnknown || !ended {
				t.Errorf("killed while it asked, the tool gave %+v; the question ended: %v", got, ended)
			}
		})
	}
}
