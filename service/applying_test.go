package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// What another release stored, and this one does not take, is said of that
// server, and keeps no other from being connected.
func TestAServerThatIsWrongStopsNoOther(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	made, err := store.CreateMCPServers(t.Context(), []chat.MCPServer{{Name: "wrong", Transport: "pigeon"}, address("right")}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong, _ := told.Connected(made[0].ID)
	right, _ := told.Connected(made[1].ID)
	if !strings.Contains(wrong.Problem, "transport") || right.Problem != "" || right.Identity != made[1].Identity {
		t.Errorf("applied %+v and %+v", wrong, right)
	}
	if info, err := svc.MCPServer(t.Context(), made[0].ID); err != nil || info.State.Phase != chat.ServerFailed || !strings.Contains(info.State.Error, "transport") {
		t.Errorf("got %+v, %v", info.State, err)
	}
}

// failing is a store that cannot read tool servers while err is set.
type failing struct {
	*repository.Store
	err error
}

func (f *failing) MCPServer(ctx context.Context, id string) (chat.MCPServer, error) {
	if f.err != nil {
		return chat.MCPServer{}, f.err
	}
	return f.Store.MCPServer(ctx, id)
}

func (f *failing) MCPServers(ctx context.Context) ([]chat.MCPServer, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.MCPServers(ctx)
}

func TestTopicsNameServersThatThereAre(t *testing.T) {
	t.Parallel()
	_, store, told := newService(t)
	broken := &failing{Store: store}
	svc := beside(broken, told, nil)
	server, _ := box(t, svc, told)
	unconnected, err := store.CreateMCPServers(t.Context(), []chat.MCPServer{address("later"), address("gone")}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.DeleteMCPServer(t.Context(), unconnected[1].ID, ada); err != nil {
		t.Fatal(err)
	}
	create := func(ids ...string) error {
		_, err := svc.CreateTopic(t.Context(), chat.NewTopic{MCPServerIDs: ids})
		return err
	}
	if err := create(server.ID, "workspace", unconnected[0].ID); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"none", unconnected[1].ID} {
		if err := create(server.ID, id); !errors.Is(err, chat.ErrInvalid) || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	broken.err = chat.Unavailable("The database is away.")
	if err := create(server.ID); err != nil { // it is connected
		t.Error(err)
	}
	if err := create(unconnected[0].ID); !errors.Is(err, chat.ErrUnavailable) || errors.Is(err, chat.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	for name, try := range map[string]func() error{
		"list": func() error { _, err := svc.MCPServers(t.Context()); return err },
		"import": func() error {
			told.parse = func([]byte) ([]chat.MCPServer, error) { return []chat.MCPServer{address("x")}, nil }
			_, _, err := svc.ImportMCPServers(t.Context(), nil, true, ada)
			return err
		},
		"start": func() error { return svc.Start(t.Context()) },
	} {
		if err := try(); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSettingsThatCannotBeAppliedAreAppliedLater(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	server, _ := box(t, svc, told)
	told.fails = 1
	if err := svc.DeleteMCPServer(t.Context(), server.ID, ada); err != nil {
		t.Fatal(err) // it is stored
	}
	if diff := cmp.Diff([]string{"workspace", "box"}, told.names()); diff != "" {
		t.Fatalf("applied (-want +got):\n%s", diff)
	}
	before := len(told.applied)
	running(t, svc)
	told.until(t, "applied", func() bool { return len(told.applied) > before })
	if diff := cmp.Diff([]string{"workspace"}, told.names()); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	round(t, svc, told)
	if n := told.count(func() int { return len(told.applied) }); n != before+1 {
		t.Errorf("applied %d times after they held", n-before-1)
	}
}
