package service_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

func TestAYesIsToTheToolThatThereIsNow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*told)
		want   error // nil: the yes is taken
	}{
		{"the same tool", func(*told) {}, nil},
		{"a changed schema", func(w *told) { w.offer("s", with(tool("s", "s", "t"), `{"type":"object"}`, "")) }, chat.ErrGone},
		{"a server that is switched off", func(w *told) { w.phase("s", chat.ServerDisabled) }, chat.ErrGone},
		{"a server that is being connected", func(w *told) { w.phase("s", chat.ServerStarting) }, nil},
		{"a server that is lost", func(w *told) { w.phase("s", chat.ServerFailed) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, store, told := newService(t)
			topic, id := waiting(t, svc, store)
			tt.change(told)
			_, err := svc.Decide(t.Context(), topic, []chat.Decision{{ApprovalID: id, Approved: true}}, ada)
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v", err)
			}
			cards, _, err := svc.Approvals(t.Context(), chat.ApprovalFilter{TopicID: topic, Pending: true}, chat.Page{Limit: 10})
			if err != nil || len(cards) != 1 || cards[0].ApprovalID == id {
				t.Fatalf("the cards are %+v, %v", cards, err)
			}
			// A no needs no tool.
			if _, err := svc.Decide(t.Context(), topic, []chat.Decision{{ApprovalID: cards[0].ApprovalID}}, ada); err != nil {
				t.Error(err)
			}
		})
	}
}

// with is a tool that takes, and claims, something else.
func with(tool chat.Tool, schema, claims string) chat.Tool {
	tool.InputSchema = json.RawMessage(schema)
	if claims != "" {
		tool.Annotations = json.RawMessage(claims)
	}
	return tool
}

// Cards that wait are asked again when their tool changes, and by nobody's yes.
func TestACardIsAskedAgainWhenItsToolChanges(t *testing.T) {
	t.Parallel()
	offer := func(change func(chat.Tool) chat.Tool) func(*testing.T, *service.Service, *told, chat.ServerInfo) {
		return func(_ *testing.T, _ *service.Service, told *told, server chat.ServerInfo) {
			told.offer(server.ID, change(tool(server.ID, "box", "t")))
		}
	}
	patch := func(p chat.MCPServerPatch) func(*testing.T, *service.Service, *told, chat.ServerInfo) {
		return func(t *testing.T, svc *service.Service, _ *told, server chat.ServerInfo) {
			if _, err := svc.UpdateMCPServer(t.Context(), server.ID, p, ada); err != nil {
				t.Fatal(err)
			}
		}
	}
	phase := func(phase chat.ServerPhase) func(*testing.T, *service.Service, *told, chat.ServerInfo) {
		return func(_ *testing.T, _ *service.Service, told *told, server chat.ServerInfo) {
			told.offer(server.ID) // nor does it offer anything
			told.phase(server.ID, phase)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T, *service.Service, *told, chat.ServerInfo)
		why    string // "" if it waits as it did
	}{
		{"another address", patch(chat.MCPServerPatch{URL: ptr("http://other.test/")}), "in another way"},
		{"other keys", patch(chat.MCPServerPatch{Headers: &map[string]*string{"X": ptr("y")}}), "in another way"},
		{"another schema", offer(func(tool chat.Tool) chat.Tool { return with(tool, `{"type":"object"}`, "") }), "other input"},
		{"other claims", offer(func(tool chat.Tool) chat.Tool { return with(tool, `{}`, `{"readOnlyHint":true}`) }), "claims"},
		{"another tool in its place", offer(func(tool chat.Tool) chat.Tool { tool.Tool = "u"; return tool }), "does not offer"},
		{"a server that is switched off", patch(chat.MCPServerPatch{Disabled: ptr(true)}), "does not offer"},
		{"a server that was deleted", func(t *testing.T, svc *service.Service, _ *told, server chat.ServerInfo) {
			if err := svc.DeleteMCPServer(t.Context(), server.ID, ada); err != nil {
				t.Fatal(err)
			}
		}, "does not offer"},
		{"nothing", func(*testing.T, *service.Service, *told, chat.ServerInfo) {}, ""},
		{"another name of the server", patch(chat.MCPServerPatch{Name: ptr("crate")}), ""},
		{"what a person says of it", patch(chat.MCPServerPatch{AutoApproveTools: &[]string{"t"}, Trusted: ptr(true)}), ""},
		{"a server that is being connected", phase(chat.ServerStarting), ""},
		{"a server that is lost", phase(chat.ServerFailed), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, store, told := newService(t)
			server, tools := box(t, svc, told, "t")
			a := ask(t, svc, store, tools[0])
			running(t, svc)
			tt.change(t, svc, told, server)
			round(t, svc, told)
			call := card(t, store, a.topic)
			if !call.Pending() || (call.Approval.ID != a.approval) != (tt.why != "") || !strings.Contains(call.ToolMetadata.Changed, tt.why) {
				t.Fatalf("it waits under %s, and says %q", call.Approval.ID, call.ToolMetadata.Changed)
			}
			round(t, svc, told)
			if again := card(t, store, a.topic); again.Approval.ID != call.Approval.ID {
				t.Errorf("it is asked again though nothing changed: %q", again.ToolMetadata.Changed)
			}
			if tt.why == "" {
				return
			}
			if _, err := svc.Decide(t.Context(), a.topic, []chat.Decision{{ApprovalID: a.approval, Approved: true}}, ada); !errors.Is(err, chat.ErrGone) {
				t.Errorf("a yes to the card that is closed: %v", err)
			}
			if audit, _, err := svc.Audit(t.Context(), a.topic, chat.Page{Limit: 10}); err != nil || len(audit) != 1 || audit[0].Resolution != chat.ResolutionSuperseded {
				t.Errorf("audit: %+v, %v", audit, err)
			}
			last := chat.Change{}
			told.heard(func() { last = told.changes[len(told.changes)-1] })
			if last.TopicID != a.topic || len(last.Parts) != 1 {
				t.Errorf("watchers were told of %+v", last)
			}
		})
	}
}

func TestACardWhoseToolComesBackIsAskedAgain(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t")
	a := ask(t, svc, store, tools[0])
	running(t, svc)
	told.offer(server.ID)
	round(t, svc, told)
	gone := card(t, store, a.topic)
	told.offer(server.ID, tool(server.ID, "box", "t"))
	round(t, svc, told)
	back := card(t, store, a.topic)
	if !gone.ToolMetadata.Gone || back.ToolMetadata.Gone || back.Approval.ID == gone.Approval.ID || !strings.Contains(back.ToolMetadata.Changed, "again") {
		t.Errorf("gone: %+v; back: %+v", gone.ToolMetadata, back.ToolMetadata)
	}
	if _, err := svc.Decide(t.Context(), a.topic, []chat.Decision{{ApprovalID: back.Approval.ID, Approved: true}}, ada); err != nil {
		t.Error(err)
	}
}

func TestACardWhoseToolNoLongerTakesItsInputIsSettled(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t")
	a := ask(t, svc, store, tools[0])
	picky := beside(store, told, func(d *service.Deps, _ *service.Options) { d.Tools = refusing{} })
	told.offer(server.ID, with(tools[0], `{"type":"object"}`, ""))
	wakes := told.wakes
	running(t, picky)
	round(t, picky, told)
	call := card(t, store, a.topic)
	if call.State != chat.CallOutputError || call.ToolMetadata.Outcome != chat.OutcomeInvalid || !strings.Contains(call.ErrorText, "no longer takes this input") {
		t.Errorf("got %s, %q", call.State, call.ErrorText)
	}
	if n := told.count(func() int { return told.wakes }); n != wakes+1 { // it was the last that waited
		t.Errorf("the engine was woken %d times", n-wakes)
	}
}

// refusing takes no input.
type refusing struct{}

func (refusing) Validate(chat.Tool, json.RawMessage) error {
	return &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/a", Message: "is not allowed"}}}
}

// Of two processes on one database one changes a server: the other, which is
// still connected as before, must not replace the cards that the first asks.
func TestTwoProcessesDoNotReplaceEachOthersCards(t *testing.T) {
	t.Parallel()
	type process struct {
		*service.Service
		*told
	}
	two := func(t *testing.T) (*repository.Store, process, process, chat.ServerInfo) {
		one, store, oneTold := newService(t)
		otherTold := newTold()
		other := beside(store, otherTold, nil)
		server, _ := box(t, one, oneTold, "t")
		otherTold.offer(server.ID, tool(server.ID, "box", "t"))
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		running(t, one)
		running(t, other)
		round(t, other, otherTold)
		return store, process{one, oneTold}, process{other, otherTold}, server
	}
	// rest goes round in both until a card would have been replaced, and gives
	// the approval under which it waits.
	rest := func(t *testing.T, store *repository.Store, topic string, processes ...process) string {
		t.Helper()
		was := card(t, store, topic)
		for range 2 {
			for _, p := range processes {
				round(t, p.Service, p.told)
			}
		}
		now := card(t, store, topic)
		if now.Approval.ID != was.Approval.ID {
			t.Errorf("it is asked again: %s", now.ToolMetadata.Changed)
		}
		return now.Approval.ID
	}
	t.Run("when one connects in another way", func(t *testing.T) {
		t.Parallel()
		store, one, other, server := two(t)
		if _, err := one.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{URL: ptr("http://new.test/")}, ada); err != nil {
			t.Fatal(err)
		}
		_, tools := one.State(server.ID)
		a := ask(t, one.Service, store, tools[0])
		if s, _ := other.Connected(server.ID); s.URL != "http://box.test/" {
			t.Fatal("the other has heard of it before it looked")
		}
		rest(t, store, a.topic, other, one)
		if s, _ := other.Connected(server.ID); s.URL != "http://new.test/" {
			t.Errorf("the other is connected to %s", s.URL)
		}
	})
	t.Run("when one adds a server", func(t *testing.T) {
		t.Parallel()
		store, one, other, _ := two(t)
		made, err := one.CreateMCPServer(t.Context(), address("new"), ada)
		if err != nil {
			t.Fatal(err)
		}
		one.offer(made.ID, tool(made.ID, "new", "t"))
		other.offer(made.ID, tool(made.ID, "new", "t"))
		_, tools := one.State(made.ID)
		a := ask(t, one.Service, store, tools[0])
		rest(t, store, a.topic, other, one)
		if _, ok := other.Connected(made.ID); !ok {
			t.Error("the other is not connected to it")
		}
	})
	t.Run("when one deletes a server", func(t *testing.T) {
		t.Parallel()
		store, one, other, server := two(t)
		_, tools := one.State(server.ID)
		a := ask(t, one.Service, store, tools[0])
		if err := one.DeleteMCPServer(t.Context(), server.ID, ada); err != nil {
			t.Fatal(err)
		}
		round(t, one.Service, one.told)
		if id := rest(t, store, a.topic, other, one); id == a.approval {
			t.Error("nobody asked about the server that is gone")
		}
		// The other saw that it is offered, and so that the settings are not its own.
		if _, ok := other.Connected(server.ID); ok {
			t.Error("the other is still connected to it")
		}
	})
	t.Run("when one switches a server off", func(t *testing.T) {
		t.Parallel()
		store, one, other, server := two(t)
		_, tools := one.State(server.ID)
		a := ask(t, one.Service, store, tools[0])
		if _, err := one.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{Disabled: ptr(true)}, ada); err != nil {
			t.Fatal(err)
		}
		round(t, one.Service, one.told)
		if id := rest(t, store, a.topic, other, one); id == a.approval {
			t.Error("nobody asked about the tool that is not offered")
		}
	})
	t.Run("when a yes comes to the one that is behind", func(t *testing.T) {
		t.Parallel()
		store, one, other, server := two(t)
		if _, err := one.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{URL: ptr("http://new.test/")}, ada); err != nil {
			t.Fatal(err)
		}
		_, tools := one.State(server.ID)
		a := ask(t, one.Service, store, tools[0])
		if _, err := other.Decide(t.Context(), a.topic, []chat.Decision{{ApprovalID: a.approval, Approved: true}}, ada); err != nil {
			t.Errorf("the card is true, and the yes to it got %v", err)
		}
	})
	t.Run("when one was not given a server of the file", func(t *testing.T) {
		t.Parallel()
		_, store, _ := newService(t)
		filed := address("mine")
		filed.ID, filed.Source = "mine", chat.SourceFile
		filed.Identity = store.Identity(filed)
		oneTold, otherTold := newTold(), newTold()
		one := beside(store, oneTold, func(_ *service.Deps, o *service.Options) { o.FileServers = []chat.MCPServer{filed} })
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		oneTold.offer("mine", tool("mine", "mine", "t"))
		_, tools := oneTold.State("mine")
		a := ask(t, one, store, tools[0])
		other := beside(store, otherTold, nil)
		running(t, other)
		running(t, one)
		if id := rest(t, store, a.topic, process{other, otherTold}, process{one, oneTold}); id != a.approval {
			t.Errorf("it waits under %s", id)
		}
	})
}

// Whether a card is true cannot be told while the settings cannot be read.
func TestAYesWaitsForTheSettings(t *testing.T) {
	t.Parallel()
	first, store, told := newService(t)
	server, tools := box(t, first, told, "t")
	a := ask(t, first, store, tools[0])
	told.offer(server.ID)
	broken := &failing{Store: store, err: chat.Unavailable("The database is away.")}
	svc := beside(broken, told, nil)
	_, err := svc.Decide(t.Context(), a.topic, []chat.Decision{{ApprovalID: a.approval, Approved: true}}, ada)
	if !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if call := card(t, store, a.topic); !call.Pending() || call.Approval.ID != a.approval {
		t.Errorf("it is %+v", call.Approval)
	}
}
