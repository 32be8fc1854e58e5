package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

func TestRulesAreAddedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	hinted := func() {
		t.Helper()
		if got := told.hints(); !slices.Equal(got, []chat.SettingsKind{chat.SettingsRules}) {
			t.Errorf("watchers were told of %v", got)
		}
	}
	told.hints()
	r, err := svc.CreateRule(t.Context(), chat.NewRule{Name: "r", Verdict: chat.VerdictAsk, Expression: `tool == "t"`, Enabled: true}, ada)
	if err != nil || r.Version != 1 {
		t.Fatal(r, err)
	}
	hinted()
	if r, err = svc.UpdateRule(t.Context(), r.ID, chat.RulePatch{Expression: ptr("true")}, ada); err != nil || r.Version != 2 {
		t.Fatal(r, err)
	}
	hinted()
	if got, err := svc.Rule(t.Context(), r.ID); err != nil || got != r {
		t.Errorf("read: %+v, %v", got, err)
	}
	if list, err := svc.Rules(t.Context()); err != nil || !slices.Equal(list, []chat.Rule{r}) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	for name, tt := range map[string]struct {
		try  func() error
		want error
	}{
		"what is no expression": {func() error {
			_, err := svc.CreateRule(t.Context(), chat.NewRule{Name: "x", Verdict: chat.VerdictAsk, Expression: "tool =="}, ada)
			return err
		}, chat.ErrInvalid},
		"a change to it": {func() error {
			_, err := svc.UpdateRule(t.Context(), r.ID, chat.RulePatch{Expression: ptr("tool ==")}, ada)
			return err
		}, chat.ErrInvalid},
		"a change at another version": {func() error {
			_, err := svc.UpdateRule(t.Context(), r.ID, chat.RulePatch{Name: ptr("x"), Version: ptr(1)}, ada)
			return err
		}, chat.ErrConflict},
		"a change of none": {func() error {
			_, err := svc.UpdateRule(t.Context(), "none", chat.RulePatch{Name: ptr("x")}, ada)
			return err
		}, chat.ErrNotFound},
		"none, deleted":           {func() error { return svc.DeleteRule(t.Context(), "none", ada) }, chat.ErrNotFound},
		"a trial of what is none": {func() error { _, err := svc.TryRule(t.Context(), chat.VerdictDeny, "tool =="); return err }, chat.ErrInvalid},
	} {
		if err := tt.try(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := told.hints(); got != nil {
		t.Errorf("watchers were told of %v", got)
	}
	if err := svc.DeleteRule(t.Context(), r.ID, ada); err != nil {
		t.Fatal(err)
	}
	hinted()
	if history, _, err := svc.RuleVersions(t.Context(), r.ID, chat.Page{Limit: 10}); err != nil || len(history) != 3 || history[0].Action != chat.ActionDeleted {
		t.Errorf("recorded: %+v, %v", history, err)
	}
}

func TestATrialOfARuleIsOnWhatWasCalled(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	waiting(t, svc, store)
	waiting(t, svc, store)
	told.hints()
	for expression, matched := range map[string]int{`input.a == 1`: 2, `input.a == 2`: 0} {
		if got, err := svc.TryRule(t.Context(), chat.VerdictDeny, expression); err != nil || got.Of != 2 || got.Matched != matched || got.Changed != matched {
			t.Errorf("%s: got %+v, %v", expression, got, err)
		}
	}
	if rules, err := svc.Rules(t.Context()); err != nil || len(rules) != 0 || told.hints() != nil {
		t.Errorf("a trial is stored: %+v, %v", rules, err)
	}
}

// judgedBy is a call on which a version of a rule gave the verdict.
func judgedBy(t *testing.T, svc *service.Service, store *repository.Store, r chat.Rule) (topicID string) {
	t.Helper()
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, store, claim(t, svc, store, topic.ID), func(at time.Time) chat.ToolCall {
		call := chat.ToolCall{Type: chat.DynamicTool, ToolName: "s__t", ToolCallID: "c", Input: json.RawMessage(`{}`)}
		call = chat.Judged(chat.Describe(call, tool("s", "s", "t")), chat.Judgement{Verdict: chat.VerdictAsk, Rule: r.Name, RuleID: r.ID, RuleVersion: r.Version, Why: "It asks."})
		return chat.Ask(call, "approval-"+topic.ID, at)
	})
	return topic.ID
}

// A rule that has changed often since has a record of several pages.
func TestWhatDecidedIsExplainedHoweverOftenTheRuleChanged(t *testing.T) {
	t.Parallel()
	svc, store, _ := newService(t)
	first, err := svc.CreateRule(t.Context(), chat.NewRule{Name: "version 1", Verdict: chat.VerdictAsk, Expression: "true", Enabled: true}, ada)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for i := range 210 {
		if last, err = store.UpdateRule(t.Context(), first.ID, chat.RulePatch{Name: ptr(fmt.Sprint("version ", i+2))}, ada); err != nil {
			t.Fatal(err)
		}
	}
	explain := func(r chat.Rule, now string) {
		t.Helper()
		topic := judgedBy(t, svc, store, r)
		e, err := svc.ExplainCall(t.Context(), topic, "c")
		if err != nil || e.RuleVersion == nil || e.RuleVersion.Version != r.Version || e.RuleVersion.After.Name != r.Name || e.RuleNow != now || e.Rule != r.Name {
			t.Errorf("version %d: got %+v, %v", r.Version, e.RuleVersion, err)
		}
		if byApproval, err := svc.ExplainApproval(t.Context(), "approval-"+topic); err != nil || byApproval.RuleNow != now {
			t.Errorf("version %d: got %+v, %v", r.Version, byApproval, err)
		}
	}
	explain(first, "changed")
	explain(last, "same")
	if err := svc.DeleteRule(t.Context(), first.ID, ada); err != nil {
		t.Fatal(err)
	}
	explain(first, "deleted")
	explain(last, "deleted")
}
