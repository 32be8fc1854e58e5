package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

func TestNumbersNeverMatchAnother(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	for _, tt := range []struct{ input, expression, want string }{
		{`{"n":9007199254740993}`, `input.n == 9007199254740993`, "true"},
		{`{"n":9007199254740993}`, `input.n == 9007199254740992`, "false"},
		{`{"n":9007199254740992}`, `input.n == 9007199254740993`, "false"},
		{`{"n":9007199254740992.0}`, `input.n == 9007199254740993`, "false"},
		{`{"n":9007199254740992.0}`, `input.n == 9007199254740992`, "true"},
		{`{"n":9.007199254740992e15}`, `input.n == 9007199254740992`, "true"},
		{`{"n":9007199254740993.0}`, `input.n == 9007199254740992`, "fails"},
		{`{"n":9223372036854775807}`, `input.n == 9223372036854775807`, "true"},
		{`{"n":9223372036854775808}`, `input.n > 1`, "fails"},
		{`{"n":-9223372036854775808}`, `input.n < 0`, "true"},
		{`{"n":0.1}`, `input.n == 0.1`, "true"},
		{`{"n":0.1000000000000000000001}`, `input.n == 0.1`, "fails"},
		{`{"n":0.1000000000000000000001}`, `input.n <= 0.1`, "fails"},
		{`{"n":1.0}`, `input.n == 1`, "true"},
		{`{"n":1e3}`, `input.n == 1000`, "true"},
		{`{"n":1e400}`, `input.n > 1`, "fails"},
		{`{"n":1e-400}`, `input.n > 0`, "fails"},
		{`{"n":1e999999999999999999999}`, `input.n > 1`, "fails"},
		{`{"n":1e30}`, `input.n > 9223372036854775807`, "true"},
		{`{"n":-0.0}`, `input.n == 0`, "true"},
		{`{"n":0e5}`, `input.n == 0`, "true"},
		{`{"n":-0}`, `input.n == 0`, "true"},
		{`{"n":2.50}`, `input.n == 2.5`, "true"},
		{`{"n":"3"}`, `input.n == 3`, "false"},
	} {
		if got := eval(&r, tt.expression, facts(tt.input)); got != tt.want {
			t.Errorf("%s on %s: got %s, want %s", tt.expression, tt.input, got, tt.want)
		}
	}
}

// looks are expressions that look at input.bad, at what is in it, or at what
// it is in. Where bad is a list or a map, %s selects the leaf in it.
var looks = []string{
	`input.bad%s == 1`, `input.bad%s != 1`, `!(input.bad%s == 1)`, `1 == input.bad%s`, `1 != input.bad%s`, `null == input.bad%s`, `input.bad%s != null`,
	`input.bad%s < 1`, `input.bad%s <= 1`, `input.bad%s > 1`, `input.bad%s >= 1`, `1 < input.bad%s`, `input.bad%s == input.bad%s`, `input.bad%s != input.bad%s`,
	`input.bad%s in [1, 2]`, `!(input.bad%s in [1, 2])`, `input.bad%s in []`, `input.bad%s in {"a": 1}`, `input.bad%s in input.good`, `1 in input.bad%s`, `"x" in input.bad%s`,
	`input.bad%s.exists(x, true)`, `input.bad%s.all(x, false)`, `input.bad%s.exists_one(x, x == 1)`, `size(input.bad%s) == 0`, `input.bad%s.size() >= 0`,
	`has(input.bad%s.child)`, `!has(input.bad%s.child)`, `input.bad%s.child == 1`, `input.bad%s[0] == 1`, `has(input.bad%s.child.child)`,
	`string(input.bad%s) == ""`, `string(input.bad%s) != ""`, `int(input.bad%s) == 0`, `double(input.bad%s) > 0.0`, `type(input.bad%s) == int`, `type(input.bad%s) != int`, `dyn(input.bad%s) != 1`,
	`input.bad%s + 1 != 0`, `-input.bad%s != 0`, `!input.bad%s`, `input.bad%s`, `input.bad%s ? true : true`, `(true ? input.bad%s : 1) != 1`, `input.good[input.bad%s] != 1`, `input[input.bad%s] != 1`,
	`input.bad%s.startsWith("x")`, `!input.bad%s.contains("x")`, `!input.bad%s.matches("x")`, `timestamp(input.bad%s) != timestamp("2026-01-01T00:00:00Z")`,
	// The whole that it is in.
	`input == {}`, `input != {}`, `input == {"bad": 1}`, `input == input`, `input != input`, `{} == input`, `input == annotations`, `input in [{}]`, `dyn(input) != null`, `null == dyn(input)`, `dyn(input) != 1`, `!(dyn(input) in [1])`, `(true ? input : annotations) != {}`,
	`input.bad == [1, 2]`, `input.bad != [1, 2]`, `input.bad == {"leaf": 1}`, `input.bad != {"leaf": 1}`, `input.bad == input.bad`, `input.bad != input.bad`, `input.bad == input.good`, `input.bad != null`, `null == input.bad`,
	`input.bad in [[1], [2]]`, `!(input.bad in [1, 2])`, `input.bad in {"a": 1}`, `input.bad in [{"leaf": 1}]`, `(true ? input.bad : []) != []`,
}

// inLists and inMaps are more of them, for a bad leaf that is in a list and
// for one that is in a map.
var (
	inLists = []string{
		`1 in input.bad`, `!(1 in input.bad)`, `input.good.a in input.bad`, `input.bad + [1] != []`, `[1] + input.bad == [1, 1]`, `[] + input.bad == [1]`, `0 in input.bad + [1]`,
		`input.bad.exists(x, x == 1)`, `input.bad.all(x, x != 1)`, `input.bad.exists_one(x, x == 1)`, `!input.bad.exists(x, x in [1, 2])`,
	}
	inMaps = []string{`!input.bad.all(k, input.bad[k] != 1)`, `input.bad.exists(k, input.bad[k] == 1)`, `input["bad"]["leaf"] != 1`}
)

// TestWhatLooksAtABadLeafFails holds every expression against every kind of a
// number that cannot be compared, at every depth.
func TestWhatLooksAtABadLeafFails(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	for _, place := range []struct {
		input, leaf string
		more        []string
	}{
		{`%s`, ``, nil},
		{`[%s]`, `[0]`, inLists},
		{`[7,%s]`, `[1]`, inLists},
		{`{"leaf":%s}`, `.leaf`, inMaps},
		{`[{"leaf":[%s]}]`, `[0].leaf[0]`, []string{`[1] in input.bad`, `{"leaf": [1]} in input.bad`, `input.bad.exists(x, x == {"leaf": [1]})`, `input.bad[0].leaf != [1]`, `input.bad[0] == {"leaf": [1]}`}},
		{`{"x":1,"leaf":{"y":%s}}`, `.leaf.y`, []string{`input.bad.leaf == {"y": 1}`, `input.bad.leaf != {"z": 1}`}},
	} {
		for _, bad := range []string{"1e999", "123456789012345678901234567890", "-18446744073709551616", "0.1000000000000000000001"} {
			f := facts(`{"good":{"a":1,"b":"x"},"bad":` + fmt.Sprintf(place.input, bad) + `}`)
			for _, expression := range append(append([]string{}, looks...), place.more...) {
				expression = strings.ReplaceAll(expression, "%s", place.leaf)
				if err := r.Check(expression); err != nil {
					t.Fatalf("%s: %v", expression, err)
				}
				if got := eval(&r, expression, f); got != "fails" {
					t.Errorf("%s on %s: got %s", expression, f.Input, got)
				}
			}
		}
	}
}

func TestABadLeafHidesNothingElse(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	for _, tt := range []struct{ input, expression, want string }{
		{`{"n":123456789012345678901234567890,"path":"/etc"}`, `input.path == "/etc"`, "true"},
		{`{"n":1e999,"path":"/etc"}`, `input.path.startsWith("/srv")`, "false"},
		{`{"n":1e999}`, `has(input.path)`, "false"},
		{`{"n":1e999}`, `has(input.n)`, "true"},
		{`{"n":1e999}`, `"n" in input && !("m" in input) && size(input) == 1`, "true"},
		{`{"n":123456789012345678901234567890}`, `tool == "write_file"`, "true"},
		{`{"a":[{"b":18446744073709551616}]}`, `has(input.a)`, "true"},
		{`{"a":[1e999,"/etc"]}`, `input.a[1] == "/etc" && size(input.a) == 2`, "true"},
		{`{"a":[1e999,"/etc"]}`, `input.a.exists(x, x == "/etc")`, "true"},
		{`{"a":{"b":1e999,"c":[1]}}`, `input.a.c == [1]`, "true"},
		{`{"a":1e999}`, `input.a == 1 || true`, "true"},
	} {
		if got := eval(&r, tt.expression, facts(tt.input)); got != tt.want {
			t.Errorf("%s on %s: got %s, want %s", tt.expression, tt.input, got, tt.want)
		}
	}
}

// value is any JSON value whose numbers can be compared.
func value(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Int64().AsAny(), rapid.SampledFrom([]string{"/etc", "/etc/x", "", "b", "leaf"}).AsAny(), rapid.Bool().AsAny(),
		rapid.SampledFrom([]float64{0.5, -2, 1e30}).AsAny(), rapid.Just[any](nil),
	}
	if depth > 0 {
		scalars = append(scalars, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "leaf"}), value(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(scalars...)
}

// TestABadLeafIsSeenByThoseWhoLook gives rules the same input with and
// without a bad leaf. One that looks only at the other members gives the same
// answer to both; one that looks at the bad one fails.
func TestABadLeafIsSeenByThoseWhoLook(t *testing.T) {
	t.Parallel()
	var r policy.Rules
	elsewhere := []string{
		`input.a == input.b`, `input.a != input.b`, `input.a in [1, "/etc"]`, `input.a.startsWith("/etc")`, `has(input.a.b)`, `has(input.a)`, `size(input.a) > 1`, `input.a.exists(x, x == input.b)`,
		`input.a.all(x, x != "/etc")`, `input.a < 5`, `"a" in input`, `input.a in input.b`, `input.a + input.b != []`, `string(input.a) == "b"`, `input.a == 1 || input.b == null`, `input.a.leaf == null`, `size(input) > 2`,
	}
	rapid.Check(t, func(t *rapid.T) {
		members := map[string]any{}
		for _, name := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, "has "+name) {
				members[name] = value(2).Draw(t, name)
			}
		}
		leaf, selects := any(json.Number(rapid.SampledFrom([]string{"1e999", "-1e999", "123456789012345678901234567890", "0.30000000000000000001", "1e-999"}).Draw(t, "bad"))), ""
		without := any(1)
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "in a map") {
				leaf, without, selects = map[string]any{"leaf": leaf, "x": 1}, map[string]any{"leaf": without, "x": 1}, ".leaf"+selects
			} else {
				leaf, without, selects = []any{0, leaf}, []any{0, without}, "[1]"+selects
			}
		}
		given := func(bad any) *chat.Facts {
			members["bad"] = bad
			raw, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			return facts(string(raw))
		}
		one, other := given(leaf), given(without)
		expression := rapid.SampledFrom(elsewhere).Draw(t, "elsewhere")
		if got, want := eval(&r, expression, one), eval(&r, expression, other); got != want {
			t.Fatalf("%s: got %s on %s, %s on %s", expression, got, one.Input, want, other.Input)
		}
		expression = strings.ReplaceAll(rapid.SampledFrom(looks).Draw(t, "looks"), "%s", selects)
		if got := eval(&r, expression, one); got != "fails" {
			t.Fatalf("%s: got %s on %s", expression, got, one.Input)
		}
	})
}
