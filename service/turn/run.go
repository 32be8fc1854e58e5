package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// run is one claimed turn, from its claim to its park or end. Only its own
// goroutine touches it, but for cancel and leave, and what the engine's lock
// guards.
type run struct {
	e       *Engine
	fence   chat.Fence
	topic   chat.Topic
	turn    chat.Turn
	history []chat.Message
	anchor  chat.Message // as committed, as far as this owner knows
	partial chat.Parts   // words of a step that did not come to be committed
	log     *slog.Logger
	rev     atomic.Int64 // the newest revision that this owner wrote

	ctx       context.Context // ends when the turn is stopped, taken over or cut off
	cancel    context.CancelCauseFunc
	asking    context.Context // ends with ctx, and earlier when the server leaves
	cutAsking context.CancelCauseFunc

	// running is, for the position of each call that runs, how many of its
	// questions wait for answers. The engine's lock guards it.
	running map[int]int
}

func newRun(ctx context.Context, e *Engine, w chat.Work, revision int64) *run {
	r := &run{
		e: e, topic: w.Topic, turn: w.Turn, history: w.History, anchor: w.Anchor,
		fence: chat.Fence{TopicID: w.Turn.TopicID, TurnID: w.Turn.ID, MessageID: w.Turn.MessageID, Epoch: w.Turn.Epoch},
		log:   e.log.With(slog.String("topic_id", w.Turn.TopicID), slog.String("turn_id", w.Turn.ID)), running: map[int]int{},
	}
	r.rev.Store(revision)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.asking, r.cutAsking = context.WithCancelCause(r.ctx)
	return r
}

// leave cuts what can be done again: the model's stream. Calls that run go on.
func (r *run) leave() { r.cutAsking(errShutdown) }

// work goes on with the turn until it parks, ends, or is ours no longer.
func (r *run) work() {
	defer r.e.live.End(r.fence)
	for {
		goOn, err := r.settle()
		if err == nil && goOn {
			if r.asking.Err() != nil {
				return // the server leaves; whoever claims the turn next asks the model
			}
			goOn, err = r.step()
		}
		switch {
		case err == nil && goOn:
			continue
		case errors.Is(err, chat.ErrLost), errors.Is(context.Cause(r.ctx), errStopped):
			r.letGo()
		case err != nil && r.ctx.Err() == nil:
			r.log.ErrorContext(r.ctx, "turn broke", slog.Any("error", err))
			err = r.fail(chat.TurnError{Kind: "internal", Message: "The server could not go on with this turn. Retry goes on from the last complete step."})
			if errors.Is(err, chat.ErrLost) {
				r.letGo()
			}
		}
		return
	}
}

// letGo ends what a stopped turn still has here: its partial words are kept,
// and its owner forgotten. If the turn was taken over instead, nothing is
// written.
func (r *run) letGo() {
	err := r.write(func(ctx context.Context) (chat.Change, error) {
		return r.e.store.KeepPartial(ctx, r.fence, len(r.anchor.Parts), r.partial)
	})
	if err != nil && !errors.Is(err, chat.ErrLost) {
		r.log.WarnContext(r.ctx, "the partial text of a stopped turn was not kept", slog.Any("error", err))
	}
}

// settle brings every call of the last step to its end. It reports false if
// the turn has parked.
//
// A call that a rule allowed runs at once. Calls that were decided run, or
// settle as denied, when nothing is pending any more: that is the
// continuation.
func (r *run) settle() (bool, error) {
	calls := r.anchor.Parts.Calls()
	for {
		pending := false
		denied := false
		var ready []chat.PlacedCall
		for _, c := range calls {
			pending = pending || c.Call.Pending()
			_, no := chat.SettleDenied(c.Call)
			denied = denied || no
		}
		for _, c := range calls {
			if c.Call.Runnable() && (!pending || c.Call.State == chat.CallInputAvailable) {
				ready = append(ready, c)
			}
		}
		var err error
		switch {
		case denied && !pending:
			calls, err = r.edit(settleDenied)
		case len(ready) > 0:
			if r.asking.Err() != nil {
				return false, nil // nothing is begun any more
			}
			if err = r.runAll(ready); err == nil {
				calls, err = r.edit(func([]chat.PlacedCall, time.Time) []chat.PlacedCall { return nil })
			}
		case pending:
			var parked bool
			parked, calls, err = r.park()
			if err == nil && parked {
				return false, nil
			}
		default:
			r.remember(calls)
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func settleDenied(calls []chat.PlacedCall, _ time.Time) []chat.PlacedCall {
	var changed []chat.PlacedCall
	for _, c := range calls {
		if next, ok := chat.SettleDenied(c.Call); ok {
			changed = append(changed, chat.PlacedCall{Position: c.Position, Call: next})
		}
	}
	return changed
}

// remember puts committed calls into the anchor from which the next prompt
// is built.
func (r *run) remember(calls []chat.PlacedCall) {
	for _, c := range calls {
		if c.Position < len(r.anchor.Parts) {
			r.anchor.Parts[c.Position] = c.Call
		}
	}
}

// runAll runs calls side by side and returns when all have ended.
func (r *run) runAll(ready []chat.PlacedCall) error {
	tools, err := r.e.tools.Tools(r.ctx, r.topic)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	slots := make(chan struct{}, r.e.opt.MaxParallel)
	errs := make([]error, len(ready))
	var wg sync.WaitGroup
	for i, c := range ready {
		slots <- struct{}{}
		if r.asking.Err() != nil { // stopped, or the server leaves: nothing is begun any more
			<-slots
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			defer r.begin(c.Position)()
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("call %s panicked: %s", c.Call.ToolCallID, chat.PanicText(p))
				}
			}()
			errs[i] = r.runOne(c, tools)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// runOne records a call as started, runs it and records its result. A call
// that may not run any more settles as failed instead.
func (r *run) runOne(c chat.PlacedCall, tools []chat.Tool) error {
	tool, known := offered(tools, c.Call)
	if change := r.changed(c.Call, tool, known); change != "" {
		return r.finish(c.Position, chat.Result{Outcome: chat.OutcomeUnavailable, ErrorText: change})
	}
	j, err := r.judgement(tool, c.Call)
	if err != nil {
		return err
	}
	if reason := chat.Refusal(c.Call, j); reason != "" {
		return r.settleAt(c.Position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
			return chat.Overrule(call, j, reason, at)
		})
	}
	calls, err := r.editAt(c.Position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
		next, err := chat.Start(call, at)
		return next, err == nil
	})
	if err != nil {
		return err
	}
	for _, now := range calls {
		// Under our epoch nobody else starts it, so one that is started and not
		// settled is ours to run, also if a first answer of the database was lost.
		if now.Position == c.Position && now.Call.Started() && !now.Call.State.Settled() {
			return r.finish(c.Position, r.call(c.Position, tool, now.Call.Input))
		}
	}
	return nil
}

// call runs the tool of a call that is recorded as started.
func (r *run) call(position int, tool chat.Tool, input json.RawMessage) chat.Result {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	watch := newStopwatch(r.e.opt.ToolTimeout, func() { cancel(context.DeadlineExceeded) })
	defer watch.stop()
	progress := func(text string) { r.e.live.Progress(r.fence, position, text) }
	return r.e.tools.Call(ctx, tool, input, progress, func(ctx context.Context, q chat.Question) (chat.Answer, error) {
		watch.pause()
		defer watch.resume()
		return r.put(ctx, position, q)
	})
}

// offered finds the tool that a call was made for. Servers can be renamed, and
// with them the names by which models know their tools; a call of which
// nothing else is stored is held to that name.
func offered(tools []chat.Tool, call chat.ToolCall) (chat.Tool, bool) {
	var m chat.ToolMetadata
	if call.ToolMetadata != nil {
		m = *call.ToolMetadata
	}
	i := slices.IndexFunc(tools, func(t chat.Tool) bool {
		if m.ServerID == "" || m.Tool == "" {
			return t.Name == call.ToolName
		}
		return t.ServerID == m.ServerID && t.Tool == m.Tool
	})
	if i < 0 {
		return chat.Tool{}, false
	}
	return tools[i], true
}

// changed says why a call that was allowed must not run after all: what would
// run is not what was shown.
func (r *run) changed(call chat.ToolCall, tool chat.Tool, known bool) string {
	if !known {
		return "The tool " + call.ToolName + " is not available any more. The call was not run."
	}
	if !chat.SameTool(call, tool) {
		return "The tool " + call.ToolName + " has changed since the call was allowed. The call was not run."
	}
	return "" // the schema is the one that the input was held against
}

// sentence ends an error's text as a sentence ends.
func sentence(err error) string { return strings.TrimSuffix(err.Error(), ".") + "." }

func (r *run) finish(position int, result chat.Result) error {
	return r.settleAt(position, func(call chat.ToolCall, at time.Time) (chat.ToolCall, bool) { return chat.Finish(call, result, at) })
}

// settleAt settles the call at a position by a rule of chat.
func (r *run) settleAt(position int, settle func(chat.ToolCall, time.Time) (chat.ToolCall, bool)) error {
	_, err := r.editAt(position, settle)
	return err
}

// editAt changes the call at a position, unless edit says that it stays.
func (r *run) editAt(position int, edit func(chat.ToolCall, time.Time) (chat.ToolCall, bool)) ([]chat.PlacedCall, error) {
	return r.edit(func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
		for _, now := range calls {
			if now.Position == position {
				if next, ok := edit(now.Call, at); ok {
					return []chat.PlacedCall{{Position: position, Call: next}}
				}
			}
		}
		return nil
	})
}

func (r *run) edit(edit chat.Edit) (calls []chat.PlacedCall, err error) {
	err = r.write(func(ctx context.Context) (c chat.Change, err error) {
		calls, c, err = r.e.store.EditCalls(ctx, r.fence, edit)
		return c, err
	})
	return calls, err
}

func (r *run) park() (parked bool, calls []chat.PlacedCall, err error) {
	err = r.write(func(ctx context.Context) (c chat.Change, err error) {
		parked, calls, c, err = r.e.store.Park(ctx, r.fence)
		return c, err
	})
	return parked, calls, err
}

// fail ends the turn in error and keeps the words of the step that broke. It
// keeps trying while the turn is ours: a turn that is neither run nor ended
// would be frozen.
func (r *run) fail(why chat.TurnError) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := r.write(func(ctx context.Context) (chat.Change, error) {
			return r.e.store.Fail(ctx, r.fence, len(r.anchor.Parts), r.partial, why)
		})
		if err == nil || errors.Is(err, chat.ErrLost) {
			return err
		}
		r.log.ErrorContext(r.ctx, "turn could not be ended", slog.Any("error", err))
		if !r.pause(wait) {
			return err
		}
	}
}

const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
)

// write runs one fenced transaction and announces what it changed. What a
// turn has to say must not be lost to a restart of the database, so while the
// database does not answer it tries again; each of our transactions may be
// repeated, since it changes only what it finds not done.
func (r *run) write(op func(context.Context) (chat.Change, error)) error {
	lost := false
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		// A stop must not tear a result from its write: the fence decides.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), storeTimeout)
		change, err := op(ctx)
		cancel()
		if lost && (err == nil || errors.Is(err, chat.ErrLost)) {
			// An earlier try may have been committed unheard, and so unannounced.
			// Its revision is not known, and none is made up: a snapshot that is
			// read from now on holds it.
			change.TopicID, change.Revision, change.Reset = r.fence.TopicID, max(change.Revision, r.rev.Load()), true
		}
		r.saw(change.Revision)
		r.e.live.Publish(context.WithoutCancel(r.ctx), change)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, chat.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			lost = true
			r.log.WarnContext(r.ctx, "database does not answer; trying again", slog.Any("error", err))
			if !r.pause(wait) {
				return err
			}
		default:
			return err
		}
	}
}

// saw remembers the newest revision; calls that run side by side report theirs
// in any order.
func (r *run) saw(revision int64) {
	for {
		old := r.rev.Load()
		if revision <= old || r.rev.CompareAndSwap(old, revision) {
			return
		}
	}
}

// pause waits, and reports false if the server has no time left.
func (r *run) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}
