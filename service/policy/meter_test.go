package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// steps is what the evaluation of an expression on a list of n paths is
// charged.
func steps(t *testing.T, expression string, n int) uint64 {
	t.Helper()
	program, err := compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.TrimSuffix(strings.Repeat(`"/home",`, n), ",")
	m := &meter{all: maxMatcher}
	m.next()
	held, err := holds(program, &view{facts: &chat.Facts{Input: json.RawMessage(`{"paths":[` + paths + `]}`)}, meter: m})
	if held || err != nil {
		t.Fatalf("%s on %d: got %v, %v", expression, n, held, err)
	}
	return maxMatcher - m.all
}

// TestARuleCostsWhatItsInputIsLong looks through a list and through one eight
// times as long. Eight times the steps is right, 64 would be quadratic, and the
// same would be work that nobody is charged for.
func TestARuleCostsWhatItsInputIsLong(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`input.paths.exists(p, p.startsWith("/etc"))`,
		`!input.paths.all(p, p.contains("home") && p != "/etc" && !(p in ["a", "b"]))`,
		`input.paths.exists_one(p, p.matches("^/etc"))`,
		`"/etc" in input.paths`,
		`input.paths == ["/etc"]`,
	} {
		short, long := steps(t, expression, 1_000), steps(t, expression, 8_000)
		if short < 1_000 || long < 8*short-8*100 || long > 8*short {
			t.Errorf("%s: %d steps for a list, %d for one eight times as long", expression, short, long)
		}
	}
}
