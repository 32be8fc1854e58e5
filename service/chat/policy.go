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
	// Identity names what of the server is reached, and how: MCPServer.Identity.
	// It is "" of a server that cannot be reached in another way.
	Identity    string
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

// Allows reports whether the switches alone let the tool run without asking.
func (p ToolPolicy) Allows() bool { return p.AutoApprove && !p.AlwaysAsk && !p.Disabled }

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
	Modes []Mode // the topic's, and that of the assistant that it started from
	Rules []Rule // the enabled ones, in their order
	// Switches are those of the server that was asked about; nil if nothing is
	// stored of it, and what it says of its own tools holds.
	Switches *Switches
	// ServerDisabled says that the server itself is switched off.
	ServerDisabled bool
}

// ToolPolicy is what is said about a tool of the server that was asked about.
// A server that was configured once, and of which nothing is stored any more,
// allows nothing.
func (p TopicPolicy) ToolPolicy(t Tool) ToolPolicy {
	switch {
	case p.Switches != nil:
		policy := p.Switches.Policy(t.Tool)
		policy.Disabled = policy.Disabled || p.ServerDisabled
		return policy
	case t.Identity != "":
		return ToolPolicy{Disabled: t.Policy.Disabled}
	default:
		return t.Policy
	}
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
	case j.Unsure && !call.Approval.byPerson():
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
// same tool of the same server, reached in the same way, taking the same
// input, of which its server claims the same. A call that was stored before
// servers had identities is not held against one.
func SameTool(call ToolCall, tool Tool) bool {
	m := call.meta()
	return m.ServerID == tool.ServerID && m.Tool == tool.Tool && sameJSON(m.InputSchema, tool.InputSchema) &&
		sameJSON(m.Annotations, tool.Annotations) && (m.ServerIdentity == "" || m.ServerIdentity == tool.Identity)
}

// Changed says why a question about a call must be asked again: a sentence
// that says what is different now. It is "" if what was asked about is what
// would run. Without offered, the tool's server does not offer the tool.
func Changed(call ToolCall, tool Tool, offered bool) string {
	m := call.meta()
	switch {
	case !offered && m.Gone:
		return ""
	case !offered:
		return "The server does not offer this tool any more. If it is approved, the call fails, unless the tool has come back by then."
	case m.ServerID != tool.ServerID || m.Tool != tool.Tool:
		return "Another tool has this name now."
	case m.ServerIdentity != "" && m.ServerIdentity != tool.Identity:
		return "The settings of the tool's server changed: the call would reach it in another way."
	case !sameJSON(m.InputSchema, tool.InputSchema):
		return "The tool changed: it takes other input now."
	case !sameJSON(m.Annotations, tool.Annotations):
		return "The tool changed: its server claims other things of it now."
	case m.Gone:
		return "The server offers this tool again."
	}
	return ""
}

// Describe returns the call with what a person needs to know about its tool.
func Describe(call ToolCall, tool Tool) ToolCall {
	call.Title = tool.Title
	return call.withMeta(func(m *ToolMetadata) {
		m.Server, m.ServerID, m.Tool, m.Title = tool.Server, tool.ServerID, tool.Tool, tool.Title
		m.Annotations, m.InputSchema, m.ServerIdentity = tool.Annotations, tool.InputSchema, tool.Identity
		m.Gone = false
	})
}

// AskAgain returns a pending call as asked about the tool that there is now,
// under another approval id, or settled as invalid if that tool does not take
// its input (wrong says why). The old approval is closed by that: it is
// superseded. A call that does not wait, or does not any more because its time
// is over, or of which nothing Changed, is returned unchanged with false.
func AskAgain(call ToolCall, tool Tool, offered bool, wrong error, approvalID string, at time.Time) (ToolCall, bool) {
	why := Changed(call, tool, offered)
	if !call.Pending() || call.Approval.expired(at) || why == "" {
		return call, false
	}
	next := call
	if offered {
		next = Describe(call, tool)
	}
	next = next.withMeta(func(m *ToolMetadata) { m.Changed, m.Gone = why, !offered })
	if wrong == nil || !offered {
		was := call.Approval
		next = Ask(next, approvalID, at)
		if was.ExpiresAt != nil && was.RequestedAt != nil {
			next = ExpireAfter(next, was.ExpiresAt.Sub(*was.RequestedAt))
		}
		return next, true
	}
	next.Approval = nil
	return Finish(next, Result{Outcome: OutcomeInvalid, ErrorText: "The tool changed while the call waited, and no longer takes this input: " + wrong.Error()}, at)
}

// AlwaysAllow is what RememberAlwaysAllow would change, for the person to see
// before it is decided.
type AlwaysAllow struct {
	ServerID string `json:"serverId"`
	Server   string `json:"server"`
	Tool     string `json:"tool"`
	// Rule is the exact change, in a sentence.
	Rule string `json:"rule"`
	// Effective says whether calls like this one would then run without asking;
	// Why says what would still ask or refuse, or, if it is effective, what
	// allows them.
	Effective bool   `json:"effective"`
	Why       string `json:"why"`
	// Others counts other calls that wait now and would be settled by it.
	Others int `json:"others"`
}

// AlwaysAllowRule says what changes if a tool is allowed for good.
func AlwaysAllowRule(tool, server string) string {
	return "From now on the tool “" + tool + "” of the server “" + server + "” runs without asking, in every chat and with every input: " +
		"it is taken off the list of the server's tools that ask (disabledAutoApproveTools). Deny rules, ask rules and chats that ask for everything still come first."
}
