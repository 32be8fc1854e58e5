package chat

import (
	"encoding/json"
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

// ToolPolicy is what the person said about a tool.
type ToolPolicy struct {
	Disabled    bool // in the server's disabledTools
	AutoApprove bool // not in the server's disabledAutoApproveTools
}

// Judgement is a verdict and what gave it.
type Judgement struct {
	Verdict Verdict
	Rule    string // the rule's name, for the card and the audit
	Reason  string // of a denial, for the model and the person
}

// Judge gives the verdict on a call of a tool. The first that applies wins:
// a disabled tool is denied, one that is approved automatically is allowed;
// nothing known means ask.
func Judge(tool Tool) Judgement {
	switch {
	case tool.Policy.Disabled:
		return Judgement{VerdictDeny, "disabledTools", "The tool " + tool.Name + " is switched off on this server."}
	case tool.Policy.AutoApprove:
		return Judgement{VerdictAllow, "auto-approve", ""}
	default:
		return Judgement{VerdictAsk, "ask by default", ""}
	}
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
