package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxTools       = 1000     // of one server
	maxAllTools    = 16 << 20 // bytes of all tools of one server
	maxToolName    = 1 << 10
	maxDescription = 16 << 10
)

// remoteTool is a tool as its server describes it.
type remoteTool struct {
	name, title, description string
	schema, annotations      json.RawMessage
}

func (t remoteTool) size() int {
	return len(t.name) + len(t.title) + len(t.description) + len(t.schema) + len(t.annotations)
}

// listed is what came of asking a server for its tools.
type listed struct {
	tools []remoteTool
	// leftOut says why tools were left out, by their names.
	leftOut map[string]error
	err     error
}

// list asks for all tools of the server. The channel is not waited for longer
// than ctx: while a server reads nothing, the SDK does not listen to it.
func (s *session) list(ctx context.Context) <-chan listed {
	answer := make(chan listed, 1)
	go func() { answer <- list(ctx, s.sdk, s.secrets) }()
	return answer
}

func list(ctx context.Context, s *sdk.ClientSession, hidden secrets) listed {
	found := listed{leftOut: map[string]error{}}
	if caps := s.InitializeResult().Capabilities; caps != nil && caps.Tools == nil {
		return found
	}
	seen, room := map[string]bool{}, maxAllTools
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			return listed{err: fmt.Errorf("list the tools: %w", err)}
		}
		if t == nil || t.Name == "" || seen[t.Name] {
			continue // two of one name cannot be told apart; the first is the one that is called
		}
		if len(seen) == maxTools {
			return listed{err: fmt.Errorf("list the tools: there are more than %d", maxTools)}
		}
		seen[t.Name] = true
		tool, err := describe(t, hidden)
		if err != nil {
			found.leftOut[shorten(storable(t.Name), maxProblemText)] = err
			continue
		}
		if room -= tool.size(); room < 0 {
			return listed{err: fmt.Errorf("list the tools: together they are larger than %s", size(maxAllTools))}
		}
		found.tools = append(found.tools, tool)
	}
	return found
}

// describe makes a tool of what a server says of it. The error says why the
// tool cannot be offered.
func describe(t *sdk.Tool, hidden secrets) (remoteTool, error) {
	tool := remoteTool{
		name: t.Name, title: t.Title, description: hidden.text(t.Description, maxDescription),
		schema: json.RawMessage(noSchema),
	}
	if len(t.Name) > maxToolName {
		return remoteTool{}, errors.New("its name is larger than " + size(maxToolName))
	}
	if t.InputSchema != nil {
		raw, err := chat.Marshal(t.InputSchema)
		if err != nil {
			return remoteTool{}, fmt.Errorf("encode the schema: %w", err)
		}
		tool.schema = raw
	}
	if t.Annotations != nil {
		raw, err := chat.Marshal(t.Annotations)
		if err != nil {
			return remoteTool{}, fmt.Errorf("encode the annotations: %w", err)
		}
		tool.annotations = raw
		if tool.title == "" {
			tool.title = t.Annotations.Title
		}
	}
	if len(tool.schema)+len(tool.annotations) > maxSchemaBytes {
		return remoteTool{}, errors.New("its schema and its annotations are larger than " + size(maxSchemaBytes))
	}
	// A schema that is wrong is told to whoever calls the tool; one that is a
	// burden to check is kept from them.
	if _, err := compile(tool.schema); errors.Is(err, errCostly) {
		return remoteTool{}, err
	}
	tool.title = hidden.text(tool.title, maxProblemText)
	return tool, nil
}
