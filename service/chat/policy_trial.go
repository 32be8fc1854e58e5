package chat

import "encoding/json"

// RuleTrial is what a rule would have done to past calls.
type RuleTrial struct {
	Matched int           `json:"matched"`
	Failed  int           `json:"failed"`  // it cannot be evaluated on them: it would have asked
	Changed int           `json:"changed"` // calls that would have got another verdict
	Of      int           `json:"of"`
	Samples []TrialSample `json:"samples"` // of those matched and failed, the newest first
}

// TrialSample is a past call on which a rule was tried.
type TrialSample struct {
	TopicID    string          `json:"topicId"`
	TopicTitle string          `json:"topicTitle"`
	AnchorID   string          `json:"anchorId"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Server     string          `json:"server,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Verdict    Verdict         `json:"verdict"`         // that was given
	Rule       string          `json:"rule,omitempty"`  // what gave it
	Error      string          `json:"error,omitempty"` // why the rule cannot be evaluated on it
}

const trialSamples = 10

// Try says what a rule would have done to past calls, the newest first, had
// it stood beside what decided them.
func Try(rule Rule, calls []JudgedCall, match Match) RuleTrial {
	trial := RuleTrial{Of: len(calls), Samples: []TrialSample{}}
	for _, c := range calls {
		facts := c.Facts()
		held, err := match(rule, facts)
		if err == nil && !held {
			continue
		}
		m := c.Call.meta()
		s := TrialSample{
			TopicID: c.TopicID, TopicTitle: c.TopicTitle, AnchorID: c.AnchorID, ToolCallID: c.Call.ToolCallID, ToolName: c.Call.ToolName,
			Server: m.Server, Input: facts.Input, Verdict: m.Verdict, Rule: m.Rule,
		}
		would := rule.Verdict
		if err != nil {
			trial.Failed++
			s.Error, would = err.Error(), VerdictAsk
		} else {
			trial.Matched++
		}
		if outranks(would, m) {
			trial.Changed++
		}
		if len(trial.Samples) < trialSamples {
			trial.Samples = append(trial.Samples, s)
		}
	}
	return trial
}

// outranks reports whether a rule's verdict would have taken the place of the
// one that was given. One that allows does so only where nothing was known.
func outranks(v Verdict, given ToolMetadata) bool {
	switch v {
	case VerdictDeny:
		return given.Verdict != VerdictDeny
	case VerdictAsk:
		return given.Verdict == VerdictAllow
	case VerdictAllow:
		return given.Verdict == VerdictAsk && given.Rule == ByDefault
	}
	return false
}
