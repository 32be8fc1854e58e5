// Package mcp is where a model's tools come from: servers that offer tools, the
// catalogue over all of them, and the built-in workspace.
//
// Nothing here decides whether a call may run. A call that arrives has been
// allowed, by rule or by a person, and was recorded as started.
package mcp

import (
	"context"
	"encoding/json"

	"github.com/assent-chat/assent/service/chat"
)

// Server offers tools and runs them. Its methods may be called from several
// goroutines at once.
type Server interface {
	// Name is what people and models know the server by.
	Name() string
	// ID never changes, also when the server is renamed.
	ID() string
	// Tools lists what the server offers now.
	Tools(ctx context.Context) ([]chat.Tool, error)
	// Call runs one tool once. A tool that ran and did not succeed is a Result
	// with OutcomeFailed. An error means that the server cannot tell how the
	// call ended, except that one of kind chat.ErrUnavailable or
	// chat.ErrNotFound promises that the call never began. The functions are
	// never nil, and may be called until Call returns: progress, and ask with
	// one question at a time.
	Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), ask Ask) (chat.Result, error)
}
