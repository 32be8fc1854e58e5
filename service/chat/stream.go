package chat

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// StreamKind says what a stream event adds to.
type StreamKind string

// The kinds of stream events.
const (
	StreamText      StreamKind = "text"
	StreamReasoning StreamKind = "reasoning"
	StreamToolStart StreamKind = "tool-start" // a new call: ID and Name are complete
	StreamToolInput StreamKind = "tool-input" // more of a call's arguments
)

// StreamEvent is one piece of a model's reply, as its dialect reads it.
type StreamEvent struct {
	Kind StreamKind
	// Index tells the calls of one reply apart; it means nothing else.
	Index int
	ID    string
	Name  string // of a tool, as it was sent to the model
	Text  string
	// Metadata is kept with the part that the event begins and given back to
	// the provider as it came.
	Metadata json.RawMessage
}

// FinishReason says why a model stopped.
type FinishReason string

// The reasons to stop.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool-calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content-filter"
	FinishOther         FinishReason = "other"
)

// Usage counts tokens, as the provider counts them; 0 is unknown.
type Usage struct {
	InputTokens  int `json:"inputTokens,omitempty"`
	OutputTokens int `json:"outputTokens,omitempty"`
}

// Reply is the end of a complete reply.
type Reply struct {
	Finish FinishReason
	Usage  Usage
}

// Delta is what one stream event changed of a draft: text that was added to a
// part, at an offset in UTF-16 units, as browsers count.
type Delta struct {
	Part   int    // position in the draft
	Field  string // "text", or "input" of a tool call
	Offset int
	Text   string
	Start  Part // the part as it began; nil if it was there before
}

// Draft folds stream events into the parts of one step. The zero value is an
// empty draft. An event costs what it adds, however long the draft is.
type Draft struct {
	parts []*draftPart // a builder must not be copied
	calls map[int]int  // stream index of a call → position
}

// draftPart is a part whose growing field is kept apart until it is asked for.
type draftPart struct {
	start  Part
	text   strings.Builder
	length int // of text, in UTF-16 units
}

func (p *draftPart) part() Part {
	switch start := p.start.(type) {
	case Text:
		start.Text = p.text.String()
		return start
	case Reasoning:
		start.Text = p.text.String()
		return start
	case ToolCall:
		start.RawInput = p.text.String()
		return start
	case File, StepStart, Other:
	}
	return p.start
}

// Apply adds ev to the draft and says what it changed. An event that changes
// nothing (empty text, input of an unknown call) gives false.
func (d *Draft) Apply(ev StreamEvent) (Delta, bool) {
	switch ev.Kind {
	case StreamText:
		if ev.Text == "" {
			return Delta{}, false
		}
		if _, ok := d.last().(Text); ok {
			return d.grow(len(d.parts)-1, "text", ev.Text, nil), true
		}
		n := d.push(Text{State: "streaming", ProviderMetadata: ev.Metadata})
		return d.grow(n, "text", ev.Text, Text{State: "streaming"}), true
	case StreamReasoning:
		if ev.Text == "" {
			return Delta{}, false
		}
		if _, ok := d.last().(Reasoning); ok {
			return d.grow(len(d.parts)-1, "text", ev.Text, nil), true
		}
		n := d.push(Reasoning{State: "streaming", ProviderMetadata: ev.Metadata})
		return d.grow(n, "text", ev.Text, Reasoning{State: "streaming"}), true
	case StreamToolStart:
		call := ToolCall{
			Type: DynamicTool, ToolName: ev.Name, ToolCallID: ev.ID, State: CallInputStreaming, CallProviderMetadata: ev.Metadata,
		}
		n := d.push(call)
		if d.calls == nil {
			d.calls = map[int]int{}
		}
		d.calls[ev.Index] = n
		return d.grow(n, "input", ev.Text, call), true
	case StreamToolInput:
		n, ok := d.calls[ev.Index]
		if !ok || ev.Text == "" {
			return Delta{}, false
		}
		return d.grow(n, "input", ev.Text, nil), true
	}
	return Delta{}, false
}

// last is the part that was begun last, nil in an empty draft.
func (d *Draft) last() Part {
	if len(d.parts) == 0 {
		return nil
	}
	return d.parts[len(d.parts)-1].start
}

func (d *Draft) push(start Part) int {
	d.parts = append(d.parts, &draftPart{start: start})
	return len(d.parts) - 1
}

func (d *Draft) grow(n int, field, text string, start Part) Delta {
	p := d.parts[n]
	delta := Delta{Part: n, Field: field, Offset: p.length, Text: text, Start: start}
	p.text.WriteString(text)
	p.length += UTF16Len(text)
	return delta
}

// Parts returns the draft as it stands: text parts are "streaming", calls are
// input-streaming with their text in RawInput.
func (d *Draft) Parts() Parts {
	parts := make(Parts, len(d.parts))
	for i, p := range d.parts {
		parts[i] = p.part()
	}
	return parts
}

// Text returns what may be kept of a reply that did not complete: its text and
// reasoning, marked as done. No call of a broken reply is kept.
func (d *Draft) Text() Parts {
	var kept Parts
	for _, p := range d.Parts() {
		switch p := p.(type) {
		case Text:
			p.State = "done"
			kept = append(kept, p)
		case Reasoning:
			p.State = "done"
			kept = append(kept, p)
		case ToolCall, File, StepStart, Other:
		}
	}
	return kept
}

// Complete returns the parts of a complete reply: text done, and each call
// with its checked input in state input-available, or settled as invalid with
// what the model is to hear. Call ids are made unique among themselves and
// those in taken.
func (d *Draft) Complete(taken map[string]bool) Parts {
	used := map[string]bool{}
	parts := d.Parts()
	for i, p := range parts {
		switch p := p.(type) {
		case Text:
			p.State = "done"
			parts[i] = p
		case Reasoning:
			p.State = "done"
			parts[i] = p
		case ToolCall:
			id := p.ToolCallID
			for n := 2; used[id] || taken[id]; n++ {
				id = p.ToolCallID + "-" + strconv.Itoa(n)
			}
			used[id] = true
			p.ToolCallID = id
			if input, err := CheckInput(p.RawInput); err != nil {
				p.State, p.ErrorText = CallOutputError, "The call was not run: "+err.Error()+"."
				p.ToolMetadata = &ToolMetadata{Outcome: OutcomeInvalid}
			} else {
				p.State, p.Input, p.RawInput = CallInputAvailable, input, ""
			}
			parts[i] = p
		case File, StepStart, Other:
		}
	}
	return parts
}

// UTF16Len is the length of s in UTF-16 code units.
func UTF16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
