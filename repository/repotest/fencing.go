package repotest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// fencedWrite is a write that the owner of a turn makes under its fence.
type fencedWrite struct {
	method string
	do     func(*bench, chat.Fence) error
	reads  bool // it changes nothing, fenced or not
}

// fencedWrites has every method of the store that takes a fence, as an owner
// uses it that knows of nothing.
var fencedWrites = []fencedWrite{
	{method: "FirstOutput", do: func(b *bench, f chat.Fence) error {
		_, err := b.FirstOutput(b.ctx, f)
		return err
	}},
	{method: "CommitStep", do: func(b *bench, f chat.Fence) error {
		return b.late(f, false, func(at time.Time) chat.Parts {
			return chat.Parts{chat.StepStart{}, allowed("late"), chat.Ask(call("late-ask"), "late-"+f.TurnID, at), chat.Refuse(call("late-no"), "refused-"+f.TurnID, chat.Judgement{Rule: "no"}, at)}
		})
	}},
	{method: "CommitStep", do: func(b *bench, f chat.Fence) error { // the last one, which sends what is queued
		return b.late(f, true, func(time.Time) chat.Parts { return say("late") })
	}},
	{method: "EditCalls", reads: true, do: func(b *bench, f chat.Fence) error {
		_, _, err := b.EditCalls(b.ctx, f, func([]chat.PlacedCall, time.Time) []chat.PlacedCall { return nil })
		return err
	}},
	{method: "EditCalls", do: func(b *bench, f chat.Fence) error { return b.lateEdit(f, "free", chat.Start) }},
	{method: "EditCalls", do: func(b *bench, f chat.Fence) error {
		return b.lateEdit(f, "begun", func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
			next, _ := chat.Finish(c, chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"late"`)}, at)
			return next, nil
		})
	}},
	{method: "EditCalls", do: func(b *bench, f chat.Fence) error {
		return b.lateEdit(f, "begun", func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
			return chat.AskPerson(c, chat.Question{ID: "q-" + f.TurnID, Message: "Late?"}, at)
		})
	}},
	{method: "Park", do: func(b *bench, f chat.Fence) error {
		_, _, _, err := b.Park(b.ctx, f)
		return err
	}},
	{method: "Fail", do: func(b *bench, f chat.Fence) error {
		_, err := b.Fail(b.ctx, f, 99, say("late"), chat.TurnError{Kind: "network", Message: "It broke."})
		return err
	}},
	{method: "KeepPartial", do: func(b *bench, f chat.Fence) error {
		_, err := b.KeepPartial(b.ctx, f, 99, say("late"))
		return err
	}},
}

// late commits a step where the store has room for one.
func (b *bench) late(f chat.Fence, done bool, build func(time.Time) chat.Parts) error {
	position := len(b.parts(f))
	_, err := b.CommitStep(b.ctx, f, chat.Step{Position: position, Done: done, Build: build})
	return err
}

// lateEdit writes to the call, as it was when its owner last heard of it.
func (b *bench) lateEdit(f chat.Fence, id string, fn func(chat.ToolCall, time.Time) (chat.ToolCall, error)) error {
	_, _, err := b.EditCalls(b.ctx, f, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
		for _, c := range calls {
			if c.Call.ToolCallID == id {
				was := allowed(id)
				if id == "begun" {
					was, _ = chat.Start(was, at)
				}
				next, err := fn(was, at)
				if err != nil {
					b.Fatal(err)
				}
				return []chat.PlacedCall{{Position: c.Position, Call: next}}
			}
		}
		return nil
	})
	return err
}

// parts are those of the anchor, none if it is gone.
func (b *bench) parts(f chat.Fence) chat.Parts {
	messages, _, err := b.Tree(b.ctx, f.TopicID)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if m.ID == f.MessageID {
			return m.Parts
		}
	}
	return nil
}

// laden is a running turn with a call that may run, one that runs and one that
// waits, and a queued message behind it.
func (b *bench) laden() claimed {
	b.Helper()
	topic := b.topic()
	sent := b.send(topic.ID, "hello")
	f := b.claimFor(topic.ID, sent.Turn.ID, "first", over)
	must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) chat.Parts {
		begun, err := chat.Start(allowed("begun"), at)
		if err != nil {
			b.Fatal(err)
		}
		return chat.Parts{chat.StepStart{}, begun, allowed("free"), chat.Ask(call("asked"), "asked-"+sent.Turn.ID, at)}
	}}))
	b.send(topic.ID, "queued")
	return f
}

// losses are the ways in which an owner loses a turn.
var losses = []struct {
	name string
	lose func(*bench, claimed)
	// but is the method that may write once more.
	but string
}{
	{"a takeover", func(b *bench, f claimed) { b.claimFor(f.TopicID, f.TurnID, "second", lease) }, ""},
	{"a takeover by the same owner", func(b *bench, f claimed) { b.claimFor(f.TopicID, f.TurnID, "first", lease) }, ""},
	{"a takeover and a park", func(b *bench, f claimed) { b.park(b.claimFor(f.TopicID, f.TurnID, "second", lease)) }, ""},
	{"a takeover and the end", func(b *bench, f claimed) { b.done(b.claimFor(f.TopicID, f.TurnID, "second", lease), "done") }, ""},
	{"a takeover and an error", func(b *bench, f claimed) { b.fail(b.claimFor(f.TopicID, f.TurnID, "second", lease)) }, ""},
	{"a takeover and a stop", func(b *bench, f claimed) {
		b.claimFor(f.TopicID, f.TurnID, "second", lease)
		b.halt(f)
	}, ""},
	{"a stop", (*bench).halt, "KeepPartial"},
	{"a stop and the end of the grace", func(b *bench, f claimed) {
		b.halt(f)
		b.closeStopped(0)
	}, ""},
	{"a stop and a retry", func(b *bench, f claimed) {
		b.halt(f)
		b.again(f)
	}, ""},
	{"a stop, a retry and a claim", func(b *bench, f claimed) {
		b.halt(f)
		b.again(f)
		b.claimFor(f.TopicID, f.TurnID, "first", lease)
	}, ""},
	{"its own error", func(b *bench, f claimed) { b.fail(f) }, ""},
	{"its own park", (*bench).park, ""},
	{"a park, a decision and a claim", func(b *bench, f claimed) {
		b.park(f)
		b.decide(f.TopicID, yes("asked-"+f.TurnID))
		b.claimFor(f.TopicID, f.TurnID, "second", lease)
	}, ""},
	{"the deletion of the message", func(b *bench, f claimed) {
		if _, _, err := b.DeleteMessage(b.ctx, f.TopicID, f.MessageID); err != nil {
			b.Fatal(err)
		}
	}, ""},
	{"the deletion of the topic", func(b *bench, f claimed) {
		if _, _, err := b.DeleteTopic(b.ctx, f.TopicID); err != nil {
			b.Fatal(err)
		}
	}, ""},
}

// halt stops the topic.
func (b *bench) halt(f claimed) {
	b.Helper()
	if _, _, err := b.Stop(b.ctx, f.TopicID); err != nil {
		b.Fatal(err)
	}
}

// again retries the turn.
func (b *bench) again(f claimed) {
	b.Helper()
	if _, _, err := b.Retry(b.ctx, f.TopicID, f.MessageID); err != nil {
		b.Fatal(err)
	}
}

// all is the whole database: every row of every table.
func (b *bench) all() []string {
	b.Helper()
	tables := `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`
	if b.options.Path != "" {
		tables = `SELECT name FROM sqlite_master WHERE type = 'table'`
	}
	var found []string
	for _, name := range b.rows(tables) {
		for _, row := range b.rows(`SELECT * FROM ` + name) {
			found = append(found, name+" "+row)
		}
	}
	slices.Sort(found)
	return found
}

// rows reads what a query gives, each row as one text.
func (b *bench) rows(query string) []string {
	b.Helper()
	rows, err := b.raw().QueryContext(b.ctx, query)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		b.Fatal(err)
	}
	var found []string
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			b.Fatal(err)
		}
		words := make([]string, len(columns))
		for i, v := range values {
			if text, ok := v.([]byte); ok {
				v = string(text)
			}
			words[i] = fmt.Sprint(v)
		}
		found = append(found, strings.Join(words, "|"))
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return found
}

var fencingTests = func() map[string]func(*bench) {
	tests := map[string]func(*bench){
		"every write that takes a fence is held against the losses": func(b *bench) {
			have := map[string]bool{}
			for _, w := range fencedWrites {
				have[w.method] = true
			}
			want := map[string]bool{}
			for m := range reflect.TypeFor[*repository.Store]().Methods() {
				for i := range m.Type.NumIn() {
					if m.Type.In(i) == reflect.TypeFor[chat.Fence]() {
						want[m.Name] = true
					}
				}
			}
			b.same("methods", want, have)
		},
		"an owner that holds its turn can make every write": func(b *bench) {
			for i, w := range fencedWrites {
				f := b.laden()
				if w.method == "KeepPartial" {
					b.halt(f)
				}
				before := b.all()
				if err := w.do(b, f.Fence); err != nil {
					b.Errorf("write %d, %s: %v", i, w.method, err)
				}
				if slices.Equal(before, b.all()) != w.reads {
					b.Errorf("write %d, %s: it changed nothing, or is a read that did", i, w.method)
				}
			}
		},
		"a fence that fits nothing lets nothing through": func(b *bench) {
			f := b.laden()
			other := b.laden()
			for _, change := range []func(*chat.Fence){
				func(f *chat.Fence) { f.Epoch++ }, func(f *chat.Fence) { f.Epoch-- }, func(f *chat.Fence) { f.TopicID = other.TopicID },
				func(f *chat.Fence) { f.TurnID = other.TurnID }, func(f *chat.Fence) { f.MessageID = other.MessageID }, func(f *chat.Fence) { f.TurnID = "none" },
			} {
				wrong := f.Fence
				change(&wrong)
				b.refused(wrong, "")
			}
		},
		"an owner that lost its turn renews no lease and gives none back": func(b *bench) {
			f := b.laden()
			b.claimFor(f.TopicID, f.TurnID, "second", lease)
			before := b.all()
			owned, err := b.Heartbeat(b.ctx, "first", chat.Epochs{f.TurnID: f.Epoch}, lease)
			if err != nil || len(owned) != 0 {
				b.Errorf("owned %v, %v", owned, err)
			}
			if err := b.LetGo(b.ctx, "first"); err != nil {
				b.Error(err)
			}
			b.same("the database", before, b.all())
		},
	}
	for _, l := range losses {
		tests["after "+l.name+" nothing is written"] = func(b *bench) {
			f := b.laden()
			l.lose(b, f)
			b.refused(f.Fence, l.but)
		}
	}
	return tests
}()

// refused makes every write under the fence, but for one method. None of them
// leaves a trace.
func (b *bench) refused(f chat.Fence, but string) {
	b.Helper()
	before := b.all()
	for i, w := range fencedWrites {
		if w.method == but {
			continue
		}
		b.is(w.do(b, f), chat.ErrLost)
		if now := b.all(); !slices.Equal(before, now) {
			b.same(fmt.Sprintf("the database after write %d, %s", i, w.method), before, now)
		}
	}
}
