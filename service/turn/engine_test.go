package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

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

func TestACallRunsAfterItsServerWasRenamed(t *testing.T) {
	t.Parallel()
	renamed := func(t *chat.Tool) { t.Name, t.Server = "new__t", "new" }
	for name, tt := range map[string]struct {
		before func(*chat.Tool) // what is stored of the tool
		after  func(*chat.Tool)
		other  func(*chat.Tool) // there is another tool, too
		runs   string
	}{
		"UnderItsNewName":       {after: renamed, runs: "new__t"},
		"BesideOneOfItsOldName": {after: renamed, other: func(t *chat.Tool) { t.ServerID = "other" }, runs: "new__t"},
		"ByNameIfNothingElseIsStored": {
			before: func(t *chat.Tool) { t.ServerID, t.Tool = "", "" },
			other:  func(t *chat.Tool) { t.Name = "other__t" },
			runs:   "s__t",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.asks()
			tool := *b.tool.Load()
			if tt.before != nil {
				tt.before(&tool)
				b.tool.Store(&tool)
			}
			b.start()
			topic := b.send("p/m")
			b.until(topic, chat.TopicAwaitingApproval)
			if tt.other != nil {
				other := tool
				tt.other(&other)
				b.other.Store(&other)
			}
			if tt.after != nil {
				now := tool
				tt.after(&now)
				b.tool.Store(&now)
			}
			b.decide(topic, true)
			c := b.until(topic, chat.TopicDone).Parts.Calls()[0].Call
			if c.State != chat.CallOutputAvailable || b.ran.Load() != 1 {
				t.Fatalf("ran %d times: %s, %s", b.ran.Load(), c.State, c.ErrorText)
			}
			if got := b.called.Load(); got.Name != tt.runs || got.ServerID != tool.ServerID {
				t.Errorf("%s of the server %q ran", got.Name, got.ServerID)
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
