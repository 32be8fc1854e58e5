package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// Ask asks the person a question of a tool that runs, and waits for the
// answer. An error means that nobody will answer. It returns soon after its
// context ends.
type Ask = func(context.Context, chat.Question) (chat.Answer, error)

const (
	maxQuestion = 10 << 10 // of its message, in bytes
	maxForm     = 64 << 10 // of its schema
	// maxRounds bounds how often one call is sent with answers that its server
	// asked for.
	maxRounds = 50
)

// unaskable says why a question was not put to anybody, or got no answer. The
// server is told.
type unaskable struct{ why string }

func (e unaskable) Error() string { return e.why }

// asked hands a server's question to the call that asks it, and the answer
// back. The question ends with that call, with the session, and when the
// server takes it back.
//
// Nothing in the protocol names the call before 2026-07-28, where a question
// stands in place of the call's result. It is the one that runs, or of several
// the newest.
func (s *session) asked(ctx context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	s.mu.Lock()
	var newest *liveCall
	for _, call := range s.calls {
		if newest == nil || call.number > newest.number {
			newest = call
		}
	}
	s.mu.Unlock()
	if newest == nil {
		return nil, unaskable{"no call runs that could ask anything"}
	}
	return newest.put(ctx, p)
}

// answers puts the questions that a server asked in place of a result.
func (c *liveCall) answers(ctx context.Context, requests sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	if len(requests) == 0 {
		return nil, unaskable{"the server is busy"} // that is how it says so
	}
	responses := sdk.InputResponseMap{}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		p, ok := requests[name].(*sdk.ElicitParams)
		if !ok {
			return nil, unaskable{"that is not offered here"}
		}
		answer, err := c.put(ctx, p)
		if err != nil {
			return nil, err
		}
		responses[name] = answer
	}
	return responses, nil
}

// put asks one question of the call after another.
func (c *liveCall) put(ctx context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	question, err := askable(p, c.secrets)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, unaskable{"nobody answered"}
	}
	answer, err := c.ask(ctx, question)
	if err != nil {
		return nil, unaskable{"nobody answered"} // why is no business of the server
	}
	out := &sdk.ElicitResult{Action: string(answer.Action)}
	if answer.Action == chat.AnswerAccept && len(answer.Content) > 0 {
		d := json.NewDecoder(bytes.NewReader(answer.Content))
		d.UseNumber() // the digits are the person's
		if err := d.Decode(&out.Content); err != nil {
			return nil, unaskable{"the answer cannot be sent"}
		}
	}
	return out, nil
}

// askable makes a question of what a server wants to know, or says why nobody
// can be asked that.
func askable(p *sdk.ElicitParams, hidden secrets) (chat.Question, error) {
	if p == nil {
		return chat.Question{}, unaskable{"there is no question"}
	}
	if p.Mode != "" && p.Mode != "form" || p.URL != "" {
		return chat.Question{}, unaskable{"only forms can be shown"} // what was advertised
	}
	if len(p.Message) > maxQuestion {
		return chat.Question{}, unaskable{"the message is larger than " + size(maxQuestion)}
	}
	q := chat.Question{Message: hidden.text(p.Message, maxQuestion)}
	if p.RequestedSchema == nil {
		return q, nil
	}
	raw, err := chat.Marshal(p.RequestedSchema)
	if err != nil {
		return chat.Question{}, unaskable{"the requested schema cannot be read"}
	}
	if err := checkForm(raw); err != nil {
		return chat.Question{}, err
	}
	q.Schema = raw
	return q, nil
}

// asker passes questions on until it is closed: a tool that was left behind
// must not ask on behalf of a call that is settled.
type asker struct {
	to Ask

	mu   sync.Mutex
	ends context.Context // with the call, or with close
	end  context.CancelFunc
	open sync.WaitGroup
}

func newAsker(ctx context.Context, to Ask) *asker {
	a := &asker{to: to}
	a.ends, a.end = context.WithCancel(ctx)
	return a
}

var errNobody = errors.New("nobody can be asked")

func (a *asker) ask(ctx context.Context, q chat.Question) (chat.Answer, error) {
	a.mu.Lock()
	if a.ends.Err() != nil || a.to == nil {
		a.mu.Unlock()
		return chat.Answer{}, errNobody
	}
	a.open.Add(1)
	a.mu.Unlock()
	defer a.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ends, cancel)()
	return a.to(ctx, q)
}

// close ends the questions that are open, and returns when they have ended.
func (a *asker) close() {
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	a.open.Wait()
}
