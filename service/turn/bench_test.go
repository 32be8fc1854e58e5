package turn_test

import (
	"context"
	"encoding/json"
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
	other  atomic.Pointer[chat.Tool] // stands before tool, if it is set
	called atomic.Pointer[chat.Tool] // the newest
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
	var tools []chat.Tool
	for _, t := range []*chat.Tool{b.other.Load(), b.tool.Load()} {
		if t != nil {
			tools = append(tools, *t)
		}
	}
	return tools, nil
}

func (b *bench) Validate(_ chat.Tool, input json.RawMessage) error {
	if strings.Contains(string(input), "invalid") {
		return &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/x", Message: "is invalid"}}}
	}
	return nil
}

func (b *bench) Call(ctx context.Context, tool chat.Tool, input json.RawMessage, progress func(string), ask ask) chat.Result {
	b.ran.Add(1)
	b.called.Store(&tool)
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

func (b *bench) retry(topic, message string) {
	b.t.Helper()
	if _, _, err := b.store.Retry(b.t.Context(), topic, message); err != nil {
		b.t.Fatal(err)
	}
	b.engine.Wake()
}
