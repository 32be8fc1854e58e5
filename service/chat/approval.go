package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Via is the way by which a decision came.
type Via string

// The ways of a decision.
const (
	ViaWeb   Via = "web"
	ViaAPI   Via = "api"
	ViaAgent Via = "agent"
	ViaRule  Via = "rule"
)

// Decider is who decides, and by what way.
type Decider struct {
	Name string
	Via  Via
}

// Decision is an answer to one approval.
type Decision struct {
	ApprovalID   string
	Approved     bool
	Reason       string          // kept byte for byte; blank means none
	UpdatedInput json.RawMessage // replaces the call's input; nil keeps it
	AnchorID     string          // if set, the approval must belong to this message
	Remember     Remember        // what to decide for good along with it; of a yes only
}

// Remember says what is decided for good along with an approval.
type Remember string

// RememberAlwaysAllow takes the tool off its server's list of tools to ask
// for: from then on it runs without asking, unless a rule or a mode asks.
const RememberAlwaysAllow Remember = "always-allow"

// CallEdit gives a call as it is to be at the time of a transaction, or false
// to leave it as it is. It must be pure: a transaction may be tried again.
type CallEdit func(call ToolCall, at time.Time) (ToolCall, bool)

// PolicyEdit is a CallEdit that depends on the policy of the transaction.
type PolicyEdit func(p TopicPolicy, call ToolCall, at time.Time) (ToolCall, bool)

// Effect says what a decision did.
type Effect string

// The effects of a decision.
const (
	EffectApplied        Effect = "applied"
	EffectAlreadySettled Effect = "already-settled" // the same decision was made before
)

// Decide returns the call with d applied. It does not modify call. The
// recorded decision, if there is one, is compared before anything else: an
// equal one changes nothing, a different one is a *DecidedError, and an
// approval that was closed (cancelled, expired, superseded) is ErrGone.
func Decide(call ToolCall, d Decision, by Decider, at time.Time) (ToolCall, Effect, error) {
	a := call.Approval
	if a == nil {
		return call, "", NotFound("There is no approval %s.", d.ApprovalID)
	}
	if !d.Approved {
		d.Remember = ""
	}
	switch a.Resolution {
	case ResolutionCancelled, ResolutionExpired, ResolutionSuperseded:
		return call, "", Gone("Approval %s is closed (%s); nothing can be decided any more.", a.ID, a.Resolution)
	case ResolutionPolicy, "":
	}
	if a.Approved != nil {
		if *a.Approved == d.Approved && (!d.Approved || sameJSON(effectiveInput(call, d), call.Input)) {
			if d.Remember != "" && a.Remember != d.Remember && a.Via != ViaRule { // a rule was quicker, because it allows for good
				return call, "", Conflict("Approval %s was given before, by %s, and nothing was decided for good along with it. Change the settings of the tool's server instead.", a.ID, a.DecidedBy)
			}
			return call, EffectAlreadySettled, nil
		}
		if call.meta().Outcome == OutcomeStopped {
			return call, "", Gone("Approval %s is closed: the turn was stopped.", a.ID)
		}
		e := &DecidedError{ApprovalID: a.ID, Approved: *a.Approved, Reason: a.Reason, DecidedBy: a.DecidedBy, Via: a.Via}
		if a.DecidedAt != nil {
			e.DecidedAt = *a.DecidedAt
		}
		return call, "", e
	}
	if call.State != CallApprovalRequested {
		return call, "", Gone("Approval %s is closed; nothing can be decided any more.", a.ID)
	}
	if a.expired(at) {
		return call, "", Gone("Approval %s has expired; nothing can be decided any more.", a.ID)
	}

	next := *a // copied whole: a new member cannot be lost
	next.Approved = &d.Approved
	next.DecidedAt = &at
	next.DecidedBy, next.Via = by.Name, by.Via
	next.Remember = d.Remember
	if strings.TrimSpace(d.Reason) != "" {
		next.Reason = d.Reason
	}
	if d.Approved && d.UpdatedInput != nil && !sameJSON(d.UpdatedInput, call.Input) {
		next.OriginalInput = call.Input
		call.Input = d.UpdatedInput
	}
	call.State = CallApprovalResponded
	call.Approval = &next
	return call, EffectApplied, nil
}

// effectiveInput is the input that d asks to run.
func effectiveInput(call ToolCall, d Decision) json.RawMessage {
	switch {
	case d.UpdatedInput != nil:
		return d.UpdatedInput
	case call.Approval.OriginalInput != nil:
		return call.Approval.OriginalInput
	default:
		return call.Input
	}
}

// Digest names an input: "sha256:" and the hex of its bytes.
func Digest(input []byte) string {
	sum := sha256.Sum256(input)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Ask returns the call as one that waits for a person under the approval id.
func Ask(call ToolCall, approvalID string, at time.Time) ToolCall {
	call.State = CallApprovalRequested
	call.Approval = &Approval{ID: approvalID, RequestedAt: &at, InputDigest: Digest(call.Input), SchemaDigest: schemaDigest(call)}
	return call
}

// ExpireAfter returns a call that waits as one whose question expires when life
// is over; 0 is never. A question that is asked again in its place has as much
// time as it had.
func ExpireAfter(call ToolCall, life time.Duration) ToolCall {
	if life <= 0 || !call.Pending() || call.Approval.RequestedAt == nil {
		return call
	}
	a, end := *call.Approval, call.Approval.RequestedAt.Add(life)
	a.ExpiresAt = &end
	call.Approval = &a
	return call
}

// Expire returns a call whose question nobody answered in time as denied. Any
// other call is returned unchanged with false. Time never approves.
func Expire(call ToolCall, at time.Time) (ToolCall, bool) {
	if !call.Pending() || !call.Approval.expired(at) {
		return call, false
	}
	return Close(call, ResolutionExpired, at)
}

func (a *Approval) expired(at time.Time) bool { return a.ExpiresAt != nil && !at.Before(*a.ExpiresAt) }

// schemaDigest names the schema that the call's input was held against.
func schemaDigest(call ToolCall) string {
	if schema := call.meta().InputSchema; schema != nil {
		return Digest(schema)
	}
	return ""
}

// AllowByRule returns a pending call as approved by what allows it now, which
// is not a person. A call that does not wait, or a judgement that does not
// allow, leaves it unchanged with false.
func AllowByRule(call ToolCall, j Judgement, at time.Time) (ToolCall, bool) {
	if !call.Pending() || call.Approval.expired(at) || j.Verdict != VerdictAllow {
		return call, false
	}
	yes := true
	a := *call.Approval
	a.Approved, a.DecidedAt, a.DecidedBy, a.Via, a.Reason = &yes, &at, j.Rule, ViaRule, j.Why
	call.State, call.Approval = CallApprovalResponded, &a
	return Judged(call, j), true
}

// Refuse returns the call as denied by a rule, under a generated approval id.
func Refuse(call ToolCall, approvalID string, j Judgement, at time.Time) ToolCall {
	no := false
	call.State = CallOutputDenied
	call.Approval = &Approval{
		ID: approvalID, Approved: &no, Reason: j.Reason, RequestedAt: &at, DecidedAt: &at, DecidedBy: j.Rule, Via: ViaRule,
		Resolution: ResolutionPolicy, InputDigest: Digest(call.Input), SchemaDigest: schemaDigest(call),
	}
	return call
}

// Start returns the call recorded as started. Only a runnable call can be
// started, and so each is started once.
func Start(call ToolCall, at time.Time) (ToolCall, error) {
	if !call.Runnable() {
		return call, Conflict("Call %s cannot be started: it is %s.", call.ToolCallID, call.State)
	}
	return call.withMeta(func(m *ToolMetadata) { m.StartedAt = &at }), nil
}

// Result is what became of a run.
type Result struct {
	Outcome   Outcome
	Output    json.RawMessage // of OutcomeOK
	ErrorText string          // of every other outcome: what the model and the person are told
}

// Finish returns the call settled with r. A call that is settled already
// stays as it is, and the second value is false.
func Finish(call ToolCall, r Result, at time.Time) (ToolCall, bool) {
	if call.State.Settled() {
		return call, false
	}
	call, _ = CloseQuestion(call, at)
	if r.Outcome == OutcomeOK {
		call.State, call.Output, call.ErrorText = CallOutputAvailable, r.Output, ""
		if call.Output == nil {
			call.Output = json.RawMessage("null")
		}
	} else {
		call.State, call.Output, call.ErrorText = CallOutputError, nil, r.ErrorText
	}
	return call.withMeta(func(m *ToolMetadata) { m.Outcome, m.FinishedAt = r.Outcome, &at }), true
}

const (
	// StoppedText says that a call was stopped before it ran.
	StoppedText = "Stopped before it ran. It was not run."
	unknownText = "The outcome is unknown: the call was started, and the server lost sight of it before it ended. It may or may not have taken effect. It was not run again."
)

// Lose returns a started call whose run nobody watches any more as settled:
// its outcome is unknown, and it is never run again by itself. Any other call
// is returned unchanged with false.
func Lose(call ToolCall, at time.Time) (ToolCall, bool) {
	if !call.Started() {
		return call, false
	}
	return Finish(call, Result{Outcome: OutcomeUnknown, ErrorText: unknownText}, at)
}

// SettleDenied returns a call that was decided against as settled. Any other
// call is returned unchanged with false.
func SettleDenied(call ToolCall) (ToolCall, bool) {
	if call.State != CallApprovalResponded || call.Approval.Granted() {
		return call, false
	}
	call.State = CallOutputDenied
	return call, true
}

// Close settles an unsettled call because its turn ends without it: never
// decided becomes denied with the given resolution, decided against becomes
// denied, started becomes unknown, approved or allowed but not started
// becomes stopped. A settled call is returned unchanged with false.
func Close(call ToolCall, why Resolution, at time.Time) (ToolCall, bool) {
	if call.State.Settled() {
		return call, false
	}
	if next, ok := SettleDenied(call); ok {
		return next, true
	}
	if next, ok := Lose(call, at); ok {
		return next, true
	}
	if call.State == CallApprovalRequested {
		no := false
		a := *call.Approval
		a.Approved, a.Resolution, a.DecidedAt = &no, why, &at
		call.State, call.Approval = CallOutputDenied, &a
		return call, true
	}
	return Finish(call, Result{Outcome: OutcomeStopped, ErrorText: StoppedText}, at)
}
