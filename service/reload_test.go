package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

// MCPServers are those that another instance has added.
func (s *scripted) MCPServers(context.Context) ([]chat.MCPServer, error) {
	return []chat.MCPServer{{ID: "b", Name: "added elsewhere", Source: chat.SourceBuiltIn}}, nil
}

func TestServersThatWereChangedElsewhereAreApplied(t *testing.T) {
	for name, fails := range map[string]int{"at once": 0, "when that is possible": 2} {
		t.Run(name, func(t *testing.T) {
			store := &scripted{}
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
					if len(told.hints) == 0 || len(told.settings) != 0 {
						t.Errorf("hints %v, and to all instances %v", told.hints, told.settings)
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
	svc, _, _ := newService(t)
	if info, err := svc.MCPServer(t.Context(), "workspace"); err != nil || info.State.Phase != chat.ServerStarting {
		t.Errorf("got %+v, %v", info.State, err)
	}
}
