package chat

import "time"

// TopicState is what a topic is doing, in one word.
type TopicState string

// The states of a topic.
const (
	TopicIdle             TopicState = "idle"
	TopicPending          TopicState = "pending" // queued or claimed; this step has shown nothing yet
	TopicStreaming        TopicState = "streaming"
	TopicAwaitingApproval TopicState = "awaiting-approval"
	TopicDone             TopicState = "done"
	TopicError            TopicState = "error"
	TopicAborted          TopicState = "aborted"
)

// Status is what a topic is doing. It is a function of committed rows and
// never stored.
type Status struct {
	TopicID                 string      `json:"topicId"`
	Revision                int64       `json:"revision"`
	Status                  TopicState  `json:"status"`
	ActiveExecutions        []Execution `json:"activeExecutions"`
	AwaitingApprovalAnchors []Execution `json:"awaitingApprovalAnchors"`
	PendingApprovals        int         `json:"pendingApprovals"`
	OpenQuestions           int         `json:"openQuestions"` // asked by tools that run
	QueuedMessages          int         `json:"queuedMessages"`
	LastCompletedAt         *time.Time  `json:"lastCompletedAt,omitempty"`
}

// Execution names a turn and its anchor; Pending counts the anchor's open
// approvals.
type Execution struct {
	ExecutionID     string `json:"executionId"`
	AnchorMessageID string `json:"anchorMessageId"`
	Pending         int    `json:"pending,omitempty"`
}

// TurnView is what the status of a topic depends on in one of its turns.
type TurnView struct {
	ID        string
	MessageID string
	State     TurnState
	HasOutput bool // this step has shown something
	Pending   int  // open approvals of its anchor
	Questions int  // open questions of its calls
}

// StatusOf derives a topic's status from the turns that answer the last
// user message of the selected branch. Work in progress outranks a question,
// a question outranks a failure, a failure outranks a stop.
func StatusOf(topicID string, revision int64, turns []TurnView, queued int, lastCompletedAt *time.Time) Status {
	s := Status{
		TopicID: topicID, Revision: revision, Status: TopicIdle,
		ActiveExecutions: []Execution{}, AwaitingApprovalAnchors: []Execution{},
		QueuedMessages: queued, LastCompletedAt: lastCompletedAt,
	}
	seen := map[TopicState]bool{}
	for _, t := range turns {
		s.PendingApprovals += t.Pending
		s.OpenQuestions += t.Questions
		e := Execution{ExecutionID: t.ID, AnchorMessageID: t.MessageID, Pending: t.Pending}
		switch t.State {
		case TurnQueued, TurnRunning:
			s.ActiveExecutions = append(s.ActiveExecutions, e)
			if t.HasOutput {
				seen[TopicStreaming] = true
			} else {
				seen[TopicPending] = true
			}
			if t.Pending > 0 { // asked already, while a sibling call still runs
				s.AwaitingApprovalAnchors = append(s.AwaitingApprovalAnchors, e)
			}
		case TurnAwaitingApproval:
			s.AwaitingApprovalAnchors = append(s.AwaitingApprovalAnchors, e)
			seen[TopicAwaitingApproval] = true
		case TurnFailed:
			seen[TopicError] = true
		case TurnAborted:
			seen[TopicAborted] = true
		case TurnDone:
			seen[TopicDone] = true
		}
	}
	for _, state := range []TopicState{TopicStreaming, TopicPending, TopicAwaitingApproval, TopicError, TopicAborted, TopicDone} {
		if seen[state] {
			s.Status = state
			break
		}
	}
	return s
}
