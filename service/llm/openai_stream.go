package llm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tmaxmax/go-sse"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxEvent = 4 << 20 // bytes of one event; a whole reply may come in one
	maxReply = 8 << 20 // bytes of text and arguments
	maxCalls = 128
)

// chunk is one event of a stream. What is not used is not decoded, so that a
// server's oddities elsewhere do no harm.
type chunk struct {
	Choices []struct {
		Index        int             `json:"index"`
		Delta        delta           `json:"delta"`
		FinishReason string          `json:"finish_reason"`
		Error        json.RawMessage `json:"error"`
	} `json:"choices"`
	Usage  json.RawMessage `json:"usage"`
	Error  json.RawMessage `json:"error"`
	Object json.RawMessage `json:"object"`
}

type delta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ToolCalls        []callDelta     `json:"tool_calls"`
}

// decodeStream reads a reply to its end. It returns no error only if the reply
// is complete: a finish reason came, and nothing after it.
func decodeStream(w *watchdog, body io.Reader, emit func(chat.StreamEvent)) (chat.Reply, error) {
	src := &reader{r: body, w: w}
	s := &stream{emit: emit}
	var readErr error
	for ev, err := range sse.Read(src, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			readErr = err
			break
		}
		if err := w.ctx.Err(); err != nil {
			return chat.Reply{}, err // nothing is emitted after the end of the call
		}
		done, err := s.event(ev)
		if err != nil {
			return chat.Reply{}, err
		}
		if done {
			return s.end(true)
		}
		if s.finish != "" {
			w.allow(min(w.idle, lastWords))
		} else {
			w.allow(w.idle)
		}
	}
	if src.err != nil && !errors.Is(src.err, io.EOF) {
		readErr = src.err
	}
	if errors.Is(readErr, bufio.ErrTooLong) {
		return chat.Reply{}, broken(chat.ModelServer, "The provider sent an event of more than %d MiB.", maxEvent>>20)
	}
	if reply, err := s.end(false); err == nil || readErr == nil {
		return reply, err
	}
	return chat.Reply{}, &chat.ModelError{
		Kind: chat.ModelIncomplete, Cause: bare(readErr),
		Message: "The connection to the provider broke in the middle of its reply: " + networkText(readErr),
	}
}

// stream is what is known of a reply while it is read.
type stream struct {
	emit      func(chat.StreamEvent)
	calls     assembler
	size      int
	finish    string // the last finish reason, "" again once more content comes
	usage     chat.Usage
	reasoning string // the member in which this reply's reasoning comes
}

// event takes one event and reports whether it is the end mark.
func (s *stream) event(ev sse.Event) (bool, error) {
	data := strings.TrimSpace(ev.Data)
	if data == "" {
		return false, nil
	}
	if data == "[DONE]" {
		return true, nil
	}
	var c chunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		if ev.Type == "error" {
			return false, eventError(quoted(data))
		}
		// An unread event may have held the end of an argument.
		return false, &chat.ModelError{Kind: chat.ModelServer, Cause: err, Message: "The provider sent an event that cannot be read as a piece of a reply."}
	}
	switch {
	case present(c.Error):
		return false, eventError(c.Error)
	case ev.Type == "error", string(c.Object) == `"error"`:
		return false, eventError(json.RawMessage(data))
	}
	s.count(c.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one reply was asked for
		}
		if present(choice.Error) {
			return false, eventError(choice.Error)
		}
		if err := s.delta(choice.Delta); err != nil {
			return false, err
		}
		if choice.FinishReason != "" {
			s.finish = choice.FinishReason
		}
	}
	return false, nil
}

func quoted(s string) json.RawMessage {
	raw, err := chat.Marshal(s)
	if err != nil {
		return nil // a string is always written
	}
	return raw
}

func (s *stream) delta(d delta) error {
	if text, field := s.thought(d); text != "" {
		if err := s.grow(len(text)); err != nil {
			return err
		}
		s.emit(chat.StreamEvent{Kind: chat.StreamReasoning, Text: text, Metadata: openAIMetadata{ReasoningField: field}.encode()})
	}
	if text := contentText(d.Content) + contentText(d.Refusal); text != "" {
		if err := s.grow(len(text)); err != nil {
			return err
		}
		s.emit(chat.StreamEvent{Kind: chat.StreamText, Text: text})
	}
	for _, item := range d.ToolCalls {
		events, n, err := s.calls.add(item)
		if err != nil {
			return err
		}
		if err := s.grow(n); err != nil {
			return err
		}
		for _, ev := range events {
			s.emit(ev)
		}
	}
	return nil
}

// thought is the reasoning of a delta. Some servers send it under both names:
// the name that came first counts for the whole reply.
func (s *stream) thought(d delta) (text, field string) {
	content, plain := contentText(d.ReasoningContent), contentText(d.Reasoning)
	if s.reasoning == "" {
		switch {
		case content != "":
			s.reasoning = fieldReasoningContent
		case plain != "":
			s.reasoning = fieldReasoning
		}
	}
	if s.reasoning == fieldReasoning {
		return plain, s.reasoning
	}
	return content, s.reasoning
}

// contentText is a content that is a string, or an array with texts in it.
func contentText(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []contentPart
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		if p.Type == "text" {
			text += p.Text
		}
	}
	return text
}

// grow counts n bytes of content. Content after a finish reason takes it back:
// the reply goes on, and its end must be told again.
func (s *stream) grow(n int) error {
	if n == 0 {
		return nil
	}
	s.finish = ""
	if s.size += n; s.size > maxReply {
		return broken(chat.ModelServer, "The reply is larger than %d MiB.", maxReply>>20)
	}
	return nil
}

// count reads a usage, which servers repeat and correct: the last one counts.
func (s *stream) count(raw json.RawMessage) {
	var u struct {
		In  float64 `json:"prompt_tokens"`
		Out float64 `json:"completion_tokens"`
	}
	const most = 1 << 40
	if json.Unmarshal(raw, &u) == nil && u.In >= 0 && u.Out >= 0 && u.In < most && u.Out < most && u.In+u.Out > 0 {
		s.usage = chat.Usage{InputTokens: int(u.In), OutputTokens: int(u.Out)}
	}
}

// end is the reply, if what came is one. An end mark replaces no finish
// reason: servers send it after a crash as well.
func (s *stream) end(marked bool) (chat.Reply, error) {
	if s.finish == "" {
		if marked {
			return chat.Reply{}, broken(chat.ModelIncomplete, "The provider ended its reply without saying that it is complete.")
		}
		return chat.Reply{}, broken(chat.ModelIncomplete, "The provider's reply ended too early.")
	}
	events, err := s.calls.close()
	if err != nil {
		return chat.Reply{}, err
	}
	reason, whole := finishReason(s.finish)
	calls := len(s.calls.calls) > 0
	switch {
	case reason == "":
		return chat.Reply{}, broken(chat.ModelServer, "The provider ended its reply with an error of its own.")
	case calls && !whole:
		return chat.Reply{}, broken(chat.ModelIncomplete, "The provider cut its reply off in the middle of tool calls (%s). None of them is offered.", shorten(s.finish))
	case calls:
		reason = chat.FinishToolCalls
	case reason == chat.FinishToolCalls:
		return chat.Reply{}, broken(chat.ModelIncomplete, "The provider ended its reply with tool calls, but sent none.")
	}
	for _, ev := range events {
		s.emit(ev)
	}
	return chat.Reply{Finish: reason, Usage: s.usage}, nil
}

// finishReason translates a finish reason, and says whether the calls of a
// reply that ends so are whole. An unknown reason promises nothing. "" is an
// error that the server reports in this way.
func finishReason(s string) (reason chat.FinishReason, whole bool) {
	switch strings.ToLower(s) {
	case "stop", "eos", "eos_token", "end_turn":
		return chat.FinishStop, true
	case "tool_calls", "tool_use", "function_call":
		return chat.FinishToolCalls, true
	case "length", "max_tokens", "model_length":
		return chat.FinishLength, false
	case "content_filter", "safety":
		return chat.FinishContentFilter, false
	case "error":
		return "", false
	}
	return chat.FinishOther, false
}

func broken(kind chat.ModelErrorKind, format string, a ...any) *chat.ModelError {
	return &chat.ModelError{Kind: kind, Message: fmt.Sprintf(format, a...)}
}
