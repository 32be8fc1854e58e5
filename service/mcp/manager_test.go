package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// fleet dials one fake for each command.
type fleet struct {
	fakes map[string]*fake
}

func newFleet(t *testing.T, commands ...string) *fleet {
	f := &fleet{map[string]*fake{}}
	for _, command := range commands {
		f.fakes[command] = newFake(t, &sdk.Tool{Name: "ping"})
	}
	return f
}

func (f *fleet) manager(t *testing.T, o ClientOptions) *Manager {
	o.dial = func(s chat.MCPServer, stderr *ring) (*wire, error) {
		fake := f.fakes[s.Command]
		if fake == nil {
			return nil, io.ErrUnexpectedEOF
		}
		return fake.dial(s, stderr)
	}
	m := NewManager(o)
	t.Cleanup(m.Close)
	return m
}

func (f *fleet) dials() map[string]int {
	dials := map[string]int{}
	for command, fake := range f.fakes {
		dials[command], _ = fake.counts()
	}
	return dials
}

func server(name string) chat.MCPServer {
	return chat.MCPServer{ID: "id-" + name, Name: name, Transport: chat.TransportStdio, Command: name}
}

func apply(t *testing.T, m *Manager, configs ...chat.MCPServer) {
	t.Helper()
	if err := m.Apply(t.Context(), configs); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func phases(m *Manager) map[string]chat.ServerPhase {
	phases := map[string]chat.ServerPhase{}
	for _, c := range m.all() {
		phases[c.ID()] = state(c).Phase
	}
	return phases
}

func TestApplyChangesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b", "c")
		m := f.manager(t, ClientOptions{})
		a, b, c := server("a"), server("b"), server("c")
		b.Disabled = true
		apply(t, m, a, b)
		if diff := cmp.Diff(map[string]chat.ServerPhase{"id-a": chat.ServerReady, "id-b": chat.ServerDisabled}, phases(m)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		catalogue := newCatalogue(t, m.Servers()...)

		a.Name, a.AutoApproveTools = "first", []string{"ping"} // its connection stays
		b.Disabled = false                                     // starts
		apply(t, m, c, b, a)
		if err := catalogue.Set(m.Servers()...); err != nil {
			t.Fatal(err)
		}
		tools, err := catalogue.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"c__ping", "b__ping", "first__ping"}, toolNames(tools)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		if len(tools) != 3 || !tools[2].Policy.AutoApprove || tools[1].Policy.AutoApprove {
			t.Errorf("policies: %+v and %+v", tools[2].Policy, tools[1].Policy)
		}
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}

		c.Env = map[string]string{"A": "1"} // another connection
		apply(t, m, c, a)
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 2}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]chat.ServerPhase{"id-a": chat.ServerReady, "id-c": chat.ServerReady}, phases(m)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

func TestAnotherIdentityIsAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		m := f.manager(t, ClientOptions{})
		a := server("a")
		a.Identity = "1"
		apply(t, m, a)
		a.AlwaysAskTools = []string{"ping"}
		apply(t, m, a)
		a.Identity = "2"
		apply(t, m, a)
		if diff := cmp.Diff(map[string]int{"a": 2}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
		if _, tools := m.State("id-a"); len(tools) != 1 || tools[0].Identity != "2" || !tools[0].Policy.AlwaysAsk {
			t.Errorf("got %+v", tools)
		}
	})
}

func TestAServerWhoseSettingsCannotBeReadIsNotConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		told := &states{}
		m := f.manager(t, ClientOptions{OnState: told.add})
		sealed := chat.MCPServer{ID: "id-a", Name: "a", Transport: chat.TransportStdio, Problem: "Its settings were stored under another key."}
		apply(t, m, sealed, server("b"))
		s, tools := m.State("id-a")
		if s.Phase != chat.ServerFailed || s.Error != sealed.Problem || tools != nil {
			t.Errorf("it is %+v with %v", s, tools)
		}
		if err := m.Restart("id-a"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"a": 0, "b": 1}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
		apply(t, m, server("a"), server("b")) // entered again
		if diff := cmp.Diff(map[string]chat.ServerPhase{"id-a": chat.ServerReady, "id-b": chat.ServerReady}, phases(m)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

func TestApplyRefusesWhatIsWrongAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		m := f.manager(t, ClientOptions{})
		apply(t, m, server("a"))
		twin, sameName, nameless, wrong := server("b"), server("b"), server("b"), server("b")
		twin.ID, sameName.Name, nameless.ID, wrong.Command = "id-a", "a", "", ""
		for _, second := range []chat.MCPServer{twin, sameName, nameless, wrong} {
			err := m.Apply(t.Context(), []chat.MCPServer{server("a"), second})
			if !errors.Is(err, chat.ErrConflict) && !errors.Is(err, chat.ErrInvalid) {
				t.Errorf("%+v gave %v", second, err)
			}
		}
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 0}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
	})
}

func TestManagerFindsServersByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		m := f.manager(t, ClientOptions{})
		apply(t, m, server("a"))
		if s, tools := m.State("id-a"); s.Phase != chat.ServerReady || s.Since == nil || len(tools) != 1 {
			t.Errorf("state %+v, tools %v", s, tools)
		}
		if err := m.Restart("id-a"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"a": 2}, f.dials()); diff != "" {
			t.Errorf("connections (-want +got):\n%s", diff)
		}
		if s, tools := m.State("id-b"); s.Phase != "" || tools != nil {
			t.Errorf("an unknown server is %+v with %v", s, tools)
		}
		if err := m.Restart("id-b"); !errors.Is(err, chat.ErrNotFound) {
			t.Errorf("restart of an unknown server gave %v", err)
		}
	})
}

func TestTrialConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "hung")
		silent := make(chan struct{})
		defer close(silent)
		f.fakes["hung"].server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				<-silent
				return next(ctx, method, req)
			}
		})
		told := &states{}
		m := f.manager(t, ClientOptions{OnState: told.add})
		good := server("a")
		good.Disabled = true // to try it is to want to know
		s, tools, err := m.Test(t.Context(), good)
		if err != nil || s.Phase != chat.ServerReady || s.ServerName != "fake" || len(tools) != 1 {
			t.Errorf("a good server: %+v, %v, %v", s, tools, err)
		}
		if s, _, err := m.Test(t.Context(), server("none")); err != nil || s.Phase != chat.ServerFailed || s.Error != "unexpected EOF" {
			t.Errorf("one that does not start: %+v, %v", s, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if s, _, err := m.Test(ctx, server("hung")); err != nil || s.Phase != chat.ServerFailed || !strings.Contains(s.Error, "in time") {
			t.Errorf("one that does not answer: %+v, %v", s, err)
		}
		if _, _, err := m.Test(t.Context(), chat.MCPServer{}); !errors.Is(err, chat.ErrInvalid) {
			t.Errorf("wrong settings gave %v", err)
		}
		if len(m.all()) != 0 || len(told.phases()) != 0 {
			t.Errorf("a trial left %v and told %v", phases(m), told.phases())
		}
	})
}

func TestClosedManagerStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a")
		m := f.manager(t, ClientOptions{})
		apply(t, m, server("a"))
		m.Close()
		m.Close()
		if err := m.Apply(t.Context(), []chat.MCPServer{server("a")}); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("applied after close: %v", err)
		}
		if len(m.Servers()) != 0 {
			t.Error("a closed manager has servers")
		}
	})
}

func TestManagerUnderConcurrentUse(t *testing.T) {
	f := newFleet(t, "a", "b")
	m := f.manager(t, ClientOptions{})
	catalogue := newCatalogue(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			configs := []chat.MCPServer{server("a")}
			if n%2 == 0 {
				configs = append(configs, server("b"))
			}
			if err := m.Apply(t.Context(), configs); err != nil {
				t.Error(err)
			}
			if err := catalogue.Set(m.Servers()...); err != nil {
				t.Error(err)
			}
			for _, tool := range []string{"ping", "gone"} {
				_, _, _ = catalogue.find(t.Context(), "id-a", tool) // whatever it gives now
			}
			m.State("id-a")
		})
	}
	all.Wait()
	if _, tool, err := catalogue.find(t.Context(), "id-a", "ping"); err != nil {
		t.Errorf("the server that every setting had is not there: %v, %+v", err, phases(m))
	} else if r := catalogue.Call(t.Context(), tool, nil, nil, nil); r.Outcome != chat.OutcomeInvalid && r.Outcome != chat.OutcomeOK {
		t.Errorf("its tool gave %+v", r)
	}
}

func TestAServerThatIsBeingChangedIsNotSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "a", "b")
		told := &states{}
		m := f.manager(t, ClientOptions{OnState: told.add})
		dial, closing := m.options.dial, make(chan struct{})
		m.options.dial = func(s chat.MCPServer, stderr *ring) (*wire, error) {
			w, err := dial(s, stderr)
			if err == nil {
				end := w.close
				w.close = func(closed <-chan struct{}) { <-closing; end(closed) }
			}
			return w, err
		}
		a, off := server("a"), server("b")
		off.Disabled = true
		apply(t, m, a, off)
		before := told.phases()
		a.Env = map[string]string{"A": "1"}
		applied := make(chan error, 1)
		go func() { applied <- m.Apply(t.Context(), []chat.MCPServer{a}) }()
		synctest.Wait()
		want := chat.ServerState{Phase: chat.ServerFailed, Error: "it is being changed"}
		s, tools := m.State("id-a")
		if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(chat.ServerState{}, "Since")); diff != "" || tools != nil {
			t.Errorf("while it is changed (-want +got):\n%s%v", diff, tools)
		}
		if s, _ := m.State("id-b"); s.Phase != chat.ServerDisabled {
			t.Errorf("the one that is switched off is %+v", s)
		}
		_, err := m.all()[0].Tools(t.Context())
		if !errors.Is(err, chat.ErrUnavailable) || err.Error() != "The tool server a is not connected: it is being changed." {
			t.Errorf("its tools gave %v", err)
		}
		if diff := cmp.Diff(before, told.phases()); diff != "" {
			t.Errorf("the end of the old connection was told (-before +after):\n%s", diff)
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Apply(impatient, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a change that was not waited for gave %v", err)
		}
		close(closing)
		if err := <-applied; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s, tools := m.State("id-a"); s.Phase != chat.ServerReady || len(tools) != 1 {
			t.Errorf("after the change it is %+v", s)
		}
	})
}
