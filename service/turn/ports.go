// Package turn runs turns: it claims them, asks the model step by step, runs
// the calls that may run, parks when only a person can go on, and recovers
// what a dead owner left. It knows no SQL and no HTTP.
//
// What it may be relied on for: a call is recorded as started before it
// starts and is started at most once; a step's parts are committed whole
// before anything is asked for or run; every write is fenced by the turn's
// epoch, so an owner that lost its turn changes nothing.
package turn

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Store is what a turn needs of the database. Every method is one
// transaction, and every Change is told after its commit.
type Store interface {
	// Claimable lists up to n turns that are queued, or running with a lease
	// that is over.
	Claimable(ctx context.Context, n int) ([]chat.Candidate, error)
	// Claim makes owner the owner of the turn: state running, epoch raised,
	// a lease of the given length. If the turn was running before, its started
	// calls are settled as of unknown outcome. It reports false if the turn is
	// no longer claimable.
	Claim(ctx context.Context, c chat.Candidate, owner string, lease time.Duration) (chat.Work, chat.Change, bool, error)
	// Heartbeat renews the leases of those of the given turns that owner still
	// runs, and returns them with their epochs.
	Heartbeat(ctx context.Context, owner string, turns chat.Epochs, lease time.Duration) (chat.Epochs, error)
	// FirstOutput records that the running step has shown something. It
	// changes nothing if that is recorded already (Change.Revision is 0).
	FirstOutput(ctx context.Context, f chat.Fence) (chat.Change, error)
	// CommitStep writes a step's parts. With Step.Done it ends the turn as
	// done, and if it was the last of its siblings, sends the first queued
	// message of the topic, which starts that message's turn.
	CommitStep(ctx context.Context, f chat.Fence, s chat.Step) (chat.Change, error)
	// EditCalls applies edit to the anchor's calls and returns them as they
	// are then committed. The audit follows: started, finished, outcome.
	EditCalls(ctx context.Context, f chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error)
	// Question reads a question of the anchor's calls, open or not.
	Question(ctx context.Context, topicID, messageID, questionID string) (chat.Question, error)
	// Park makes the turn wait if any of its committed calls is pending. If
	// none is, it reports false, and the turn goes on with the calls returned.
	Park(ctx context.Context, f chat.Fence) (parked bool, calls []chat.PlacedCall, c chat.Change, err error)
	// Fail ends the turn in error. The partial text of the step that broke, if
	// any, is kept from the position on, to be dropped by a retry.
	Fail(ctx context.Context, f chat.Fence, position int, partial chat.Parts, why chat.TurnError) (chat.Change, error)
	// KeepPartial adds the partial text of a step to a turn that was stopped,
	// and lets go of the turn. It is fenced by the epoch under which the turn
	// was running when it was stopped.
	KeepPartial(ctx context.Context, f chat.Fence, position int, partial chat.Parts) (chat.Change, error)
	// LetGo gives the turns of owner back, but for those to keep: they can be
	// claimed at once, by anyone. A clean shutdown does so as they end.
	LetGo(ctx context.Context, owner string, keep ...string) error
	// CloseStopped takes the epoch from owners of stopped turns that have not
	// let go of them within grace, and gives what tabs are to be told of it.
	CloseStopped(ctx context.Context, grace time.Duration) ([]chat.Change, error)
}

// Model streams one reply. It calls emit for each piece, in order, on the
// caller's goroutine, and returns a nil error only if the reply is complete by
// its protocol.
type Model interface {
	Stream(ctx context.Context, p chat.Prompt, emit func(chat.StreamEvent)) (chat.Reply, error)
}

// Models finds a model by its "provider/model" name and says how the provider
// calls it.
type Models interface {
	Resolve(name string) (m Model, bare string, err error)
}

// Tools knows the tools of a topic and runs calls that have been allowed. It
// does not ask again.
type Tools interface {
	// Tools lists what may be offered to the topic's model. Disabled tools are
	// in the list.
	Tools(ctx context.Context, topic chat.Topic) ([]chat.Tool, error)
	// Validate checks an input against the tool's schema; a violation is a
	// *chat.InputError.
	Validate(tool chat.Tool, input json.RawMessage) error
	// Call runs a tool and always says what became of it. If ctx ends first
	// the outcome is unknown. Meanwhile it may tell its progress, and ask the
	// person what its server wants to know; an error of ask means that nobody
	// will answer.
	Call(ctx context.Context, tool chat.Tool, input json.RawMessage, progress func(string),
		ask func(context.Context, chat.Question) (chat.Answer, error)) chat.Result
}

// Policy says whether a call may run.
type Policy interface {
	// Judge gives the verdict on a call by the rules and the topic's mode of
	// this moment. principal is whose message led to the call. An error is no
	// verdict: of kind chat.ErrUnavailable it may pass.
	Judge(ctx context.Context, topicID, principal string, tool chat.Tool, call chat.ToolCall) (chat.Judgement, error)
}

// Live is told what a running turn shows before it is committed, and what has
// been committed.
type Live interface {
	// Begin opens the live part of a step: parts that the model is writing,
	// from the position on.
	Begin(f chat.Fence, revision int64, position int)
	// Delta adds to the live part. Part positions are those of the message.
	Delta(f chat.Fence, d chat.Delta)
	// Progress tells how far a running call has come.
	Progress(f chat.Fence, position int, text string)
	// End drops the live part: it is committed, or will not be.
	End(f chat.Fence)
	// Publish announces a committed change.
	Publish(ctx context.Context, c chat.Change)
}
