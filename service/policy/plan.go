package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// metered returns a decorator that makes each node of a planned expression pay
// before, or as soon as, it is evaluated. Each value is paid for where it comes
// from, by what the node above it will read of it. Comparisons are replaced:
// the library's take an error inside of a list or a map for a value like any
// other, and give an answer nevertheless.
func metered(tree *ast.AST) interpreter.InterpretableDecoratorV2 {
	terms := map[int64]uint64{} // of and, or: constants among them are not nodes that pay
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			terms[e.ID()] = uint64(len(e.AsCall().Args()))
		}
	}))
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i := i.(type) {
		case *attribute, *comparison, *matching, *node:
			return i, nil
		case interpreter.InterpretableConst, interpreter.InterpretableConstructor:
			return i, nil // folded: both hold constants only
		case interpreter.InterpretableAttribute:
			return &attribute{InterpretableAttribute: i, steps: 1}, nil
		case interpreter.InterpretableCall:
			return call(i)
		default:
			return &node{InterpretableV2: i, steps: 1 + terms[i.ID()]}, nil
		}
	}
}

func call(c interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	args := c.Args()
	switch name := c.Function(); {
	case name == operators.Equals, name == operators.NotEquals, name == operators.In, name == operators.OldIn:
		return &comparison{InterpretableV2: c, function: name, left: args[0], right: args[1]}, nil
	case name == overloads.Matches:
		return match(c, args)
	case overloads.IsTypeConversionFunction(name) && len(args) == 1 && isConstant(args[0]):
		return c, nil // folded
	case strings.HasPrefix(name, "get") && len(args) > 1:
		return &node{InterpretableV2: c, steps: zoneCost}, nil
	default:
		return &node{InterpretableV2: c, steps: 1}, nil
	}
}

func isConstant(i interpreter.InterpretableV2) bool {
	_, ok := i.(interpreter.InterpretableConst)
	return ok
}

// node is a node that pays a fixed price, for the text that it gives, and for
// the elements of a list that it puts together.
type node struct {
	interpreter.InterpretableV2
	steps uint64
}

// Exec evaluates the node.
func (n *node) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	m := meterOf(frame)
	m.spend(n.steps)
	v := n.InterpretableV2.Exec(frame)
	if l, ok := v.(traits.Lister); ok {
		m.spend(uint64(length(l)))
	}
	m.read(v)
	return v
}

// Eval evaluates the node.
func (n *node) Eval(vars cel.Activation) ref.Val { return n.Exec(interpreter.AsFrame(vars)) }

// attribute is a variable, or a choice between two, with what is selected of
// it. It stands for itself wherever the plan would look through it, so that it
// always pays.
type attribute struct {
	interpreter.InterpretableAttribute
	steps uint64
}

// Attr returns the attribute that pays.
func (a *attribute) Attr() interpreter.Attribute { return a }

// AddQualifier selects something of the attribute.
func (a *attribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	a.steps++
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

// Resolve reads the attribute.
func (a *attribute) Resolve(vars cel.Activation) (any, error) {
	m := meterOf(vars)
	m.spend(a.steps)
	v, err := a.InterpretableAttribute.Resolve(vars)
	m.read(v)
	return v, err
}

// Exec evaluates the attribute.
func (a *attribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	m := meterOf(frame)
	m.spend(a.steps)
	v := a.InterpretableAttribute.Exec(frame)
	m.read(v)
	return v
}

// Eval evaluates the attribute.
func (a *attribute) Eval(vars cel.Activation) ref.Val { return a.Exec(interpreter.AsFrame(vars)) }

// Qualify selects what the attribute's value names.
func (a *attribute) Qualify(vars cel.Activation, obj any) (any, error) {
	q, err := a.qualifier(vars)
	if err != nil {
		return nil, err
	}
	return q.Qualify(vars, obj)
}

// QualifyIfPresent selects what the attribute's value names, if it is there.
func (a *attribute) QualifyIfPresent(vars cel.Activation, obj any, presenceOnly bool) (any, bool, error) {
	q, err := a.qualifier(vars)
	if err != nil {
		return nil, false, err
	}
	return q.QualifyIfPresent(vars, obj, presenceOnly)
}

// qualifier pays for the value that selects something, as nobody else would.
func (a *attribute) qualifier(vars cel.Activation) (interpreter.Qualifier, error) {
	v, err := a.Resolve(vars)
	if err != nil {
		return nil, err
	}
	return interpreter.NewAttributeFactory(containers.DefaultContainer, a.Adapter(), nil).NewQualifier(nil, a.ID(), v, a.IsOptional())
}

// comparison is ==, != or in. It fails on an error anywhere in what it
// compares.
type comparison struct {
	interpreter.InterpretableV2
	function    string
	left, right interpreter.InterpretableV2
}

// Exec evaluates the comparison.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	m := meterOf(frame)
	left := c.left.Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := c.right.Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	in := c.function != operators.Equals && c.function != operators.NotEquals
	if _, isMap := right.(traits.Mapper); !m.whole(left) || !(in && isMap) && !m.whole(right) { // of a map, in reads a key
		return types.NewErr("what is compared holds a number that cannot be compared exactly")
	}
	if !in {
		return types.Bool((types.Equal(left, right) == types.True) == (c.function == operators.Equals))
	}
	if all, ok := right.(traits.Container); ok {
		return all.Contains(left)
	}
	return types.NewErr("only a list and a map have something in them")
}

// Eval evaluates the comparison.
func (c *comparison) Eval(vars cel.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// matching matches a text with a constant pattern.
type matching struct {
	interpreter.InterpretableV2
	text    interpreter.InterpretableV2
	pattern *regexp.Regexp
	size    uint64 // instructions, each of which may be tried at each byte
}

// match plans a match. checkTree has seen to it that the pattern is constant.
func match(c interpreter.InterpretableCall, args []interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if len(args) != 2 {
		return nil, errPattern
	}
	constant, ok := args[1].(interpreter.InterpretableConst)
	if !ok {
		return nil, errPattern
	}
	text, ok := constant.Value().(types.String)
	if !ok {
		return nil, errPattern
	}
	size, err := types.RegexProgramSize(string(text))
	if err != nil {
		return nil, err
	}
	if size > maxPattern {
		return nil, errPattern
	}
	pattern, err := regexp.Compile(string(text))
	if err != nil {
		return nil, err
	}
	return &matching{InterpretableV2: c, text: args[0], pattern: pattern, size: uint64(size)}, nil
}

var errPattern = fmt.Errorf("a pattern is one constant text, of at most %d instructions", maxPattern)

// Exec evaluates the match.
func (m *matching) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := m.text.Exec(frame)
	if types.IsUnknownOrError(v) {
		return v
	}
	text, ok := v.(types.String)
	if !ok {
		return types.NewErr("only a text can be matched")
	}
	meterOf(frame).spend(1 + textSize(text)*(4+m.size)/(4*perStep))
	return types.Bool(m.pattern.MatchString(string(text)))
}

// Eval evaluates the match.
func (m *matching) Eval(vars cel.Activation) ref.Val { return m.Exec(interpreter.AsFrame(vars)) }
