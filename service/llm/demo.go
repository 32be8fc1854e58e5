package llm

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

// DemoModel is the name of the demo's only model, without its provider.
const DemoModel = "guide"

// demoPause is between two pieces of the demo's text: fast enough not to bore,
// slow enough to be seen to stream and to be stopped.
const demoPause = 25 * time.Millisecond

// Demo is a model that follows a few rules. It needs no network and no key,
// says that it is no language model, and asks for the built-in workspace's
// tools in answer to plain requests in English. The zero value is ready.
type Demo struct {
	// Pause waits between two pieces of a reply, and returns an error if ctx
	// ends first; nil waits for a moment that a person can see.
	Pause func(ctx context.Context) error
}

// Stream implements [Model].
func (d Demo) Stream(ctx context.Context, p chat.Prompt, emit func(chat.StreamEvent)) (chat.Reply, error) {
	answer := demoAnswer(p)
	if err := d.write(ctx, chat.StreamReasoning, answer.thought, emit); err != nil {
		return chat.Reply{}, err
	}
	if err := d.write(ctx, chat.StreamText, answer.text, emit); err != nil {
		return chat.Reply{}, err
	}
	for i, c := range answer.calls {
		if err := d.pause(ctx); err != nil {
			return chat.Reply{}, err
		}
		emit(chat.StreamEvent{Kind: chat.StreamToolStart, Index: i, ID: "call_" + rand.Text(), Name: c.tool})
		emit(chat.StreamEvent{Kind: chat.StreamToolInput, Index: i, Text: c.input()})
	}
	if ctx.Err() != nil {
		return chat.Reply{}, demoCanceled(ctx)
	}
	if len(answer.calls) > 0 {
		return chat.Reply{Finish: chat.FinishToolCalls}, nil
	}
	return chat.Reply{Finish: chat.FinishStop}, nil
}

// demoReply is what the demo says to a prompt.
type demoReply struct {
	thought string
	text    string
	calls   []demoCall
}

func demoAnswer(p chat.Prompt) demoReply {
	if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == chat.PromptTool {
		return demoReply{text: summary(p.Messages)}
	}
	first, asked := true, ""
	for _, m := range p.Messages {
		switch m.Role {
		case chat.PromptAssistant:
			first = false
		case chat.PromptUser:
			asked = textOf(m)
		case chat.PromptTool:
		}
	}
	r := respond(asked, p.Tools)
	if first {
		r.text = demoHello + "\n\n" + r.text
	}
	return r
}

func textOf(m chat.PromptMessage) string {
	var texts []string
	for _, part := range m.Parts {
		if part.Kind == chat.PromptText {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (d Demo) write(ctx context.Context, kind chat.StreamKind, text string, emit func(chat.StreamEvent)) error {
	for text != "" {
		if err := d.pause(ctx); err != nil {
			return err
		}
		n := pieceLen(text)
		emit(chat.StreamEvent{Kind: kind, Text: text[:n]})
		text = text[n:]
	}
	return nil
}

// pieceLen is the length of the next word with the space behind it. A word
// without end, such as a file of one line, is cut at a character.
func pieceLen(text string) int {
	const longest = 60
	i := strings.IndexAny(text, " \n")
	if i >= 0 && i < longest {
		return i + 1
	}
	if len(text) <= longest {
		return len(text)
	}
	n := longest
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

func (d Demo) pause(ctx context.Context) error {
	if d.Pause != nil {
		if err := d.Pause(ctx); err != nil {
			return demoCanceled(ctx)
		}
	} else {
		t := time.NewTimer(demoPause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return demoCanceled(ctx)
	}
	return nil
}

func demoCanceled(ctx context.Context) error {
	return &chat.ModelError{Kind: chat.ModelCanceled, Message: "The model call was canceled.", Cause: context.Cause(ctx)}
}
