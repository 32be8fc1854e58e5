package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
	"github.com/assent-chat/assent/service/turn"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// model answers the n-th request, counted from 1.
type model func(ctx context.Context, n int, p chat.Prompt, emit func(chat.StreamEvent)) error

// tools runs every call of its one tool.
type tools func(ctx context.Context, input json.RawMessage, progress func(string)) chat.Result

// ask asks the person.
type ask = func(context.Context, chat.Question) (chat.Answer, error)

// bench is an engine on a real database, with a model and tools made of
// functions.
type bench struct {
	t     *testing.T
	store *faulty
	opt   turn.Options
	model model
	run   tools
	// asking, if it is set, runs the calls in place of run.
	asking func(ctx context.Context, ask ask) chat.Result
	policy turn.Policy
	tool   atomic.Pointer[chat.Tool]
	asked  atomic.Int32
	ran    atomic.Int32
	live   recorder

	engine *turn.Engine
	stop   func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, err := repository.Open(t.Context(), repository.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, store: &faulty{Store: store}, opt: turn.Options{Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)), Poll: 20 * time.Millisecond, Lease: time.Minute, Heartbeat: 20 * time.Millisecond}}
	b.tool.Store(&chat.Tool{Name: "s__t", Server: "s", ServerID: "s", Tool: "t", Title: "Do it", InputSchema: json.RawMessage(`{"type":"object"}`), Policy: chat.ToolPolicy{AutoApprove: true}})
	b.policy = policy.New(store, b.opt.Logger)
	b.run = func(context.Context, json.RawMessage, func(string)) chat.Result {
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"done"`)}
	}
	b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		if n == 1 {
			callTool(emit, "c", `{}`)
		} else {
			emit(chat.StreamEvent{Kind: chat.StreamText, Text: "ok"})
		}
		return nil
	}
	return b
}

// testLog writes the engine's log lines to the test's.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func callTool(emit func(chat.StreamEvent), id, args string) {
	emit(chat.StreamEvent{Kind: chat.StreamToolStart, ID: id, Name: "s__t", Index: len(id)})
	emit(chat.StreamEvent{Kind: chat.StreamToolInput, Index: len(id), Text: args})
}

func (b *bench) Stream(ctx context.Context, p chat.Prompt, emit func(chat.StreamEvent)) (chat.Reply, error) {
	return chat.Reply{}, b.model(ctx, int(b.asked.Add(1)), p, emit)
}

func (b *bench) Resolve(name string) (turn.Model, string, error) {
	if name != "p/m" {
		return nil, "", chat.Invalid("There is no model %s.", name)
	}
	return b, "m", nil
}

func (b *bench) Tools(context.Context, chat.Topic) ([]chat.Tool, error) {
	if t := b.tool.Load(); t != nil {
		return []chat.Tool{*t}, nil
	}
	return nil, nil
}

func (b *bench) Validate(_ chat.Tool, input json.RawMessage) error {
	if strings.Contains(string(input), "invalid") {
		return &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/x", Message: "is invalid"}}}
	}
	return nil
}

func (b *bench) Call(ctx context.Context, _ chat.Tool, input json.RawMessage, progress func(string), ask ask) chat.Result {
	b.ran.Add(1)
	if b.asking != nil {
		return b.asking(ctx, ask)
	}
	return b.run(ctx, input, progress)
}

// start runs an engine until stop.
func (b *bench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	b.engine = turn.New(b.store, b, b, b.policy, &b.live, b.opt)
	done := make(chan struct{})
	go func(e *turn.Engine) { e.Run(ctx); close(done) }(b.engine)
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(b.stop)
}

// send makes a topic with one message and returns the topic's id.
func (b *bench) send(modelName string) string {
	b.t.Helper()
	topic, _, err := b.store.CreateTopic(b.t.Context(), chat.NewTopic{Model: modelName})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, _, err := b.store.Send(b.t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "go"}}, WhenBusy: chat.WhenBusyQueue}); err != nil {
		b.t.Fatal(err)
	}
	b.engine.Wake()
	return topic.ID
}

func (b *bench) until(topic string, want chat.TopicState) chat.Message {
	b.t.Helper()
	var last chat.Snapshot
	eventually(b.t, func() bool {
		var err error
		if last, err = b.store.Snapshot(b.t.Context(), topic, 10, ""); err != nil {
			b.t.Fatal(err)
		}
		return last.Status.Status == want
	}, func() string { return fmt.Sprintf("the topic is %s, want %s", last.Status.Status, want) })
	return last.Messages[len(last.Messages)-1]
}

func eventually(t *testing.T, ok func() bool, complaint func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(time.Minute) // for what must happen at some time; never a measure
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatal(complaint())
		}
	}
}

// recorder is a live log that counts.
type recorder struct {
	mu       sync.Mutex
	changes  []chat.Change
	deltas   int
	progress []string
	open     int
}

func (r *recorder) Begin(chat.Fence, int64, int) { r.mu.Lock(); r.open++; r.mu.Unlock() }
func (r *recorder) End(chat.Fence)               {}
func (r *recorder) Settings(chat.SettingsKind)   {}
func (r *recorder) Hint(chat.SettingsKind)       {}
func (r *recorder) Delta(chat.Fence, chat.Delta) { r.mu.Lock(); r.deltas++; r.mu.Unlock() }
func (r *recorder) Progress(_ chat.Fence, _ int, text string) {
	r.mu.Lock()
	r.progress = append(r.progress, text)
	r.mu.Unlock()
}
func (r *recorder) Publish(_ context.Context, c chat.Change) {
	r.mu.Lock()
	r.changes = append(r.changes, c)
	r.mu.Unlock()
}

func (r *recorder) resets() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.changes {
		if c.Reset {
			n++
		}
	}
	return n
}

// faulty is a real store whose answers can get lost.
type faulty struct {
	*repository.Store
	mu     sync.Mutex
	before map[string]int // how many calls of a method fail before they are made
	after  map[string]int // how many calls are made and their answer lost
	mute   bool           // heartbeats are not written
}

func (f *faulty) fail(kind string, method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := f.before
	if kind == "after" {
		counts = f.after
	}
	if counts[method] > 0 {
		counts[method]--
		return fmt.Errorf("%s: %w", method, chat.ErrUnavailable)
	}
	return nil
}

func (f *faulty) EditCalls(ctx context.Context, fence chat.Fence, edit chat.Edit) ([]chat.PlacedCall, chat.Change, error) {
	if err := f.fail("before", "EditCalls"); err != nil {
		return nil, chat.Change{}, err
	}
	calls, change, err := f.Store.EditCalls(ctx, fence, edit)
	if change.Revision > 0 { // only answers that say something are worth losing
		if err := f.fail("after", "EditCalls"); err != nil {
			return nil, chat.Change{}, err
		}
	}
	return calls, change, err
}

func (f *faulty) CommitStep(ctx context.Context, fence chat.Fence, s chat.Step) (chat.Change, error) {
	if err := f.fail("before", "CommitStep"); err != nil {
		return chat.Change{}, err
	}
	change, err := f.Store.CommitStep(ctx, fence, s)
	if err := f.fail("after", "CommitStep"); err != nil {
		return chat.Change{}, err
	}
	return change, err
}

func (f *faulty) Park(ctx context.Context, fence chat.Fence) (bool, []chat.PlacedCall, chat.Change, error) {
	parked, calls, change, err := f.Store.Park(ctx, fence)
	if err := f.fail("after", "Park"); err != nil {
		return false, nil, chat.Change{}, err
	}
	return parked, calls, change, err
}

func (f *faulty) Heartbeat(ctx context.Context, owner string, turns chat.Epochs, lease time.Duration) (chat.Epochs, error) {
	f.mu.Lock()
	mute := f.mute
	f.mu.Unlock()
	if mute {
		return nil, chat.ErrUnavailable
	}
	return f.Store.Heartbeat(ctx, owner, turns, lease)
}

func TestLostAnswersOfTheDatabaseLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"before", "after"} {
		for _, method := range []string{"EditCalls", "CommitStep"} {
			t.Run(kind+method, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				counts := map[string]int{method: 2}
				if kind == "before" {
					b.store.before = counts
				} else {
					b.store.after = counts
				}
				b.start()
				m := b.until(b.send("p/m"), chat.TopicDone)
				if n := b.ran.Load(); n != 1 {
					t.Errorf("the tool ran %d times", n)
				}
				if n := b.asked.Load(); n != 2 {
					t.Errorf("the model was asked %d times", n)
				}
				if c := m.Parts.Calls(); len(c) != 1 || c[0].Call.State != chat.CallOutputAvailable || len(m.Parts) != 4 {
					t.Errorf("got %+v", m.Parts)
				}
				if kind == "after" && b.live.resets() == 0 {
					t.Error("what was committed unheard was never announced")
				}
			})
		}
	}
	t.Run("afterPark", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		asks := *b.tool.Load()
		asks.Policy.AutoApprove = false
		b.tool.Store(&asks)
		b.store.after = map[string]int{"Park": 1}
		b.start()
		topic := b.send("p/m")
		b.until(topic, chat.TopicAwaitingApproval)
		b.decide(topic, true)
		b.until(topic, chat.TopicDone)
		if n := b.ran.Load(); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

// decide decides every pending approval of a topic.
func (b *bench) decide(topic string, approved bool) {
	b.t.Helper()
	items, _, err := b.store.Approvals(b.t.Context(), chat.ApprovalFilter{TopicID: topic, Pending: true}, chat.Page{Limit: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range items {
		d := chat.Decision{ApprovalID: a.ApprovalID, Approved: approved}
		if _, _, err := b.store.Decide(b.t.Context(), topic, []chat.Decision{d}, chat.Decider{Name: "ada", Via: chat.ViaAPI}); err != nil {
			b.t.Fatal(err)
		}
	}
	b.engine.Wake()
}

func TestAPanicEndsTheTurnAndNotTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.model
	b.model = func(ctx context.Context, n int, p chat.Prompt, emit func(chat.StreamEvent)) error {
		if n == 1 {
			panic("a fault in a dialect")
		}
		return good(ctx, n, p, emit)
	}
	b.start()
	m := b.until(b.send("p/m"), chat.TopicError)
	if m.Error == nil || m.Error.Kind != "internal" || strings.Contains(m.Error.Message, "dialect") {
		t.Errorf("got %+v", m.Error)
	}
	b.until(b.send("p/m"), chat.TopicDone)
}

func TestUnknownModelAndModelErrorsAreShownAndRetryGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.model
	b.model = func(ctx context.Context, n int, p chat.Prompt, emit func(chat.StreamEvent)) error {
		switch n {
		case 1:
			emit(chat.StreamEvent{Kind: chat.StreamText, Text: "half"})
			return &chat.ModelError{Kind: chat.ModelRateLimit, Message: "Too many requests."}
		case 2:
			return errors.New("secret detail")
		}
		return good(ctx, n-2, p, emit)
	}
	b.start()
	if m := b.until(b.send("p/other"), chat.TopicError); m.Error.Kind != "model" || m.Error.Message != "There is no model p/other." {
		t.Errorf("got %+v", m.Error)
	}
	topic := b.send("p/m")
	m := b.until(topic, chat.TopicError)
	if m.Error.Kind != "rate_limit" || m.Error.Message != "Too many requests." || len(m.Parts) != 2 {
		t.Errorf("got %+v, %+v", m.Error, m.Parts)
	}
	b.retry(topic, m.ID)
	eventually(t, func() bool { return b.asked.Load() == 2 }, func() string { return "not asked again" })
	if m = b.until(topic, chat.TopicError); strings.Contains(m.Error.Message, "secret") || len(m.Parts) != 0 {
		t.Errorf("got %+v, %+v", m.Error, m.Parts)
	}
	b.retry(topic, m.ID)
	if m = b.until(topic, chat.TopicDone); len(m.Parts) != 4 {
		t.Errorf("got %+v", m.Parts)
	}
}

func (b *bench) retry(topic, message string) {
	b.t.Helper()
	if _, _, err := b.store.Retry(b.t.Context(), topic, message); err != nil {
		b.t.Fatal(err)
	}
	b.engine.Wake()
}

func TestStepLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.MaxSteps = 3
	b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		callTool(emit, "c", `{}`)
		return nil
	}
	b.start()
	m := b.until(b.send("p/m"), chat.TopicError)
	if m.Error.Kind != "step_limit" || b.asked.Load() != 3 || len(m.Parts.Calls()) != 3 {
		t.Errorf("got %+v after %d steps", m.Error, b.asked.Load())
	}
	ids := map[string]bool{}
	for _, c := range m.Parts.Calls() {
		ids[c.Call.ToolCallID] = true
	}
	if len(ids) != 3 {
		t.Errorf("calls share ids: %v", ids)
	}
}

func TestCallsRunSideBySideUpToTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.MaxParallel = 3
	b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		if n == 1 {
			for i := range 8 {
				callTool(emit, strings.Repeat("c", i+1), `{}`)
			}
		}
		return nil
	}
	var now, most atomic.Int32
	full := make(chan struct{})
	b.run = func(context.Context, json.RawMessage, func(string)) chat.Result {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		if n == 3 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		<-full // the first three wait for each other
		return chat.Result{Outcome: chat.OutcomeOK}
	}
	b.start()
	b.until(b.send("p/m"), chat.TopicDone)
	if most.Load() != 3 || b.ran.Load() != 8 {
		t.Errorf("%d ran at once, %d in all", most.Load(), b.ran.Load())
	}
}

func TestAToolThatTakesTooLongHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ToolTimeout = time.Millisecond
	b.run = func(ctx context.Context, _ json.RawMessage, progress func(string)) chat.Result {
		progress("1/2")
		<-ctx.Done()
		return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "The outcome is unknown."}
	}
	b.start()
	m := b.until(b.send("p/m"), chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; c.ToolMetadata.Outcome != chat.OutcomeUnknown {
		t.Errorf("got %+v", c)
	}
	b.live.mu.Lock()
	defer b.live.mu.Unlock()
	if len(b.live.progress) != 1 {
		t.Errorf("progress %v", b.live.progress)
	}
}

func TestWhatRunsIsWhatWasShown(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*chat.Tool) *chat.Tool{
		"Gone":     func(*chat.Tool) *chat.Tool { return nil },
		"Disabled": func(t *chat.Tool) *chat.Tool { t.Policy.Disabled = true; return t },
		"Schema": func(t *chat.Tool) *chat.Tool {
			t.InputSchema = json.RawMessage(`{"type":"object","maxProperties":1}`)
			return t
		},
		"Server":   func(t *chat.Tool) *chat.Tool { t.ServerID = "another"; return t },
		"Identity": func(t *chat.Tool) *chat.Tool { t.Identity = "2"; return t },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			asks := *b.tool.Load()
			asks.Policy.AutoApprove, asks.Identity = false, "1"
			b.tool.Store(&asks)
			b.start()
			topic := b.send("p/m")
			b.until(topic, chat.TopicAwaitingApproval)
			changed := asks
			b.tool.Store(change(&changed))
			b.decide(topic, true)
			m := b.until(topic, chat.TopicDone)
			c := m.Parts.Calls()[0].Call
			if b.ran.Load() != 0 || c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnavailable || !c.Approval.Granted() {
				t.Errorf("ran %d times: %s %+v %+v", b.ran.Load(), c.State, c.ToolMetadata, c.Approval)
			}
		})
	}
}

func TestCallsThatCannotRunSayOfTheirToolWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		input   string
		known   bool
		outcome chat.Outcome
	}{
		"UnknownTool":  {`{}`, false, chat.OutcomeUnavailable},
		"InvalidInput": {`{"invalid":1}`, true, chat.OutcomeInvalid},
		"NotJSON":      {`{"x":`, true, chat.OutcomeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.tool.Store(nil)
			if tt.known {
				b.tool.Store(&chat.Tool{Name: "s__t", Server: "s", ServerID: "s", Tool: "t", Title: "Do it", Identity: "1", InputSchema: json.RawMessage(`{}`)})
			}
			b.model = func(_ context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
				if n == 1 {
					callTool(emit, "c", tt.input)
				}
				return nil
			}
			b.start()
			c := b.until(b.send("p/m"), chat.TopicDone).Parts.Calls()[0].Call
			m := c.ToolMetadata
			if c.State != chat.CallOutputError || m.Outcome != tt.outcome || m.Verdict != "" || m.Model != "p/m" || m.Step != 1 || b.ran.Load() != 0 {
				t.Errorf("ran %d times: %s %+v", b.ran.Load(), c.State, m)
			}
			if known := m.ServerID == "s" && m.Tool == "t" && m.ServerIdentity == "1" && m.InputSchema != nil && c.Title == "Do it"; known != tt.known {
				t.Errorf("of its tool it says %+v", m)
			}
			if !tt.known && (m.Server != "" || m.ServerID != "" || m.Tool != "" || c.Title != "") {
				t.Errorf("of a tool that there is not it says %+v", m)
			}
		})
	}
}

func TestShutdownCutsTheStreamAndAnotherEngineAsksAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	streaming := make(chan struct{})
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		emit(chat.StreamEvent{Kind: chat.StreamText, Text: "half"})
		if n == 1 {
			close(streaming)
			<-ctx.Done()
			return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
		}
		return nil
	}
	b.start()
	topic := b.send("p/m")
	<-streaming
	b.stop()
	b.start() // claims at once: the lease of a minute was given back
	m := b.until(topic, chat.TopicDone)
	if len(m.Parts) != 2 || m.Epoch != 2 {
		t.Errorf("got %+v of epoch %d", m.Parts, m.Epoch)
	}
}

func TestShutdownWaitsForACallAndKeepsItsResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ShutdownGrace = time.Minute
	running, release := make(chan struct{}), make(chan struct{})
	b.run = func(ctx context.Context, _ json.RawMessage, _ func(string)) chat.Result {
		close(running)
		select {
		case <-release:
			return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"kept"`)}
		case <-ctx.Done():
			return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "cut"}
		}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	close(release)
	<-stopped
	b.start()
	m := b.until(topic, chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; string(c.Output) != `"kept"` || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
}

func TestShutdownThatCannotWaitSaysUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.ShutdownGrace = time.Millisecond
	running := make(chan struct{})
	b.run = func(ctx context.Context, _ json.RawMessage, _ func(string)) chat.Result {
		close(running)
		<-ctx.Done()
		return chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "The outcome is unknown."}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	b.stop()
	b.start()
	m := b.until(topic, chat.TopicDone)
	if c := m.Parts.Calls()[0].Call; c.ToolMetadata.Outcome != chat.OutcomeUnknown || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
}

func TestAnOwnerThatLostItsLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.opt.Lease, b.opt.Heartbeat = 50*time.Millisecond, 10*time.Millisecond
	running, release := make(chan struct{}), make(chan struct{})
	b.run = func(context.Context, json.RawMessage, func(string)) chat.Result {
		if b.ran.Load() == 1 {
			close(running)
			<-release // it does not hear of anything, as a frozen process does not
		}
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"of the first owner"`)}
	}
	b.start()
	topic := b.send("p/m")
	<-running
	b.store.mu.Lock()
	b.store.mute = true // the first owner's heartbeats are not heard
	b.store.mu.Unlock()
	first := b.stop

	second := turn.New(b.store.Store, b, b, b.policy, &b.live, turn.Options{Poll: 10 * time.Millisecond, Lease: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { second.Run(ctx); close(done) }()
	m := b.until(topic, chat.TopicDone)
	close(release)
	first()
	cancel()
	<-done
	after := b.until(topic, chat.TopicDone)
	c := after.Parts.Calls()[0].Call
	if c.ToolMetadata.Outcome != chat.OutcomeUnknown || c.Output != nil || b.ran.Load() != 1 {
		t.Errorf("got %+v after %d runs", c, b.ran.Load())
	}
	if after.Revision != m.Revision {
		t.Errorf("the lost owner changed the message: revision %d became %d", m.Revision, after.Revision)
	}
}

func TestAStoppedTurnIsLetGoWithItsWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	streaming := make(chan struct{})
	b.model = func(ctx context.Context, n int, _ chat.Prompt, emit func(chat.StreamEvent)) error {
		emit(chat.StreamEvent{Kind: chat.StreamText, Text: "words"})
		callTool(emit, "c", `{}`)
		close(streaming)
		<-ctx.Done()
		return &chat.ModelError{Kind: chat.ModelCanceled, Message: "canceled"}
	}
	b.start()
	topic := b.send("p/m")
	<-streaming
	// Nobody tells the engine: its heartbeat finds out, as on another instance.
	if _, _, err := b.store.Stop(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	var m chat.Message
	eventually(t, func() bool { m = b.until(topic, chat.TopicAborted); return len(m.Parts) > 0 }, func() string { return "the words were not kept" })
	if len(m.Parts) != 2 || len(m.Parts.Calls()) != 0 || b.ran.Load() != 0 {
		t.Errorf("got %+v", m.Parts)
	}
}
