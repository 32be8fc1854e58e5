package chat_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestDecideForGood(t *testing.T) {
	t.Parallel()
	const always = chat.RememberAlwaysAllow
	byRule, ok := chat.AllowByRule(waiting(), chat.Judgement{Verdict: chat.VerdictAllow, Rule: chat.ByAutoApprove, Why: "It is allowed."}, later)
	if !ok {
		t.Fatal("not allowed")
	}
	for _, tt := range []struct {
		name     string
		call     chat.ToolCall
		d        chat.Decision
		effect   chat.Effect
		err      error
		remember chat.Remember
	}{
		{"a yes", waiting(), chat.Decision{Approved: true, Remember: always}, chat.EffectApplied, nil, always},
		{"a yes that is not for good", waiting(), chat.Decision{Approved: true}, chat.EffectApplied, nil, ""},
		{"a no is never for good", waiting(), chat.Decision{Remember: always}, chat.EffectApplied, nil, ""},
		{"the same again", decided(t, chat.Decision{Approved: true, Remember: always}), chat.Decision{Approved: true, Remember: always}, chat.EffectAlreadySettled, nil, always},
		{"the same no again", decided(t, chat.Decision{Remember: always}), chat.Decision{Remember: always}, chat.EffectAlreadySettled, nil, ""},
		{"the yes alone, after one for good", decided(t, chat.Decision{Approved: true, Remember: always}), chat.Decision{Approved: true}, chat.EffectAlreadySettled, nil, always},
		{"for good, after a yes alone", decided(t, chat.Decision{Approved: true}), chat.Decision{Approved: true, Remember: always}, "", chat.ErrConflict, ""},
		{"for good, after a rule was quicker", byRule, chat.Decision{Approved: true, Remember: always}, chat.EffectAlreadySettled, nil, ""},
		{"a yes, after a rule was quicker", byRule, chat.Decision{Approved: true}, chat.EffectAlreadySettled, nil, ""},
		{"a no, after a rule was quicker", byRule, chat.Decision{}, "", chat.ErrConflict, ""},
		{"for good, with another input", decided(t, chat.Decision{Approved: true, Remember: always}),
			chat.Decision{Approved: true, Remember: always, UpdatedInput: json.RawMessage(`{}`)}, "", chat.ErrConflict, always},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.d.ApprovalID = "ap1"
			got, effect, err := chat.Decide(tt.call, tt.d, ada, later)
			if effect != tt.effect || !errors.Is(err, tt.err) || got.Approval.Remember != tt.remember {
				t.Errorf("got %q, %v, %q", effect, err, got.Approval.Remember)
			}
			if effect != chat.EffectApplied && cmp.Diff(tt.call, got) != "" {
				t.Error("the call changed")
			}
		})
	}
}

func TestAllowByRule(t *testing.T) {
	t.Parallel()
	call := waiting()
	j := chat.Judgement{Verdict: chat.VerdictAllow, Rule: "my rule", RuleID: "r", RuleVersion: 3, Why: "The rule “my rule” allows this call."}
	got, ok := chat.AllowByRule(call, j, later)
	yes := true
	want := waiting()
	want.State = chat.CallApprovalResponded
	a := *want.Approval
	a.Approved, a.DecidedAt, a.DecidedBy, a.Via, a.Reason = &yes, &later, "my rule", chat.ViaRule, j.Why
	want.Approval = &a
	want.ToolMetadata = &chat.ToolMetadata{Verdict: chat.VerdictAllow, Rule: "my rule", RuleID: "r", RuleVersion: 3, Why: j.Why}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}
	if !got.Runnable() || !got.Approval.Granted() {
		t.Error("it cannot be run")
	}
	if diff := cmp.Diff(waiting(), call); diff != "" {
		t.Errorf("the call that was given has changed: %s", diff)
	}

	closed, _ := chat.Close(waiting(), chat.ResolutionExpired, later)
	allowed := waiting()
	allowed.State, allowed.Approval = chat.CallInputAvailable, nil
	late := chat.ExpireAfter(waiting(), later.Sub(noon))
	if _, ok := chat.AllowByRule(late, j, later.Add(-1)); !ok {
		t.Error("a call that has a moment left is not allowed")
	}
	for name, c := range map[string]chat.ToolCall{
		"denied": decided(t, chat.Decision{}), "approved": decided(t, chat.Decision{Approved: true}), "closed": closed, "never asked": allowed, "by a rule": got, "none": {}, "expired": late,
	} {
		if next, ok := chat.AllowByRule(c, j, later); ok || cmp.Diff(c, next) != "" {
			t.Errorf("%s: got %v, %+v", name, ok, next)
		}
	}
	for _, v := range []chat.Verdict{chat.VerdictAsk, chat.VerdictDeny, ""} {
		if next, ok := chat.AllowByRule(waiting(), chat.Judgement{Verdict: v}, later); ok || cmp.Diff(waiting(), next) != "" {
			t.Errorf("%q: got %v, %+v", v, ok, next)
		}
	}
}

func TestAlwaysAllowRuleNamesWhatChanges(t *testing.T) {
	t.Parallel()
	got := chat.AlwaysAllowRule("write_file", "my files")
	for _, part := range []string{"write_file", "my files", "disabledAutoApproveTools", "every chat", "Deny rules"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not mention %q", got, part)
		}
	}
}
