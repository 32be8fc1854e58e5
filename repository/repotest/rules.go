package repotest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

func (b *bench) rule(name string, v chat.Verdict) chat.Rule {
	b.Helper()
	return must[chat.Rule](b)(b.CreateRule(b.ctx, chat.NewRule{Name: name, Verdict: v, Expression: "true", Enabled: true}, ada))
}

func (b *bench) ruleNames() []string {
	b.Helper()
	rules, err := b.Rules(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	names := []string{}
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

func ptr[T any](v T) *T { return &v }

var grace = chat.Decider{Name: "grace", Via: chat.ViaWeb}

var ruleTests = map[string]func(*bench){
	"a rule is read as it was made": func(b *bench) {
		n := chat.NewRule{Name: "No € “secrets”", Verdict: chat.VerdictDeny, Expression: "tool == \"a\"\n\t|| true", Reason: " Never. ", Enabled: true}
		made := must[chat.Rule](b)(b.CreateRule(b.ctx, n, ada))
		want := chat.Rule{Name: n.Name, Verdict: n.Verdict, Expression: n.Expression, Reason: n.Reason, Enabled: true, Position: 1, Version: 1}
		b.same("rule", want, made, cmpopts.IgnoreFields(chat.Rule{}, "ID", "CreatedAt", "UpdatedAt"))
		if made.ID == "" || made.CreatedAt.IsZero() || !made.CreatedAt.Equal(made.UpdatedAt) {
			b.Errorf("got %+v", made)
		}
		b.same("read", made, must[chat.Rule](b)(b.Rule(b.ctx, made.ID)))
		b.same("listed", []chat.Rule{made}, must[[]chat.Rule](b)(b.Rules(b.ctx)))
	},
	"rules stand in their order": func(b *bench) {
		b.same("none", []string{}, b.ruleNames())
		b.rule("one", chat.VerdictAsk)
		b.rule("two", chat.VerdictDeny)
		must[chat.Rule](b)(b.CreateRule(b.ctx, chat.NewRule{Name: "first", Verdict: chat.VerdictAllow, Expression: "true", Position: ptr(0)}, ada))
		last := b.rule("three", chat.VerdictAllow)
		b.same("order", []string{"first", "one", "two", "three"}, b.ruleNames())
		must[chat.Rule](b)(b.UpdateRule(b.ctx, last.ID, chat.RulePatch{Position: ptr(-5)}, ada))
		b.same("order", []string{"three", "first", "one", "two"}, b.ruleNames())
	},
	"a patch changes what it names, and one that changes nothing is no change": func(b *bench) {
		made := b.rule("old", chat.VerdictAllow)
		got := must[chat.Rule](b)(b.UpdateRule(b.ctx, made.ID, chat.RulePatch{Name: ptr("new"), Enabled: ptr(false), Version: ptr(1)}, grace))
		want := made
		want.Name, want.Enabled, want.Version = "new", false, 2
		b.same("changed", want, got, cmpopts.IgnoreFields(chat.Rule{}, "UpdatedAt"))
		b.same("read", got, must[chat.Rule](b)(b.Rule(b.ctx, made.ID)))
		b.same("again", got, must[chat.Rule](b)(b.UpdateRule(b.ctx, made.ID, chat.RulePatch{Name: ptr("new")}, grace)))
		_, err := b.UpdateRule(b.ctx, made.ID, chat.RulePatch{Name: ptr("newer"), Version: ptr(1)}, grace)
		b.is(err, chat.ErrConflict)
		b.same("unharmed", got, must[chat.Rule](b)(b.Rule(b.ctx, made.ID)))
	},
	"every change is recorded: who, by what way, before and after": func(b *bench) {
		made := b.rule("old", chat.VerdictAllow)
		changed := must[chat.Rule](b)(b.UpdateRule(b.ctx, made.ID, chat.RulePatch{Verdict: ptr(chat.VerdictDeny), Reason: ptr("No.")}, grace))
		if err := b.DeleteRule(b.ctx, made.ID, ada); err != nil {
			b.Fatal(err)
		}
		got, next, err := b.RuleVersions(b.ctx, made.ID, chat.Page{Limit: 10})
		if err != nil || next != "" {
			b.Fatal(next, err)
		}
		want := []chat.RuleChange{
			{RuleID: made.ID, Version: 3, Action: chat.ActionDeleted, By: "ada", Via: chat.ViaAPI, Before: &changed},
			{RuleID: made.ID, Version: 2, Action: chat.ActionChanged, By: "grace", Via: chat.ViaWeb, Before: &made, After: &changed},
			{RuleID: made.ID, Version: 1, Action: chat.ActionCreated, By: "ada", Via: chat.ViaAPI, After: &made},
		}
		b.same("record", want, got, cmpopts.IgnoreFields(chat.RuleChange{}, "At"))
		for _, c := range got {
			if c.At.IsZero() {
				b.Errorf("version %d has no time", c.Version)
			}
		}
		var paged []chat.RuleChange
		cursor := ""
		for range 10 {
			page, next, err := b.RuleVersions(b.ctx, made.ID, chat.Page{Limit: 1, Cursor: cursor})
			if err != nil || len(page) != 1 {
				b.Fatal(page, err)
			}
			paged = append(paged, page...)
			if cursor = next; next == "" {
				break
			}
		}
		b.same("page by page", got, paged)
		_, _, err = b.RuleVersions(b.ctx, made.ID, chat.Page{Limit: 1, Cursor: "x"})
		b.is(err, chat.ErrMalformed)
		_, _, err = b.RuleVersions(b.ctx, "none", chat.Page{Limit: 1})
		b.is(err, chat.ErrNotFound)
	},
	"a rule that is not there is not found, one that was deleted is gone": func(b *bench) {
		made := b.rule("x", chat.VerdictAllow)
		if err := b.DeleteRule(b.ctx, made.ID, ada); err != nil {
			b.Fatal(err)
		}
		b.same("listed", []string{}, b.ruleNames())
		for id, want := range map[string]error{"none": chat.ErrNotFound, made.ID: chat.ErrGone} {
			_, err := b.Rule(b.ctx, id)
			b.is(err, want)
			_, err = b.UpdateRule(b.ctx, id, chat.RulePatch{Name: ptr("y")}, ada)
			b.is(err, want)
			b.is(b.DeleteRule(b.ctx, id, ada), want)
		}
	},
	"of changes that race each is one version": func(b *bench) {
		made := b.rule("x", chat.VerdictAllow)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := b.UpdateRule(b.ctx, made.ID, chat.RulePatch{Name: ptr(fmt.Sprint("name ", i))}, ada); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		got, _, err := b.RuleVersions(b.ctx, made.ID, chat.Page{Limit: 100})
		if err != nil || len(got) != 9 {
			b.Fatalf("%d versions, %v", len(got), err)
		}
		for i, c := range got {
			if c.Version != 9-i || c.After.Version != c.Version {
				b.Errorf("entry %d is version %d of rule version %d", i, c.Version, c.After.Version)
			}
		}
		b.same("now", *got[0].After, must[chat.Rule](b)(b.Rule(b.ctx, made.ID)))
	},
	"there are only so many rules": func(b *bench) {
		for i := range 200 {
			b.rule(fmt.Sprint(i), chat.VerdictAsk)
		}
		_, err := b.CreateRule(b.ctx, chat.NewRule{Name: "one more", Verdict: chat.VerdictAsk, Expression: "true"}, ada)
		b.is(err, chat.ErrInvalid)
		if err := b.DeleteRule(b.ctx, must[[]chat.Rule](b)(b.Rules(b.ctx))[0].ID, ada); err != nil {
			b.Fatal(err)
		}
		b.rule("in its place", chat.VerdictAsk)
	},
	"the policy of a topic is its mode and the rules that are on": func(b *bench) {
		topic := b.topic()
		if topic.Mode != chat.ModeDefault {
			b.Errorf("a new topic is in mode %q", topic.Mode)
		}
		on := b.rule("on", chat.VerdictDeny)
		off := b.rule("off", chat.VerdictDeny)
		must[chat.Rule](b)(b.UpdateRule(b.ctx, off.ID, chat.RulePatch{Enabled: ptr(false)}, ada))
		if err := b.DeleteRule(b.ctx, b.rule("gone", chat.VerdictDeny).ID, ada); err != nil {
			b.Fatal(err)
		}
		changed, c, err := b.UpdateTopic(b.ctx, topic.ID, chat.TopicPatch{Mode: ptr(chat.ModeAskAll)})
		if err != nil || changed.Mode != chat.ModeAskAll || c.Topic == nil || c.Topic.Mode != chat.ModeAskAll {
			b.Fatalf("got %+v, %+v, %v", changed, c, err)
		}
		got := must[chat.TopicPolicy](b)(b.TopicPolicy(b.ctx, topic.ID, ""))
		b.same("policy", chat.TopicPolicy{Topic: chat.TopicFacts{ID: topic.ID, Model: "demo/guide"}, Modes: []chat.Mode{chat.ModeAskAll}, Rules: []chat.Rule{on}}, got)
		if _, c, err := b.UpdateTopic(b.ctx, topic.ID, chat.TopicPatch{Mode: ptr(chat.ModeAskAll)}); err != nil || c.Revision != 0 {
			b.Errorf("the same mode again: %+v, %v", c, err)
		}
		strict, _, err := b.CreateTopic(b.ctx, chat.NewTopic{Mode: chat.ModeTrustedReadOnly})
		if err != nil || must[chat.Topic](b)(b.Topic(b.ctx, strict.ID)).Mode != chat.ModeTrustedReadOnly {
			b.Errorf("got %+v, %v", strict, err)
		}
		if _, _, err := b.DeleteTopic(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		for id, want := range map[string]error{"none": chat.ErrNotFound, topic.ID: chat.ErrGone} {
			_, err := b.TopicPolicy(b.ctx, id, "")
			b.is(err, want)
		}
	},
	"a message keeps who sent it": func(b *bench) {
		topic := b.topic()
		sent, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("a"), By: "grace"})
		if err != nil || sent.Message.SentBy != "grace" {
			b.Fatalf("got %+v, %v", sent, err)
		}
		f := b.claim(topic.ID, sent.Turn.ID)
		if h := f.work.History; len(h) != 1 || h[0].SentBy != "grace" || f.work.Anchor.SentBy != "" {
			b.Errorf("the turn is given %+v", h)
		}
		queued, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{Parts: say("b"), By: "grace"})
		if err != nil || !queued.Queued || queued.Message.SentBy != "grace" {
			b.Fatalf("got %+v, %v", queued, err)
		}
		edited, _, err := b.EditMessage(b.ctx, topic.ID, queued.Message.ID, chat.NewMessage{Parts: say("c"), By: "ada"})
		if err != nil || edited.Message.SentBy != "ada" {
			b.Errorf("got %+v, %v; who edits a message says it", edited, err)
		}
		b.done(f, "ok")
		b.done(b.claim(topic.ID, b.claimable()[0]), "ok")
		sibling, _, err := b.EditMessage(b.ctx, topic.ID, sent.Message.ID, chat.NewMessage{Parts: say("d"), By: "linus"})
		if err != nil || sibling.Message.SentBy != "linus" {
			b.Errorf("got %+v, %v", sibling, err)
		}
	},
	"the last calls are those that were judged, the newest first": func(b *bench) {
		none, err := b.JudgedCalls(b.ctx, 50)
		if err != nil || len(none) != 0 {
			b.Fatal(none, err)
		}
		_, first := b.start()
		b.asking(first, 2)
		topic, second := b.start()
		large, never := allowed("large"), call("never")
		large.Input = json.RawMessage(`{"content":"` + strings.Repeat("x", 300<<10) + `"}`)
		never.ToolMetadata, never.State = &chat.ToolMetadata{Outcome: chat.OutcomeInvalid}, chat.CallOutputError
		b.asking(second, 1, large, never, allowed("free"))
		got, err := b.JudgedCalls(b.ctx, 50)
		if err != nil {
			b.Fatal(err)
		}
		var list []string
		for _, c := range got {
			list = append(list, c.TopicID[len(c.TopicID)-4:]+" "+c.AnchorID[len(c.AnchorID)-4:]+" "+c.Call.ToolCallID)
		}
		of := func(f claimed, id string) string {
			return f.TopicID[len(f.TopicID)-4:] + " " + f.MessageID[len(f.MessageID)-4:] + " " + id
		}
		b.same("calls", []string{of(second, "call-0"), of(second, "free"), of(first, "call-1"), of(first, "call-0")}, list)
		if c := got[0]; c.TopicModel != "demo/guide" || c.At.IsZero() || string(c.Facts().Input) != `{"path":"a"}` {
			b.Errorf("got %+v", c)
		}
		if few, err := b.JudgedCalls(b.ctx, 1); err != nil || len(few) != 1 {
			b.Errorf("one: %d, %v", len(few), err)
		}
		if _, _, err := b.DeleteTopic(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		if left, err := b.JudgedCalls(b.ctx, 50); err != nil || len(left) != 2 {
			b.Errorf("after a topic was deleted: %d, %v", len(left), err)
		}
	},
	"a call is found by its approval, or by its own id": func(b *bench) {
		topic, f, approvals := b.waiting(2)
		byApproval := must[chat.JudgedCall](b)(b.ApprovalCall(b.ctx, approvals[1]))
		if byApproval.TopicID != topic.ID || byApproval.AnchorID != f.MessageID || byApproval.Call.ToolCallID != "call-1" {
			b.Errorf("got %+v", byApproval)
		}
		b.same("by its id", byApproval, must[chat.JudgedCall](b)(b.TopicCall(b.ctx, topic.ID, "call-1")))
		// The same id in a later message.
		again, _, err := b.Regenerate(b.ctx, topic.ID, f.MessageID)
		if err != nil {
			b.Fatal(err)
		}
		later := b.claim(topic.ID, again.Turn.ID)
		must[chat.Change](b)(b.CommitStep(b.ctx, later.Fence, chat.Step{Build: func(time.Time) chat.Parts { return chat.Parts{allowed("call-1")} }}))
		if c := must[chat.JudgedCall](b)(b.TopicCall(b.ctx, topic.ID, "call-1")); c.AnchorID != later.MessageID {
			b.Errorf("got the call of message %s, not the newest", c.AnchorID)
		}
		_, err = b.ApprovalCall(b.ctx, "none")
		b.is(err, chat.ErrNotFound)
		_, err = b.TopicCall(b.ctx, topic.ID, "none\x00")
		b.is(err, chat.ErrNotFound)
		_, err = b.TopicCall(b.ctx, "none", "call-1")
		b.is(err, chat.ErrNotFound)
		if _, _, err := b.DeleteTopic(b.ctx, topic.ID); err != nil {
			b.Fatal(err)
		}
		_, err = b.ApprovalCall(b.ctx, approvals[1])
		b.is(err, chat.ErrGone)
		_, err = b.TopicCall(b.ctx, topic.ID, "call-1")
		b.is(err, chat.ErrGone)
	},
}
