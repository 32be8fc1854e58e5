package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

// quiet is a database in which nothing happens: one topic with one message that
// is being filled.
type quiet struct{}

func (quiet) Snapshot(_ context.Context, id string, _ int, _ string) (chat.Snapshot, error) {
	return chat.Snapshot{Revision: 1, Messages: []chat.Message{{ID: "m", Role: chat.RoleAssistant, Status: chat.MessagePending, Epoch: 1}}}, nil
}
func (quiet) Status(context.Context, string) (chat.Status, error)                    { return chat.Status{}, chat.ErrGone }
func (quiet) Topics(context.Context, chat.Page) ([]chat.Topic, string, error)        { return nil, "", nil }
func (quiet) Topic(context.Context, string) (chat.Topic, error)                      { return chat.Topic{}, chat.ErrGone }
func (quiet) SettingsMarks(context.Context) (map[chat.SettingsKind]string, error)    { return nil, nil }
func (quiet) Revisions(context.Context, []string, int) ([]chat.TopicRevision, error) { return nil, nil }

func (quiet) Wake()                             {}
func (quiet) Cancel(chat.Epochs)                {}
func (quiet) Answered(string)                   {}
func (quiet) SettingsChanged(chat.SettingsKind) {}

// seen is a client that notes when text came.
type seen struct {
	reader *live.Reader
	ready  chan struct{}
}

// watch returns when the client has its snapshot.
func watch(b *testing.B, h *live.Hub, topic string) seen {
	s := seen{h.Subscribe([]string{topic}, false, ""), make(chan struct{}, 1)}
	s.reader.OnReady(func() {
		select {
		case s.ready <- struct{}{}:
		default:
		}
	})
	for {
		events, err := s.reader.Take(nil)
		if err != nil {
			b.Fatal(err)
		}
		if len(events) > 0 {
			return s
		}
		<-s.ready
	}
}

// until returns when the client has been told of the text that ends there.
func (s seen) until(b *testing.B, end int) time.Time {
	for {
		events, err := s.reader.Take(nil)
		if err != nil {
			b.Error(err)
			return time.Now()
		}
		for _, ev := range events {
			var d struct {
				Offset int
				Text   string
			}
			if err := json.Unmarshal(ev.Data, &d); err != nil {
				b.Error(err)
			}
			if ev.Name == "delta" && d.Offset+len(d.Text) >= end {
				return time.Now()
			}
		}
		<-s.ready
	}
}

// BenchmarkDeltaToAnotherInstance measures how long a delta takes from the step
// that writes it to a client of the same instance and to one of another, in the
// same run, alone and while fifty other steps write. Text is gathered for a
// millisecond and not for forty, so that what is compared is the way.
func BenchmarkDeltaToAnotherInstance(b *testing.B) {
	for name, others := range map[string]int{"alone": 0, "among50": 50} {
		b.Run(name, func(b *testing.B) { deltas(b, others) })
	}
}

func deltas(b *testing.B, others int) {
	url := pgtest.URL(b)
	var hubs [2]*live.Hub
	for i := range hubs {
		p, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: repository.Dialer(0), Key: key})
		if err != nil {
			b.Fatal(err)
		}
		hubs[i] = live.New(quiet{}, live.Options{FlushEvery: time.Millisecond})
		hubs[i].Join(p, quiet{}, quiet{})
		defer func() {
			hubs[i].Close()
			p.Close()
		}()
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	defer writers.Wait()
	defer close(stop)
	for i := range others {
		writers.Go(func() {
			f := chat.Fence{TopicID: fmt.Sprint("other", i), TurnID: fmt.Sprint(i), MessageID: "m", Epoch: 1}
			hubs[0].Begin(f, 1, 0)
			d := chat.Delta{Part: 1, Field: "text", Text: "some words ", Start: chat.Text{}}
			pace := time.NewTicker(40 * time.Millisecond)
			defer pace.Stop()
			for {
				hubs[0].Delta(f, d)
				d.Start, d.Offset = nil, d.Offset+len(d.Text)
				select {
				case <-pace.C:
				case <-stop:
					return
				}
			}
		})
	}
	f := chat.Fence{TopicID: "a", TurnID: "t", MessageID: "m", Epoch: 1}
	here, there := watch(b, hubs[0], "a"), watch(b, hubs[1], "a")
	defer here.reader.Close()
	defer there.reader.Close()
	hubs[0].Begin(f, 1, 0)
	hubs[0].Delta(f, chat.Delta{Part: 1, Field: "text", Text: ".", Start: chat.Text{}})
	here.until(b, 1)
	there.until(b, 1)
	var near, far []time.Duration
	end := 1
	for b.Loop() {
		began := time.Now()
		hubs[0].Delta(f, chat.Delta{Part: 1, Field: "text", Offset: end, Text: "word "})
		end += len("word ")
		near = append(near, here.until(b, end).Sub(began))
		far = append(far, there.until(b, end).Sub(began))
		<-time.After(25 * time.Millisecond) // of quiet: each goes out by itself, as at the pace of a model
	}
	slices.Sort(near)
	slices.Sort(far)
	for name, list := range map[string][]time.Duration{"same": near, "other": far} {
		b.ReportMetric(list[len(list)/2].Seconds()*1000, name+"-p50-ms")
		b.ReportMetric(list[len(list)*99/100].Seconds()*1000, name+"-p99-ms")
	}
	b.ReportMetric(far[len(far)/2].Seconds()/near[len(near)/2].Seconds(), "other/same-p50")
}
