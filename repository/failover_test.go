package repository_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// TestNoDecisionIsLostWhenAStandbyIsPromoted plays a failover in the middle of
// decisions: what was answered is there afterwards, what was not can be
// repeated, and connections that were made too early are left.
func TestNoDecisionIsLostWhenAStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	first, err := pgtest.Start("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { do(t, first.Stop()) })
	wire, through := pgtest.NewWire(t, first.URL())
	s := open(t, repository.Options{URL: through, MaxConns: 8})
	s.Patience(time.Nanosecond) // an unknown outcome is to be met, and not waited for
	const deciders, each = 4, 8
	var fences [deciders][each]chat.Fence
	for d := range fences {
		for i := range fences[d] {
			fences[d][i] = waiting(t, s, fmt.Sprintf("%d-%d", d, i))
		}
	}
	second, err := first.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { do(t, second.Stop()) })

	half := make(chan struct{}, deciders) // a decider has made half of its decisions
	errs := make(chan error, deciders*each)
	var wg sync.WaitGroup
	for d := range fences {
		wg.Go(func() {
			for i, f := range fences[d] {
				if i == each/2 {
					half <- struct{}{}
				}
				id := fmt.Sprintf("%d-%d", d, i)
				for {
					got, err := decide(t.Context(), s, f, id)
					if err == nil {
						if o := got.Results[0].Outcome; o != chat.EffectApplied && o != chat.EffectAlreadySettled {
							errs <- fmt.Errorf("decision %s: %+v", id, got)
						}
						break
					}
					if !errors.Is(err, chat.ErrUnavailable) {
						errs <- fmt.Errorf("decision %s: %w", id, err)
						break
					}
				}
			}
		})
	}
	<-half
	do(t, first.Halt())
	do(t, wire.Lead(second.URL()))
	// It is a standby yet, which can be read and not written.
	if _, err := s.Status(t.Context(), fences[0][0].TopicID); err != nil {
		t.Errorf("reading from the standby: %v", err)
	}
	if _, _, err := s.CreateTopic(t.Context(), chat.NewTopic{}); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "can only be read") {
		t.Errorf("writing to the standby: %v", err)
	}
	do(t, second.Promote())
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	for d := range fences {
		for i, f := range fences[d] {
			c, err := s.Call(t.Context(), f.TopicID, fmt.Sprintf("%d-%d", d, i))
			if err != nil || c.State != chat.CallApprovalResponded {
				t.Errorf("decision %d-%d: %s, %v", d, i, c.State, err)
			}
			if entries, _, err := s.Audit(t.Context(), f.TopicID, chat.Page{Limit: 10}); err != nil || len(entries) != 1 {
				t.Errorf("decision %d-%d was recorded %d times, %v", d, i, len(entries), err)
			}
		}
	}
}
