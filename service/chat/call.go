package chat

import (
	"encoding/json"
	"time"
)

const (
	// DynamicTool is the part type of a call whose tool the client does not
	// know beforehand, which is every call that this server makes.
	DynamicTool = "dynamic-tool"
	toolPrefix  = "tool-"
)

// CallState is where a tool call stands.
type CallState string

// The states of a tool call, as the AI SDK names them.
const (
	CallInputStreaming    CallState = "input-streaming"
	CallInputAvailable    CallState = "input-available"
	CallApprovalRequested CallState = "approval-requested"
	CallApprovalResponded CallState = "approval-responded"
	CallOutputAvailable   CallState = "output-available"
	CallOutputError       CallState = "output-error"
	CallOutputDenied      CallState = "output-denied"
)

// Settled reports whether a call in this state has its last result.
func (s CallState) Settled() bool {
	switch s {
	case CallOutputAvailable, CallOutputError, CallOutputDenied:
		return true
	case CallInputStreaming, CallInputAvailable, CallApprovalRequested, CallApprovalResponded:
		return false
	}
	return false
}

// Resolution says why an approval was closed without a person's plain
// decision. It is empty for a plain decision.
type Resolution string

// The ways in which an approval closes by itself.
const (
	ResolutionCancelled  Resolution = "cancelled"
	ResolutionExpired    Resolution = "expired"
	ResolutionSuperseded Resolution = "superseded"
	ResolutionPolicy     Resolution = "policy"
)

// Outcome says how the run of a call ended. It is empty until it has.
type Outcome string

// The outcomes of a call.
const (
	OutcomeOK          Outcome = "ok"          // the tool ran and answered
	OutcomeFailed      Outcome = "failed"      // the tool ran and said that it failed
	OutcomeUnknown     Outcome = "unknown"     // started; nobody knows whether it took effect
	OutcomeStopped     Outcome = "stopped"     // approved, stopped before it started
	OutcomeInvalid     Outcome = "invalid"     // never run: its input is not valid
	OutcomeUnavailable Outcome = "unavailable" // never run: the tool is gone or refused
)

// ToolCall is a model's request to run a tool, and what became of it. Members
// that do not apply in a state are absent from its JSON, never null.
type ToolCall struct {
	Type       string    `json:"-"` // DynamicTool, or "tool-" and the tool's name
	ToolName   string    `json:"toolName,omitempty"`
	ToolCallID string    `json:"toolCallId"`
	State      CallState `json:"state"`
	Title      string    `json:"title,omitempty"`
	// Input is the exact JSON that is shown and run. It is absent while it
	// streams and when the model's text was not JSON.
	Input json.RawMessage `json:"input,omitempty"`
	// RawInput is the model's text, while it streams or where it was not JSON.
	RawInput             string          `json:"rawInput,omitempty"`
	Output               json.RawMessage `json:"output,omitempty"`
	ErrorText            string          `json:"errorText,omitempty"`
	Preliminary          bool            `json:"preliminary,omitempty"`
	ProviderExecuted     bool            `json:"providerExecuted,omitempty"`
	CallProviderMetadata json.RawMessage `json:"callProviderMetadata,omitempty"`
	Approval             *Approval       `json:"approval,omitempty"`
	ToolMetadata         *ToolMetadata   `json:"toolMetadata,omitempty"`
}

// PartType is Type.
func (c ToolCall) PartType() string {
	if c.Type == "" {
		return DynamicTool
	}
	return c.Type
}

// MarshalJSON leaves toolName out of parts whose type already names the tool.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if c.PartType() != DynamicTool {
		c.ToolName = ""
	}
	return Marshal(plain(c))
}

// Approval is the question that a tool call asks of a person, and its answer.
// A decided approval is never asked again.
type Approval struct {
	ID       string `json:"id"`
	Approved *bool  `json:"approved,omitempty"`
	// Reason is what the decider, or the rule that decided, gave as reason.
	Reason        string          `json:"reason,omitempty"`
	RequestedAt   *time.Time      `json:"requestedAt,omitempty"`
	ExpiresAt     *time.Time      `json:"expiresAt,omitempty"` // from then on nobody can decide; absent for never
	DecidedAt     *time.Time      `json:"decidedAt,omitempty"`
	DecidedBy     string          `json:"decidedBy,omitempty"`
	Via           Via             `json:"via,omitempty"`
	Resolution    Resolution      `json:"resolution,omitempty"`
	InputDigest   string          `json:"inputDigest,omitempty"`   // of the input asked about: "sha256:" and hex
	SchemaDigest  string          `json:"schemaDigest,omitempty"`  // of the tool's input schema, likewise
	OriginalInput json.RawMessage `json:"originalInput,omitempty"` // the model's, only after an edit
	Remember      Remember        `json:"remember,omitempty"`      // what was decided for good along with it
}

// Granted reports whether a person, or a rule, said yes.
func (a *Approval) Granted() bool { return a != nil && a.Approved != nil && *a.Approved }

// byPerson reports whether it was a person who said yes.
func (a *Approval) byPerson() bool { return a.Granted() && a.Via != ViaRule }

// ToolMetadata is what a person needs to know about a call beside its input.
type ToolMetadata struct {
	Server      string          `json:"server,omitempty"`
	ServerID    string          `json:"serverId,omitempty"`
	Tool        string          `json:"tool,omitempty"` // the tool's own name on its server
	Title       string          `json:"title,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"` // the server's claims
	InputSchema json.RawMessage `json:"inputSchema,omitempty"` // as it was when the call was made
	Verdict     Verdict         `json:"verdict,omitempty"`
	Rule        string          `json:"rule,omitempty"`        // what gave the verdict
	RuleID      string          `json:"ruleId,omitempty"`      // if it was a rule of the policy
	RuleVersion int             `json:"ruleVersion,omitempty"` // as it was then
	Why         string          `json:"why,omitempty"`         // the verdict was given, in a sentence
	Principal   string          `json:"principal,omitempty"`   // whose message led to the call
	Model       string          `json:"model,omitempty"`
	Step        int             `json:"step,omitempty"` // of the turn, from 1
	StartedAt   *time.Time      `json:"startedAt,omitempty"`
	FinishedAt  *time.Time      `json:"finishedAt,omitempty"`
	Outcome     Outcome         `json:"outcome,omitempty"`
	// ServerIdentity names what was reached, and how, when the call was made.
	ServerIdentity string `json:"serverIdentity,omitempty"`
	// Changed says, of a call that is asked about again, why: a sentence.
	Changed string `json:"changed,omitempty"`
	// Gone says that its server did not offer the tool when that was asked.
	Gone      bool       `json:"gone,omitempty"`
	Questions []Question `json:"questions,omitempty"` // that its server asked while it ran
}

// meta returns the call's metadata for reading; it is never nil.
func (c ToolCall) meta() ToolMetadata {
	if c.ToolMetadata == nil {
		return ToolMetadata{}
	}
	return *c.ToolMetadata
}

// withMeta returns the call with a changed copy of its metadata: the argument
// of an update is never written to.
func (c ToolCall) withMeta(change func(*ToolMetadata)) ToolCall {
	m := c.meta()
	change(&m)
	c.ToolMetadata = &m
	return c
}

// Started reports whether the call was recorded as started: from then on it
// is never started again.
func (c ToolCall) Started() bool { return c.meta().StartedAt != nil }

// Pending reports whether the call waits for a person.
func (c ToolCall) Pending() bool { return c.State == CallApprovalRequested }

// Runnable reports whether the call may be started now: it was allowed by
// rule or approved, and has not been started.
func (c ToolCall) Runnable() bool {
	if c.Started() {
		return false
	}
	return c.State == CallInputAvailable && c.meta().Verdict == VerdictAllow ||
		c.State == CallApprovalResponded && c.Approval.Granted()
}

// Calls returns the tool calls among parts with their positions.
func (ps Parts) Calls() []PlacedCall {
	var calls []PlacedCall
	for i, p := range ps {
		if c, ok := p.(ToolCall); ok {
			calls = append(calls, PlacedCall{i, c})
		}
	}
	return calls
}

// Steps counts the steps among parts.
func (ps Parts) Steps() int {
	n := 0
	for _, p := range ps {
		if _, ok := p.(StepStart); ok {
			n++
		}
	}
	return n
}

// PlacedCall is a tool call and its position in the message.
type PlacedCall struct {
	Position int
	Call     ToolCall
}
