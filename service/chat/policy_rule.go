package chat

import "time"

// Rule is one rule of the policy. Its expression is text in the rules'
// language; what it means is not known here.
type Rule struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Verdict    Verdict   `json:"verdict"`
	Expression string    `json:"expression"`
	Reason     string    `json:"reason,omitempty"` // of a deny rule, for the model and the person
	Enabled    bool      `json:"enabled"`
	Position   int       `json:"position"` // among the rules of its verdict the lowest is named first
	Version    int       `json:"version"`  // rises with every change, from 1
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// denies is the judgement of a deny rule that holds.
func (r *Rule) denies() Judgement {
	g := r.gives("refuses")
	g.Reason = r.Reason
	if g.Reason == "" {
		g.Reason = "The rule “" + r.Name + "” does not allow this call."
	}
	return g
}

func (r *Rule) gives(does string) Judgement {
	return Judgement{Verdict: r.Verdict, Rule: r.Name, RuleID: r.ID, RuleVersion: r.Version, Why: "The rule “" + r.Name + "” " + does + " this call."}
}

// fails is the judgement of a rule that cannot be evaluated. What went wrong
// is not in it: the text may quote the input.
func (r *Rule) fails() Judgement {
	return Judgement{
		Verdict: VerdictAsk, Rule: r.Name, RuleID: r.ID, RuleVersion: r.Version,
		Why: "The rule “" + r.Name + "” cannot be evaluated on this call, and so it asks.",
	}
}

// NewRule is what a rule begins with.
type NewRule struct {
	Name       string
	Verdict    Verdict
	Expression string
	Reason     string
	Enabled    bool
	Position   *int // nil is after the last
}

// RulePatch changes a rule; nil members stay as they are.
type RulePatch struct {
	Name       *string
	Verdict    *Verdict
	Expression *string
	Reason     *string
	Enabled    *bool
	Position   *int
	// Version, if set, must be the version that the rule has.
	Version *int
}

// Apply returns the rule with the patch applied, and whether that changes it.
// The version and the times are not touched.
func (p RulePatch) Apply(r Rule) (Rule, bool) {
	was := r
	put(&r.Name, p.Name)
	put(&r.Verdict, p.Verdict)
	put(&r.Expression, p.Expression)
	put(&r.Reason, p.Reason)
	put(&r.Enabled, p.Enabled)
	put(&r.Position, p.Position)
	return r, r != was
}

func put[T any](member, value *T) {
	if value != nil {
		*member = *value
	}
}

// Action says what was done to a rule or a tool server.
type Action string

// What can be done to a setting.
const (
	ActionCreated Action = "created"
	ActionChanged Action = "changed"
	ActionDeleted Action = "deleted"
)

// RuleChange is one entry of the append-only record of a rule. The entries of
// a rule that was deleted stay.
type RuleChange struct {
	RuleID  string    `json:"ruleId"`
	Version int       `json:"version"` // the rule's after it
	Action  Action    `json:"action"`
	By      string    `json:"by"`
	Via     Via       `json:"via"`
	At      time.Time `json:"at"`
	Before  *Rule     `json:"before,omitempty"` // absent when it was created
	After   *Rule     `json:"after,omitempty"`  // absent when it was deleted
}

// JudgedCall is a call on which a verdict was given, as it was given.
type JudgedCall struct {
	TopicID    string
	TopicTitle string // today's
	TopicModel string
	AnchorID   string
	At         time.Time // of the call's last change
	Call       ToolCall
}

// Facts are what a rule could have looked at when the verdict was given: the
// model's own input, also if a person changed it since.
func (c JudgedCall) Facts() *Facts {
	m := c.Call.meta()
	input := c.Call.Input
	if a := c.Call.Approval; a != nil && a.OriginalInput != nil {
		input = a.OriginalInput
	}
	return &Facts{
		Tool: m.Tool, Server: m.Server, Annotations: m.Annotations, Input: input,
		Topic: TopicFacts{ID: c.TopicID, Title: c.TopicTitle, Model: c.TopicModel}, Principal: m.Principal,
	}
}

// Explanation says what decided a call, and why.
type Explanation struct {
	TopicID    string    `json:"topicId"`
	AnchorID   string    `json:"anchorId"`
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Server     string    `json:"server,omitempty"`
	State      CallState `json:"state"`
	// Verdict and Rule are absent if none was given: the call could not be run
	// whatever anybody said, and Why is its error.
	Verdict Verdict `json:"verdict,omitempty"`
	Rule    string  `json:"rule,omitempty"`
	Why     string  `json:"why"`
	Reason  string  `json:"reason,omitempty"` // of a denial, as the model was told
	// RuleVersion is the rule as it was when it gave the verdict.
	RuleVersion *RuleChange `json:"ruleVersion,omitempty"`
	// RuleNow says what has become of the rule since: "same", "changed" or
	// "deleted".
	RuleNow  string    `json:"ruleNow,omitempty"`
	Approval *Approval `json:"approval,omitempty"`
	Outcome  Outcome   `json:"outcome,omitempty"`
	// AlwaysAllow says what allowing the tool for good would change; absent of
	// a call that does not wait, and of tools that cannot be allowed for good.
	AlwaysAllow *AlwaysAllow `json:"alwaysAllow,omitempty"`
}

// Explain says what decided a call. history is the record of the rule that
// gave the verdict, in any order; nil if none did.
func Explain(c JudgedCall, history []RuleChange) Explanation {
	m := c.Call.meta()
	e := Explanation{
		TopicID: c.TopicID, AnchorID: c.AnchorID, ToolCallID: c.Call.ToolCallID, ToolName: c.Call.ToolName, Server: m.Server,
		State: c.Call.State, Verdict: m.Verdict, Rule: m.Rule, Why: m.Why, Approval: c.Call.Approval, Outcome: m.Outcome,
	}
	switch {
	case m.Verdict == "":
		e.Why = c.Call.ErrorText
	case e.Why == "":
		e.Why = "The verdict was given by: " + m.Rule + "." // by a release that noted no more
	}
	switch a := c.Call.Approval; {
	case m.Verdict != VerdictDeny:
	case a != nil && a.Resolution == ResolutionPolicy:
		e.Reason = a.Reason
	default: // refused just before it ran
		e.Reason = c.Call.ErrorText
	}
	if m.RuleID == "" {
		return e
	}
	last := 0
	for _, h := range history {
		if h.Version == m.RuleVersion && h.After != nil {
			e.RuleVersion = &h
		}
		if h.Version > last {
			last = h.Version
			switch {
			case h.Action == ActionDeleted:
				e.RuleNow = "deleted"
			case h.Version > m.RuleVersion:
				e.RuleNow = "changed"
			default:
				e.RuleNow = "same"
			}
		}
	}
	return e
}
