package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// stopGrace is how long a tool whose context has ended may take to say how
	// far it came, before its outcome is taken to be unknown.
	stopGrace = 2 * time.Second
	// maxOutput is the largest answer of a tool that is kept, in bytes. A client
	// stays below it by leaving out what does not fit.
	maxOutput = 8 << 20
	// maxDepth is how deep a tool's answer may nest. Go's own decoder gives up
	// at 10,000, and a message wraps the answer in some levels of its own.
	maxDepth = 1000
)

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

// settle makes a result fit to be stored. An error is what Server has it to be.
func settle(ctx context.Context, tool chat.Tool, r chat.Result, err error) chat.Result {
	switch {
	case errors.Is(err, chat.ErrUnavailable), errors.Is(err, chat.ErrNotFound):
		return unavailable(err)
	case err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return unknown("The call was stopped while it ran")
	case err != nil:
		return unknown(fmt.Sprintf("The tool %s broke off (%v)", tool.Name, err))
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

func unavailable(err error) chat.Result {
	return chat.Result{Outcome: chat.OutcomeUnavailable, ErrorText: errorText("The call was not run: " + chat.Sentence(err))}
}

func unknown(why string) chat.Result {
	return chat.Result{
		Outcome:   chat.OutcomeUnknown,
		ErrorText: errorText(why) + ": its outcome is unknown. It may or may not have taken effect. It was not run again.",
	}
}
