package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/assent-chat/assent/service/chat"
)

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
	if err := distinct(servers, Server.ID, Server.Name); err != nil {
		return err
	}
	servers = slices.Clone(servers)
	c.servers.Store(&servers)
	return nil
}

// distinct says which two servers cannot be told apart.
func distinct[S any](servers []S, id, name func(S) string) error {
	ids, names := map[string]bool{}, map[string]bool{}
	for _, s := range servers {
		if id(s) == "" {
			return chat.Conflict("The tool server %s has no id.", name(s))
		}
		if ids[id(s)] {
			return chat.Conflict("Two tool servers have the id %s.", id(s))
		}
		if names[name(s)] {
			return chat.Conflict("Two tool servers have the name %s.", name(s))
		}
		ids[id(s)], names[name(s)] = true, true
	}
	return nil
}

// Tools lists the tools of every server, as ToolsOf does.
func (c *Catalogue) Tools(ctx context.Context) ([]chat.Tool, error) { return c.ToolsOf(ctx, nil) }

// ToolsOf lists the tools of the servers with the ids, or of all servers if
// serverIDs is nil, in the order of the servers. No other server is waited for,
// and those that are, are asked side by side. One that does not answer does not
// hide the others: the tools are those that could be listed, also when the
// error, which names what could not be, is not nil. No two of them have the
// same name.
func (c *Catalogue) ToolsOf(ctx context.Context, serverIDs []string) ([]chat.Tool, error) {
	type listing struct {
		tools []chat.Tool
		err   error
	}
	servers := slices.Clone(*c.servers.Load())
	if serverIDs != nil {
		servers = slices.DeleteFunc(servers, func(s Server) bool { return !slices.Contains(serverIDs, s.ID()) })
	}
	listings := make([]listing, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { listings[i].tools, listings[i].err = serverTools(ctx, s) })
	}
	asking.Wait()
	var all []chat.Tool
	var errs []error
	owner := map[string]string{}
	for i, s := range servers {
		if err := listings[i].err; err != nil {
			errs = append(errs, err)
			continue
		}
		for _, t := range listings[i].tools {
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
		return unavailable(chat.Unavailable("The tool %s has another schema than when it was called.", tool.Name))
	}
	if tool.Identity != "" && tool.Identity != now.Identity {
		return unavailable(chat.Unavailable("The server of the tool %s is another than when it was called: its settings changed.", tool.Name))
	}
	if err := c.Validate(now, input); err != nil {
		return chat.Result{Outcome: chat.OutcomeInvalid, ErrorText: errorText("The call was not run: " + chat.Sentence(err))}
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
		return nil, chat.Tool{}, chat.NotFound("The tool server %s has no tool %q any more.", s.Name(), tool)
	}
	return nil, chat.Tool{}, chat.NotFound("The server of the tool %q is not there any more.", tool)
}

func serverTools(ctx context.Context, s Server) (tools []chat.Tool, err error) {
	defer func() {
		if p := recover(); p != nil {
			tools, err = nil, fmt.Errorf("list the tools of server %s: panic: %s", s.Name(), chat.PanicText(p))
		}
	}()
	tools, err = s.Tools(ctx)
	if _, told := errors.AsType[*chat.Error](err); told { // it names the server
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("list the tools of server %s: %w", s.Name(), err)
	}
	return tools, nil
}

// sameText reports whether two schemas are the same but for white space.
func sameText(a, b json.RawMessage) bool {
	var ca, cb bytes.Buffer
	return json.Compact(&ca, a) == nil && json.Compact(&cb, b) == nil && bytes.Equal(ca.Bytes(), cb.Bytes())
}
