package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

func facts(input string) *chat.Facts {
	return &chat.Facts{
		Tool: "write_file", Server: "files", Annotations: json.RawMessage(`{"destructiveHint":true}`), Input: json.RawMessage(input),
		Topic: chat.TopicFacts{ID: "t1", Title: "Notes", Model: "demo/guide"}, Principal: "ada",
	}
}

// eval says what an expression gives on an input: "true", "false", "refused"
// if it cannot be a rule's, or "fails".
func eval(r *policy.Rules, expression string, f *chat.Facts) string {
	if r.Check(expression) != nil {
		return "refused"
	}
	held, err := r.Matcher()(chat.Rule{Expression: expression}, f)
	if err != nil {
		return "fails"
	}
	return fmt.Sprint(held)
}

func TestWhatRulesSee(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	const input = `{"path":"/tmp/a.txt","n":3,"price":2.5,"tags":["a","b"],"deep":{"x":[{"y":null}]},"flag":true,"empty":{}}`
	for _, tt := range []struct{ expression, want string }{
		{`tool == "write_file" && server == "files" && principal == "ada"`, "true"},
		{`topic.id == "t1" && topic.title == "Notes" && topic.model.startsWith("demo/")`, "true"},
		{`annotations.destructiveHint`, "true"},
		{`has(annotations.readOnlyHint)`, "false"},
		{`annotations.readOnlyHint`, "fails"},
		{`input.path.startsWith("/tmp/")`, "true"},
		{`input.path.matches("^/tmp/[a-z]+[.]txt$")`, "true"},
		{`input.path.contains("..")`, "false"},
		{`input.n == 3 && input.n < 4 && input.n < 3.5 && input.price > 2`, "true"},
		{`input.tags.exists(x, x == "b") && input.tags.all(x, x in ["a", "b"]) && size(input.tags) == 2`, "true"},
		{`"b" in input.tags && !("c" in input.tags)`, "true"},
		{`input.tags == ["a", "b"]`, "true"},
		{`input.deep.x[0].y == null`, "true"},
		{`input.flag`, "true"},
		{`input.path`, "fails"}, // no boolean
		{`input.missing == 1`, "fails"},
		{`has(input.missing) && input.missing == 1`, "false"},
		{`server == "other" && input.missing == 1`, "false"},
		{`input.path > 3`, "fails"},
		{`input.n / 0 == 1`, "fails"},
		{`input == {"a": 1}`, "false"},
		{`timestamp("2026-01-01T00:00:00Z") < timestamp("2027-01-01T00:00:00Z")`, "true"},
		{`input.tags[5] == "a"`, "fails"},
		// What cannot be a rule.
		{``, "refused"}, {"  \n", "refused"}, {`1`, "refused"}, {`"allow"`, "refused"}, {`input.`, "refused"}, {`nobody == 1`, "refused"},
		{`tool == 1`, "refused"}, {`topic.tittle == "x"`, "refused"}, {`input.tags.map(x, x) == []`, "refused"}, {`input.tags.filter(x, true) == []`, "refused"},
		{`[input.n] == [3]`, "refused"}, {`{"a": input.n} == {}`, "refused"}, {`input.path.matches(input.path)`, "refused"}, {`input.path.matches("(")`, "refused"},
		{`input.path.matches("((a{1,99}){1,99}){1,99}")`, "refused"}, {`google.protobuf.Int32Value{value: 1} == 1`, "refused"},
		{`input.n == 9007199254740993.0`, "refused"}, {`input.n == 1e18`, "refused"}, {`timestamp("x") < timestamp("y")`, "refused"},
		{strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500), "refused"},
		{`true` + strings.Repeat(` && true`, policy.MaxExpression/8), "refused"},
	} {
		if got := eval(&r, tt.expression, facts(input)); got != tt.want {
			t.Errorf("%.80s: got %s, want %s (%v)", tt.expression, got, tt.want, r.Check(tt.expression))
		}
	}
}

func TestWhatIsWrongWithAnExpressionIsSaidInOneSentence(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	for expression, want := range map[string]string{
		"":                              "The expression is empty.",
		"tool ==\n  nobody":             "The expression is not valid: line 2, column 3: undeclared reference to 'nobody'.",
		"size(tool)":                    "The expression must give true or false; it gives int.",
		`[tool] == ["a"]`:               "The expression is not valid: line 1, column 1: lists and maps in a rule hold constants only.",
		`input.n > 1 && topic.x == "a"`: "The expression is not valid: line 1, column 21: a topic has id, title and model.",
	} {
		err := r.Check(expression)
		if !errors.Is(err, chat.ErrInvalid) || err.Error() != want {
			t.Errorf("%q: got %v, want %s", expression, err, want)
		}
	}
}

func TestInputThatIsNoObjectFailsTheRulesThatLookAtIt(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	for _, input := range []string{`null`, `[]`, `"a"`, `{`, `{} {}`, `1`} {
		if got := eval(&r, `has(input.a)`, facts(input)); got != "fails" {
			t.Errorf("%s: got %s", input, got)
		}
		if got := eval(&r, `server == "files"`, facts(input)); got != "true" {
			t.Errorf("%s: got %s for a rule that does not look", input, got)
		}
	}
	f := facts("")
	f.Annotations = nil
	if got := eval(&r, `!has(input.a) && !has(annotations.readOnlyHint)`, f); got != "true" {
		t.Errorf("nothing at all: got %s", got)
	}
}

// TestWhatWouldTakeTooLongFails holds rules that are cheap by the number of
// their steps, and dear by what each step looks at.
func TestWhatWouldTakeTooLongFails(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + "]"
	text := strings.Repeat("a", 100_000)
	deep := strings.Repeat(`[["x"],`, 20) + `[]` + strings.Repeat(`]`, 20)
	input := `{"xs":` + numbers + `,"s":"` + text + `","t":"` + text + `b","deep":{"a":` + numbers + `,"b":` + deep + `},"same":{"a":` + numbers + `,"b":` + deep + `}}`
	for _, expression := range []string{
		`input.xs.all(x, input.xs.all(y, input.xs.all(z, x + y + z == 3)))`,
		`input.xs.all(x, input.s + input.t != "")`,
		`input.xs.all(x, input.s < input.t)`,
		`input.xs.all(x, input.s != input.t)`,
		`input.xs.all(x, input.t.matches("(a|aa)+$") || true)`,
		`input.xs.all(x, input.t.contains("ab"))`,
		`input.xs.all(x, size(input.s) > 0)`,
		`input.xs.all(x, bytes(input.s) != b"")`,
		`input.xs.all(x, input.deep == input.same)`,
		`input.xs.all(x, !(input.deep in [1, 2]) && input.deep != 1)`,
		`input.xs.all(x, !(2 in input.xs))`,
		`input.xs.all(x, input.xs + input.xs != [])`,
		`input.xs.all(x, size(input.xs + input.xs) > 0)`,
		`input.xs.all(x, !has(input.deep.a) || !(input.s in input.deep))`,
		`input.xs.all(x, (x == 1 ? input.s : input.t).startsWith("a"))`,
		`input.xs.all(x, {"a": 1}[x == 1 ? "a" : input.t] == input.xs[0] && {"b": 1}[input.s] == 1 || true)`,
		`input.xs.all(x, timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin") < 24)`,
	} {
		if got := eval(&r, expression, facts(input)); got != "fails" {
			t.Errorf("%s: got %s", expression, got)
		}
	}
	for _, expression := range []string{`input.s.contains("b")`, `input.s.matches("^b")`, `input.deep != input.same`, `3 in input.xs`} {
		if got := eval(&r, expression, facts(input)); got != "false" {
			t.Errorf("%s: got %s; one look at a large input is not too much", expression, got)
		}
	}
}

func TestCompiledExpressionsAreKeptAndNotForEver(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	first := r.Check("nobody")
	if again := r.Check("nobody"); !errors.Is(again, first) {
		t.Error("it was compiled again")
	}
	for i := range 1100 {
		if err := r.Check(fmt.Sprintf("%d == %d", i, i)); err != nil {
			t.Fatal(err)
		}
	}
	if again := r.Check("nobody"); errors.Is(again, first) {
		t.Error("it is still kept after eleven hundred others")
	}
}
