package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

var ada = chat.Decider{Name: "ada", Via: chat.ViaAPI}

func ptr[T any](v T) *T { return &v }

// newService is a service on a database of its own, to which the tool servers
// of the database are connected.
func newService(t *testing.T) (*service.Service, *repository.Store, *told) {
	t.Helper()
	store, err := repository.Open(t.Context(), repository.Options{Path: filepath.Join(t.TempDir(), "db"), Key: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	told := newTold()
	svc := beside(store, told, nil)
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return svc, store, told
}

// database is a store as a whole.
type database interface {
	service.Store
	policy.Store
}

// beside is a service on a database that others may use as well. change, if
// not nil, puts something in the place of what it works with.
func beside(store database, told *told, change func(*service.Deps, *service.Options)) *service.Service {
	d := service.Deps{Store: store, Engine: told, Live: told, Tools: told, Servers: told, Policy: policy.New(store, slog.New(slog.DiscardHandler))}
	o := service.Options{CheckModel: func(name string) error {
		if name == "no/model" {
			return chat.Invalid("There is no model %s.", name)
		}
		return nil
	}}
	if change != nil {
		change(&d, &o)
	}
	return service.New(d, o)
}

// running lets a service's Run go on until the end of the test.
func running(t *testing.T, svc *service.Service) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		svc.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// round waits until Run has gone round once from the beginning, whatever it was
// doing: each round tells of settings once, as soon as it has begun.
func round(t *testing.T, svc *service.Service, told *told) {
	t.Helper()
	for range 3 { // one that had begun, one that is whole, one after it
		before := told.count(func() int { return len(told.hinted) })
		svc.ToolsChanged()
		told.until(t, "a round of Run", func() bool { return len(told.hinted) > before })
	}
}

// asking is the topic and the approval of a call that waits for a person.
type asking struct{ topic, approval string }

// ask makes a topic whose one call, of the tool, waits for a person.
func ask(t *testing.T, svc *service.Service, store *repository.Store, tool chat.Tool) asking {
	t.Helper()
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil {
		t.Fatal(err)
	}
	f := claim(t, svc, store, topic.ID)
	commit(t, store, f, func(at time.Time) chat.ToolCall {
		call := chat.ToolCall{
			Type: chat.DynamicTool, ToolName: tool.Name, ToolCallID: "c", Input: json.RawMessage(`{"a":1}`), ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictAsk},
		}
		return chat.Ask(chat.Describe(call, tool), "approval-"+topic.ID, at)
	})
	if parked, _, _, err := store.Park(t.Context(), f); err != nil || !parked {
		t.Fatal(parked, err)
	}
	return asking{topic.ID, "approval-" + topic.ID}
}

// claim sends a message and takes its turn, as an engine does.
func claim(t *testing.T, svc *service.Service, store *repository.Store, topicID string) chat.Fence {
	t.Helper()
	sent, err := svc.Send(t.Context(), topicID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	w, _, ok, err := store.Claim(t.Context(), chat.Candidate{TopicID: topicID, TurnID: sent.Turn.ID}, "owner", time.Hour)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return chat.Fence{TopicID: topicID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: w.Turn.Epoch}
}

// commit makes a call the first step of a turn.
func commit(t *testing.T, store *repository.Store, f chat.Fence, call func(at time.Time) chat.ToolCall) {
	t.Helper()
	if _, err := store.CommitStep(t.Context(), f, chat.Step{Build: func(at time.Time) chat.Parts { return chat.Parts{call(at)} }}); err != nil {
		t.Fatal(err)
	}
}

// waiting is ask for a tool of a server of which nothing is stored.
func waiting(t *testing.T, svc *service.Service, store *repository.Store) (topicID, approvalID string) {
	t.Helper()
	a := ask(t, svc, store, tool("s", "s", "t"))
	return a.topic, a.approval
}

// card is the one call of a topic, with its approval if it waits.
func card(t *testing.T, store *repository.Store, topicID string) chat.ToolCall {
	t.Helper()
	s, err := store.Snapshot(t.Context(), topicID, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Messages {
		for _, c := range m.Parts.Calls() {
			return c.Call
		}
	}
	t.Fatal("there is no call")
	return chat.ToolCall{}
}

// box adds a tool server that offers tools, and gives them as they are called.
func box(t *testing.T, svc *service.Service, told *told, names ...string) (chat.ServerInfo, []chat.Tool) {
	t.Helper()
	info, err := svc.CreateMCPServer(t.Context(), chat.MCPServer{Name: "box", Transport: chat.TransportHTTP, URL: "http://box.test/"}, ada)
	if err != nil {
		t.Fatal(err)
	}
	var tools []chat.Tool
	for _, name := range names {
		tools = append(tools, tool(info.ID, "box", name))
	}
	told.offer(info.ID, tools...)
	_, tools = told.State(info.ID)
	told.hints()
	return info, tools
}
