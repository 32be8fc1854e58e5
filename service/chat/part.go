// Package chat is the vocabulary of the server: topics, messages, the parts a
// message is made of, turns and approvals, and the rules that say what may
// happen to them. It imports nothing but the standard library, reads no clock
// and does no I/O: times and ids are arguments.
package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A Part is one piece of a message, in the AI SDK's UIMessage shape. The set
// is closed: every switch over parts is checked for completeness. A type that
// this build does not know is an [Other], kept byte for byte.
//
//sumtype:decl
type Part interface {
	// PartType is the value of the part's "type" member.
	PartType() string
	isPart()
}

// Text is prose written by a person or a model.
type Text struct {
	Text string `json:"text"`
	// State is "streaming" while the model writes, "done" after, or absent.
	State            string          `json:"state,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
}

// Reasoning is what a model says it thought.
type Reasoning struct {
	ID               string          `json:"id,omitempty"`
	Text             string          `json:"text"`
	State            string          `json:"state,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
}

// File is an attachment by URL; small ones are data: URLs.
type File struct {
	MediaType        string          `json:"mediaType"`
	URL              string          `json:"url"`
	Filename         string          `json:"filename,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
}

// StepStart marks where the model was asked again.
type StepStart struct{}

// Other is a part of any other type (source-*, data-*, newer releases). Raw is
// the whole JSON object, "type" included, and is passed through unchanged.
type Other struct {
	Type string
	Raw  json.RawMessage
}

func (Text) isPart()      {}
func (Reasoning) isPart() {}
func (File) isPart()      {}
func (StepStart) isPart() {}
func (ToolCall) isPart()  {}
func (Other) isPart()     {}

// PartType is "text".
func (Text) PartType() string { return "text" }

// PartType is "reasoning".
func (Reasoning) PartType() string { return "reasoning" }

// PartType is "file".
func (File) PartType() string { return "file" }

// PartType is "step-start".
func (StepStart) PartType() string { return "step-start" }

// PartType is the type the part came with.
func (o Other) PartType() string { return o.Type }

// Parts is an ordered message body. Its JSON is an array, never null.
type Parts []Part

// MarshalJSON writes each part with its "type" first.
func (ps Parts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		raw, err := EncodePart(p)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		b.Write(raw)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// UnmarshalJSON reads any array of objects that have a "type".
func (ps *Parts) UnmarshalJSON(data []byte) error {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return err
	}
	parts := make(Parts, len(raws))
	for i, raw := range raws {
		p, err := DecodePart(raw)
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		parts[i] = p
	}
	*ps = parts
	return nil
}

// EncodePart returns the part's JSON object on one line, "type" first. Raw
// members keep their digits and key order; white space between tokens is
// dropped.
func EncodePart(p Part) ([]byte, error) {
	if o, ok := p.(Other); ok {
		return compact(o.Raw)
	}
	body, err := Marshal(p)
	if err != nil {
		return nil, err
	}
	typ, err := Marshal(p.PartType())
	if err != nil {
		return nil, err
	}
	head := append([]byte(`{"type":`), typ...)
	if len(body) > len("{}") {
		head = append(head, ',')
	}
	return append(head, body[1:]...), nil
}

// DecodePart reads one part. A known type with members of the wrong shape is
// an error; an unknown type is not.
func DecodePart(raw []byte) (Part, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Type == "":
		return nil, errors.New(`a part needs a "type"`)
	case head.Type == "text":
		return decodeAs[Text](raw)
	case head.Type == "reasoning":
		return decodeAs[Reasoning](raw)
	case head.Type == "file":
		return decodeAs[File](raw)
	case head.Type == "step-start":
		return StepStart{}, nil
	case head.Type == DynamicTool || strings.HasPrefix(head.Type, toolPrefix):
		c, err := decodeAs[ToolCall](raw)
		if err != nil {
			return nil, err
		}
		call := c.(ToolCall)
		if call.Type = head.Type; call.Type != DynamicTool {
			call.ToolName = strings.TrimPrefix(call.Type, toolPrefix)
		}
		return call, nil
	default:
		kept, err := compact(raw)
		if err != nil {
			return nil, err
		}
		return Other{Type: head.Type, Raw: kept}, nil
	}
}

func decodeAs[P Part](raw []byte) (Part, error) {
	var p P
	err := json.Unmarshal(raw, &p)
	return p, err
}

// Marshal is json.Marshal without escaping HTML, so that what is stored, shown
// and run is what was written.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func compact(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
