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
	Steps         int    // model steps since the turn began, or was retried last
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

// Fence names a turn and the epoch under which its owner writes. A write
// whose epoch is not the turn's any more changes nothing and is ErrLost.
type Fence struct {
	TopicID   string
	TurnID    string
	MessageID string // the anchor
	Epoch     int64
}

// Candidate is a turn that may be claimable.
type Candidate struct {
	TopicID string
	TurnID  string
}

// Work is all that a turn needs to go on, as committed.
type Work struct {
	Topic   Topic
	Turn    Turn
	History []Message // from the root to the anchor's parent
	Anchor  Message
	// TakenOver says that another owner had left the turn running: it died, or
	// gave the turn back.
	TakenOver bool
}

// Edit changes calls of an anchor. It is given the committed calls and the
// time of the transaction, and returns those that it changed. It may be run
// more than once and must be pure.
type Edit func(calls []PlacedCall, at time.Time) []PlacedCall

// Step is a complete step of a model.
type Step struct {
	// Position is where the step's first part goes: the number of parts that
	// the anchor has.
	Position int
	// Build makes the step's parts, given the time of the transaction.
	Build func(at time.Time) Parts
	// Done says that the turn ends with this step: it made no calls.
	Done bool
	// Notice is what a person should know of a reply that is complete and yet
	// not all that it could be; nil for most.
	Notice *TurnError
}
