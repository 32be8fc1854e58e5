package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

// elsewhere is a store to which another instance has added a server.
type elsewhere struct{ *scripted }

func (elsewhere) MCPServers(context.Context) ([]chat.MCPServer, error) {
	return []chat.MCPServer{{ID: "b", Name: "added elsewhere", Source: chat.SourceBuiltIn}}, nil
}

func TestServersThatWereChangedElsewhereAreApplied(t *testing.T) {
	for name, fails := range map[string]int{"at once": 0, "when that is possible": 2} {
		t.Run(name, func(t *testing.T) {
			store := elsewhere{&scripted{}}
			inBubble(t, store, func(svc *service.Service, told *told) {
				told.mu.Lock()
				told.fails = fails
				told.mu.Unlock()
				svc.Reload()
				svc.Reload() // never waits
				store.after(time.Minute/2, func() {
					if len(told.applied) == 0 || told.applied[len(told.applied)-1][0].Name != "added elsewhere" {
						t.Errorf("applied %+v", told.applied)
					}
					if len(told.hinted) == 0 || len(told.settings) != 0 {
						t.Errorf("hints %v, and to all instances %v", told.hinted, told.settings)
					}
				})
			})
		})
	}
}

// A server that another instance has added is known to the database before it
// is connected here.
func TestAServerThatIsNotConnectedHereYetIsStarting(t *testing.T) {
	t.Parallel()
	svc, store, _ := newService(t)
	made, err := store.CreateMCPServers(t.Context(), []chat.MCPServer{
		{Name: "on", Transport: chat.TransportStdio, Command: "x"}, {Name: "off", Transport: chat.TransportStdio, Command: "x", Disabled: true},
	}, ada)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []chat.ServerPhase{chat.ServerStarting, chat.ServerDisabled} {
		if info, err := svc.MCPServer(t.Context(), made[i].ID); err != nil || info.State.Phase != want {
			t.Errorf("%s: got %+v, %v", made[i].Name, info.State, err)
		}
	}
}
