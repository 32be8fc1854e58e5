package policy

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/assent-chat/assent/service/chat"
)

// Rules compiles expressions and keeps what it compiled. The zero value is
// ready, and safe for concurrent use.
type Rules struct {
	mu       sync.RWMutex
	compiled map[string]compiled
}

// compiled is an expression as a program, or why it is none.
type compiled struct {
	program cel.Program
	err     error
}

// Check reports why an expression cannot be a rule's: an error of kind
// chat.ErrInvalid that says where it is wrong.
func (r *Rules) Check(expression string) error { return r.find(expression).err }

// Matcher returns a function that evaluates rules for one judgement after
// another. What a rule may cost is bounded, and so is what the rules of one
// judgement and those of all may; a rule that costs more fails, but a cheap one
// never does for what others cost. The function must not be used by two
// goroutines at once.
func (r *Rules) Matcher() chat.Match {
	m := &meter{all: maxMatcher}
	var v *view
	return func(rule chat.Rule, facts *chat.Facts) (bool, error) {
		if v == nil || v.facts != facts {
			v = &view{facts: facts, meter: m}
			m.next()
		}
		c := r.find(rule.Expression)
		if c.err != nil {
			return false, c.err
		}
		return holds(c.program, v)
	}
}

var errNotBoolean = errors.New("the expression gives neither true nor false")

func holds(p cel.Program, v *view) (held bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			held, err = false, errors.New("the expression cannot be evaluated")
		}
	}()
	v.meter.start()
	out, _, err := p.Eval(v)
	if err != nil {
		return false, fmt.Errorf("evaluate: %w", err)
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, errNotBoolean
	}
	return bool(b), nil
}

// find compiles an expression that was not met before.
func (r *Rules) find(expression string) compiled {
	r.mu.RLock()
	c, ok := r.compiled[expression]
	r.mu.RUnlock()
	if ok {
		return c
	}
	c.program, c.err = compile(expression)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compiled == nil || len(r.compiled) >= maxCached { // expressions that were tried are not kept for ever
		r.compiled = map[string]compiled{}
	}
	r.compiled[expression] = c
	return c
}
