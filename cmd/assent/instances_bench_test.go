package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// deciders is how many people decide at the same time, each in topics of their
// own.
const deciders = 32

// BenchmarkDecisionsWithTheBus measures decisions of 32 people, each committed
// and announced, in turns in one run: by a hub without a bus, by one on a bus
// that another instance hears, and by one on a bus where nobody else is. The
// ratios are the medians of the turns'.
func BenchmarkDecisionsWithTheBus(b *testing.B) {
	url := pgtest.URL(b)
	store, err := repository.Open(b.Context(), repository.Options{URL: url, MaxConns: deciders})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("postgres", url)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	alone := live.New(store, live.Options{})
	defer alone.Close()
	instance := func(channel string) (*bus.Postgres, *live.Hub) {
		p, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: repository.Dialer(0), Key: make([]byte, 32), Channel: channel})
		if err != nil {
			b.Fatal(err)
		}
		h := live.New(store, live.Options{})
		h.Join(p, store, deaf{})
		b.Cleanup(func() {
			h.Close()
			p.Close()
		})
		return p, h
	}
	_, joined := instance("several")
	instance("several")
	lonely, single := instance("one")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !lonely.Stats().Alone { // it takes it that others are there, for a while
		<-tick.C
	}
	topics, approvals := waitingCards(b, store, deciders)
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE cards AS SELECT approval_id, payload FROM parts WHERE approval_id IS NOT NULL`); err != nil {
		b.Fatal(err)
	}

	const each = 20 // decisions of one person in a round
	round := func(h *live.Hub) float64 {
		var all sync.WaitGroup
		var took time.Duration
		for range each {
			for _, s := range []string{
				`UPDATE parts p SET state = 'approval-requested', payload = c.payload FROM cards c WHERE p.approval_id = c.approval_id`,
				`UPDATE turns SET state = 'awaiting-approval' WHERE state = 'queued'`, `DELETE FROM decisions`, `VACUUM topics, parts, turns, decisions`,
			} {
				if _, err := db.ExecContext(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			began := time.Now()
			for i := range deciders {
				all.Go(func() {
					_, c, err := store.Decide(b.Context(), topics[i], []chat.Decision{{ApprovalID: approvals[i], Approved: true}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
					if err != nil {
						b.Error(err)
					}
					h.Publish(b.Context(), c)
					h.Wake()
				})
			}
			all.Wait()
			took += time.Since(began)
		}
		return each * deciders / took.Seconds()
	}
	round(alone)
	results := map[string][]float64{}
	for b.Loop() {
		a, j, o := round(alone), round(joined), round(single)
		for name, value := range map[string]float64{"alone/s": a, "joined/s": j, "joined/alone": j / a, "single/alone": o / a} {
			results[name] = append(results[name], value)
		}
	}
	report(b, results)
}

type deaf struct{}

func (deaf) Wake()                             {}
func (deaf) Cancel(chat.Epochs)                {}
func (deaf) Answered(string)                   {}
func (deaf) SettingsChanged(chat.SettingsKind) {}

// waitingCards makes topics in each of which one call waits.
func waitingCards(b *testing.B, store *repository.Store, n int) (topics, approvals []string) {
	b.Helper()
	ctx := context.Background()
	for range n {
		topic, _, err := store.CreateTopic(ctx, chat.NewTopic{Model: fakeModel})
		if err != nil {
			b.Fatal(err)
		}
		sent, _, err := store.Send(ctx, topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hello"}}})
		if err != nil {
			b.Fatal(err)
		}
		work, _, ok, err := store.Claim(ctx, chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, "owner", time.Hour)
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		f := chat.Fence{TopicID: topic.ID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: work.Turn.Epoch}
		id := rand.Text()
		if _, err := store.CommitStep(ctx, f, chat.Step{Build: func(at time.Time) chat.Parts {
			return chat.Parts{chat.Ask(chat.ToolCall{
				Type: chat.DynamicTool, ToolName: "files__write", ToolCallID: "c", Input: json.RawMessage(`{"text":"` + strings.Repeat("x", 200) + `"}`),
				ToolMetadata: &chat.ToolMetadata{Server: "files", Verdict: chat.VerdictAsk},
			}, id, at)}
		}}); err != nil {
			b.Fatal(err)
		}
		if _, _, _, err := store.Park(ctx, f); err != nil {
			b.Fatal(err)
		}
		topics, approvals = append(topics, topic.ID), append(approvals, id)
	}
	return topics, approvals
}
