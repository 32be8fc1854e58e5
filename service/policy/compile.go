// Package policy evaluates the rules of the policy, which are written in CEL.
//
// A rule looks at one call:
//
//	tool         string   the tool's own name on its server, "write_file"
//	server       string   the server's name
//	annotations  map      what the server claims of the tool; {} if nothing
//	input        map      the tool's input
//	topic        map      id, title and model of the topic
//	principal    string   whose message led to the call
//
// and holds if it gives true. One that gives anything else, that touches what
// is not there, that costs too much, or that meets a number which cannot be
// compared exactly, fails; a rule that fails asks. Whether a member is there
// is asked with has(input.path).
//
// A number in the input that cannot be compared exactly fails only the rules
// that look at it, or compare the list or the map that it is in.
//
// A rule costs no more than a bound, whatever it says and whatever it is given,
// and so do all rules of a judgement together. That rests on three things:
// steps are counted and cut off; what a rule can build is paid for by its size
// (map and filter are left out, lists and maps hold constants); patterns are
// constants, of a bounded size, and matched in linear time.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// MaxExpression is how many characters an expression may have.
	MaxExpression = 4000

	maxNodes   = 2000
	maxDepth   = 100
	maxPattern = 1000 // instructions of a compiled pattern
	maxCached  = 1000
)

// environment declares what a rule may look at and do. It depends on nothing
// outside of this source: where it cannot be made, no rule can be, ever.
var environment = sync.OnceValue(func() *cel.Env {
	e, err := cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeMacros: []string{"map", "filter"}})),
		cel.Variable("tool", cel.StringType),
		cel.Variable("server", cel.StringType),
		cel.Variable("annotations", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("input", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("topic", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("principal", cel.StringType),
		cel.CrossTypeNumericComparisons(true),
		cel.EagerlyValidateDeclarations(true),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(10),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
	)
	if err != nil {
		panic(fmt.Sprintf("declare what rules look at: %v", err))
	}
	return e
})

// compile makes a program of an expression. Its errors are of kind
// chat.ErrInvalid and say where the expression is wrong.
func compile(expression string) (p cel.Program, err error) {
	e := environment()
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, chat.Invalid("The expression cannot be compiled.")
		}
	}()
	if strings.TrimSpace(expression) == "" {
		return nil, chat.Invalid("The expression is empty.")
	}
	checked, issues := e.Compile(expression)
	if err := issuesOf(issues); err != nil {
		return nil, err
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, chat.Invalid("The expression must give true or false; it gives %s.", t)
	}
	if err := checkTree(checked.NativeRep()); err != nil {
		return nil, err
	}
	p, err = e.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(metered(checked.NativeRep())))
	if err != nil {
		return nil, chat.Invalid("The expression cannot be compiled: %v.", err)
	}
	return p, nil
}

// issuesOf names the first thing that is wrong with an expression.
func issuesOf(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	for _, e := range issues.Errors() {
		text, _, _ := strings.Cut(e.Message, "\n")
		text = strings.TrimSuffix(strings.ReplaceAll(text, " (in container '')", ""), ".")
		return invalidAt(e.Location, text)
	}
	return chat.Invalid("The expression is not valid.")
}

func invalidAt(at common.Location, text string) error {
	return chat.Invalid("The expression is not valid: line %d, column %d: %s.", at.Line(), at.Column()+1, text)
}

// checkTree refuses what could make a rule expensive or inexact.
func checkTree(tree *ast.AST) error {
	var problem error
	say := func(e ast.Expr, text string) {
		if problem == nil {
			problem = invalidAt(tree.SourceInfo().GetStartLocation(e.ID()), text)
		}
	}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ListKind, ast.MapKind:
			if !constant(e) {
				say(e, "lists and maps in a rule hold constants only")
			}
		case ast.StructKind:
			say(e, "messages cannot be built in a rule")
		case ast.CallKind:
			args := e.AsCall().Args()
			if e.AsCall().FunctionName() == "matches" && (len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind) {
				say(e, "the pattern of matches() must be a constant")
			}
		case ast.SelectKind:
			s := e.AsSelect()
			if s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "topic" && !slices.Contains([]string{"id", "title", "model"}, s.FieldName()) {
				say(e, "a topic has id, title and model")
			}
		case ast.LiteralKind:
			if d, ok := e.AsLiteral().(types.Double); ok && math.Abs(float64(d)) >= exactDoubles && math.Abs(float64(d)) < math.MaxInt64 {
				say(e, "a number of this size is exact only as an integer: leave out the point and the exponent")
			}
		case ast.IdentKind, ast.ComprehensionKind, ast.UnspecifiedExprKind:
		}
	}))
	return problem
}

// constant reports whether a literal is one down to its leaves.
func constant(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			if !constant(element) {
				return false
			}
		}
		return true
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if entry.Kind() != ast.MapEntryKind || !constant(entry.AsMapEntry().Key()) || !constant(entry.AsMapEntry().Value()) {
				return false
			}
		}
		return true
	case ast.CallKind: // -1 of a number that is not folded
		call := e.AsCall()
		return call.FunctionName() == operators.Negate && len(call.Args()) == 1 && constant(call.Args()[0])
	default:
		return false
	}
}
