// Package llm speaks the wire dialects of language models. A model is asked
// once per Stream: no tool runs here, nothing is retried here, and a reply is
// complete only if its protocol says so.
package llm

import (
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// Model answers prompts.
type Model interface {
	// Stream asks the model once and passes its reply to emit, piece by piece,
	// from the calling goroutine. A nil error means that the reply is complete
	// by its protocol, and only then may its tool calls be offered to anybody.
	// Whether their arguments are valid is for the caller to settle. Every
	// error is a *chat.ModelError; what was emitted before it is a part of a
	// broken reply.
	Stream(ctx context.Context, p chat.Prompt, emit func(chat.StreamEvent)) (chat.Reply, error)
}
