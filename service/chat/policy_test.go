package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

// matching evaluates expressions that say themselves what they do.
func matching(r chat.Rule, _ *chat.Facts) (bool, error) {
	switch r.Expression {
	case "holds":
		return true, nil
	case "fails":
		return true, errors.New("the input said: secret")
	}
	return false, nil
}

func rule(v chat.Verdict, expression string) chat.Rule {
	return chat.Rule{ID: string(v) + "-" + expression, Name: string(v) + " " + expression, Verdict: v, Expression: expression, Enabled: true, Version: 3}
}

var readOnly = json.RawMessage(`{"readOnlyHint":true}`)

// situation is what a verdict depends on.
type situation struct {
	disabled, always, auto, trusted, reads bool
	deny, ask, allow                       string // what the rules of the verdict do; "" is none, "both" is one that fails and one that holds
	topic, assistant                       chat.Mode
}

func (s situation) judge() chat.Judgement {
	tool := chat.Tool{Name: "s__t", Policy: chat.ToolPolicy{Disabled: s.disabled, AlwaysAsk: s.always, AutoApprove: s.auto, Trusted: s.trusted}}
	if s.reads {
		tool.Annotations = readOnly
	}
	var rules []chat.Rule
	for v, does := range map[chat.Verdict]string{chat.VerdictDeny: s.deny, chat.VerdictAsk: s.ask, chat.VerdictAllow: s.allow} {
		switch does {
		case "": // no rule
		case "both":
			rules = append(rules, rule(v, "fails"), rule(v, "holds"))
		default:
			rules = append(rules, rule(v, does))
		}
	}
	if s.auto { // the order of the rules is that of their positions; it plays no part between verdicts
		slices.Reverse(rules)
	}
	return chat.Judge(tool, chat.ToolCall{}, chat.PolicyInput{Modes: []chat.Mode{s.topic, s.assistant}, Rules: rules, Match: matching})
}

func (s situation) mode(m chat.Mode) bool { return s.topic == m || s.assistant == m }

// row is one row of the order of precedence.
type row struct {
	verdict chat.Verdict
	by      string
	applies func(situation) bool
}

// precedence is what may give a verdict, the first that applies.
var precedence = []row{
	{chat.VerdictDeny, chat.ByDisabled, func(s situation) bool { return s.disabled }},
	{chat.VerdictDeny, "deny holds", func(s situation) bool { return s.deny == "holds" || s.deny == "both" }},
	{chat.VerdictAsk, "deny fails", func(s situation) bool { return s.deny == "fails" || s.deny == "both" }},
	{chat.VerdictAsk, chat.ByAskAll, func(s situation) bool { return s.mode(chat.ModeAskAll) }},
	{chat.VerdictAsk, "ask holds", func(s situation) bool { return s.ask == "holds" || s.ask == "both" }},
	{chat.VerdictAsk, "ask fails", func(s situation) bool { return s.ask == "fails" || s.ask == "both" }},
	{chat.VerdictAsk, "allow fails", func(s situation) bool { return s.allow == "fails" || s.allow == "both" }},
	{chat.VerdictAsk, chat.ByAlwaysAsk, func(s situation) bool { return s.always }},
	{chat.VerdictAllow, "allow holds", func(s situation) bool { return s.allow == "holds" || s.allow == "both" }},
	{chat.VerdictAllow, chat.ByAutoApprove, func(s situation) bool { return s.auto }},
	{chat.VerdictAllow, chat.ByTrustedReadOnly, func(s situation) bool { return s.mode(chat.ModeTrustedReadOnly) && s.trusted && s.reads }},
	{chat.VerdictAsk, chat.ByDefault, func(situation) bool { return true }},
}

// TestPrecedence tries every combination of what a verdict depends on, and that
// in doing so each row of the order has stood against each below it.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	var stood [12][12]int
	check := func(s situation) {
		first := slices.IndexFunc(precedence, func(r row) bool { return r.applies(s) })
		for i := first; i < len(precedence); i++ {
			if precedence[i].applies(s) {
				stood[first][i]++
			}
		}
		want, got := precedence[first], s.judge()
		if got.Verdict != want.verdict || got.Rule != want.by || got.Why == "" || (got.Reason != "") != (want.verdict == chat.VerdictDeny) {
			t.Fatalf("%+v: got %+v, want %s by %s", s, got, want.verdict, want.by)
		}
		if unsure := want.by == "deny fails"; got.Unsure != unsure {
			t.Fatalf("%+v: unsure is %v", s, got.Unsure)
		}
		ruled := strings.HasSuffix(want.by, " holds") || strings.HasSuffix(want.by, " fails")
		if (got.RuleID != "") != ruled || (got.RuleVersion == 3) != ruled {
			t.Fatalf("%+v: the rule is %q at version %d", s, got.RuleID, got.RuleVersion)
		}
	}
	does := []string{"", "passes", "holds", "fails", "both"}
	modes := []chat.Mode{"", chat.ModeDefault, chat.ModeAskAll, chat.ModeTrustedReadOnly}
	for switches := range 1 << 5 {
		on := func(bit int) bool { return switches&(1<<bit) != 0 }
		for _, deny := range does {
			for _, ask := range does {
				for _, allow := range does {
					for _, topic := range modes {
						for _, assistant := range modes {
							check(situation{on(0), on(1), on(2), on(3), on(4), deny, ask, allow, topic, assistant})
						}
					}
				}
			}
		}
	}
	for i, r := range precedence {
		for j := i; j < len(precedence); j++ {
			if stood[i][j] == 0 {
				t.Errorf("%s never stood against %s", r.by, precedence[j].by)
			}
		}
	}
}

func TestAJudgementNamesWhatGaveIt(t *testing.T) {
	t.Parallel()
	off := rule(chat.VerdictDeny, "holds")
	off.Enabled = false
	first, second := rule(chat.VerdictDeny, "holds"), rule(chat.VerdictDeny, "holds")
	first.Name, first.Reason, second.Name = "first", "Never.", "second"
	for _, tt := range []struct {
		name   string
		policy chat.ToolPolicy
		notes  json.RawMessage
		modes  []chat.Mode
		rules  []chat.Rule
		want   chat.Verdict
		by     string
		id     string
	}{
		{"nothing known", chat.ToolPolicy{}, readOnly, nil, nil, chat.VerdictAsk, chat.ByDefault, ""},
		{"switched off", chat.ToolPolicy{Disabled: true, AutoApprove: true}, nil, nil, []chat.Rule{rule(chat.VerdictDeny, "holds")}, chat.VerdictDeny, chat.ByDisabled, ""},
		{"the first deny rule", chat.ToolPolicy{}, nil, nil, []chat.Rule{rule(chat.VerdictAllow, "holds"), first, second}, chat.VerdictDeny, "first", first.ID},
		{"a deny rule after one that fails", chat.ToolPolicy{}, nil, nil, []chat.Rule{rule(chat.VerdictDeny, "fails"), second}, chat.VerdictDeny, "second", second.ID},
		{"a deny rule that fails, in a chat that asks", chat.ToolPolicy{}, nil, []chat.Mode{chat.ModeAskAll}, []chat.Rule{rule(chat.VerdictDeny, "fails")}, chat.VerdictAsk, "deny fails", "deny-fails"},
		{"a rule that is off", chat.ToolPolicy{AutoApprove: true}, nil, nil, []chat.Rule{off}, chat.VerdictAllow, chat.ByAutoApprove, ""},
		{"ask-all of an assistant in a free topic", chat.ToolPolicy{AutoApprove: true}, nil, []chat.Mode{chat.ModeTrustedReadOnly, chat.ModeAskAll}, nil, chat.VerdictAsk, chat.ByAskAll, ""},
		{"an ask rule over an allow rule", chat.ToolPolicy{AutoApprove: true}, nil, nil, []chat.Rule{rule(chat.VerdictAllow, "holds"), rule(chat.VerdictAsk, "holds")}, chat.VerdictAsk, "ask holds", "ask-holds"},
		{"an allow rule that fails over one that holds", chat.ToolPolicy{AutoApprove: true}, nil, nil, []chat.Rule{rule(chat.VerdictAllow, "holds"), rule(chat.VerdictAllow, "fails")}, chat.VerdictAsk, "allow fails", "allow-fails"},
		{"the person's list over an allow rule", chat.ToolPolicy{AlwaysAsk: true}, nil, nil, []chat.Rule{rule(chat.VerdictAllow, "holds")}, chat.VerdictAsk, chat.ByAlwaysAsk, ""},
		{"an allow rule", chat.ToolPolicy{}, nil, nil, []chat.Rule{rule(chat.VerdictAllow, "holds")}, chat.VerdictAllow, "allow holds", "allow-holds"},
		{"a trusted reader", chat.ToolPolicy{Trusted: true}, readOnly, []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAllow, chat.ByTrustedReadOnly, ""},
		{"a reader nobody trusts", chat.ToolPolicy{}, readOnly, []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAsk, chat.ByDefault, ""},
		{"a claim that is no boolean", chat.ToolPolicy{Trusted: true}, json.RawMessage(`{"readOnlyHint":"true"}`), []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAsk, chat.ByDefault, ""},
		{"a claim under another name", chat.ToolPolicy{Trusted: true}, json.RawMessage(`{"READONLYHINT":true}`), []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAsk, chat.ByDefault, ""},
		{"claims that contradict each other", chat.ToolPolicy{Trusted: true}, json.RawMessage(`{"readOnlyHint":true,"destructiveHint":true}`), []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAsk, chat.ByDefault, ""},
		{"claims that are no object", chat.ToolPolicy{Trusted: true}, json.RawMessage(`[`), []chat.Mode{chat.ModeTrustedReadOnly}, nil, chat.VerdictAsk, chat.ByDefault, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := chat.Judge(chat.Tool{Name: "s__t", Annotations: tt.notes, Policy: tt.policy}, chat.ToolCall{}, chat.PolicyInput{Modes: tt.modes, Rules: tt.rules, Match: matching})
			if got.Verdict != tt.want || got.Rule != tt.by || got.RuleID != tt.id || (got.RuleVersion == 3) != (tt.id != "") {
				t.Errorf("got %+v, want %s by %s", got, tt.want, tt.by)
			}
			if strings.Contains(got.Why, "secret") {
				t.Errorf("the input leaks: %s", got.Why)
			}
			if tt.by == "first" && got.Reason != "Never." {
				t.Errorf("the reason is %q", got.Reason)
			}
		})
	}
}

func TestRulesThatNobodyCanEvaluateAsk(t *testing.T) {
	t.Parallel()
	for _, v := range []chat.Verdict{chat.VerdictAllow, chat.VerdictAsk, chat.VerdictDeny} {
		got := chat.Judge(chat.Tool{Policy: chat.ToolPolicy{AutoApprove: true}}, chat.ToolCall{}, chat.PolicyInput{Rules: []chat.Rule{rule(v, "holds")}})
		if got.Verdict != chat.VerdictAsk {
			t.Errorf("%s: got %+v", v, got)
		}
	}
}

func TestRulesSeeTheCallAsItIs(t *testing.T) {
	t.Parallel()
	var seen []*chat.Facts
	p := chat.PolicyInput{
		Rules: []chat.Rule{rule(chat.VerdictDeny, ""), rule(chat.VerdictAsk, ""), rule(chat.VerdictAllow, "")},
		Match: func(_ chat.Rule, f *chat.Facts) (bool, error) { seen = append(seen, f); return false, nil },
		Topic: chat.TopicFacts{ID: "t1", Title: "T", Model: "m"}, Principal: "ada",
	}
	chat.Judge(chat.Tool{Name: "s__other_name", Server: "s", Tool: "t", Annotations: readOnly}, chat.ToolCall{ToolName: "s__other_name", Input: json.RawMessage(`{"a":1}`)}, p)
	want := chat.Facts{Tool: "t", Server: "s", Annotations: readOnly, Input: json.RawMessage(`{"a":1}`), Topic: p.Topic, Principal: "ada"}
	if len(seen) != 3 || seen[0] != seen[1] || seen[0] != seen[2] {
		t.Fatalf("seen %v", seen)
	}
	if diff := cmp.Diff(want, *seen[0]); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalBeforeARun(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	approved, allowed := chat.ToolCall{Approval: &chat.Approval{Approved: &yes, Via: chat.ViaWeb}}, chat.ToolCall{}
	byRule := chat.ToolCall{Approval: &chat.Approval{Approved: &yes, Via: chat.ViaRule}} // after it was asked for
	denied := chat.ToolCall{Approval: &chat.Approval{Approved: &no, Via: chat.ViaWeb}}
	deny := chat.Judgement{Verdict: chat.VerdictDeny, Reason: "No."}
	unsure := chat.Judgement{Verdict: chat.VerdictAsk, Why: "Nobody can tell.", Unsure: true}
	ask := chat.Judgement{Verdict: chat.VerdictAsk, Why: "It asks."}
	for _, tt := range []struct {
		call chat.ToolCall
		j    chat.Judgement
		want string
	}{
		{approved, deny, "No."}, {allowed, deny, "No."}, {approved, unsure, ""}, {allowed, unsure, "Nobody can tell."},
		{byRule, unsure, "Nobody can tell."}, {byRule, deny, "No."}, {byRule, ask, ""}, {denied, unsure, "Nobody can tell."},
		{approved, ask, ""}, {allowed, ask, ""}, {allowed, chat.Judgement{Verdict: chat.VerdictAllow}, ""},
	} {
		if got := chat.Refusal(tt.call, tt.j); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.j, got, tt.want)
		}
	}
}

func TestOverrule(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	yes := true
	call := chat.ToolCall{State: chat.CallApprovalResponded, Approval: &chat.Approval{ID: "a", Approved: &yes, DecidedBy: "ada", Reason: "go"},
		ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictAsk, Rule: chat.ByDefault, Server: "s"}}
	j := chat.Judgement{Verdict: chat.VerdictDeny, Rule: "no", RuleID: "r", RuleVersion: 2, Why: "The rule “no” refuses this call."}
	got, ok := chat.Overrule(call, j, "Not now", at)
	want := chat.ToolCall{State: chat.CallOutputError, Approval: call.Approval, ErrorText: "Not now. The call was not run.",
		ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictDeny, Rule: "no", RuleID: "r", RuleVersion: 2, Why: j.Why, Server: "s", Outcome: chat.OutcomeUnavailable, FinishedAt: &at}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(ok, diff)
	}
	if call.ToolMetadata.Verdict != chat.VerdictAsk {
		t.Error("the call that was given has changed")
	}
	if again, ok := chat.Overrule(got, j, "Again", at); ok || again.ErrorText != got.ErrorText {
		t.Errorf("a settled call became %+v", again)
	}
	if e := chat.Explain(chat.JudgedCall{Call: got}, nil); e.Verdict != chat.VerdictDeny || e.Reason != got.ErrorText || !e.Approval.Granted() {
		t.Errorf("explained as %+v", e)
	}
}

func TestRulePatch(t *testing.T) {
	t.Parallel()
	r := rule(chat.VerdictAsk, "true")
	name, off, place, verdict := "new", false, 7, chat.VerdictDeny
	got, changed := chat.RulePatch{Name: &name, Enabled: &off, Position: &place, Verdict: &verdict}.Apply(r)
	want := r
	want.Name, want.Enabled, want.Position, want.Verdict = name, off, place, verdict
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Error(changed, diff)
	}
	if got, changed := (chat.RulePatch{Expression: &r.Expression, Reason: &r.Reason}).Apply(r); changed || got != r {
		t.Errorf("the same again: %v, %+v", changed, got)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ruled := chat.JudgedCall{TopicID: "t", AnchorID: "m", Call: chat.ToolCall{ToolCallID: "c", ToolName: "s__t", State: chat.CallOutputDenied,
		Approval:     &chat.Approval{ID: "a", Reason: "Never.", Resolution: chat.ResolutionPolicy},
		ToolMetadata: &chat.ToolMetadata{Server: "s", Verdict: chat.VerdictDeny, Rule: "old name", RuleID: "r", RuleVersion: 2, Why: "Because."}}}
	history := func(versions ...chat.Action) (h []chat.RuleChange) {
		for i, action := range versions {
			c := chat.RuleChange{RuleID: "r", Version: i + 1, Action: action, At: at}
			if action != chat.ActionDeleted {
				c.After = &chat.Rule{ID: "r", Name: fmt.Sprint("version ", i+1), Version: i + 1}
			}
			h = append(h, c)
		}
		return h
	}
	for _, tt := range []struct {
		history []chat.RuleChange
		now     string
		version string
	}{
		{history(chat.ActionCreated, chat.ActionChanged), "same", "version 2"},
		{history(chat.ActionCreated, chat.ActionChanged, chat.ActionChanged), "changed", "version 2"},
		{history(chat.ActionCreated, chat.ActionChanged, chat.ActionDeleted), "deleted", "version 2"},
		{nil, "", ""},
	} {
		got := chat.Explain(ruled, tt.history)
		version := ""
		if got.RuleVersion != nil {
			version = got.RuleVersion.After.Name
		}
		if got.RuleNow != tt.now || version != tt.version || got.Why != "Because." || got.Reason != "Never." || got.Rule != "old name" {
			t.Errorf("want %s, %s; got %+v", tt.now, tt.version, got)
		}
	}
	never := chat.Explain(chat.JudgedCall{Call: chat.ToolCall{ErrorText: "There is no tool named x."}}, nil)
	if never.Verdict != "" || never.Why != "There is no tool named x." {
		t.Errorf("got %+v", never)
	}
	older := chat.Explain(chat.JudgedCall{Call: chat.ToolCall{ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictAsk, Rule: chat.ByDefault}}}, nil)
	if !strings.Contains(older.Why, chat.ByDefault) {
		t.Errorf("got %+v", older)
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	var calls []chat.JudgedCall
	given := func(v chat.Verdict, by, input string) {
		calls = append(calls, chat.JudgedCall{TopicID: "t", Call: chat.ToolCall{ToolCallID: fmt.Sprint(len(calls)), Input: json.RawMessage(input),
			ToolMetadata: &chat.ToolMetadata{Server: "s", Verdict: v, Rule: by}}})
	}
	given(chat.VerdictAllow, chat.ByAutoApprove, `"hit"`)
	given(chat.VerdictAsk, chat.ByDefault, `"hit"`)
	given(chat.VerdictAsk, chat.ByAlwaysAsk, `"hit"`)
	given(chat.VerdictDeny, "a rule", `"hit"`)
	given(chat.VerdictAllow, chat.ByAutoApprove, `"bad"`)
	given(chat.VerdictAsk, chat.ByDefault, `"bad"`)
	given(chat.VerdictAllow, chat.ByAutoApprove, `"miss"`)
	match := func(_ chat.Rule, f *chat.Facts) (bool, error) {
		if string(f.Input) == `"bad"` {
			return false, errors.New("no such key")
		}
		return string(f.Input) == `"hit"`, nil
	}
	for v, changed := range map[chat.Verdict]int{chat.VerdictDeny: 3 + 1, chat.VerdictAsk: 1 + 1, chat.VerdictAllow: 1 + 1} {
		got := chat.Try(chat.Rule{Verdict: v}, calls, match)
		if got.Of != 7 || got.Matched != 4 || got.Failed != 2 || got.Changed != changed || len(got.Samples) != 6 {
			t.Errorf("%s: got %+v", v, got)
		}
		if s := got.Samples[4]; s.Error != "no such key" || s.ToolCallID != "4" || s.Verdict != chat.VerdictAllow || s.Rule != chat.ByAutoApprove {
			t.Errorf("got %+v", s)
		}
	}
	for range 20 {
		given(chat.VerdictAsk, chat.ByDefault, `"hit"`)
	}
	if got := chat.Try(chat.Rule{}, calls, match); got.Matched != 24 || len(got.Samples) != 10 || got.Changed != 1 {
		t.Errorf("got %+v", got)
	}
	if got := chat.Try(chat.Rule{}, nil, match); got.Of != 0 || got.Samples == nil {
		t.Errorf("got %+v", got)
	}
}

func TestFactsOfAPastCallAreTheModelsOwn(t *testing.T) {
	t.Parallel()
	c := chat.JudgedCall{TopicID: "t", TopicTitle: "T", TopicModel: "p/m", Call: chat.ToolCall{Input: json.RawMessage(`{"edited":true}`),
		Approval:     &chat.Approval{OriginalInput: json.RawMessage(`{}`)},
		ToolMetadata: &chat.ToolMetadata{Server: "s", Tool: "x", Annotations: readOnly, Principal: "ada"}}}
	want := &chat.Facts{Tool: "x", Server: "s", Annotations: readOnly, Input: json.RawMessage(`{}`), Topic: chat.TopicFacts{ID: "t", Title: "T", Model: "p/m"}, Principal: "ada"}
	if diff := cmp.Diff(want, c.Facts()); diff != "" {
		t.Error(diff)
	}
	c.Call.Approval = nil
	if got := c.Facts(); string(got.Input) != `{"edited":true}` {
		t.Errorf("got %s", got.Input)
	}
}
