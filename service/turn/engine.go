package turn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Options of an engine. A zero member means its default.
type Options struct {
	Owner     string        // names this process among the owners of turns; made at random
	Lease     time.Duration // how long a turn stays ours without a heartbeat; 10 s
	Heartbeat time.Duration // between two heartbeats; three tenths of Lease
	// Poll is the time between two looks for turns that nobody told of, and for
	// the answer to an open question: it bounds how late an answer is seen that
	// was given to another process, and how long after its lease a turn of a dead
	// process is found. 1 s, or three tenths of a Lease shorter than that is.
	Poll time.Duration
	// MaxTurns is how many turns are run here at once; 64. Those of which every
	// running call waits for an answer are not counted, up to 16 times as many
	// in all. Turns that were not counted go on when they are answered, also if
	// that makes more than MaxTurns.
	MaxTurns    int
	MaxSteps    int // model steps of a turn; 50
	MaxParallel int // calls of a step that run at once; 8
	// ToolTimeout is how long one run of a tool may take, not counting the time
	// in which it waits for an answer. Then its outcome is unknown. 10 min.
	ToolTimeout time.Duration
	StopGrace   time.Duration // for an owner to let go of a stopped turn; 10 s
	// ShutdownGrace is how long a clean shutdown waits for running calls.
	// Model streams are cut at once: their step is asked again. 10 s.
	ShutdownGrace time.Duration
	// GivenBack is called after turns were given back: other processes may claim
	// them at once. It must not wait.
	GivenBack func()
	Expiry    time.Duration // of an approval that nobody decides; 0 is never
	Logger    *slog.Logger  // discards by default
}

func (o Options) withDefaults() Options {
	o.Owner = cmp.Or(o.Owner, rand.Text())
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, o.Lease*3/10)
	o.Poll = cmp.Or(o.Poll, min(time.Second, o.Lease*3/10))
	o.MaxTurns = cmp.Or(o.MaxTurns, 64)
	o.MaxSteps = cmp.Or(o.MaxSteps, 50)
	o.MaxParallel = cmp.Or(o.MaxParallel, 8)
	o.ToolTimeout = cmp.Or(o.ToolTimeout, 10*time.Minute)
	o.StopGrace = cmp.Or(o.StopGrace, 10*time.Second)
	o.ShutdownGrace = cmp.Or(o.ShutdownGrace, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.GivenBack == nil {
		o.GivenBack = func() {}
	}
	return o
}

const (
	// storeTimeout bounds each of the engine's own transactions: a database that
	// has gone silent must not hold up what another connection would answer.
	storeTimeout = 15 * time.Second
	// deafTime is how long a clean shutdown waits for calls that were told to
	// end. One that does not listen goes on without us.
	deafTime = 5 * time.Second
)

// Causes for which a run's context ends.
var (
	errStopped  = errors.New("turn was stopped or taken over")
	errShutdown = errors.New("server is shutting down")
)

// Engine claims and runs turns. Make one with New and call Run once.
type Engine struct {
	store  Store
	models Models
	tools  Tools
	policy Policy
	live   Live
	opt    Options
	log    *slog.Logger
	wake   chan struct{}
	count  counters

	// leases holds one token. Who renews leases or gives them back has it
	// meanwhile, so that none is renewed that was given back.
	leases chan struct{}

	mu   sync.Mutex
	runs map[string]*run // by turn id
	// questions are those that calls wait for here, by their ids.
	questions map[string]chan<- struct{}
	wg        sync.WaitGroup
}

// New returns an engine that runs nothing yet.
func New(store Store, models Models, tools Tools, policy Policy, live Live, opt Options) *Engine {
	opt = opt.withDefaults()
	e := &Engine{
		store: store, models: models, tools: tools, policy: policy, live: live, opt: opt, log: opt.Logger,
		wake: make(chan struct{}, 1), leases: make(chan struct{}, 1), runs: map[string]*run{}, questions: map[string]chan<- struct{}{},
	}
	e.leases <- struct{}{}
	return e
}

// Wake tells the engine that there may be a turn to claim. It never blocks; a
// wake that is lost is made good by the poll.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Cancel tells the engine that turns were stopped, as they were at the given
// epochs. Those that run here end their model stream and their calls; others
// are no business of this engine. A turn that was claimed again since, after a
// retry, is another run and goes on.
func (e *Engine) Cancel(stopped chat.Epochs) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, epoch := range stopped {
		if r := e.runs[id]; r != nil && r.fence.Epoch <= epoch {
			r.cancel(errStopped)
		}
	}
}

// Run claims and runs turns until ctx ends. Then it claims no more, cuts model
// streams (their steps will be asked again), waits up to ShutdownGrace for
// calls that run, and gives each turn back as soon as nothing of it runs here.
func (e *Engine) Run(ctx context.Context) {
	hard, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var beats sync.WaitGroup
	beats.Go(func() { e.beat(hard) })
	beats.Go(func() { e.close(hard) })

	poll := time.NewTicker(e.opt.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		e.claim(ctx, hard)
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-poll.C:
		}
	}
	e.finish(hard)
	stop()
	beats.Wait()
	e.giveBack(context.WithoutCancel(ctx), false)
}

// finish ends what runs here. It is woken whenever a run has ended.
func (e *Engine) finish(ctx context.Context) {
	e.mu.Lock()
	left := len(e.runs)
	for _, r := range e.runs {
		r.leave()
	}
	e.mu.Unlock()
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	grace := time.NewTimer(e.opt.ShutdownGrace)
	defer grace.Stop()
	var deaf <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-e.wake:
			e.mu.Lock()
			now := len(e.runs)
			e.mu.Unlock()
			if now > 0 && now < left { // else it is done, or nothing has ended
				e.giveBack(ctx, true)
			}
			left = now
		case <-grace.C:
			e.mu.Lock()
			for _, r := range e.runs {
				r.cancel(errShutdown)
			}
			e.mu.Unlock()
			deaf = time.After(deafTime)
		case <-deaf:
			e.log.WarnContext(ctx, "calls that do not end are left behind")
			return
		}
	}
}

const notGivenBack = "turns were not given back; they are claimable when their leases end"

// giveBack lets others claim what is ours, but for what still runs here if that
// is to be kept.
func (e *Engine) giveBack(ctx context.Context, keep bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-e.leases:
		defer func() { e.leases <- struct{}{} }()
	case <-ctx.Done(): // a heartbeat hangs
		e.log.WarnContext(ctx, notGivenBack, slog.Any("error", ctx.Err()))
		return
	}
	var kept []string
	if keep {
		e.mu.Lock()
		kept = slices.Collect(maps.Keys(e.runs))
		e.mu.Unlock()
	}
	if err := e.store.LetGo(ctx, e.opt.Owner, kept...); err != nil {
		e.log.WarnContext(ctx, notGivenBack, slog.Any("error", err))
		return
	}
	e.opt.GivenBack()
}

// claim takes turns until there are none, no room, or ctx has ended. What is
// claimed runs until hard ends.
func (e *Engine) claim(ctx, hard context.Context) {
	for ctx.Err() == nil {
		room := e.room()
		if room <= 0 {
			return
		}
		found, err := e.claimable(ctx, room)
		if err != nil {
			if ctx.Err() == nil {
				e.log.WarnContext(ctx, "cannot look for turns", slog.Any("error", err))
			}
			return
		}
		claimed := 0
		for _, c := range found {
			if ctx.Err() != nil {
				return
			}
			e.mu.Lock()
			_, ours := e.runs[c.TurnID]
			e.mu.Unlock()
			if ours { // its lease is over, but it is still running here: let it end first
				continue
			}
			work, change, ok, err := e.claimOne(ctx, c)
			if err != nil && ctx.Err() != nil {
				return // if it is ours unheard, it is given back with the others
			}
			if err != nil {
				e.log.WarnContext(ctx, "cannot claim turn", slog.String("turn_id", c.TurnID), slog.Any("error", err))
				continue
			}
			if !ok {
				continue
			}
			claimed++
			e.start(hard, work, change)
		}
		if claimed == 0 || len(found) < room {
			return
		}
	}
}

func (e *Engine) claimable(ctx context.Context, n int) ([]chat.Candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return e.store.Claimable(ctx, n)
}

func (e *Engine) claimOne(ctx context.Context, c chat.Candidate) (chat.Work, chat.Change, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return e.store.Claim(ctx, c, e.opt.Owner, e.opt.Lease)
}

func (e *Engine) start(ctx context.Context, work chat.Work, change chat.Change) {
	e.count.claimed.Add(1)
	if work.TakenOver {
		e.count.takenOver.Add(1)
	}
	r := newRun(ctx, e, work, change.Revision)
	e.mu.Lock()
	e.runs[work.Turn.ID] = r
	e.mu.Unlock()
	e.wg.Go(func() {
		defer func() {
			r.cancel(nil)
			e.mu.Lock()
			delete(e.runs, work.Turn.ID)
			e.mu.Unlock()
			e.Wake() // there is room now, and perhaps a queued message
		}()
		defer func() {
			if p := recover(); p != nil {
				e.log.ErrorContext(r.ctx, "turn panicked", slog.String("panic", chat.PanicText(p)), slog.String("stack", string(debug.Stack())))
				_ = r.fail(chat.TurnError{Kind: "internal", Message: "The server ran into a fault of its own. Retry goes on from the last complete step."}) // logged there
			}
		}()
		e.live.Publish(r.ctx, change)
		r.work()
	})
}

// beat renews the leases of what runs here and ends what is ours no longer.
func (e *Engine) beat(ctx context.Context) {
	tick := time.NewTicker(e.opt.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		runs, owned, err := e.renew(ctx)
		if err != nil {
			if ctx.Err() == nil {
				e.count.unbeaten.Add(1)
				e.log.WarnContext(ctx, "heartbeat was not written", slog.Any("error", err))
			}
			continue
		}
		for _, r := range runs {
			if owned[r.fence.TurnID] != r.fence.Epoch && r.ctx.Err() == nil {
				e.count.lost.Add(1)
				r.cancel(errStopped)
			}
		}
	}
}

// renew writes one heartbeat. It says for what, and what of it is still ours.
//
// Only what runs here is renewed: a turn that is ours by name but whose claim
// was never heard of here must become claimable again.
func (e *Engine) renew(ctx context.Context) ([]*run, chat.Epochs, error) {
	select {
	case <-e.leases:
		defer func() { e.leases <- struct{}{} }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	e.mu.Lock()
	runs := make([]*run, 0, len(e.runs))
	epochs := make(chat.Epochs, len(e.runs))
	for id, r := range e.runs {
		runs = append(runs, r)
		epochs[id] = r.fence.Epoch
	}
	e.mu.Unlock()
	if len(epochs) == 0 {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.opt.Lease/2) // then there is time for another
	defer cancel()
	owned, err := e.store.Heartbeat(ctx, e.opt.Owner, epochs, e.opt.Lease)
	return runs, owned, err
}

// close takes the epoch from owners of stopped turns that do not let go, here
// or elsewhere. It is no part of a heartbeat, which must not wait for it.
func (e *Engine) close(ctx context.Context) {
	tick := time.NewTicker(e.opt.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		changes, err := e.store.CloseStopped(bounded, e.opt.StopGrace)
		cancel()
		for _, c := range changes {
			e.live.Publish(context.WithoutCancel(ctx), c)
		}
		if err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "stopped turns were not closed", slog.Any("error", err))
		}
	}
}
