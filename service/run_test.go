package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

// scripted is a store of what Run asks for, so that its time can be a bubble's.
type scripted struct {
	service.Store
	mu      sync.Mutex
	looks   int // at all cards
	pending func(look int) error
	expired [][]chat.ApprovalRef // of each look
	fails   []error              // of the first looks for what has expired
	edit    func(a chat.ApprovalRef) (chat.Change, error)
	calls   []chat.ToolCall // as the edits left them
	closed  []chat.ApprovalRef
}

func (s *scripted) PendingCalls(context.Context, chat.Page) ([]chat.JudgedCall, string, error) {
	s.mu.Lock()
	s.looks++
	look, pending := s.looks, s.pending
	s.mu.Unlock()
	if pending != nil {
		return nil, "", pending(look)
	}
	return nil, "", nil
}

func (s *scripted) Expired(_ context.Context, n int) ([]chat.ApprovalRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fails) > 0 {
		err := s.fails[0]
		s.fails = s.fails[1:]
		return nil, err
	}
	if len(s.expired) == 0 {
		return nil, nil
	}
	refs := s.expired[0]
	s.expired = s.expired[1:]
	if len(refs) > n {
		return nil, fmt.Errorf("asked for %d", n)
	}
	return refs, nil
}

func (s *scripted) EditPending(_ context.Context, topicID string, ids []string, edit chat.CallEdit) (chat.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := chat.ApprovalRef{TopicID: topicID, ApprovalID: ids[0]}
	s.closed = append(s.closed, a)
	// What has an end before the time of the transaction, and what has not.
	now := time.Now()
	for _, life := range []time.Duration{time.Second, time.Hour} {
		call, _ := edit(chat.ExpireAfter(chat.Ask(chat.ToolCall{}, a.ApprovalID, now.Add(-time.Minute)), life), now)
		s.calls = append(s.calls, call)
	}
	if s.edit != nil {
		return s.edit(a)
	}
	return chat.Change{TopicID: topicID, Revision: 7}, nil
}

func (*scripted) MCPServers(context.Context) ([]chat.MCPServer, error) { return nil, nil }

func (*scripted) DeleteMCPServer(context.Context, string, chat.Decider) error { return nil }

// after lets time go by, and looks at what has been done by then.
func (s *scripted) after(d time.Duration, look func()) {
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// inBubble runs a service for some time.
func inBubble(t *testing.T, store service.Store, test func(svc *service.Service, told *told)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		told := newTold()
		svc := service.New(service.Deps{Store: store, Engine: told, Live: told, Tools: told, Servers: told}, service.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			svc.Run(ctx)
		}()
		test(svc, told)
		cancel()
		<-done // also in the middle of a wait
	})
}

func TestCardsThatExpireAreClosed(t *testing.T) {
	t.Parallel()
	var many []chat.ApprovalRef
	for i := range 100 {
		many = append(many, chat.ApprovalRef{TopicID: fmt.Sprint("topic ", i), ApprovalID: fmt.Sprint("approval ", i)})
	}
	last := chat.ApprovalRef{TopicID: "last", ApprovalID: "last"}
	store := &scripted{
		expired: [][]chat.ApprovalRef{nil, many, {last}},
		edit: func(a chat.ApprovalRef) (chat.Change, error) {
			switch a.TopicID {
			case "topic 1":
				return chat.Change{}, chat.NotFound("There is no such topic.")
			case "topic 2":
				return chat.Change{}, chat.Gone("The topic was deleted.")
			case "topic 3":
				return chat.Change{TopicID: a.TopicID}, nil // it was decided meanwhile
			}
			return chat.Change{TopicID: a.TopicID, Revision: 7}, nil
		},
	}
	inBubble(t, store, func(_ *service.Service, told *told) {
		store.after(9*time.Second, func() {
			if len(store.closed) != 0 {
				t.Errorf("closed %v", store.closed)
			}
		})
		store.after(2*time.Second, func() { // as many as one look gives, and then the rest at once
			if want := append(slices.Clone(many), last); !slices.Equal(want, store.closed) {
				t.Errorf("closed %v", store.closed)
			}
			for i, call := range store.calls {
				if over := i%2 == 0; over == call.Pending() || over && (call.Approval.Resolution != chat.ResolutionExpired || call.Approval.Granted()) {
					t.Fatalf("whose time is over: %v, got %+v", over, call.Approval)
				}
			}
		})
		if told.wakes != len(many)+1-3 {
			t.Errorf("the engine was woken %d times", told.wakes)
		}
		if c := told.changes[len(told.changes)-1]; c.TopicID != "last" || c.Revision != 7 {
			t.Errorf("watchers were told of %+v", c)
		}
	})
}

func TestWhatRunCannotDoItTriesAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	t.Run("the closing of what has expired", func(t *testing.T) {
		t.Parallel()
		ref := chat.ApprovalRef{TopicID: "t", ApprovalID: "a"}
		store := &scripted{fails: []error{broken, broken}, expired: [][]chat.ApprovalRef{{ref}}}
		inBubble(t, store, func(*service.Service, *told) {
			store.after(9*time.Second, func() { // the second look is in 10
				if !slices.Equal(store.closed, []chat.ApprovalRef{ref}) {
					t.Errorf("closed %v", store.closed)
				}
			})
		})
	})
	t.Run("the closing of one that has expired", func(t *testing.T) {
		t.Parallel()
		one, two := chat.ApprovalRef{TopicID: "1", ApprovalID: "1"}, chat.ApprovalRef{TopicID: "2", ApprovalID: "2"}
		store := &scripted{expired: [][]chat.ApprovalRef{{one, two}, {one, two}}}
		store.edit = func(chat.ApprovalRef) (chat.Change, error) {
			if len(store.closed) == 1 {
				return chat.Change{}, broken
			}
			return chat.Change{}, nil
		}
		inBubble(t, store, func(*service.Service, *told) {
			store.after(9*time.Second, func() {
				if !slices.Equal(store.closed, []chat.ApprovalRef{one, one, two}) {
					t.Errorf("closed %v", store.closed)
				}
			})
		})
	})
	t.Run("the look at all cards", func(t *testing.T) {
		t.Parallel()
		store := &scripted{pending: func(look int) error {
			if look < 4 {
				return broken
			}
			return nil
		}}
		inBubble(t, store, func(svc *service.Service, _ *told) {
			svc.ToolsChanged()
			store.after(30*time.Second, func() {
				if store.looks != 4 {
					t.Errorf("looked %d times", store.looks)
				}
			})
		})
	})
}

// What was given up after some minutes is begun again.
func TestSettingsAreAppliedHoweverLongTheyCannotBe(t *testing.T) {
	t.Parallel()
	store := &scripted{}
	inBubble(t, store, func(svc *service.Service, told *told) {
		told.fails = 20
		if err := svc.DeleteMCPServer(t.Context(), "x", ada); err != nil {
			t.Fatal(err)
		}
		store.after(30*time.Minute, func() {
			if told.fails != 0 || len(told.applied) != 1 {
				t.Errorf("applied %d times, with %d failures to go", len(told.applied), told.fails)
			}
		})
	})
}

// What fails for good keeps nothing else from being done.
func TestWhatFailsForGoodStopsNothingElse(t *testing.T) {
	t.Parallel()
	ref := chat.ApprovalRef{TopicID: "t", ApprovalID: "a"}
	store := &scripted{pending: func(int) error { return errors.New("broken") }}
	inBubble(t, store, func(svc *service.Service, _ *told) {
		svc.ToolsChanged()
		for range 3 {
			before := 0
			store.after(0, func() { store.expired, store.closed, before = [][]chat.ApprovalRef{{ref}}, nil, store.looks })
			store.after(10*time.Minute, func() {
				if tries := store.looks - before; tries == 0 || tries > 40 || len(store.closed) != 1 {
					t.Errorf("looked %d times, closed %v", tries, store.closed)
				}
			})
		}
	})
}

// Nothing tells of a card that a step committed after its tool had changed.
func TestCardsAreLookedAtNowAndThen(t *testing.T) {
	t.Parallel()
	store := &scripted{}
	inBubble(t, store, func(_ *service.Service, told *told) {
		store.after(150*time.Second, func() {
			if store.looks != 2 || len(told.hinted) != 0 {
				t.Errorf("looked %d times, and watchers were told of %v", store.looks, told.hinted)
			}
		})
	})
}

func TestToolsThatChangeOftenAreOneRound(t *testing.T) {
	t.Parallel()
	store := &scripted{}
	inBubble(t, store, func(svc *service.Service, told *told) {
		free := make(chan struct{})
		store.pending = func(int) error { <-free; return nil }
		svc.ToolsChanged()
		synctest.Wait()
		for range 100 {
			svc.ToolsChanged() // it does not wait for the round
		}
		close(free)
		store.after(0, func() {
			if store.looks != 2 || len(told.hinted) != 2 {
				t.Errorf("looked %d times, and told watchers %d times", store.looks, len(told.hinted))
			}
		})
	})
}
