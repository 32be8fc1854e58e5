package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// Elicitation is a question that a server asks of the person while one of its
// tools runs.
type Elicitation struct {
	ServerID string
	Message  string
	Schema   json.RawMessage // JSON Schema of the answer's content
}

// ElicitAction says what the person did with a question.
type ElicitAction string

// The answers to a question.
const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline"
	ElicitCancel  ElicitAction = "cancel"
)

// ElicitAnswer is what is sent back; Content, a JSON object, goes with
// ElicitAccept only.
type ElicitAnswer struct {
	Action  ElicitAction
	Content json.RawMessage
}

// ask hands a server's question on, and its answer back. The question ends
// with the session.
func (c *Client) ask(ctx context.Context, s *session, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	if p.Mode != "" && p.Mode != "form" {
		return nil, errors.New("only forms can be shown") // what was advertised
	}
	question := Elicitation{ServerID: c.ID(), Message: storable(p.Message)}
	if p.RequestedSchema != nil {
		raw, err := chat.Marshal(p.RequestedSchema)
		if err != nil {
			return nil, fmt.Errorf("encode the requested schema: %w", err)
		}
		question.Schema = raw
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	answer, err := c.options.Elicit(ctx, question)
	if err != nil {
		return nil, errors.New("nobody answered") // why is no business of the server
	}
	out := &sdk.ElicitResult{Action: string(answer.Action)}
	if answer.Action == ElicitAccept && len(answer.Content) > 0 {
		if err := json.Unmarshal(answer.Content, &out.Content); err != nil {
			return nil, errors.New("the answer cannot be sent")
		}
	}
	return out, nil
}
