package policy

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// costs prices a call by what it really looks at. The library prices most
// calls on values of a type that is known only at run time as one step, and a
// comparison by the outermost size of what is compared.
type costs struct{}

// perStep is how many bytes are looked at for the price of a step.
const perStep = 10

// CallCost is asked after each call.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	switch function {
	case "matches":
		return nil // priced by text and pattern
	case operators.Equals, operators.NotEquals, operators.In, operators.OldIn:
		for _, a := range args {
			cost += size(a, maxCost*perStep) / perStep
		}
	default:
		for _, a := range args {
			cost += flat(a) / perStep
		}
	}
	return &cost
}

// flat is the size of a text.
func flat(v any) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

// size is how much there is in a value, down to its leaves, of which each
// counts for a step at least. It stops counting at most.
func size(v any, most uint64) uint64 {
	n := uint64(perStep)
	add := func(v any) bool {
		if n < most {
			n += size(v, most-n)
		}
		return n < most
	}
	switch v := v.(type) {
	case types.String:
		n += uint64(len(v))
	case types.Bytes:
		n += uint64(len(v))
	case string:
		n += uint64(len(v))
	case []byte:
		n += uint64(len(v))
	case []any:
		for _, e := range v {
			if !add(e) {
				return most
			}
		}
	case []ref.Val:
		for _, e := range v {
			if !add(e) {
				return most
			}
		}
	case map[string]any:
		for k, e := range v {
			if !add(k) || !add(e) {
				return most
			}
		}
	case map[ref.Val]ref.Val:
		for k, e := range v {
			if !add(k) || !add(e) {
				return most
			}
		}
	case types.Bool, types.Int, types.Uint, types.Double, types.Null, types.Duration, types.Timestamp, *types.Err, *types.Unknown, ref.Type:
	case ref.Val:
		add(v.Value())
	}
	return min(n, most)
}
