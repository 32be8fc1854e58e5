package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

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
	}
	return nil, false
}

// Parent is none.
func (v *view) Parent() cel.Activation { return nil }

// object reads a JSON object for the evaluation. What cannot be read exactly
// is an error as its value: a rule that looks at it fails.
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
	for k, e := range m {
		exact, err := exactly(e)
		if err != nil {
			return types.NewErr("%v", err)
		}
		m[k] = exact
	}
	return m
}

// exactly replaces the numbers of a JSON value by values that compare as the
// numbers themselves do.
func exactly(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i, e := range v {
			exact, err := exactly(e)
			if err != nil {
				return nil, err
			}
			v[i] = exact
		}
	case map[string]any:
		for k, e := range v {
			exact, err := exactly(e)
			if err != nil {
				return nil, err
			}
			v[k] = exact
		}
	}
	return v, nil
}

// number is an int64 or a float64 that stands for the text and for nothing
// beside it: the float64's shortest decimal form must be the text's number.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		return nil, fmt.Errorf("an integer of more than 64 bits cannot be compared exactly")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || decimal(text) != decimal(strconv.FormatFloat(f, 'e', -1, 64)) {
		return nil, fmt.Errorf("a number of so many digits cannot be compared exactly")
	}
	if math.Abs(f) >= exactDoubles && math.Abs(f) < math.MaxInt64 {
		return int64(f), nil // whole, and as a float64 it would equal its neighbours
	}
	return f, nil
}

// digits is a decimal number in one way of writing it: sign, digits without
// zeros at either end, and the power of ten of the first digit.
type digits struct {
	negative bool
	text     string
	power    int
}

func decimal(text string) digits {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	power, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if exponent != "" && err != nil {
		return digits{text: text} // an exponent that large equals nothing
	}
	d := digits{}
	mantissa, d.negative = strings.TrimPrefix(mantissa, "-"), strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	significant := strings.TrimLeft(all, "0")
	d.power = power + len(whole) - (len(all) - len(significant))
	if d.text = strings.TrimRight(significant, "0"); d.text == "" {
		return digits{}
	}
	return d
}
