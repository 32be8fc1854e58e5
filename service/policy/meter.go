package policy

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// What an evaluation may cost, in steps. A step is a node of an expression
// that is evaluated, a value that is compared, or perStep bytes of a text that
// is looked at.
const (
	maxRule      = 1_000_000
	maxJudgement = 3_000_000
	maxMatcher   = 10_000_000
	// minRule is left to each rule of a judgement, whatever the others have
	// spent: input that makes some rules dear must not blind the cheap ones.
	minRule = 5_000

	perStep  = 10
	zoneCost = 2_000 // of a time in a zone, which is read from a file
)

// meterName is the name by which what is planned finds the meter of the
// evaluation. No variable of an expression can have it.
const meterName = "@meter"

// meter counts what the rules of one judgement after another cost. The library has a
// tracker of costs; it keeps a stack that every turn of a loop adds to, and
// searches through it at every step, which is quadratic in the length of the
// list.
type meter struct {
	all       uint64 // what is left for all judgements
	judgement uint64 // what is left for all rules of this one
	rule      uint64 // what is left for the rule that is evaluated
}

// next begins a judgement.
func (m *meter) next() { m.judgement = min(maxJudgement, m.all) }

// start begins the evaluation of a rule.
func (m *meter) start() {
	m.rule = min(maxRule, max(m.judgement, minRule))
}

// spend takes from what is left, and ends the evaluation if that is too little.
func (m *meter) spend(steps uint64) {
	paid := min(steps, m.rule) // what is refused is not done, and costs nobody anything
	m.rule -= paid
	m.judgement -= min(paid, m.judgement)
	m.all -= min(paid, m.all)
	if paid < steps {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "it costs too much"})
	}
}

// read pays for the text that a value is. Nothing else is read where a value
// is only handed on.
func (m *meter) read(v any) { m.spend(textSize(v) / perStep) }

// whole pays for all that there is in a value, down to its leaves, and reports
// whether there is no error among them.
func (m *meter) whole(v any) bool {
	m.spend(1)
	switch v := v.(type) {
	case error: // also types.Err
		return false
	case []any:
		for _, e := range v {
			if !m.whole(e) {
				return false
			}
		}
	case []ref.Val:
		for _, e := range v {
			if !m.whole(e) {
				return false
			}
		}
	case map[string]any:
		for k, e := range v {
			m.read(k)
			if !m.whole(e) {
				return false
			}
		}
	case map[ref.Val]ref.Val:
		for k, e := range v {
			m.read(k)
			if !m.whole(e) {
				return false
			}
		}
	case traits.Lister:
		m.spend(uint64(length(v))) // its value may have to be built
		return m.whole(v.Value())
	case traits.Mapper:
		return m.whole(v.Value())
	default:
		m.read(v)
	}
	return true
}

// meterOf finds the meter of an evaluation.
func meterOf(vars cel.Activation) *meter {
	found, _ := vars.ResolveName(meterName)
	return found.(*meter) // without one nothing is evaluated: the panic becomes an error
}

// textSize is how many bytes a text has; anything else has none.
func textSize(v any) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case string:
		return uint64(len(v))
	case []byte:
		return uint64(len(v))
	}
	return 0
}

// length is how many elements a list has.
func length(l traits.Lister) int64 {
	n, _ := l.Size().(types.Int)
	return int64(n)
}
