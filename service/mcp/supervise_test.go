package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestCrashWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		began := f.blocking(t)
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		go func() { <-began; f.cut() }()
		r, err := c.Call(t.Context(), "block", nil, func(string) {}, nobody)
		if err != nil || r.Outcome != chat.OutcomeUnknown || !strings.Contains(r.ErrorText, "lost") {
			t.Fatalf("the call that was cut off: %+v, %v", r, err)
		}
		synctest.Wait()
		if s := state(c); s.Phase != chat.ServerFailed || s.Error != "the fake was cut" {
			t.Errorf("state after the crash: %+v", s)
		}
		if _, err := c.Call(t.Context(), "ping", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("a call before the server is back gave %v", err)
		}
		if _, err := c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("tools before the server is back gave %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the call after the reconnect gave %+v", r)
		}
		select {
		case <-began:
			t.Error("the call was sent again")
		default:
		}
		want := []chat.ServerPhase{chat.ServerStarting, chat.ServerReady, chat.ServerFailed, chat.ServerStarting, chat.ServerReady}
		if diff := cmp.Diff(want, told.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

func TestReconnectBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		f.setRefuse(errors.New("refused"))
		c := f.start(t, ClientOptions{})
		time.Sleep(4 * time.Minute)
		f.setRefuse(nil)
		f.mu.Lock()
		var waits []time.Duration
		for i := range f.dials[1:] {
			waits = append(waits, f.dials[i+1].Sub(f.dials[i]).Round(time.Second))
		}
		f.mu.Unlock()
		s := time.Second
		if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Minute)
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("the call after the outage gave %+v", r)
		}
		before, _ := f.counts()
		f.cut() // after a minute of life the waits begin anew
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if after, _ := f.counts(); after != before+1 {
			t.Errorf("a server that had been steady was not connected again after the first wait")
		}
	})
}

func TestRestartDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		c := f.start(t, ClientOptions{MinBackoff: time.Hour})
		synctest.Wait()
		c.Restart()
		synctest.Wait()
		if dials, _ := f.counts(); dials != 2 || state(c).Phase != chat.ServerReady {
			t.Errorf("after a restart: %d sessions, %s", dials, state(c).Phase)
		}
		f.cut()
		synctest.Wait()
		c.Restart() // a server that failed need not be waited for either
		synctest.Wait()
		if dials, _ := f.counts(); dials != 3 || state(c).Phase != chat.ServerReady {
			t.Errorf("after a restart of a failed one: %d sessions, %s", dials, state(c).Phase)
		}
	})
}

func TestChangedToolsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "a"})
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		synctest.Wait()
		_, before := f.counts()
		for _, name := range []string{"b", "c", "d"} {
			f.add(&sdk.Tool{Name: name}, nil)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, lists := f.counts(); lists != before+1 {
			t.Errorf("the tools were listed %d times for one burst of changes", lists-before)
		}
		tools, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"fake__a", "fake__b", "fake__c", "fake__d"}, toolNames(tools)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		// Ready once more says that its tools are others now.
		want := []chat.ServerPhase{chat.ServerStarting, chat.ServerReady, chat.ServerReady}
		if diff := cmp.Diff(want, told.phases()); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		f.add(&sdk.Tool{Name: "d"}, nil) // the same again
		time.Sleep(time.Second)
		synctest.Wait()
		if _, lists := f.counts(); lists != before+2 {
			t.Errorf("the tools were listed %d times", lists-before)
		}
		if diff := cmp.Diff(want, told.phases()); diff != "" {
			t.Errorf("what did not change was told (-want +got):\n%s", diff)
		}
	})
}

func TestHungServerDelaysNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		silent := make(chan struct{})
		f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				select {
				case <-silent:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return next(ctx, method, req)
			}
		})
		defer close(silent)
		c := f.start(t, ClientOptions{})
		began := time.Now()
		_, err := c.Tools(t.Context())
		if !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("the list ended after %v with %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err = c.Call(t.Context(), "x", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 0 {
			t.Errorf("the second one waited too: %v, %v", time.Since(began), err)
		}
		time.Sleep(50*time.Second + time.Millisecond)
		synctest.Wait()
		if s := state(c); s.Phase != chat.ServerFailed || !strings.Contains(s.Error, "did not answer in time") {
			t.Errorf("state after the start's time: %+v", s)
		}
		// It is tried again, but nobody waits for that.
		time.Sleep(time.Second)
		synctest.Wait()
		began = time.Now()
		if _, err = c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 0 || state(c).Phase != chat.ServerStarting {
			t.Errorf("the second start was waited for: %v, %v, %+v", time.Since(began), err, state(c))
		}
		c.Restart() // by a person, who has mended it perhaps
		synctest.Wait()
		began = time.Now()
		if _, err = c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("after the restart it was waited for %v: %v", time.Since(began), err)
		}
	})
}

// Some servers answer nothing before they are initialized, also not the
// question of what they speak.
func TestServerThatKnowsOnlyTheOldHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		f.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "server/discover" {
					<-ctx.Done()
				}
				return next(ctx, method, req)
			}
		})
		c := f.start(t, ClientOptions{})
		time.Sleep(2 * time.Minute)
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" || state(c).Protocol != "2025-11-25" {
			t.Errorf("got %+v in the state %+v", r, state(c))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if sent := f.sent.String(); strings.Contains(sent, `"roots"`) || !strings.Contains(sent, `"capabilities":{"elicitation":{"form":{}}}`) {
			t.Errorf("the old handshake does not advertise forms alone:\n%s", sent)
		}
	})
}

func TestCallsWaitForAServerThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		dial := f.dial
		c := StartClient(fakeConfig, ClientOptions{dial: func(s chat.MCPServer, stderr *ring) (*wire, error) {
			time.Sleep(5 * time.Second)
			return dial(s, stderr)
		}})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "ping", nil, func(string) {}, nobody); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("a call that was not waited for gave %v", err)
		}
		if r := call(t, c, "ping", `{}`); text(t, r) != "ok" {
			t.Errorf("got %+v", r)
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		began := f.blocking(t)
		var told states
		c := f.start(t, ClientOptions{OnState: told.add})
		go func() { <-began; c.Close(); c.Close() }()
		if r := call(t, c, "block", `{}`); r.Outcome != chat.OutcomeUnknown {
			t.Errorf("the call ended as %+v", r)
		}
		c.Close()
		if _, err := c.Tools(t.Context()); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("tools of a closed client gave %v", err)
		}
		c.set(chat.ServerState{Phase: chat.ServerReady}, nil) // as a connection that was made in this instant
		if s := state(c); s.Phase != chat.ServerFailed || s.Error != "it is being changed" {
			t.Errorf("a closed client is %+v", s)
		}
		if diff := cmp.Diff([]chat.ServerPhase{chat.ServerStarting, chat.ServerReady}, told.phases()); diff != "" {
			t.Errorf("the end was told (-want +got):\n%s", diff)
		}
	})
}
