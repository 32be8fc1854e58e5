package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What it may cost to hold one input against a schema. A few lines of schema
// are enough for work without end: each of forty levels that refers to the next
// one twice.
const (
	// maxSteps bounds the subschemas that an input is held against, each as often
	// as it is. A thousand of them take less than a millisecond.
	maxSteps = 500_000
	// maxInPlace bounds those of them for one and the same value, whatever it is.
	maxInPlace = 10_000
	// maxMatching bounds the work of patterns, in bytes of text times
	// instructions of the pattern.
	maxMatching = 100_000_000
	// maxPattern bounds the instructions of one pattern.
	maxPattern = 10_000
)

// errCostly is a schema that is refused for the work that it would make.
var errCostly = errors.New("it would take too long to check")

// pattern is a regular expression that knows how large it is.
type pattern struct {
	*regexp.Regexp
	instructions int
}

func compilePattern(expression string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d instructions, more than %d", len(program.Inst), maxPattern)
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return pattern{compiled, len(program.Inst)}, nil
}

// costs are what the parts of a schema cost.
type costs struct {
	// own is what one visit costs, without what it leads to.
	own map[*jsonschema.Schema]int
	// dynamic are the schemas that a reference, which is resolved only on the
	// way, may lead to, by the name of their anchor.
	dynamic map[string][]*jsonschema.Schema
	root    *jsonschema.Schema
}

// newCosts looks through a whole schema.
func newCosts(root *jsonschema.Schema) (costs, error) {
	c := costs{own: map[*jsonschema.Schema]int{}, dynamic: map[string][]*jsonschema.Schema{}, root: root}
	queue := []*jsonschema.Schema{root}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if _, known := c.own[s]; known {
			continue
		}
		c.own[s] = ownCost(s)
		if s.DynamicAnchor != "" {
			c.dynamic[s.DynamicAnchor] = append(c.dynamic[s.DynamicAnchor], s)
		}
		queue = append(append(queue, c.inPlace(s)...), below(s)...)
	}
	counts := map[*jsonschema.Schema]int{}
	for s := range c.own {
		if n := c.count(s, counts); n > maxInPlace {
			return costs{}, fmt.Errorf("%w: one value would be held against more than %d parts of the schema", errCostly, maxInPlace)
		}
	}
	return c, nil
}

// count is how many visits one value makes, from s on. A schema that leads to
// itself is counted once: the validator notices it.
func (c costs) count(s *jsonschema.Schema, counts map[*jsonschema.Schema]int) int {
	if n, ok := counts[s]; ok {
		return n
	}
	counts[s] = 1 // while it is counted
	n := 1
	for _, next := range c.inPlace(s) {
		n = min(n+c.count(next, counts), maxInPlace+1)
	}
	counts[s] = n
	return n
}

// ownCost is what the lists of a schema cost, a step for each few of their
// values.
func ownCost(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.PatternProperties)
	for _, names := range s.DependentRequired {
		n += len(names)
	}
	for _, dependency := range s.Dependencies {
		if names, ok := dependency.([]string); ok {
			n += len(names)
		}
	}
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			n += weight(value)
		}
	}
	if s.Const != nil {
		n += weight(*s.Const)
	}
	return 1 + n/8
}

// weight is how many values a value holds, and long ones for more.
func weight(value any) int {
	n := 1
	switch v := value.(type) {
	case string:
		n += len(v) / 1024
	case json.Number:
		n += len(v) / 16
	case []any:
		for _, item := range v {
			n += weight(item)
		}
	case map[string]any:
		for _, item := range v {
			n += weight(item)
		}
	}
	return n
}

// inPlace lists the subschemas that the value itself may be held against.
func (c costs) inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	add := func(schemas ...*jsonschema.Schema) {
		for _, s := range schemas {
			if s != nil {
				all = append(all, s)
			}
		}
	}
	add(s.Ref, s.Not, s.If, s.Then, s.Else)
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	if s.RecursiveRef != nil {
		add(s.RecursiveRef)
		if s.RecursiveRef != c.root {
			add(c.root)
		}
	}
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
		for _, other := range c.dynamic[s.DynamicRef.Anchor] {
			if other != s.DynamicRef.Ref {
				add(other)
			}
		}
	}
	for _, dependent := range s.DependentSchemas {
		add(dependent)
	}
	for _, dependency := range s.Dependencies {
		if dependent, ok := dependency.(*jsonschema.Schema); ok {
			add(dependent)
		}
	}
	return all
}

// below lists the subschemas that what a value holds may be held against.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	add := func(schemas ...*jsonschema.Schema) {
		for _, s := range schemas {
			if s != nil {
				all = append(all, s)
			}
		}
	}
	for _, property := range s.Properties {
		add(property)
	}
	for _, property := range s.PatternProperties {
		add(property)
	}
	for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch either := either.(type) {
		case *jsonschema.Schema:
			add(either)
		case []*jsonschema.Schema:
			add(either...)
		}
	}
	add(s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	add(s.PrefixItems...)
	return all
}

// afford says why an input is not held against the schema: it goes the way that
// the validator would go, until it has gone too far.
func (c costs) afford(s *jsonschema.Schema, value any) error {
	w := &walk{costs: c, steps: maxSteps, matching: maxMatching}
	w.visit(s, value, 0)
	switch {
	case w.steps < 0:
		return errors.New("it and the tool's schema are too large together")
	case w.matching < 0:
		return errors.New("its texts and the patterns of the tool's schema are too large together")
	default:
		return nil
	}
}

type walk struct {
	costs
	steps, matching int
}

func (w *walk) spent() bool { return w.steps < 0 || w.matching < 0 }

// visit goes on from one schema and one value; depth is how many schemas led to
// this one for the same value. More than there are is a circle, which the
// validator finds and tells.
func (w *walk) visit(s *jsonschema.Schema, value any, depth int) {
	w.steps -= w.own[s]
	if w.spent() || depth > len(w.own) {
		return
	}
	for _, next := range w.inPlace(s) {
		w.visit(next, value, depth+1)
	}
	if s.UniqueItems || s.Enum != nil || s.Const != nil {
		w.steps -= weight(value)
	}
	switch v := value.(type) {
	case map[string]any:
		w.object(s, v)
	case []any:
		w.list(s, v)
	case string:
		w.text(s, v)
	case json.Number:
		w.steps -= len(v) / 16
	}
}

func (w *walk) object(s *jsonschema.Schema, v map[string]any) {
	for name, value := range v {
		if w.spent() {
			return
		}
		if s.PropertyNames != nil {
			w.visit(s.PropertyNames, name, 0)
		}
		if property := s.Properties[name]; property != nil {
			w.visit(property, value, 0)
		}
		for expression, property := range s.PatternProperties {
			if w.match(expression, name) {
				w.visit(property, value, 0)
			}
		}
		if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			w.visit(additional, value, 0)
		}
		if s.UnevaluatedProperties != nil {
			w.visit(s.UnevaluatedProperties, value, 0)
		}
	}
}

func (w *walk) list(s *jsonschema.Schema, v []any) {
	for i, value := range v {
		if w.spent() {
			return
		}
		for _, each := range []any{s.Items, s.AdditionalItems, s.Items2020, s.Contains, s.UnevaluatedItems} {
			switch each := each.(type) {
			case *jsonschema.Schema:
				if each != nil {
					w.visit(each, value, 0)
				}
			case []*jsonschema.Schema:
				if i < len(each) {
					w.visit(each[i], value, 0)
				}
			}
		}
		if i < len(s.PrefixItems) {
			w.visit(s.PrefixItems[i], value, 0)
		}
	}
}

func (w *walk) text(s *jsonschema.Schema, v string) {
	if s.MinLength != nil || s.MaxLength != nil || s.Format != nil || s.ContentEncoding != nil || s.ContentMediaType != nil {
		w.steps -= len(v) / 256
	}
	if s.Pattern != nil {
		w.charge(s.Pattern, v)
	}
}

// match matches the name of a property, if that may still be done.
func (w *walk) match(expression jsonschema.Regexp, name string) bool {
	w.charge(expression, name)
	return !w.spent() && expression.MatchString(name)
}

func (w *walk) charge(expression jsonschema.Regexp, text string) {
	instructions := maxPattern
	if p, ok := expression.(pattern); ok {
		instructions = p.instructions
	}
	w.matching -= instructions * (utf8.RuneCountInString(text) + 1)
}
