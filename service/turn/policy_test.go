package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/turn"
)

var by = chat.Decider{Name: "ada", Via: chat.ViaAPI}

func (b *bench) rule(v chat.Verdict, expression string) chat.Rule {
	b.t.Helper()
	r, err := b.store.CreateRule(b.t.Context(), chat.NewRule{Name: "the rule", Verdict: v, Expression: expression, Reason: "House rules.", Enabled: true}, by)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// asks makes the tool one that nothing was said about.
func (b *bench) asks() {
	tool := *b.tool.Load()
	tool.Policy.AutoApprove = false
	b.tool.Store(&tool)
}

func (b *bench) calls(topic string, state chat.TopicState) []chat.ToolCall {
	b.t.Helper()
	var calls []chat.ToolCall
	for _, c := range b.until(topic, state).Parts.Calls() {
		calls = append(calls, c.Call)
	}
	return calls
}

func TestRulesDecideTheCallsOfAStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		auto       bool
		verdict    chat.Verdict
		expression string
		state      chat.TopicState
		call       chat.CallState
	}{
		{"an allow rule runs what nothing was said about", false, chat.VerdictAllow, `server == "s" && tool == "t"`, chat.TopicDone, chat.CallOutputAvailable},
		{"an allow rule that does not hold asks", false, chat.VerdictAllow, `server == "other"`, chat.TopicAwaitingApproval, chat.CallApprovalRequested},
		{"an ask rule stops what runs by itself", true, chat.VerdictAsk, `!has(input.x)`, chat.TopicAwaitingApproval, chat.CallApprovalRequested},
		{"an allow rule that fails asks", true, chat.VerdictAllow, `input.x == 1`, chat.TopicAwaitingApproval, chat.CallApprovalRequested},
		{"a deny rule that fails asks", true, chat.VerdictDeny, `input.x == 1`, chat.TopicAwaitingApproval, chat.CallApprovalRequested},
		{"a deny rule denies", true, chat.VerdictDeny, `tool == "t"`, chat.TopicDone, chat.CallOutputDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if !tt.auto {
				b.asks()
			}
			rule := b.rule(tt.verdict, tt.expression)
			b.start()
			c := b.calls(b.send("p/m"), tt.state)[0]
			if c.State != tt.call {
				t.Errorf("the call is %s, want %s", c.State, tt.call)
			}
			ran := tt.call == chat.CallOutputAvailable
			if n := b.ran.Load(); (n == 1) != ran || n > 1 {
				t.Errorf("ran %d times", n)
			}
			m := c.ToolMetadata
			if m.Why == "" || m.Verdict == "" || m.RuleID != "" && (m.RuleID != rule.ID || m.RuleVersion != 1 || m.Rule != "the rule") {
				t.Errorf("got %+v", m)
			}
			if (m.RuleID == "") != strings.Contains(tt.name, "does not hold") {
				t.Errorf("the verdict was given by %q", m.Rule)
			}
			if tt.call == chat.CallOutputDenied && (c.Approval.Reason != "House rules." || c.Approval.Resolution != chat.ResolutionPolicy || c.Approval.Via != chat.ViaRule) {
				t.Errorf("got %+v", c.Approval)
			}
		})
	}
}

func TestTheModeOfATopicHoldsFromTheNextStepOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		callTool(emit, strings.Repeat("c", n), `{}`)
		return nil
	}
	var topicID atomic.Value
	good := b.policy
	b.policy = judgeFunc(func(ctx context.Context, id, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
		topicID.Store(id)
		return good.Judge(ctx, id, principal, tool, call)
	})
	all := chat.ModeAskAll
	run := b.run
	b.run = func(ctx context.Context, input json.RawMessage, progress func(string)) chat.Result {
		if _, _, err := b.store.UpdateTopic(ctx, topicID.Load().(string), chat.TopicPatch{Mode: &all}); err != nil {
			t.Error(err)
		}
		return run(ctx, input, progress)
	}
	b.start()
	calls := b.calls(b.send("p/m"), chat.TopicAwaitingApproval)
	if len(calls) != 2 || calls[0].State != chat.CallOutputAvailable || calls[1].ToolMetadata.Rule != chat.ByAskAll {
		t.Errorf("got %+v", calls)
	}
}

func TestDenyRulesAreTriedAgainBeforeARun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.start()
	topic := b.send("p/m")
	b.until(topic, chat.TopicAwaitingApproval)
	rule := b.rule(chat.VerdictDeny, `tool == "t"`)
	b.decide(topic, true)
	c := b.calls(topic, chat.TopicDone)[0]
	if b.ran.Load() != 0 || c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnavailable || c.ErrorText != "House rules. The call was not run." {
		t.Errorf("ran %d times: %+v", b.ran.Load(), c)
	}
	if !c.Approval.Granted() || c.Approval.DecidedBy != "ada" || c.Approval.Resolution != "" {
		t.Errorf("the person's decision was changed: %+v", c.Approval)
	}
	if m := c.ToolMetadata; m.Verdict != chat.VerdictDeny || m.RuleID != rule.ID {
		t.Errorf("got %+v", m)
	}
}

func TestWhatAPersonApprovedRunsAlsoIfARuleCannotBeEvaluated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rule(chat.VerdictDeny, `input.x == 1`)
	b.start()
	topic := b.send("p/m")
	b.until(topic, chat.TopicAwaitingApproval)
	b.rule(chat.VerdictAsk, `true`) // asked for already
	b.decide(topic, true)
	if c := b.calls(topic, chat.TopicDone)[0]; c.State != chat.CallOutputAvailable || b.ran.Load() != 1 {
		t.Errorf("ran %d times: %+v", b.ran.Load(), c)
	}
}

func TestWhatNobodySawDoesNotRunOnADenyRuleThatCannotBeEvaluated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.policy
	var judged atomic.Int32
	b.policy = judgeFunc(func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
		if judged.Add(1) == 2 { // between the commit and the run
			b.rule(chat.VerdictDeny, `input.x == 1`)
		}
		return good.Judge(ctx, topicID, principal, tool, call)
	})
	b.start()
	c := b.calls(b.send("p/m"), chat.TopicDone)[0]
	if b.ran.Load() != 0 || c.State != chat.CallOutputError || c.Approval != nil || !strings.Contains(c.ErrorText, "cannot be evaluated") {
		t.Errorf("ran %d times: %+v", b.ran.Load(), c)
	}
}

// judgeFunc is a policy made of a function.
type judgeFunc func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error)

func (f judgeFunc) Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
	return f(ctx, topicID, principal, tool, call)
}

// failing is a policy of which the n-th judgements fail.
func failing(good turn.Policy, fails map[int32]error) turn.Policy {
	var n atomic.Int32
	return judgeFunc(func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
		if err := fails[n.Add(1)]; err != nil {
			return chat.Judgement{}, err
		}
		return good.Judge(ctx, topicID, principal, tool, call)
	})
}

func TestAPolicyThatCannotBeReadIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.policy = failing(b.policy, map[int32]error{1: chat.ErrUnavailable, 2: context.DeadlineExceeded, 4: chat.ErrUnavailable})
	b.start()
	if c := b.calls(b.send("p/m"), chat.TopicDone)[0]; c.State != chat.CallOutputAvailable || b.ran.Load() != 1 {
		t.Errorf("ran %d times: %+v", b.ran.Load(), c)
	}
}

func TestWithoutAVerdictNothingRuns(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int32{"AtTheCommit": 1, "BeforeTheRun": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.policy = failing(b.policy, map[int32]error{n: errors.New("secret detail")})
			b.start()
			m := b.until(b.send("p/m"), chat.TopicError)
			if b.ran.Load() != 0 || m.Error.Kind != "internal" || strings.Contains(m.Error.Message, "secret") {
				t.Errorf("ran %d times: %+v", b.ran.Load(), m.Error)
			}
		})
	}
}

func TestATopicThatIsGoneTakesItsTurnWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Heartbeat = time.Hour // it would find out first on a slow machine
	good := b.policy
	deleted := make(chan string, 1)
	b.policy = judgeFunc(func(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
		if _, _, err := b.store.DeleteTopic(ctx, topicID); err != nil {
			t.Error(err)
		}
		j, err := good.Judge(ctx, topicID, principal, tool, call)
		if !errors.Is(err, chat.ErrGone) {
			t.Errorf("got %+v, %v", j, err)
		}
		deleted <- topicID
		return j, err
	})
	b.start()
	b.send("p/m")
	<-deleted
	b.stop()
	if b.ran.Load() != 0 {
		t.Error("it ran")
	}
}

func TestRulesSeeWhoAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.rule(chat.VerdictAllow, `principal == "grace"`)
	b.start()
	topic, _, err := b.store.CreateTopic(t.Context(), chat.NewTopic{Model: "p/m"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.store.Send(t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "go"}}, By: "grace"}); err != nil {
		t.Fatal(err)
	}
	b.engine.Wake()
	if c := b.calls(topic.ID, chat.TopicDone)[0]; c.State != chat.CallOutputAvailable || c.ToolMetadata.Principal != "grace" {
		t.Errorf("got %+v, %+v", c, c.ToolMetadata)
	}
}
