package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// Turn is the answer to one request. A turn that is not ended by itself (by
// Status, Cut, EOF, Hang) is ended as a provider would: with a finish reason
// that fits, the usage if it was asked for, and the end mark.
type Turn struct {
	steps []step
}

// step writes a piece of an answer and reports whether to go on.
type step func(*answer) bool

// Then gives the turn that goes on with next.
func (t Turn) Then(next Turn) Turn {
	return Turn{append(append([]step{}, t.steps...), next.steps...)}
}

// Call is a tool call that a turn makes.
type Call struct {
	ID, Name string
	Args     string // sent as it is, JSON or not
}

// Text says chunks, one event each.
func Text(chunks ...string) Turn { return deltas("content", chunks) }

// Reasoning thinks chunks in the member reasoning_content.
func Reasoning(chunks ...string) Turn { return deltas("reasoning_content", chunks) }

// ReasoningIn thinks chunks in the named member of a delta.
func ReasoningIn(field string, chunks ...string) Turn { return deltas(field, chunks) }

func deltas(field string, chunks []string) Turn {
	var t Turn
	for _, c := range chunks {
		t.steps = append(t.steps, func(a *answer) bool { return a.delta(map[string]any{field: c}) })
	}
	return t
}

// argsPiece is about how much of its arguments a model writes at a time.
const argsPiece = 7

// Calls makes calls as OpenAI does: each begins with its id, its name and no
// arguments, which then follow in small pieces that may cut anything.
func Calls(calls ...Call) Turn {
	var t Turn
	for _, c := range calls {
		t.steps = append(t.steps, func(a *answer) bool {
			index := a.calls
			a.calls++
			item := func(m map[string]any) bool {
				m["index"] = index
				return a.delta(map[string]any{"tool_calls": []any{m}})
			}
			item(map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""}})
			for _, piece := range pieces(c.Args, argsPiece) {
				item(map[string]any{"function": map[string]any{"arguments": piece}})
			}
			return true
		})
	}
	return t
}

// pieces cuts s every n bytes or a little later, never within a character.
func pieces(s string, n int) []string {
	var out []string
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
		if b.Len() >= n {
			out = append(out, b.String())
			b.Reset()
		}
	}
	if b.Len() > 0 {
		out = append(out, b.String())
	}
	return out
}

// Delta sends one event with the given JSON as its delta, for shapes that no
// other function here makes. A delta with tool_calls in it makes the turn end in
// "tool_calls".
func Delta(delta string) Turn {
	return Turn{[]step{func(a *answer) bool {
		if strings.Contains(delta, `"tool_calls"`) {
			a.calls++
		}
		return a.delta(json.RawMessage(delta))
	}}}
}

// Raw writes lines as they are, each with a newline. It opens the stream but
// adds no ending.
func Raw(lines ...string) Turn {
	return Turn{[]step{func(a *answer) bool {
		a.raw = true
		return a.write(strings.Join(lines, "\n") + "\n")
	}}}
}

// Finish sends a finish reason of its own.
func Finish(reason string) Turn {
	return Turn{[]step{func(a *answer) bool { return a.finish(reason) }}}
}

// Status answers with an error instead of a stream. It must come first.
func Status(code int, header http.Header, body string) Turn {
	return Turn{[]step{func(a *answer) bool {
		for k, v := range header {
			a.w.Header()[http.CanonicalHeaderKey(k)] = v
		}
		if a.w.Header().Get("Content-Type") == "" {
			a.w.Header().Set("Content-Type", "application/json")
		}
		a.w.WriteHeader(code)
		_, _ = io.WriteString(a.w, body) // a client that left has no use for it
		return false
	}}}
}

// EOF ends the answer cleanly, in the middle.
func EOF() Turn {
	return Turn{[]step{func(a *answer) bool {
		a.open()
		return false
	}}}
}

// Cut breaks the connection off. What was sent before arrives; then the client
// sees the connection end in the middle of the body.
func Cut() Turn {
	return Turn{[]step{func(a *answer) bool {
		a.open()
		panic(http.ErrAbortHandler) // net/http's own word for "drop the connection"
	}}}
}

// Hang opens the stream and says nothing until release is closed or the client
// is gone, which ends the turn. A nil release is never closed.
func Hang(release <-chan struct{}) Turn {
	return Turn{[]step{func(a *answer) bool {
		a.open()
		return a.wait(release)
	}}}
}

// Gate waits for ch before it goes on, also before the first byte. A client
// that leaves ends the turn.
func Gate(ch <-chan struct{}) Turn {
	return Turn{[]step{func(a *answer) bool { return a.wait(ch) }}}
}

// answer is one reply as it is written.
type answer struct {
	w        http.ResponseWriter
	r        *http.Request
	stop     <-chan struct{} // the server ends
	left     func()          // told that the client left
	model    string
	usage    bool
	calls    int
	opened   bool
	finished bool
	raw      bool
}

func (a *answer) wait(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-a.r.Context().Done():
		a.left()
		return false
	case <-a.stop:
		return false
	}
}

func (a *answer) open() {
	if a.opened {
		return
	}
	a.opened = true
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.WriteHeader(http.StatusOK)
	a.flush()
}

func (a *answer) flush() {
	// A writer that cannot flush only makes the stream lumpy.
	_ = http.NewResponseController(a.w).Flush()
}

// write sends text in one write, as the real ones send an event.
func (a *answer) write(text string) bool {
	a.open()
	if _, err := io.WriteString(a.w, text); err != nil {
		a.left()
		return false
	}
	a.flush()
	return true
}

func (a *answer) event(v any) bool {
	raw, err := chat.Marshal(v)
	if err != nil {
		return a.write(fmt.Sprintf("data: {\"error\":{\"message\":%q}}\n\n", err.Error()))
	}
	return a.write("data: " + string(raw) + "\n\n")
}

func (a *answer) chunk(choices []any) map[string]any {
	return map[string]any{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": a.model, "choices": choices}
}

func (a *answer) delta(d any) bool {
	return a.event(a.chunk([]any{map[string]any{"index": 0, "delta": d, "finish_reason": nil}}))
}

func (a *answer) finish(reason string) bool {
	a.finished = true
	return a.event(a.chunk([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}}))
}

// end writes the usual ending. The usage is the same for every reply.
func (a *answer) end() {
	if a.raw {
		return
	}
	if !a.finished {
		reason := "stop"
		if a.calls > 0 {
			reason = "tool_calls"
		}
		if !a.finish(reason) {
			return
		}
	}
	if a.usage {
		last := a.chunk([]any{})
		last["usage"] = map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
		if !a.event(last) {
			return
		}
	}
	a.write("data: [DONE]\n\n")
}
