package bus_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/live"
)

var _ live.Bus = (*bus.Postgres)(nil)

func TestMain(m *testing.M) { pgtest.Main(m) }

// key is what the instances share.
var key = make([]byte, 32)

const patience = time.Minute // for what must happen at some time; never a measure

// ear is an instance that listens.
type ear struct {
	*bus.Postgres
	mu    sync.Mutex
	heard []string
	lost  int
	news  chan struct{}
}

// join connects an instance to the database.
func join(t *testing.T, url string, dialer dialer) *ear {
	t.Helper()
	b, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: dialer, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{Postgres: b, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		b.Receive(ctx, func(m []byte) { e.note(func() { e.heard = append(e.heard, string(m)) }) }, func() { e.note(func() { e.lost++ }) })
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		b.Close()
	})
	e.until(t, "it is connected", func() bool { return e.lost > 0 })
	return e
}

func (e *ear) note(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// until waits until ok, which may read what was heard.
func (e *ear) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		e.mu.Lock()
		done := ok()
		e.mu.Unlock()
		if done {
			return
		}
		select {
		case <-e.news:
		case <-end.C:
			t.Fatalf("it never comes that %s", what)
		}
	}
}

func (e *ear) hears(t *testing.T, message string) {
	t.Helper()
	e.until(t, fmt.Sprintf("%.20q is heard", message), func() bool { return slices.Contains(e.heard, message) })
}

// dialer bounds reads as the store's does, and can be made to refuse.
type dialer struct{ refuse func() bool }

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.refuse != nil && d.refuse() {
		return nil, fmt.Errorf("refused")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d dialer) DialTimeout(network, address string, _ time.Duration) (net.Conn, error) {
	return d.Dial(network, address)
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesReachTheOthers(t *testing.T) {
	url := pgtest.URL(t)
	a, b := join(t, url, dialer{}), join(t, url, dialer{})
	for _, message := range []string{"plain", "quo'te \\ \"", "é😀\n", "\x00\xff binary", "", strings.Repeat("ü", live.MaxMessage/2)} {
		a.Send([]byte(message))
		b.hears(t, message)
	}
	b.Send([]byte("back"))
	a.hears(t, "back")
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heard) != 1 {
		t.Errorf("it hears itself: %.100q", a.heard)
	}
}

func TestADatabaseOfAnotherEncodingCarriesTheSame(t *testing.T) {
	own := pgtest.URL(t)
	execute(t, own, `CREATE DATABASE latin_bus ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	t.Cleanup(func() { execute(t, own, `DROP DATABASE latin_bus WITH (FORCE)`) })
	url := own[:strings.LastIndex(own, "/")] + "/latin_bus?sslmode=disable"
	a, b := join(t, url, dialer{}), join(t, url, dialer{})
	a.Send([]byte("日本 😀"))
	b.hears(t, "日本 😀")
}

func TestABurstArrivesWholeAndInOrder(t *testing.T) {
	url := pgtest.URL(t)
	a, b := join(t, url, dialer{}), join(t, url, dialer{})
	const n = 3000
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", i%300)))
		a.Send([]byte(want[i]))
	}
	b.until(t, "all are heard", func() bool { return len(b.heard) >= n })
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.heard, want) {
		t.Error("they are not what was sent")
	}
}

func TestACutConnectionIsALossAndHeals(t *testing.T) {
	url := pgtest.URL(t)
	a, b := join(t, url, dialer{}), join(t, url, dialer{})
	a.Send([]byte("before"))
	b.hears(t, "before")
	for i := range 3 {
		b.mu.Lock()
		lost := b.lost
		b.mu.Unlock()
		execute(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'assent bus'`)
		b.until(t, "the loss is told", func() bool { return b.lost > lost })
		// What is said while the connection is away may be lost. It comes back by itself.
		deadline := time.Now().Add(patience)
		for n := 0; ; n++ {
			message := fmt.Sprint("after ", i, n)
			a.Send([]byte(message))
			end := time.NewTimer(200 * time.Millisecond)
			select {
			case <-b.news:
			case <-end.C:
			}
			b.mu.Lock()
			heard := slices.ContainsFunc(b.heard, func(s string) bool { return strings.HasPrefix(s, fmt.Sprint("after ", i)) })
			b.mu.Unlock()
			if heard {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing is heard any more")
			}
		}
	}
}

func TestWhatASenderLostIsToldToTheOthers(t *testing.T) {
	url := pgtest.URL(t)
	var mu sync.Mutex
	refused := true
	b := join(t, url, dialer{})
	a, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: dialer{func() bool { mu.Lock(); defer mu.Unlock(); return refused }}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	piece := make([]byte, 7000)
	for range 2000 { // 14 MB, while nothing can be sent: it neither waits nor grows
		a.Send(piece)
	}
	b.mu.Lock()
	lost := b.lost
	b.mu.Unlock()
	mu.Lock()
	refused = false
	mu.Unlock()
	b.until(t, "the loss is told", func() bool { return b.lost > lost })
	a.Send([]byte("again"))
	b.hears(t, "again")
}

func TestADatabaseThatIsAwayHoldsUpNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b, err := bus.OpenPostgres(bus.PostgresOptions{URL: "postgres://nobody@127.0.0.1:1/none?sslmode=disable", Dialer: dialer{}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Receive(ctx, func([]byte) {}, func() {
			select {
			case lost <- struct{}{}:
			default:
			}
		})
	}()
	b.Send([]byte("x"))
	<-lost
	<-lost // and again, while it lasts
	cancel()
	<-done
	b.Close()
}

func TestAWrongURLIsNotShown(t *testing.T) {
	for _, url := range []string{"postgres://u:hunter2@h:port/x", "postgres://u:hunter2@%zz/"} {
		if _, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: dialer{}, Key: key}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}

func TestInstancesSeeEachOtherComeAndCount(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := join(t, url, dialer{}), join(t, url, dialer{})
	a.Send([]byte("hello"))
	b.until(t, "it is greeted", func() bool { return slices.Contains(b.heard, "hello") })
	if s := b.Stats(); s.Received != 1 || s.Alone || s.Foreign != 0 {
		t.Errorf("who heard it counts %+v", s)
	}
	for a.Stats().Sent == 0 { // it is counted a moment after it was sent
		runtime.Gosched()
	}
	if s := a.Stats(); s.Sent != 1 || s.Batches == 0 || s.Alone || s.Unsent != 0 || s.Dropped != 0 {
		t.Errorf("who said it counts %+v", s)
	}
}
