package service_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

// applied are tool servers that note what is applied.
type applied struct {
	told
	mu    sync.Mutex
	names [][]string
	fail  error
}

func (a *applied) Apply(_ context.Context, servers []chat.MCPServer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	a.names = append(a.names, names)
	err := a.fail
	a.fail = nil
	return err
}

// stored is a store that has one tool server and no cards.
type stored struct{ service.Store }

func (stored) MCPServers(context.Context) ([]chat.MCPServer, error) {
	return []chat.MCPServer{{ID: "s", Name: "added elsewhere", Source: chat.SourceBuiltIn}}, nil
}

func (stored) MCPServer(context.Context, string) (chat.MCPServer, error) {
	return chat.MCPServer{ID: "off", Name: "off", Source: chat.SourceBuiltIn, Disabled: true}, nil
}

func (stored) PendingCalls(context.Context, chat.Page) ([]chat.JudgedCall, string, error) {
	return nil, "", nil
}

func TestServersThatWereChangedElsewhereAreApplied(t *testing.T) {
	for name, fail := range map[string]error{"at once": nil, "when that is possible": chat.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := &applied{fail: fail}
				svc := service.New(service.Deps{Store: stored{}, Live: &servers.told, Servers: servers}, service.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				var done sync.WaitGroup
				done.Go(func() { svc.Run(ctx) })
				svc.Reload()
				svc.Reload() // never waits
				synctest.Wait()
				tries := 1
				if fail != nil {
					time.Sleep(3 * time.Second)
					tries = 2
				}
				cancel()
				done.Wait()
				if len(servers.names) < tries || !slices.Equal(servers.names[len(servers.names)-1], []string{"added elsewhere"}) {
					t.Errorf("applied %v", servers.names)
				}
				if len(servers.hints) == 0 || len(servers.settings) != 0 {
					t.Errorf("hints %v, and to all instances %v", servers.hints, servers.settings)
				}
			})
		})
	}
}

// A server that another instance has added is known to the database before it
// is connected here. Its cards are no cards of a tool that is gone.
func TestAServerThatIsNotConnectedHereYetIsNotGone(t *testing.T) {
	t.Parallel()
	svc, store, _ := newService(t)
	info, err := svc.MCPServer(t.Context(), "workspace") // stored, and not among those that are connected
	if err != nil || info.State.Phase != chat.ServerStarting {
		t.Errorf("got %+v, %v", info.State, err)
	}
	for server, want := range map[string]error{"workspace": nil, "removed": chat.ErrGone} {
		topic, id := waitingFor(t, svc, store, server)
		_, err := svc.Decide(t.Context(), topic, []chat.Decision{{ApprovalID: id, Approved: true}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
		if !errors.Is(err, want) {
			t.Errorf("a yes to a tool of the server %s: %v", server, err)
		}
	}
	svc = service.New(service.Deps{Store: stored{}, Servers: &told{}}, service.Options{})
	if info, err := svc.MCPServer(t.Context(), "off"); err != nil || info.State.Phase != chat.ServerDisabled {
		t.Errorf("switched off: %+v, %v", info.State, err)
	}
}
