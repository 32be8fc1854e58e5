package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

// list is a JSON list of n elements.
func list(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// TestALongListIsNotTooMuch holds that the bound leaves room for what tools
// are really given.
func TestALongListIsNotTooMuch(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	f := facts(`{"paths":` + strings.TrimSuffix(list(`"/home"`, 80_000), "]") + `,"/etc/passwd"]}`)
	if got := eval(&r, `input.paths.exists(p, p.startsWith("/etc"))`, f); got != "true" {
		t.Errorf("got %s", got)
	}
}

// What a dear and a cheap rule say, and input on which the one costs many
// steps in little time.
const (
	dear  = `!input.text.contains("b") && !input.text.contains("c") && !input.text.contains("d")`
	cheap = `input.path.startsWith("/etc/")`
)

var long = `{"path":"/etc/passwd","text":"` + strings.Repeat("a", 1_000_000) + `"}`

// TestAJudgementHasABound gives many rules that each stay below their own
// bound, and holds that a judgement is cut off nevertheless; and that what is
// spent on dear rules is not taken from cheap ones.
func TestAJudgementHasABound(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	f := facts(long)
	match := r.Matcher()
	passed, failed := 0, 0
	for i := range 200 {
		held, err := match(chat.Rule{Expression: fmt.Sprintf("%s && %d == %d", dear, i, i)}, f)
		switch {
		case err != nil:
			failed++
		case held:
			passed++
		default:
			t.Fatal("it does not hold")
		}
	}
	if passed == 0 || failed == 0 {
		t.Errorf("%d rules were evaluated, %d cut off", passed, failed)
	}
	if held, err := match(chat.Rule{Expression: cheap}, f); !held || err != nil {
		t.Errorf("a cheap rule after dear ones: got %v, %v", held, err)
	}
	if held, err := match(chat.Rule{Expression: dear}, facts(string(f.Input))); !held || err != nil {
		t.Errorf("the next judgement: got %v, %v", held, err)
	}
}

// TestTheJudgementsOfOneMatcherHaveABound tries a rule on many calls, as
// somebody does who wants to know what it would have done.
func TestTheJudgementsOfOneMatcherHaveABound(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	match := r.Matcher()
	passed, failed := 0, 0
	for range 50 {
		f := facts(long)
		if _, err := match(chat.Rule{Expression: dear}, f); err != nil {
			failed++
		} else {
			passed++
		}
		if held, err := match(chat.Rule{Expression: cheap}, f); !held || err != nil {
			t.Fatalf("a cheap rule beside a dear one: got %v, %v", held, err)
		}
	}
	if passed == 0 || failed == 0 {
		t.Errorf("%d were evaluated, %d cut off", passed, failed)
	}
}
