package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

func yes(a asking) []chat.Decision { return []chat.Decision{{ApprovalID: a.approval, Approved: true}} }

func always(a asking) []chat.Decision {
	return []chat.Decision{{ApprovalID: a.approval, Approved: true, Remember: chat.RememberAlwaysAllow}}
}

// allows is what a server's tools may do without asking, as it is stored.
func allows(t *testing.T, store *repository.Store, serverID string) []string {
	t.Helper()
	s, err := store.MCPServer(t.Context(), serverID)
	if err != nil {
		t.Fatal(err)
	}
	return s.AutoApproveTools
}

func TestAToolThatIsAllowedForGoodIsNotAskedForAnyMore(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t", "u")
	one, two, three, other := ask(t, svc, store, tools[0]), ask(t, svc, store, tools[0]), ask(t, svc, store, tools[0]), ask(t, svc, store, tools[1])
	unstored, _ := waiting(t, svc, store)
	// A change in the settings leaves the cards that wait as they are.
	if _, err := svc.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{AutoApproveTools: &[]string{"u"}}, ada); err != nil {
		t.Fatal(err)
	}
	told.hints()
	if _, err := svc.Decide(t.Context(), one.topic, always(one), ada); err != nil {
		t.Fatal(err)
	}
	if got := told.hints(); !slices.Equal(got, serversChanged) {
		t.Errorf("watchers were told of %v", got)
	}
	if s, _ := told.Connected(server.ID); !slices.Equal(s.AutoApproveTools, []string{"u", "t"}) {
		t.Errorf("applied %+v", s.Switches)
	}
	wakes := told.wakes
	running(t, svc)
	round(t, svc, told)
	for _, a := range []asking{two, three} {
		call := card(t, store, a.topic)
		if !call.Runnable() || call.Approval.ID != a.approval || call.Approval.DecidedBy != chat.ByAutoApprove || call.Approval.Via != chat.ViaRule || call.ToolMetadata.Verdict != chat.VerdictAllow {
			t.Errorf("another call of the tool: %s, %+v", call.State, call.Approval)
		}
	}
	if !card(t, store, other.topic).Pending() || !card(t, store, unstored).Pending() {
		t.Error("a call of another tool was settled")
	}
	if n := told.count(func() int { return told.wakes }); n != wakes+2 {
		t.Errorf("the engine was woken %d times", n-wakes)
	}
	// Whoever decided at the same time, in another window, has the same.
	if d, err := svc.Decide(t.Context(), two.topic, always(two), ada); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled || d.Results[0].DecidedBy != chat.ByAutoApprove {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := svc.Decide(t.Context(), two.topic, []chat.Decision{{ApprovalID: two.approval}}, ada); !errors.Is(err, chat.ErrConflict) {
		t.Errorf("a no to what a rule allowed: %v", err)
	}
}

// judging does something after each verdict that is given on what is stored.
type judging struct {
	service.Policy
	after func()
}

func (j judging) Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
	got, err := j.Policy.Judge(ctx, topicID, principal, tool, call)
	j.after()
	return got, err
}

// What was found to be allowed may not be any more when it is settled.
func TestOnlyWhatThePolicyOfTheTransactionAllowsIsSettled(t *testing.T) {
	t.Parallel()
	rule := func(v chat.Verdict, expression string) func(context.Context, *repository.Store, string, string) error {
		return func(ctx context.Context, store *repository.Store, _, _ string) error {
			_, err := store.CreateRule(ctx, chat.NewRule{Name: "r", Verdict: v, Expression: expression, Enabled: true}, ada)
			return err
		}
	}
	patch := func(p chat.MCPServerPatch) func(context.Context, *repository.Store, string, string) error {
		return func(ctx context.Context, store *repository.Store, _, server string) error {
			_, err := store.UpdateMCPServer(ctx, server, func(s chat.MCPServer) (chat.MCPServer, error) { return p.Apply(s, nil) }, ada)
			return err
		}
	}
	for _, tt := range []struct {
		name    string
		commit  func(ctx context.Context, store *repository.Store, topic, server string) error
		settled bool
	}{
		{"nothing", func(context.Context, *repository.Store, string, string) error { return nil }, true},
		{"a rule that is of something else", rule(chat.VerdictAsk, `tool == "u"`), true},
		{"a rule that asks", rule(chat.VerdictAsk, `tool == "t"`), false},
		{"a rule that refuses", rule(chat.VerdictDeny, `tool == "t"`), false},
		{"a rule that nobody can evaluate", rule(chat.VerdictDeny, `input.none == "x"`), false},
		{"a chat in which everything is asked for", func(ctx context.Context, store *repository.Store, topic, _ string) error {
			_, _, err := store.UpdateTopic(ctx, topic, chat.TopicPatch{Mode: ptr(chat.ModeAskAll)})
			return err
		}, false},
		{"the switch that is taken back", patch(chat.MCPServerPatch{AutoApproveTools: &[]string{}}), false},
		{"the tool that is always asked for", patch(chat.MCPServerPatch{AlwaysAskTools: &[]string{"t"}}), false},
		{"the tool that is switched off", patch(chat.MCPServerPatch{DisabledTools: &[]string{"t"}}), false},
		{"the server that is switched off", patch(chat.MCPServerPatch{Disabled: ptr(true)}), false},
		{"the server that is deleted", func(ctx context.Context, store *repository.Store, _, server string) error {
			return store.DeleteMCPServer(ctx, server, ada)
		}, false},
		{"the topic that is deleted", func(ctx context.Context, store *repository.Store, topic, _ string) error {
			_, _, err := store.DeleteTopic(ctx, topic)
			return err
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first, store, told := newService(t)
			server, tools := box(t, first, told, "t")
			one, two := ask(t, first, store, tools[0]), ask(t, first, store, tools[0])
			judged := false
			svc := beside(store, told, func(d *service.Deps, _ *service.Options) {
				d.Policy = judging{d.Policy, func() {
					if !judged {
						judged = true
						if err := tt.commit(context.WithoutCancel(t.Context()), store, two.topic, server.ID); err != nil {
							t.Error(err)
						}
					}
				}}
			})
			if _, err := svc.Decide(t.Context(), one.topic, always(one), ada); err != nil {
				t.Fatal(err)
			}
			running(t, svc)
			round(t, svc, told)
			call, err := store.ApprovalCall(t.Context(), two.approval)
			if err != nil && !errors.Is(err, chat.ErrGone) {
				t.Fatal(err)
			}
			if settled := err == nil && call.Call.Approval.Granted(); settled != tt.settled {
				t.Errorf("settled: %v, got %+v", settled, call.Call.Approval)
			}
			if !judged {
				t.Error("it was never judged")
			}
		})
	}
}

// A process that was killed between the decision and what follows from it is
// made up for by the client that asks again.
func TestARepeatSettlesWhatTheFirstDidNot(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	_, tools := box(t, svc, told, "t")
	one, two := ask(t, svc, store, tools[0]), ask(t, svc, store, tools[0])
	if _, _, err := store.Decide(t.Context(), one.topic, always(one), ada); err != nil { // and then it was killed
		t.Fatal(err)
	}
	running(t, svc)
	round(t, svc, told)
	if !card(t, store, two.topic).Pending() {
		t.Fatal("it is settled, though nobody asked")
	}
	if d, err := svc.Decide(t.Context(), one.topic, yes(one), ada); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled {
		t.Fatal(d, err)
	}
	round(t, svc, told)
	if !card(t, store, two.topic).Pending() {
		t.Fatal("it is settled by a yes that was not for good")
	}
	if d, err := svc.Decide(t.Context(), one.topic, always(one), ada); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled || d.Continuation != chat.ContinuationNone {
		t.Fatal(d, err)
	}
	round(t, svc, told)
	if call := card(t, store, two.topic); !call.Approval.Granted() || call.Approval.Via != chat.ViaRule {
		t.Errorf("it still waits: %+v", call.Approval)
	}
}

func TestWhatCannotBeAllowedForGood(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, told *told, store *repository.Store, serverID string)
		want   error
	}{
		{"a tool of a server that is being connected", func(_ *testing.T, told *told, _ *repository.Store, id string) { told.phase(id, chat.ServerStarting) }, chat.ErrInvalid},
		{"a tool of a server that is lost", func(_ *testing.T, told *told, _ *repository.Store, id string) { told.phase(id, chat.ServerFailed) }, chat.ErrInvalid},
		{"a tool whose connection was changed, by another process", func(t *testing.T, _ *told, store *repository.Store, id string) {
			p := chat.MCPServerPatch{URL: ptr("http://evil.test/")}
			if _, err := store.UpdateMCPServer(t.Context(), id, func(s chat.MCPServer) (chat.MCPServer, error) { return p.Apply(s, nil) }, ada); err != nil {
				t.Fatal(err)
			}
		}, chat.ErrGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, store, told := newService(t)
			server, tools := box(t, svc, told, "t")
			a := ask(t, svc, store, tools[0])
			tt.change(t, told, store, server.ID)
			_, err := svc.Decide(t.Context(), a.topic, always(a), ada)
			var batch *chat.BatchError
			if !errors.Is(err, tt.want) || !errors.As(err, &batch) || batch.Items[0].ApprovalID != a.approval {
				t.Errorf("got %v", err)
			}
			if call := card(t, store, a.topic); !call.Pending() || len(allows(t, store, server.ID)) != 0 || told.hints() != nil {
				t.Errorf("it was decided: %+v, allowed are %v", call.Approval, allows(t, store, server.ID))
			}
			if _, err := svc.Decide(t.Context(), a.topic, yes(a), ada); err != nil {
				t.Errorf("of this call alone: %v", err)
			}
		})
	}
	t.Run("a tool that is gone", func(t *testing.T) {
		t.Parallel()
		svc, store, told := newService(t)
		server, tools := box(t, svc, told, "t")
		a := ask(t, svc, store, tools[0])
		told.offer(server.ID)
		if _, err := svc.Decide(t.Context(), a.topic, always(a), ada); !errors.Is(err, chat.ErrGone) {
			t.Fatalf("the card as it was: %v", err)
		}
		a.approval = card(t, store, a.topic).Approval.ID // that says that it is gone
		if _, err := svc.Decide(t.Context(), a.topic, always(a), ada); !errors.Is(err, chat.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		if got := allows(t, store, server.ID); len(got) != 0 {
			t.Errorf("allowed are %v", got)
		}
		if _, err := svc.Decide(t.Context(), a.topic, yes(a), ada); err != nil {
			t.Errorf("of this call alone: %v", err)
		}
	})
	t.Run("a tool of a server that is stored nowhere", func(t *testing.T) {
		t.Parallel()
		svc, store, told := newService(t)
		topic, id := waiting(t, svc, store)
		if _, err := svc.Decide(t.Context(), topic, always(asking{topic, id}), ada); !errors.Is(err, chat.ErrInvalid) || told.hints() != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("with one that can be, and neither is decided", func(t *testing.T) {
		t.Parallel()
		svc, store, told := newService(t)
		server, tools := box(t, svc, told, "t")
		a := ask(t, svc, store, tools[0])
		_, err := svc.Decide(t.Context(), a.topic, append(always(a), chat.Decision{ApprovalID: "none", Approved: true}), ada)
		if !errors.Is(err, chat.ErrNotFound) || !card(t, store, a.topic).Pending() || len(allows(t, store, server.ID)) != 0 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by a no", func(t *testing.T) {
		t.Parallel()
		svc, store, told := newService(t)
		server, tools := box(t, svc, told, "t")
		a := ask(t, svc, store, tools[0])
		d := chat.Decision{ApprovalID: a.approval, Remember: chat.RememberAlwaysAllow}
		if _, err := svc.Decide(t.Context(), a.topic, []chat.Decision{d}, ada); err != nil || len(allows(t, store, server.ID)) != 0 || told.hints() != nil {
			t.Errorf("got %v, allowed are %v", err, allows(t, store, server.ID))
		}
	})
}

// What a card says before it is decided is what then comes of it.
func TestThePreviewIsWhatComesOfIt(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t", "u")
	if _, err := svc.CreateRule(t.Context(), chat.NewRule{Name: "careful", Verdict: chat.VerdictAsk, Expression: `topic.title == "careful"`, Enabled: true}, ada); err != nil {
		t.Fatal(err)
	}
	one := ask(t, svc, store, tools[0])
	settled := []asking{ask(t, svc, store, tools[0]), ask(t, svc, store, tools[0])}
	asksAll, careful := ask(t, svc, store, tools[0]), ask(t, svc, store, tools[0])
	others := []asking{asksAll, careful, ask(t, svc, store, tools[1]), ask(t, svc, store, with(tools[0], `{"type":"object"}`, ""))}
	for topic, p := range map[string]chat.TopicPatch{asksAll.topic: {Mode: ptr(chat.ModeAskAll)}, careful.topic: {Title: ptr("careful")}} {
		if _, err := svc.UpdateTopic(t.Context(), topic, p); err != nil {
			t.Fatal(err)
		}
	}
	preview := func(a asking) *chat.AlwaysAllow {
		t.Helper()
		e, err := svc.ExplainApproval(t.Context(), a.approval)
		if err != nil {
			t.Fatal(err)
		}
		return e.AlwaysAllow
	}
	got := preview(one)
	if got == nil || got.ServerID != server.ID || got.Server != "box" || got.Tool != "t" || got.Rule != chat.AlwaysAllowRule("t", "box") || !got.Effective || got.Others != len(settled) {
		t.Fatalf("got %+v", got)
	}
	for a, says := range map[asking]string{asksAll: "every call is asked for", careful: "“careful” asks"} {
		if p := preview(a); p == nil || p.Effective || !strings.Contains(p.Why, says) || p.Others != len(settled)+1 {
			t.Errorf("got %+v, want one that says %q", p, says)
		}
	}
	if len(allows(t, store, server.ID)) != 0 {
		t.Error("the preview changed something")
	}

	if _, err := svc.Decide(t.Context(), one.topic, always(one), ada); err != nil {
		t.Fatal(err)
	}
	running(t, svc)
	round(t, svc, told)
	for _, a := range settled {
		if call := card(t, store, a.topic); !call.Approval.Granted() {
			t.Errorf("it waits: %+v", call.Approval)
		}
	}
	for _, a := range others {
		if call := card(t, store, a.topic); !call.Pending() {
			t.Errorf("it was settled: %+v", call.Approval)
		}
	}
	if p := preview(one); p != nil {
		t.Errorf("of a call that does not wait any more: %+v", p)
	}
}

func TestWhatHasNoPreview(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t")
	deleted := ask(t, svc, store, tools[0])
	if err := svc.DeleteMCPServer(t.Context(), server.ID, ada); err != nil {
		t.Fatal(err)
	}
	topic, unstored := waiting(t, svc, store)
	for name, a := range map[string]asking{"of a server that was deleted": deleted, "of one that is stored nowhere": {topic, unstored}, "of no server": ask(t, svc, store, chat.Tool{Name: "x"})} {
		if e, err := svc.ExplainApproval(t.Context(), a.approval); err != nil || e.AlwaysAllow != nil || e.TopicID != a.topic {
			t.Errorf("a tool %s: %+v, %v", name, e, err)
		}
	}
	if e, err := svc.ExplainCall(t.Context(), topic, "c"); err != nil || e.ToolCallID != "c" {
		t.Errorf("got %+v, %v", e, err)
	}
	for name, try := range map[string]func() error{
		"an approval": func() error { _, err := svc.ExplainApproval(t.Context(), "none"); return err },
		"a call":      func() error { _, err := svc.ExplainCall(t.Context(), topic, "none"); return err },
	} {
		if err := try(); !errors.Is(err, chat.ErrNotFound) {
			t.Errorf("%s that is not: %v", name, err)
		}
	}
	broken := beside(&failing{Store: store, err: chat.Unavailable("The database is away.")}, told, nil)
	if _, err := broken.ExplainApproval(t.Context(), deleted.approval); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
