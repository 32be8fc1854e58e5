package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/assent-chat/assent/service/chat"
)

// view is a call as rules see it. Its JSON is read when a rule looks at it
// first, and once for all rules.
type view struct {
	facts              *chat.Facts
	input, annotations any
	topic              map[string]string
	meter              *meter
}

// ResolveName is how the evaluation reads a variable.
func (v *view) ResolveName(name string) (any, bool) {
	switch name {
	case "tool":
		return v.facts.Tool, true
	case "server":
		return v.facts.Server, true
	case "principal":
		return v.facts.Principal, true
	case "topic":
		if v.topic == nil {
			t := v.facts.Topic
			v.topic = map[string]string{"id": t.ID, "title": t.Title, "model": t.Model}
		}
		return v.topic, true
	case "input":
		if v.input == nil {
			v.input = object(v.facts.Input)
		}
		return v.input, true
	case "annotations":
		if v.annotations == nil {
			v.annotations = object(v.facts.Annotations)
		}
		return v.annotations, true
	case meterName:
		return v.meter, true
	}
	return nil, false
}

// Parent is none.
func (v *view) Parent() cel.Activation { return nil }

// object reads a JSON object for the evaluation. What is none is an error as
// its value: a rule that looks at it fails.
func object(raw json.RawMessage) any {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil || m == nil {
		return types.NewErr("it is not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return types.NewErr("it is more than one JSON object")
	}
	return exactly(m)
}

// exactly replaces the numbers of a JSON value by values that compare as the
// numbers themselves do. One that cannot is an error in its place: a rule that
// looks at it fails, and one that looks beside it does not notice.
func exactly(v any) any {
	switch v := v.(type) {
	case json.Number:
		exact, err := number(string(v))
		if err != nil {
			return types.WrapErr(err)
		}
		return exact
	case []any:
		for i, e := range v {
			v[i] = exactly(e)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = exactly(e)
		}
	}
	return v
}
