package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestRulesAreTakenAsTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	place, off, name, version := -3, false, "new", 2
	verdict := chat.VerdictAsk
	got := b.do("POST", "/policy/rules", `{"name":" No <x> ","verdict":"deny","expression":"input.a ==\n \"b\"","reason":" é ","enabled":false,"position":-3}`)
	if got.status != 201 || got.header.Get("Location") != "/policy/rules/r1" || !strings.Contains(got.body, `"name":"No <secrets>"`) {
		t.Errorf("answered %d %s %s", got.status, got.header.Get("Location"), got.body)
	}
	want := chat.NewRule{Name: " No <x> ", Verdict: chat.VerdictDeny, Expression: "input.a ==\n \"b\"", Reason: " é ", Position: &place}
	if diff := cmp.Diff(want, b.svc.newRule); diff != "" {
		t.Errorf("the service was given (-want +got):\n%s", diff)
	}
	if b.svc.by != (chat.Decider{Name: "ada", Via: chat.ViaAPI}) {
		t.Errorf("changed by %+v", b.svc.by)
	}
	b.do("POST", "/policy/rules", `{"name":"n","verdict":"allow","expression":"true"}`)
	if !b.svc.newRule.Enabled || b.svc.newRule.Position != nil {
		t.Errorf("the service was given %+v", b.svc.newRule)
	}
	b.do("PATCH", "/policy/rules/r1", `{"name":"new","enabled":false,"verdict":"ask","position":-3,"version":2}`)
	if diff := cmp.Diff(chat.RulePatch{Name: &name, Enabled: &off, Verdict: &verdict, Position: &place, Version: &version}, b.svc.rulePatch); diff != "" {
		t.Errorf("the service was given (-want +got):\n%s", diff)
	}
	b.svc.by = chat.Decider{}
	b.do("DELETE", "/policy/rules/r1", "", "Authorization", "Cookie: assent_session="+session, "Origin: "+b.url)
	if b.svc.by != (chat.Decider{Name: "ada", Via: chat.ViaWeb}) {
		t.Errorf("deleted by %+v", b.svc.by)
	}
	if got := b.do("GET", "/policy/explain?approvalId=a1", ""); !strings.Contains(got.body, `"why":"The rule “No <secrets>” refuses this call."`) {
		t.Errorf("answered %s", got.body)
	}
}

func TestRulesThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	good := `"name":"n","verdict":"deny","expression":"true"`
	for _, tt := range []struct{ method, path, body, detail string }{
		{"POST", "/policy/rules", `{"verdict":"deny","expression":"true"}`, "name is required."},
		{"POST", "/policy/rules", `{"name":" ","verdict":"deny","expression":"true"}`, "name must not be blank."},
		{"POST", "/policy/rules", `{"name":"n","verdict":"maybe","expression":"true"}`, "verdict must be one of allow, ask, deny."},
		{"POST", "/policy/rules", `{"name":"n","verdict":"deny"}`, "expression is required."},
		{"POST", "/policy/rules", `{"name":"n","verdict":"deny","expression":"` + strings.Repeat("a", 4001) + `"}`, "expression must have at most 4000 characters."},
		{"POST", "/policy/rules", `{` + good + `,"position":"1"}`, "position must be an integer of at most 32 bits."},
		{"POST", "/policy/rules", `{` + good + `,"position":1.5}`, "position must be an integer of at most 32 bits."},
		{"POST", "/policy/rules", `{` + good + `,"position":99999999999}`, "position must be an integer of at most 32 bits."},
		{"POST", "/policy/rules", `{` + good + `,"position":1000001}`, "position must be at most 1000000."},
		{"POST", "/policy/rules", `{` + good + `,"position":-1000001}`, "position must be at least -1000000."},
		{"POST", "/policy/rules", `{` + good + `,"id":"x"}`, "id is not a member that this request has."},
		{"PATCH", "/policy/rules/r1", `{}`, "The body names nothing to change."},
		{"PATCH", "/policy/rules/r1", `{"version":1}`, "The body names nothing to change."},
		{"PATCH", "/policy/rules/r1", `{"name":"n","version":0}`, "version must be at least 1."},
		{"PATCH", "/policy/rules/r1", `{"expression":""}`, "expression must not be empty."},
		{"POST", "/policy/rules/try", `{"expression":"true"}`, "verdict is required."},
		{"GET", "/policy/explain", "", "Name a call by approvalId, or by topicId and toolCallId."},
		{"GET", "/policy/explain?topicId=t1", "", "Name a call by approvalId, or by topicId and toolCallId."},
		{"GET", "/policy/explain?toolCallId=c", "", "Name a call by approvalId, or by topicId and toolCallId."},
		{"GET", "/policy/explain?approvalId=a&topicId=t1&toolCallId=c", "", "Name a call by approvalId, or by topicId and toolCallId."},
		{"GET", "/policy/explain?approvalId=%ff", "", "approvalId and toolCallId must be ids that this server gave."},
		{"GET", "/policy/explain?approvalId=" + strings.Repeat("a", 201), "", "approvalId and toolCallId must be ids that this server gave."},
		{"GET", "/policy/rules/r1/versions?limit=0", "", "limit must be a number from 1 to 200."},
		{"POST", "/topics", `{"mode":"allow-all"}`, "mode must be one of ask-all, default, trusted-read-only."},
		{"POST", "/topics", `{"mode":""}`, "mode must be one of ask-all, default, trusted-read-only."},
		{"PATCH", "/topics/t1", `{"mode":"x"}`, "mode must be one of ask-all, default, trusted-read-only."},
	} {
		p := b.bad(tt.method, tt.path, tt.body).problem(t, 400)
		if p["detail"] != tt.detail {
			t.Errorf("%s %s %.80s: %v, want %s", tt.method, tt.path, tt.body, p["detail"], tt.detail)
		}
		if call := b.svc.last(); call != "" {
			t.Errorf("%s %s: the service was asked %s", tt.method, tt.path, call)
		}
	}
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/policy/rules/%00", ""}, {"PATCH", "/policy/rules/a%20b", `{"enabled":true}`}, {"DELETE", "/policy/rules/%00", ""},
		{"GET", "/policy/rules/%00/versions", ""}, {"GET", "/policy", ""},
	} {
		b.bad(tt.method, tt.path, tt.body).problem(t, 404)
	}
}

func TestTheModeOfATopicIsPassedOn(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do("POST", "/topics", `{"mode":"ask-all"}`)
	if b.svc.topic.Mode != chat.ModeAskAll {
		t.Errorf("the service was given %+v", b.svc.topic)
	}
	b.do("PATCH", "/topics/t1", `{"mode":"trusted-read-only"}`)
	if m := b.svc.patch.Mode; m == nil || *m != chat.ModeTrustedReadOnly {
		t.Errorf("the service was given %+v", b.svc.patch)
	}
	if got := b.do("GET", "/topics/t1", ""); !strings.Contains(got.body, `"mode":"default"`) {
		t.Errorf("answered %s", got.body)
	}
}
