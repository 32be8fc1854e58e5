package repotest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/assent-chat/assent/service/chat"
)

const rounds = 12

// atOnce runs fns side by side, as nearly at once as can be had.
func atOnce(fns ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, fn := range fns {
		wg.Go(func() { <-start; fn() })
	}
	close(start)
	wg.Wait()
}

var raceTests = map[string]func(*bench){
	"of two equal decisions one is applied, and both are answered": func(b *bench) {
		for range rounds {
			topic, f, approvals := b.waiting(1)
			var ds [2]chat.Decided
			var errs [2]error
			decide := func(i int) func() {
				return func() {
					ds[i], _, errs[i] = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada)
				}
			}
			atOnce(decide(0), decide(1))
			if errs[0] != nil || errs[1] != nil {
				b.Fatal(errs)
			}
			if (ds[0].Results[0].Outcome == chat.EffectApplied) == (ds[1].Results[0].Outcome == chat.EffectApplied) {
				b.Fatalf("effects %s and %s", ds[0].Results[0].Outcome, ds[1].Results[0].Outcome)
			}
			if !ds[0].Results[0].DecidedAt.Equal(ds[1].Results[0].DecidedAt) || ds[0].Revision != ds[1].Revision {
				b.Fatalf("answers %+v", ds)
			}
			b.same("claimable for one turn", f.TurnID, b.claim(topic.ID, f.TurnID).TurnID)
		}
	},
	"of an approval and a denial one wins, and the loser learns who": func(b *bench) {
		for range rounds {
			topic, f, approvals := b.waiting(1)
			var errs [2]error
			atOnce(
				func() {
					_, _, errs[0] = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, chat.Decider{Name: "yes"})
				},
				func() {
					_, _, errs[1] = b.Decide(b.ctx, topic.ID, []chat.Decision{no(approvals[0])}, chat.Decider{Name: "no"})
				},
			)
			winner, loser := "yes", errs[1]
			if errs[0] != nil {
				winner, loser = "no", errs[0]
			}
			var decided *chat.DecidedError
			if (errs[0] == nil) == (errs[1] == nil) || !errors.As(loser, &decided) || decided.DecidedBy != winner {
				b.Fatalf("errors %v, won by %s", errs, winner)
			}
			got := b.calls(topic.ID, f.MessageID)[0]
			if got.Approval.DecidedBy != winner || *got.Approval.Approved != (winner == "yes") {
				b.Fatalf("stored %+v", got.Approval)
			}
		}
	},
	"two decisions on one message in the same instant both stay, and one lets the turn go on": func(b *bench) {
		for range rounds {
			topic, f, approvals := b.waiting(2)
			var ds [2]chat.Decided
			var errs [2]error
			decide := func(i int) func() {
				return func() {
					ds[i], _, errs[i] = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[i])}, ada)
				}
			}
			atOnce(decide(0), decide(1))
			if errs[0] != nil || errs[1] != nil {
				b.Fatal(errs)
			}
			got := []chat.Continuation{ds[0].Continuation, ds[1].Continuation}
			if ds[0].Revision > ds[1].Revision {
				got[0], got[1] = got[1], got[0]
			}
			b.same("continuations", []chat.Continuation{chat.ContinuationWaiting, chat.ContinuationScheduled}, got)
			for _, c := range b.calls(topic.ID, f.MessageID) {
				if !c.Approval.Granted() {
					b.Fatalf("a decision was lost: %+v", c)
				}
			}
		}
	},
	"sixteen deciders on eight calls: each call has one decision, and the turn goes on once": func(b *bench) {
		topic, f, approvals := b.waiting(8)
		var mu sync.Mutex
		applied, scheduled := map[string]int{}, 0
		var fns []func()
		for n := range 16 {
			fns = append(fns, func() {
				for i := range approvals {
					id := approvals[(i+n)%len(approvals)]
					d, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{{ApprovalID: id, Approved: n%2 == 0}}, chat.Decider{Name: fmt.Sprint(n)})
					if err != nil {
						if !errors.Is(err, chat.ErrConflict) {
							b.Errorf("decide: %v", err)
						}
						continue
					}
					mu.Lock()
					if d.Results[0].Outcome == chat.EffectApplied {
						applied[id]++
					}
					if d.Continuation == chat.ContinuationScheduled {
						scheduled++
					}
					mu.Unlock()
				}
			})
		}
		atOnce(fns...)
		for _, id := range approvals {
			b.same("decisions on "+id, 1, applied[id])
			if _, ok := b.auditOf(id); !ok {
				b.Errorf("approval %s is not on record", id)
			}
		}
		b.same("continuations", 1, scheduled)
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
	"a decision meets the park: the turn never sleeps with nothing to wait for, and goes on once": func(b *bench) {
		for range 2 * rounds {
			topic, f := b.start()
			approvals := b.asking(f, 1)
			var d chat.Decided
			var parked bool
			var derr, perr error
			atOnce(
				func() { d, _, derr = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada) },
				func() { parked, _, _, perr = b.Park(b.ctx, f.Fence) },
			)
			if derr != nil || perr != nil {
				b.Fatal(derr, perr)
			}
			want, state := chat.ContinuationRunning, 0
			if parked {
				want, state = chat.ContinuationScheduled, 1
			}
			if d.Continuation != want {
				b.Fatalf("parked %v, and the decision says %s", parked, d.Continuation)
			}
			found := 0
			for _, id := range b.claimable() {
				if id == f.TurnID {
					found++
				}
			}
			b.same("claimable", state, found)
			b.state(topic.ID, chat.TopicPending)
			if parked { // off the list for the next round
				b.claim(topic.ID, f.TurnID)
			}
		}
	},
	"of owners that claim one turn at once, one has it": func(b *bench) {
		for range rounds {
			topic := b.topic()
			sent := b.send(topic.ID, "hello")
			var mu sync.Mutex
			won := 0
			var fns []func()
			for n := range 4 {
				fns = append(fns, func() {
					_, _, ok, err := b.Claim(b.ctx, chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, fmt.Sprint(n), lease)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						b.Errorf("claim: %v", err)
					}
					if ok {
						won++
					}
				})
			}
			atOnce(fns...)
			b.same("owners", 1, won)
		}
	},
	"a stop meets a decision: the call is never both stopped and to run": func(b *bench) {
		for range rounds {
			topic, f, approvals := b.waiting(1)
			var derr, serr error
			atOnce(
				func() { _, _, derr = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada) },
				func() { _, _, serr = b.Stop(b.ctx, topic.ID) },
			)
			if serr != nil || derr != nil && !errors.Is(derr, chat.ErrGone) {
				b.Fatal(derr, serr)
			}
			got := b.calls(topic.ID, f.MessageID)[0]
			if derr == nil && got.ToolMetadata.Outcome != chat.OutcomeStopped || derr != nil && got.Approval.Resolution != chat.ResolutionCancelled {
				b.Fatalf("decided %v, call %+v", derr == nil, got)
			}
			b.state(topic.ID, chat.TopicAborted)
			b.same("claimable", []string{}, b.claimable())
		}
	},
	"a deletion meets a decision: it is applied or gone": func(b *bench) {
		for range rounds {
			topic, f, approvals := b.waiting(1)
			var derr, xerr error
			atOnce(
				func() { _, _, derr = b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada) },
				func() { _, _, xerr = b.DeleteMessage(b.ctx, topic.ID, f.MessageID) },
			)
			if xerr != nil || derr != nil && !errors.Is(derr, chat.ErrGone) {
				b.Fatal(derr, xerr)
			}
			_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{yes(approvals[0])}, ada)
			b.is(err, chat.ErrGone)
			entry, ok := b.auditOf(approvals[0])
			if !ok || entry.Approved != (derr == nil) {
				b.Fatalf("recorded %+v, decided: %v", entry, derr)
			}
			b.same("claimable", []string{}, b.claimable())
		}
	},
	"one message id sent many times at once is stored once": func(b *bench) {
		topic := b.topic()
		var mu sync.Mutex
		first := 0
		turns := map[string]bool{}
		var fns []func()
		for range 8 {
			fns = append(fns, func() {
				sent, _, err := b.Send(b.ctx, topic.ID, chat.NewMessage{ID: "m", Parts: say("hello")})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					b.Errorf("send: %v", err)
					return
				}
				turns[sent.Turn.ID] = true
				if !sent.Repeated {
					first++
				}
			})
		}
		atOnce(fns...)
		if first != 1 || len(turns) != 1 {
			b.Errorf("stored %d times, %d turns", first, len(turns))
		}
	},
	"one taker has a token": func(b *bench) {
		if err := b.PutToken(b.ctx, chat.Token{Digest: "d", Kind: chat.TokenLogin, Principal: "ada"}, 0); err != nil {
			b.Fatal(err)
		}
		var mu sync.Mutex
		taken := 0
		var fns []func()
		for range 8 {
			fns = append(fns, func() {
				_, err := b.TakeToken(b.ctx, "d", chat.TokenLogin)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken++
				} else if !errors.Is(err, chat.ErrNotFound) {
					b.Errorf("take: %v", err)
				}
			})
		}
		atOnce(fns...)
		b.same("takers", 1, taken)
	},
}
