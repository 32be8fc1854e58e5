package chat

import "time"

// TurnState is where a turn stands.
type TurnState string

// The states of a turn. Queued, running and awaiting-approval are open; the
// others are final, until the turn is retried.
const (
	TurnQueued           TurnState = "queued"
	TurnRunning          TurnState = "running"
	TurnAwaitingApproval TurnState = "awaiting-approval"
	TurnDone             TurnState = "done"
	TurnFailed           TurnState = "error"
	TurnAborted          TurnState = "aborted"
)

// Open reports whether a turn in this state still has work before it.
func (s TurnState) Open() bool {
	switch s {
	case TurnQueued, TurnRunning, TurnAwaitingApproval:
		return true
	case TurnDone, TurnFailed, TurnAborted:
		return false
	}
	return false
}

// Turn is the work that fills one assistant message, its anchor.
type Turn struct {
	ID            string
	TopicID       string
	MessageID     string // the anchor
	GroupID       string
	Model         string
	State         TurnState
	Owner         string // the process that runs it, "" if none
	Epoch         int64  // rises with every claim; fences the owner's writes
	Steps         int    // committed model steps
	FirstOutputAt *time.Time
	// BrokenAt is the position from which the anchor's parts are the partial
	// text of a step that failed; -1 if there is none. A retry drops them.
	BrokenAt int
}

// TurnRef names a turn in an answer to a client.
type TurnRef struct {
	ID        string    `json:"id"`
	MessageID string    `json:"messageId"`
	State     TurnState `json:"state"`
}
