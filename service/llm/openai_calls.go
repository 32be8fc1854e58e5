package llm

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// callDelta is a piece of a tool call. Arguments is a string; a few servers
// send the object itself.
type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

func (d callDelta) arguments() string {
	if !present(d.Function.Arguments) {
		return ""
	}
	var s string
	if json.Unmarshal(d.Function.Arguments, &s) == nil {
		return s
	}
	return string(d.Function.Arguments)
}

// assembler puts the pieces of tool calls together. Servers do not agree on
// what tells two calls apart; where it cannot be known, pieces are joined, for
// two joined calls are not JSON and never run, while a call that is cut in two
// might.
type assembler struct {
	calls []*wireCallState
	open  map[int]*wireCallState // the call that an index stands for at present
	ids   map[string]bool        // given out in this reply
}

// wireCallState is one call as far as it is known.
type wireCallState struct {
	index   int    // its number in the reply
	wireID  string // as the server sent it, "" if it did not
	id      string // as it is given out
	name    string
	args    strings.Builder
	extra   json.RawMessage
	started bool
}

// add takes one piece and gives the events that it makes, and its size.
func (a *assembler) add(d callDelta) ([]chat.StreamEvent, int, error) {
	args := d.arguments()
	size := len(args) + len(d.Function.Name) + len(d.ID) + len(d.ExtraContent)
	if size == 0 {
		return nil, 0, nil
	}
	c := a.find(d, args)
	var events []chat.StreamEvent
	if c == nil {
		if len(a.calls) == maxCalls {
			return nil, 0, broken(chat.ModelServer, "The reply makes more than %d tool calls.", maxCalls)
		}
		// An earlier call that still waits for arguments keeps its place.
		for _, earlier := range a.calls {
			events = append(events, a.start(earlier)...)
		}
		c = a.begin(d)
	}
	if !c.started {
		if c.wireID == "" {
			c.wireID = d.ID
		}
		if c.extra == nil && present(d.ExtraContent) {
			c.extra = d.ExtraContent
		}
		if d.Function.Name != c.name { // a repeated name adds nothing
			c.name += d.Function.Name
		}
	}
	if args == "" {
		return events, size, nil
	}
	c.args.WriteString(args)
	if !c.started {
		// The start waits for the first argument, when the name is whole.
		return append(events, a.start(c)...), size, nil
	}
	return append(events, chat.StreamEvent{Kind: chat.StreamToolInput, Index: c.index, Text: args}), size, nil
}

// find is the call that d goes on with, or nil if d begins one.
func (a *assembler) find(d callDelta, args string) *wireCallState {
	var c *wireCallState
	switch {
	case d.Index != nil:
		c = a.open[*d.Index]
	case d.ID != "":
		for _, other := range a.calls {
			if other.wireID == d.ID {
				c = other
			}
		}
	case len(a.calls) > 0:
		c = a.calls[len(a.calls)-1]
	}
	if c == nil || a.another(c, d, args) {
		return nil
	}
	return c
}

// another reports whether d, which comes where c did, is another call.
func (a *assembler) another(c *wireCallState, d callDelta, args string) bool {
	if d.ID != "" && c.wireID != "" && d.ID != c.wireID {
		return true
	}
	name := d.Function.Name
	if name == "" || c.name == "" || c.args.Len() == 0 {
		return false
	}
	if name != c.name {
		return true
	}
	// The same name again: some servers repeat it with every piece, others
	// call the same tool twice and tell the calls apart by nothing else.
	same := d.ID != "" && d.ID == c.wireID
	so := c.args.String()
	return !same && args != "" && strings.HasSuffix(strings.TrimSpace(so), "}") && json.Valid([]byte(so))
}

func (a *assembler) begin(d callDelta) *wireCallState {
	c := &wireCallState{index: len(a.calls)}
	a.calls = append(a.calls, c)
	if d.Index != nil {
		if a.open == nil {
			a.open = map[int]*wireCallState{}
		}
		a.open[*d.Index] = c
	}
	return c
}

// start announces c, if its name is known and that has not been done.
func (a *assembler) start(c *wireCallState) []chat.StreamEvent {
	if c.started || c.name == "" {
		return nil
	}
	c.started = true
	if a.ids == nil {
		a.ids = map[string]bool{}
	}
	c.id = c.wireID
	for c.id == "" || a.ids[c.id] {
		c.id = "call_" + rand.Text()
	}
	a.ids[c.id] = true
	ev := chat.StreamEvent{Kind: chat.StreamToolStart, Index: c.index, ID: c.id, Name: c.name}
	if c.extra != nil {
		ev.Metadata = openAIMetadata{ExtraContent: c.extra}.encode()
	}
	if c.args.Len() == 0 {
		return []chat.StreamEvent{ev}
	}
	return []chat.StreamEvent{ev, {Kind: chat.StreamToolInput, Index: c.index, Text: c.args.String()}}
}

// close announces the calls that have no arguments. A call without a name is
// an error: what it asks for is not known.
func (a *assembler) close() ([]chat.StreamEvent, error) {
	var events []chat.StreamEvent
	for _, c := range a.calls {
		if c.name == "" {
			return nil, broken(chat.ModelIncomplete, "The provider sent a tool call without the name of a tool.")
		}
		events = append(events, a.start(c)...)
	}
	return events, nil
}
