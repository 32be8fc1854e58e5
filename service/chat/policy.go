package chat

import (
	"encoding/json"
	"strings"
	"time"
)

// Verdict says what is to be done with a call.
type Verdict string

// The verdicts.
const (
	VerdictAllow Verdict = "allow"
	VerdictAsk   Verdict = "ask"
	VerdictDeny  Verdict = "deny"
)

// Tool is one tool that a model may call.
type Tool struct {
	Name        string          // as models know it: ToolName(Server, Tool)
	Server      string          // the server's name
	ServerID    string          //
	Tool        string          // its own name on its server
	Title       string          // a verb phrase for people, "" if the server gave none
	Description string          // for the model
	InputSchema json.RawMessage // JSON Schema of an object
	Annotations json.RawMessage // the server's claims; they allow nothing
	Policy      ToolPolicy
}

// ToolPolicy is what the person said about a tool. The zero value is a tool
// that nothing was said about.
type ToolPolicy struct {
	Disabled bool // in the server's disabledTools
	// AlwaysAsk says that the person put the tool into the server's
	// disabledAutoApproveTools. It outranks every rule that allows.
	AlwaysAsk   bool
	AutoApprove bool // the person took it out of the server's disabledAutoApproveTools
	// Trusted says that the person trusts what the server claims of its tools.
	Trusted bool
}

// Mode says how freely the calls of a topic, or of an assistant, may run.
type Mode string

// The modes.
const (
	ModeAskAll  Mode = "ask-all" // every call is asked for, whatever allows it
	ModeDefault Mode = "default"
	// ModeTrustedReadOnly allows tools that claim to only read, on servers
	// whose claims the person trusts.
	ModeTrustedReadOnly Mode = "trusted-read-only"
)

// What gives a verdict where no rule does: the names that stand in a
// judgement, for the card and the audit.
const (
	ByDisabled        = "disabledTools"
	ByAskAll          = "mode ask-all"
	ByAlwaysAsk       = "disabledAutoApproveTools"
	ByAutoApprove     = "auto-approve"
	ByTrustedReadOnly = "mode trusted-read-only"
	ByDefault         = "ask by default"
)

// Judgement is a verdict and what gave it.
type Judgement struct {
	Verdict Verdict
	Rule    string // the rule's name, or one of the By… names
	Reason  string // of a denial, for the model and the person
	// RuleID and RuleVersion name the rule; "" and 0 where none gave the verdict.
	RuleID      string
	RuleVersion int
	Why         string // a sentence for the person
	// Unsure says that a deny rule could not be evaluated: the call may run
	// only if a person said so.
	Unsure bool
}

// Facts is what a rule may look at.
type Facts struct {
	Tool        string // its own name on its server, under whatever name the model called it
	Server      string
	Annotations json.RawMessage // an object, or absent
	Input       json.RawMessage
	Topic       TopicFacts
	Principal   string // whose message led to the call
}

// TopicFacts is what a rule may look at of a topic.
type TopicFacts struct{ ID, Title, Model string }

// TopicPolicy is what is stored that a verdict in a topic depends on.
type TopicPolicy struct {
	Topic TopicFacts
	Mode  Mode
	Rules []Rule // the enabled ones, in their order
}

// Match says whether a rule's expression holds for a call. An error says that
// nobody can tell. Within one judgement it is always given the same pointer.
type Match func(rule Rule, facts *Facts) (bool, error)

// PolicyInput is what a verdict depends on beside the call and its tool.
type PolicyInput struct {
	// Modes are those of the topic and of whatever else has one. One ask-all
	// among them asks for every call.
	Modes     []Mode
	Rules     []Rule // in their order; those that are not enabled are passed over
	Match     Match
	Topic     TopicFacts
	Principal string
}

// Judge gives the verdict on a call of a tool. The first that applies wins:
// a disabled tool is denied; deny rules; a mode of ask-all asks; ask rules and
// tools that must always be asked for; allow rules, tools that are approved
// automatically, and tools that claim to only read where the mode and the
// person trust that; nothing known means ask.
//
// A rule that cannot be evaluated counts as one that asks, whatever its
// verdict is: it never allows, and no rule allows what it was to be held
// against. It does not outrank a deny rule.
func Judge(tool Tool, call ToolCall, p PolicyInput) Judgement {
	if tool.Policy.Disabled {
		text := "The tool " + tool.Name + " is switched off on this server."
		return Judgement{Verdict: VerdictDeny, Rule: ByDisabled, Reason: text, Why: text}
	}
	j := judging{p: p, facts: Facts{
		Tool: tool.Tool, Server: tool.Server, Annotations: tool.Annotations, Input: call.Input, Topic: p.Topic, Principal: p.Principal,
	}}
	denying, failed := j.first(VerdictDeny)
	switch {
	case denying != nil:
		return denying.denies()
	case failed != nil:
		g := failed.fails()
		g.Unsure = true
		return g
	case p.has(ModeAskAll):
		return Judgement{Verdict: VerdictAsk, Rule: ByAskAll, Why: "In this chat every call is asked for."}
	}
	asking, failed := j.first(VerdictAsk)
	if asking != nil {
		return asking.gives("asks")
	}
	allowing, failedToAllow := j.first(VerdictAllow)
	switch {
	case failed != nil:
		return failed.fails()
	case failedToAllow != nil:
		return failedToAllow.fails()
	case tool.Policy.AlwaysAsk:
		return Judgement{Verdict: VerdictAsk, Rule: ByAlwaysAsk, Why: "The settings of the tool's server say that this tool is always asked for."}
	case allowing != nil:
		return allowing.gives("allows")
	case tool.Policy.AutoApprove:
		return Judgement{Verdict: VerdictAllow, Rule: ByAutoApprove, Why: "The settings of the tool's server let this tool run without asking."}
	case p.has(ModeTrustedReadOnly) && tool.Policy.Trusted && onlyReads(tool.Annotations):
		return Judgement{Verdict: VerdictAllow, Rule: ByTrustedReadOnly, Why: "The tool says that it only reads, its server is trusted, and in this chat such tools run without asking."}
	default:
		return Judgement{Verdict: VerdictAsk, Rule: ByDefault, Why: "Nothing allows this call, and nothing refuses it."}
	}
}

func (p PolicyInput) has(mode Mode) bool {
	for _, m := range p.Modes {
		if m == mode {
			return true
		}
	}
	return false
}

// judging is one judgement in the making.
type judging struct {
	p     PolicyInput
	facts Facts
}

// first finds the first rule of a verdict that holds, and the first that
// cannot be evaluated. Every rule is tried until one holds.
func (j *judging) first(v Verdict) (holds *Rule, fails *Rule) {
	for i := range j.p.Rules {
		r := &j.p.Rules[i]
		if r.Verdict != v || !r.Enabled {
			continue
		}
		ok, err := false, errNoMatch
		if j.p.Match != nil {
			ok, err = j.p.Match(*r, &j.facts)
		}
		switch {
		case err != nil && fails == nil:
			fails = r
		case err == nil && ok && (v == VerdictDeny || v == VerdictAsk):
			return r, fails
		case err == nil && ok && holds == nil:
			holds = r // one that fails after it still asks
		}
	}
	return holds, fails
}

var errNoMatch = Invalid("There is nothing that can evaluate rules.")

// onlyReads reports whether a tool's server claims that the tool changes
// nothing. Claims that contradict each other are none.
func onlyReads(annotations json.RawMessage) bool {
	var claims map[string]any // a struct would take names of any case
	if len(annotations) == 0 || json.Unmarshal(annotations, &claims) != nil {
		return false
	}
	return claims["readOnlyHint"] == true && (claims["destructiveHint"] == nil || claims["destructiveHint"] == false)
}

// Refusal says why a call that was allowed, or approved, must not run by
// today's rules; "" if it may. It is given the judgement of the moment before
// the run, of which only a denial counts: what a person approved is not asked
// for again. A call that no person saw does not run on a deny rule that
// cannot be evaluated.
func Refusal(call ToolCall, j Judgement) string {
	switch {
	case j.Verdict == VerdictDeny:
		return j.Reason
	case j.Unsure && !call.Approval.Granted():
		return j.Why
	}
	return ""
}

// Overrule returns a call that was allowed as settled without a run, because
// the judgement of the moment refuses it for the reason given. What a person
// decided stays as it was. A settled call is returned unchanged with false.
func Overrule(call ToolCall, j Judgement, reason string, at time.Time) (ToolCall, bool) {
	text := strings.TrimRight(strings.TrimSpace(reason), ".") + ". The call was not run."
	next, ok := Finish(call, Result{Outcome: OutcomeUnavailable, ErrorText: text}, at)
	if !ok {
		return call, false
	}
	j.Verdict = VerdictDeny // also of a rule that nobody can evaluate: that is what it came to
	return Judged(next, j), true
}

// Judged returns the call with a judgement noted, for the card and the audit.
func Judged(call ToolCall, j Judgement) ToolCall {
	return call.withMeta(func(m *ToolMetadata) {
		m.Verdict, m.Rule, m.RuleID, m.RuleVersion, m.Why = j.Verdict, j.Rule, j.RuleID, j.RuleVersion, j.Why
	})
}

// SameTool reports whether tool is the one that the call was made for: the
// same tool of the same server, taking the same input.
func SameTool(call ToolCall, tool Tool) bool {
	m := call.meta()
	return m.ServerID == tool.ServerID && m.Tool == tool.Tool && sameJSON(m.InputSchema, tool.InputSchema)
}

// AskAgain returns a pending call as asked about the tool that there is now,
// under another approval id, or settled as invalid if that tool does not take
// its input (wrong says why). The old approval is closed by that: it is
// superseded. A call that does not wait, or whose tool is the one that it was
// asked for, is returned unchanged with false.
func AskAgain(call ToolCall, tool Tool, wrong error, approvalID string, at time.Time) (ToolCall, bool) {
	if !call.Pending() || SameTool(call, tool) {
		return call, false
	}
	next := call.withMeta(func(m *ToolMetadata) {
		m.Server, m.ServerID, m.Tool, m.Title = tool.Server, tool.ServerID, tool.Tool, tool.Title
		m.Annotations, m.InputSchema = tool.Annotations, tool.InputSchema
	})
	next.Title = tool.Title
	if wrong == nil {
		return Ask(next, approvalID, at), true
	}
	next.Approval = nil
	return Finish(next, Result{Outcome: OutcomeInvalid, ErrorText: "The tool changed while the call waited, and no longer takes this input: " + wrong.Error()}, at)
}
