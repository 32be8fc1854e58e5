package turn_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/turn"
)

// deaf is a turn whose model does not hear that it is to end.
const deaf = "deaf"

// leaseTable is turns as far as their leases go, by the clock of a bubble.
type leaseTable struct {
	mu    sync.Mutex
	turns map[string]*leased
}

type leased struct {
	owner string
	until time.Time // zero: queued
	epoch int64
	since time.Time // when it was claimed last
}

func newLeaseTable(turns ...string) *leaseTable {
	t := &leaseTable{turns: map[string]*leased{}}
	for _, id := range turns {
		t.turns[id] = &leased{}
	}
	return t
}

func (t *leaseTable) of(id string) leased {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.turns[id]
}

// process is a table as one process reaches it, and what a process needs
// besides. Its model says nothing, for as long as it is listened to.
type process struct {
	turn.Store // of which nothing but leases is there
	table      *leaseTable
	name       string
	slow       time.Duration // how long a heartbeat is on its way
	lossy      func(n int) bool
	stuck      bool          // in closing stopped turns
	hangs      int           // the heartbeat to which nothing is answered
	release    chan struct{} // closed: the model of the turn "deaf", which does not listen, ends

	mu    sync.Mutex
	dead  bool
	beats int
}

// die cuts the process off, for good.
func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// reach waits for ever if the process is dead.
func (p *process) reach(ctx context.Context) error {
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, ctx.Err())
	}
	return nil
}

func (p *process) Claimable(ctx context.Context, n int) ([]chat.Candidate, error) {
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	var found []chat.Candidate
	for _, id := range slices.Sorted(maps.Keys(p.table.turns)) {
		if !p.table.turns[id].until.After(time.Now()) && len(found) < n {
			found = append(found, chat.Candidate{TopicID: id, TurnID: id})
		}
	}
	return found, nil
}

func (p *process) Claim(ctx context.Context, c chat.Candidate, owner string, lease time.Duration) (chat.Work, chat.Change, bool, error) {
	if err := p.reach(ctx); err != nil {
		return chat.Work{}, chat.Change{}, false, err
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	t := p.table.turns[c.TurnID]
	if t.until.After(time.Now()) {
		return chat.Work{}, chat.Change{}, false, nil
	}
	*t = leased{owner, time.Now().Add(lease), t.epoch + 1, time.Now()}
	return chat.Work{Turn: chat.Turn{ID: c.TurnID, TopicID: c.TopicID, MessageID: c.TurnID, Model: c.TurnID, Epoch: t.epoch, State: chat.TurnRunning}}, chat.Change{}, true, nil
}

func (p *process) Heartbeat(ctx context.Context, owner string, turns chat.Epochs, lease time.Duration) (chat.Epochs, error) {
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.beats++
	lost, hangs := p.lossy != nil && p.lossy(p.beats), p.beats == p.hangs
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, chat.ErrUnavailable
	}
	if lost {
		return nil, chat.ErrUnavailable
	}
	time.Sleep(p.slow)
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	owned := chat.Epochs{}
	for id := range turns {
		if t := p.table.turns[id]; t.owner == owner {
			t.until, owned[id] = time.Now().Add(lease), t.epoch
		}
	}
	return owned, nil
}

func (p *process) LetGo(ctx context.Context, owner string, keep ...string) error {
	if err := p.reach(ctx); err != nil {
		return err
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	for id, t := range p.table.turns {
		if t.owner == owner && !slices.Contains(keep, id) {
			t.until = time.Now()
		}
	}
	return nil
}

func (p *process) CloseStopped(ctx context.Context, _ time.Duration) ([]chat.Change, error) {
	if p.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, p.reach(ctx)
}

func (p *process) CommitStep(context.Context, chat.Fence, chat.Step) (chat.Change, error) {
	return chat.Change{}, chat.ErrLost
}

func (p *process) KeepPartial(context.Context, chat.Fence, int, chat.Parts) (chat.Change, error) {
	return chat.Change{}, chat.ErrLost
}

func (p *process) Resolve(name string) (turn.Model, string, error) { return p, name, nil }

func (p *process) Stream(ctx context.Context, prompt chat.Prompt, _ func(chat.StreamEvent)) (chat.Reply, error) {
	if prompt.Model == deaf {
		<-p.release
		return chat.Reply{}, nil
	}
	<-ctx.Done()
	return chat.Reply{}, &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
}

// run runs an engine until the bubble's test stops it.
func (p *process) run(t *testing.T, opt turn.Options) (e *turn.Engine, stop func()) {
	opt.Owner = p.name
	b := &bench{}
	e = turn.New(p, p, b, nil, &b.live, opt)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return e, stop
}

func TestATurnIsTakenOverWithinTwoLeasesOfItsOwnersDeath(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		const moments = 23 // at which it dies, between two heartbeats
		for n := range moments {
			synctest.Test(t, func(t *testing.T) {
				beat := lease * 3 / 10
				table := newLeaseTable("turn")
				first := &process{table: table, name: "first"}
				first.run(t, turn.Options{Lease: lease})
				time.Sleep(lease/7 + time.Duration(n)*lease/100) // the two look at different moments
				second := &process{table: table, name: "second"}
				second.run(t, turn.Options{Lease: lease})
				time.Sleep(20*lease + time.Duration(n)*beat/moments)
				if now := table.of("turn"); now.owner != "first" || now.epoch != 1 {
					t.Fatalf("lease %s: the turn of a living owner was taken: %+v", lease, now)
				}
				first.die()
				died := time.Now()
				time.Sleep(2 * lease)
				synctest.Wait()
				now := table.of("turn")
				took := now.since.Sub(died)
				if now.owner != "second" || now.epoch != 2 || took < lease-beat || took > lease+min(time.Second, beat) {
					t.Errorf("lease %s, died at moment %d: after two leases %s has the turn, for the %d. time, since %s", lease, n, now.owner, now.epoch, took)
				}
			})
		}
	}
}

func TestLostHeartbeatsCostNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable("turn")
		first := &process{table: table, name: "first", lossy: func(n int) bool { return n%3 != 0 }} // two in a row
		first.run(t, turn.Options{})
		synctest.Wait()
		second := &process{table: table, name: "second"}
		second.run(t, turn.Options{})
		time.Sleep(time.Hour)
		if now := table.of("turn"); now.owner != "first" || now.epoch != 1 {
			t.Errorf("the turn is %+v", now)
		}
	})
}

func TestAHeartbeatThatHangsCostsNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable("turn")
		first := &process{table: table, name: "first", hangs: 5}
		first.run(t, turn.Options{})
		synctest.Wait()
		second := &process{table: table, name: "second"}
		second.run(t, turn.Options{})
		time.Sleep(time.Hour)
		if now := table.of("turn"); now.owner != "first" || now.epoch != 1 {
			t.Errorf("the turn is %+v", now)
		}
	})
}

func TestClosingWhatWasStoppedHoldsUpNoHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable("turn")
		first := &process{table: table, name: "first", stuck: true}
		first.run(t, turn.Options{Lease: time.Second})
		synctest.Wait()
		second := &process{table: table, name: "second"}
		second.run(t, turn.Options{Lease: time.Second})
		time.Sleep(time.Minute)
		if now := table.of("turn"); now.owner != "first" || now.epoch != 1 {
			t.Errorf("the turn is %+v", now)
		}
	})
}

func TestATurnThatIsGivenBackIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable("turn", deaf)
		first := &process{table: table, name: "first", slow: 100 * time.Millisecond, release: make(chan struct{})}
		_, leave := first.run(t, turn.Options{Lease: time.Hour, Heartbeat: time.Second})
		synctest.Wait()
		second := &process{table: table, name: "second", release: first.release}
		other, _ := second.run(t, turn.Options{Poll: time.Hour})
		time.Sleep(time.Second + 50*time.Millisecond) // a heartbeat is on its way
		left := make(chan struct{})
		go func() { leave(); close(left) }()
		time.Sleep(500 * time.Millisecond) // the heartbeat has come
		other.Wake()
		time.Sleep(500 * time.Millisecond)
		if now := table.of("turn"); now.owner != "second" || now.epoch != 2 {
			t.Errorf("the turn is %+v", now)
		}
		if now := table.of(deaf); now.owner != "first" {
			t.Errorf("the turn that still runs is %+v", now)
		}
		close(first.release)
		<-left
	})
}

func TestAServerThatLeavesClaimsNothingAndIsNotHeldByAModelThatDoesNotListen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newLeaseTable(deaf)
		p := &process{table: table, name: "first", release: make(chan struct{})}
		e, leave := p.run(t, turn.Options{})
		synctest.Wait()
		began := time.Now()
		left := make(chan struct{})
		go func() { leave(); close(left) }()
		synctest.Wait()
		table.mu.Lock()
		table.turns["late"] = &leased{}
		table.mu.Unlock()
		e.Wake()
		time.Sleep(5 * time.Second)
		e.Wake()
		<-left
		if now := table.of("late"); now.owner != "" {
			t.Error("a turn was claimed by a server that leaves")
		}
		if took := time.Since(began); took != 15*time.Second { // the grace, and what a deaf call is given
			t.Errorf("it took %s to leave", took)
		}
		if now := table.of(deaf); now.until.After(time.Now()) {
			t.Error("the turn was not given back")
		}
		close(p.release)
		synctest.Wait()
	})
}

// TestEveryWriteOfARunningTurnIsFenced holds the store's methods against the
// list of those that are no writes of a running turn.
func TestEveryWriteOfARunningTurnIsFenced(t *testing.T) {
	t.Parallel()
	unfenced := []string{
		"Claimable", "Question", // reads
		"Claim",              // begins an epoch
		"Heartbeat", "LetGo", // change leases, of turns that still have the owner
		"CloseStopped", // ends epochs
	}
	for m := range reflect.TypeFor[turn.Store]().Methods() {
		fenced := false
		for i := range m.Type.NumIn() {
			fenced = fenced || m.Type.In(i) == reflect.TypeFor[chat.Fence]()
		}
		if fenced == slices.Contains(unfenced, m.Name) {
			t.Errorf("%s: fenced is %t", m.Name, fenced)
		}
	}
}
