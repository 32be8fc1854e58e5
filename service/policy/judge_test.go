package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

// stored is a store of one topic's policy.
type stored struct {
	p   chat.TopicPolicy
	err error
}

func (s *stored) TopicPolicy(_ context.Context, topicID, serverID string) (chat.TopicPolicy, error) {
	if topicID != "t1" {
		return chat.TopicPolicy{}, chat.NotFound("There is no topic %s.", topicID)
	}
	p := s.p
	if p.ServerDisabled = serverID == "off"; serverID != "known" && serverID != "off" {
		p.Switches = nil
	}
	return p, s.err
}

// What is stored of a tool's server is the truth at every verdict; what came
// with the tool counts only where nothing can be stored.
func TestJudgeReadsTheSwitchesOfTheMoment(t *testing.T) {
	t.Parallel()
	s := &stored{p: chat.TopicPolicy{Topic: chat.TopicFacts{ID: "t1"}, Modes: []chat.Mode{chat.ModeDefault}}}
	j := policy.New(s, slog.New(slog.DiscardHandler))
	allowed, disabled := chat.ToolPolicy{AutoApprove: true}, chat.ToolPolicy{Disabled: true}
	for _, tt := range []struct {
		name     string
		server   string
		identity string
		own      chat.ToolPolicy
		switches *chat.Switches
		want     string
	}{
		{"stored as allowed", "known", "i", chat.ToolPolicy{}, &chat.Switches{AutoApproveTools: []string{"write"}}, chat.ByAutoApprove},
		{"stored as nothing, cached as allowed", "known", "i", allowed, &chat.Switches{}, chat.ByDefault},
		{"stored as always asked, cached as allowed", "known", "i", allowed, &chat.Switches{AlwaysAskTools: []string{"write"}}, chat.ByAlwaysAsk},
		{"stored as switched off", "known", "i", allowed, &chat.Switches{DisabledTools: []string{"write"}}, chat.ByDisabled},
		{"stored as switched off with its server", "off", "i", allowed, &chat.Switches{AutoApproveTools: []string{"write"}}, chat.ByDisabled},
		{"removed, cached as allowed", "removed", "i", allowed, nil, chat.ByDefault},
		{"removed, cached as switched off", "removed", "i", disabled, nil, chat.ByDisabled},
		{"nothing is ever stored of it", "other", "", allowed, nil, chat.ByAutoApprove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.p.Switches = tt.switches
			tool := chat.Tool{Name: "s__write", ServerID: tt.server, Tool: "write", Identity: tt.identity, Policy: tt.own}
			got, err := j.Judge(t.Context(), "t1", "ada", tool, chat.ToolCall{})
			if err != nil || got.Rule != tt.want {
				t.Errorf("got %+v, %v, want %s", got, err, tt.want)
			}
			as, err := j.JudgeAs(t.Context(), "t1", "ada", tool, chat.ToolCall{}, chat.Switches{AutoApproveTools: []string{"write"}})
			want := chat.ByAutoApprove
			if tt.server == "off" {
				want = chat.ByDisabled
			}
			if err != nil || as.Rule != want {
				t.Errorf("with other switches: got %+v, %v", as, err)
			}
		})
	}
	if _, err := j.JudgeAs(t.Context(), "t2", "ada", chat.Tool{}, chat.ToolCall{}, chat.Switches{}); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestJudgeReadsThePolicyOfTheMoment(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &stored{p: chat.TopicPolicy{Topic: chat.TopicFacts{ID: "t1", Title: "Notes"}, Modes: []chat.Mode{chat.ModeDefault}}}
	j := policy.New(s, slog.New(slog.NewTextHandler(&log, nil)))
	tool := chat.Tool{Name: "files__write", Server: "files", Tool: "write"}
	call := chat.ToolCall{Input: json.RawMessage(`{"path":"/secret/place"}`)}
	judge := func() chat.Judgement {
		t.Helper()
		got, err := j.Judge(t.Context(), "t1", "ada", tool, call)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := judge(); got.Verdict != chat.VerdictAsk || got.Rule != chat.ByDefault {
		t.Errorf("no rules: got %+v", got)
	}
	s.p.Rules = []chat.Rule{{ID: "r1", Name: "reads", Verdict: chat.VerdictAllow, Expression: `principal == "ada" && topic.title == "Notes"`, Enabled: true, Version: 1}}
	if got := judge(); got.Verdict != chat.VerdictAllow || got.RuleID != "r1" {
		t.Errorf("a rule that allows: got %+v", got)
	}
	s.p.Modes = []chat.Mode{chat.ModeDefault, chat.ModeAskAll}
	if got := judge(); got.Verdict != chat.VerdictAsk || got.Rule != chat.ByAskAll {
		t.Errorf("ask-all: got %+v", got)
	}
	s.p.Rules = append(s.p.Rules, chat.Rule{ID: "r2", Name: "broken", Verdict: chat.VerdictDeny, Expression: `input.path == 1 || input.path / 2 == 1`, Enabled: true, Version: 4})
	if got := judge(); got.Verdict != chat.VerdictAsk || got.RuleID != "r2" || !got.Unsure {
		t.Errorf("a deny rule that fails: got %+v", got)
	}
	if text := log.String(); !strings.Contains(text, "rule_id=r2") || strings.Contains(text, "secret") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log says %s", text)
	}
	s.err = chat.ErrUnavailable
	if _, err := j.Judge(t.Context(), "t1", "ada", tool, call); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := j.Judge(t.Context(), "t2", "ada", tool, call); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// some is n rules of which none holds, as a policy that is worked through to
// its end.
func some(n int) []chat.Rule {
	rules := make([]chat.Rule, n)
	for i := range rules {
		rules[i] = chat.Rule{
			ID: fmt.Sprint("r", i), Name: fmt.Sprint("rule ", i), Enabled: true, Version: 1,
			Verdict:    []chat.Verdict{chat.VerdictDeny, chat.VerdictAsk, chat.VerdictAllow}[i%3],
			Expression: fmt.Sprintf(`server == "files" && tool == "write_file" && input.path.startsWith("/srv/%d/")`, i),
		}
	}
	return rules
}

func judging(n int) func() chat.Judgement {
	var r policy.Rules
	rules := some(n)
	tool := chat.Tool{Name: "files__write_file", Server: "files", Tool: "write_file", Annotations: json.RawMessage(`{"readOnlyHint":false}`)}
	call := chat.ToolCall{Input: json.RawMessage(`{"path":"/home/ada/notes.txt","content":"hello","mode":420}`)}
	return func() chat.Judgement {
		return chat.Judge(tool, call, chat.PolicyInput{Modes: []chat.Mode{chat.ModeDefault}, Rules: rules, Match: r.Matcher(), Principal: "ada"})
	}
}

func TestWhatAPolicyCostsGrowsWithItsRulesAndNoFaster(t *testing.T) {
	allocs := func(n int) float64 {
		judge := judging(n)
		if j := judge(); j.Verdict != chat.VerdictAsk || j.Rule != chat.ByDefault {
			t.Fatalf("got %+v", j)
		}
		return testing.AllocsPerRun(100, func() { judge() })
	}
	none, ten, hundred := allocs(0), allocs(10), allocs(100)
	if hundred-none > 10.5*(ten-none) {
		t.Errorf("allocations: %v without rules, %v with ten, %v with a hundred", none, ten, hundred)
	}
}

// BenchmarkJudge judges one call by policies of several sizes. "x-empty" is
// the ratio to a policy without rules.
func BenchmarkJudge(b *testing.B) {
	empty := 0.0
	for _, n := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprint("rules-", n), func(b *testing.B) {
			judge := judging(n)
			judge() // compiles
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				judge()
			}
			each := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if n == 0 {
				empty = each
			} else if empty > 0 {
				b.ReportMetric(each/empty, "x-empty")
				b.ReportMetric(each/float64(n), "ns/rule")
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	rules := some(b.N)
	var r policy.Rules
	b.ReportAllocs()
	b.ResetTimer()
	for _, rule := range rules {
		if err := r.Check(rule.Expression); err != nil {
			b.Fatal(err)
		}
	}
}
