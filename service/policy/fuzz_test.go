package policy_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

// FuzzRules holds that a rule, whatever it says and whatever it is given,
// either holds, does not hold, or asks.
func FuzzRules(f *testing.F) {
	for _, expression := range []string{
		`tool == "x"`, `input.a == 1`, `input.a.startsWith("b") || input.c in [1, 2]`, `input.a.all(x, x > 1)`, `!has(input.a)`, `input`, `true`, `1/0 == 1`,
		`input.a.matches("^(a|b)*$")`, `timestamp(input.a) < timestamp("2026-01-01T00:00:00Z")`, `input.a + input.a == input.b`, `has(input.a) ? input.a : false`,
		`input.a.exists_one(x, x == 9007199254740993)`, `type(input.a) == string`, `duration(input.a) > duration("1h")`, `size(input) == 0`, `"a" in input`, `-input.a < 0`,
		`topic.id != principal && annotations.a`, `input.a[0].b["c"] == null`, `double(input.a) > 1.5`, `input == {}`, `b"a" == bytes(input.a)`, `((((true))))`, `a.b.c`, `{`, "\x00",
	} {
		for _, input := range []string{`{"a":1}`, `{"a":"b","c":2}`, `{"a":[1,2,{"b":null}]}`, `{"a":9007199254740993.0}`, `{}`, ``, `[`, `{"a":1e999}`, `{"a":true,"b":{"c":[]}}`} {
			f.Add(expression, input)
		}
	}
	var rules policy.Rules
	f.Fuzz(func(t *testing.T, expression, input string) {
		call := chat.ToolCall{Input: json.RawMessage(input)}
		facts := &chat.Facts{Tool: "t", Server: "s", Annotations: json.RawMessage(input), Input: call.Input}
		match := rules.Matcher()
		held, err := match(chat.Rule{Expression: expression}, facts)
		again, errAgain := rules.Matcher()(chat.Rule{Expression: expression}, facts)
		if held != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%v, %v; the second time %v, %v", held, err, again, errAgain)
		}
		if err != nil && held {
			t.Fatal("a rule that fails holds")
		}
		if refused := rules.Check(expression); refused != nil && (err == nil || !errors.Is(refused, chat.ErrInvalid)) {
			t.Fatalf("an expression that is refused (%v) gave %v, %v", refused, held, err)
		}
		for _, v := range []chat.Verdict{chat.VerdictAllow, chat.VerdictAsk, chat.VerdictDeny} {
			for _, tool := range []chat.Tool{
				{Tool: "t", Server: "s", Annotations: facts.Annotations, Policy: chat.ToolPolicy{}},
				{Tool: "t", Server: "s", Annotations: facts.Annotations, Policy: chat.ToolPolicy{AutoApprove: true}},
			} {
				j := chat.Judge(tool, call, chat.PolicyInput{Match: match, Rules: []chat.Rule{{ID: "r", Name: "r", Verdict: v, Expression: expression, Enabled: true, Version: 1}}})
				want := chat.VerdictAsk
				switch {
				case err != nil:
				case held:
					want = v
				case tool.Policy.AutoApprove:
					want = chat.VerdictAllow
				}
				if j.Verdict != want {
					t.Fatalf("%s, auto-approve %v: got %s, want %s (held %v, %v)", v, tool.Policy.AutoApprove, j.Verdict, want, held, err)
				}
			}
		}
	})
}
