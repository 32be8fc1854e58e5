package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// stopGrace is how long a tool whose context has ended may take to say how far
// it came, before its outcome is taken to be unknown.
const stopGrace = 2 * time.Second

// maxOutput is the largest answer of a tool that is kept, in bytes. A client
// stays below it by leaving out what does not fit.
const maxOutput = 8 << 20

// maxDepth is how deep a tool's answer may nest. Go's own decoder gives up at
// 10,000, and a message wraps the answer in some levels of its own.
const maxDepth = 1000

// Catalogue is the tools of several servers, and the way to run them. It is
// safe for concurrent use.
type Catalogue struct {
	servers atomic.Pointer[[]Server] // replaced, never changed
	schemas schemas
}

// NewCatalogue returns a catalogue over servers, as Set has them.
func NewCatalogue(servers ...Server) (*Catalogue, error) {
	c := &Catalogue{}
	if err := c.Set(servers...); err != nil {
		return nil, err
	}
	return c, nil
}

// Set makes the catalogue one over servers. Their ids and their names must be
// unique, or a call could reach the wrong one: a list that is not so changes
// nothing. Calls that run go on with the server that they began with.
func (c *Catalogue) Set(servers ...Server) error {
	ids, names := map[string]bool{}, map[string]bool{}
	for _, s := range servers {
		if ids[s.ID()] {
			return chat.Conflict("Two tool servers have the id %s.", s.ID())
		}
		if names[s.Name()] {
			return chat.Conflict("Two tool servers have the name %s.", s.Name())
		}
		ids[s.ID()], names[s.Name()] = true, true
	}
	servers = slices.Clone(servers)
	c.servers.Store(&servers)
	return nil
}

// Tools lists the tools of every server, in the order of the servers. A server
// that does not answer does not hide the others: the tools are those that could
// be listed, also when the error, which names what could not be, is not nil.
// No two of them have the same name.
func (c *Catalogue) Tools(ctx context.Context) ([]chat.Tool, error) {
	var all []chat.Tool
	var errs []error
	owner := map[string]string{}
	for _, s := range *c.servers.Load() {
		tools, err := serverTools(ctx, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, t := range tools {
			if first, ok := owner[t.Name]; ok {
				errs = append(errs, fmt.Errorf("tool %s of server %s is left out: server %s has one of that name", t.Name, s.Name(), first))
				continue
			}
			owner[t.Name] = s.Name()
			all = append(all, t)
		}
	}
	return all, errors.Join(errs...)
}

// Has reports whether there is a server with the id.
func (c *Catalogue) Has(serverID string) bool {
	return slices.ContainsFunc(*c.servers.Load(), func(s Server) bool { return s.ID() == serverID })
}

// Validate holds an input against the tool's schema. A violation is a
// *chat.InputError that points at it; a schema that cannot be used is another
// error of kind chat.ErrInvalid. Numbers are compared exactly, and nothing
// outside the schema is ever loaded.
func (c *Catalogue) Validate(tool chat.Tool, input json.RawMessage) error {
	return c.schemas.validate(tool.InputSchema, input)
}

// Call runs an allowed call once and says what became of it. It never panics,
// and returns soon after ctx ends, with OutcomeUnknown unless the tool still
// told how it ended. A tool that is gone, or whose schema is not the one that
// tool carries, is not run (OutcomeUnavailable), and neither is an input that
// breaks the schema (OutcomeInvalid), and a tool of a server that is reached in
// another way than when tool was listed (OutcomeUnavailable).
//
// Progress is told how far the tool has come, and ask what its server wants to
// know of the person, one question at a time. Either may be nil; a question is
// refused then. Neither is called after Call has returned, and no question is
// open then: the contexts of those that were have ended, and were waited for.
func (c *Catalogue) Call(ctx context.Context, tool chat.Tool, input json.RawMessage, progress func(string),
	ask func(context.Context, chat.Question) (chat.Answer, error),
) chat.Result {
	server, now, err := c.find(ctx, tool.ServerID, tool.Tool)
	if ctx.Err() != nil {
		return chat.Result{Outcome: chat.OutcomeStopped, ErrorText: chat.StoppedText}
	}
	if err != nil {
		return unavailable(err)
	}
	if len(tool.InputSchema) > 0 && !sameText(tool.InputSchema, now.InputSchema) {
		return unavailable(fmt.Errorf("the tool %s has another schema than when it was called", tool.Name))
	}
	if tool.Identity != "" && tool.Identity != now.Identity {
		return unavailable(fmt.Errorf("the server of the tool %s is another than when it was called: its settings changed", tool.Name))
	}
	if err := c.Validate(now, input); err != nil {
		return chat.Result{Outcome: chat.OutcomeInvalid, ErrorText: errorText("The call was not run: " + strings.TrimSuffix(err.Error(), ".") + ".")}
	}
	return run(ctx, server, now, input, progress, ask)
}

func (c *Catalogue) find(ctx context.Context, serverID, tool string) (Server, chat.Tool, error) {
	for _, s := range *c.servers.Load() {
		if s.ID() != serverID {
			continue
		}
		tools, err := serverTools(ctx, s)
		if err != nil {
			return nil, chat.Tool{}, err
		}
		for _, t := range tools {
			if t.Tool == tool {
				return s, t, nil
			}
		}
		return nil, chat.Tool{}, fmt.Errorf("the tool server %s has no tool %q any more", s.Name(), tool)
	}
	return nil, chat.Tool{}, fmt.Errorf("the server of the tool %q is not there any more", tool)
}

func serverTools(ctx context.Context, s Server) (tools []chat.Tool, err error) {
	defer func() {
		if p := recover(); p != nil {
			tools, err = nil, fmt.Errorf("list the tools of server %s: panic: %s", s.Name(), chat.PanicText(p))
		}
	}()
	tools, err = s.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tools of server %s: %w", s.Name(), err)
	}
	return tools, nil
}

// run watches over one call: whatever the server does, it ends in a result.
func run(ctx context.Context, s Server, tool chat.Tool, input json.RawMessage, progress func(string), ask Ask) chat.Result {
	report, asking := &reporter{to: progress}, newAsker(ctx, ask)
	defer report.close()
	defer asking.close()
	ended := make(chan chat.Result, 1)
	go func() {
		// Holds if the server panics or ends this goroutine.
		result := unknown("The tool broke down while it ran")
		defer func() {
			recover() //nolint:errcheck // its value may quote the input, which is not for the model to read back
			ended <- result
		}()
		r, err := s.Call(ctx, tool.Tool, input, report.report, asking.ask)
		result = settle(ctx, tool, r, err)
	}()
	select {
	case r := <-ended:
		return r
	case <-ctx.Done():
	}
	// A tool that ends now still knows best; one that does not listen is left behind.
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case r := <-ended:
		return r
	case <-grace.C:
		return unknown("The call was stopped while it ran")
	}
}

func settle(ctx context.Context, tool chat.Tool, r chat.Result, err error) chat.Result {
	switch {
	case errors.Is(err, chat.ErrUnavailable), errors.Is(err, chat.ErrNotFound):
		return unavailable(err)
	case err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return unknown("The call was stopped while it ran")
	case err != nil:
		return chat.Result{Outcome: chat.OutcomeFailed, ErrorText: errorText(fmt.Sprintf("The tool %s failed: %v.", tool.Name, err))}
	case r.Outcome == chat.OutcomeOK:
		return chat.Result{Outcome: chat.OutcomeOK, Output: output(r.Output)}
	case r.Outcome == "":
		return unknown("The tool did not say how it ended")
	default:
		text := r.ErrorText
		if strings.TrimSpace(text) == "" {
			text = fmt.Sprintf("The tool %s failed and gave no reason.", tool.Name)
		}
		return chat.Result{Outcome: r.Outcome, ErrorText: errorText(text)}
	}
}

// depth is how deep the brackets of valid JSON nest.
func depth(raw json.RawMessage) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// output makes a tool's answer fit to be stored and shown: JSON in UTF-8. What
// is not JSON, or nests deeper than readers of JSON go, is kept as a JSON
// string.
func output(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
		return json.RawMessage("null")
	case len(raw) > maxOutput:
		return json.RawMessage(fmt.Sprintf(`"The tool ran and answered %d bytes, which is more than is kept (%d)."`, len(raw), maxOutput))
	}
	if json.Valid(raw) && depth(raw) <= maxDepth {
		return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	text, err := chat.Marshal(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if err != nil {
		return json.RawMessage(`"The tool's answer cannot be shown."`)
	}
	return text
}

// errorText makes a text fit to be stored as the reason of a failure.
func errorText(s string) string { return shorten(storable(s), 16<<10) }

// storable makes a text fit to be stored: UTF-8, without NUL, which databases
// refuse.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func unavailable(err error) chat.Result {
	return chat.Result{Outcome: chat.OutcomeUnavailable, ErrorText: errorText(fmt.Sprintf("The call was not run: %v.", err))}
}

func unknown(why string) chat.Result {
	return chat.Result{
		Outcome:   chat.OutcomeUnknown,
		ErrorText: why + ": its outcome is unknown. It may or may not have taken effect. It was not run again.",
	}
}

// sameText reports whether two schemas are the same but for white space.
func sameText(a, b json.RawMessage) bool {
	var ca, cb bytes.Buffer
	return json.Compact(&ca, a) == nil && json.Compact(&cb, b) == nil && bytes.Equal(ca.Bytes(), cb.Bytes())
}

// reporter passes progress on until it is closed: a tool that was left behind
// must not report on a call that is settled.
type reporter struct {
	mu     sync.Mutex
	to     func(string)
	closed bool
}

func (r *reporter) report(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil && !r.closed {
		r.to(text)
	}
}

func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}
