package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

const (
	fanoutEnv    = "ASSENT_FANOUT_CLIENTS"
	fanoutConns  = 1000
	fanoutRounds = 5
	fanoutBursts = 25  // of a round
	fanoutBurst  = 16  // events
	fanoutMark   = '~' // stands once in every event
)

// The benchmark's clients are this binary again, so that what they use is not
// counted as the server's.
func init() {
	if spec := os.Getenv(fanoutEnv); spec != "" {
		if err := fanoutClients(spec); err != nil {
			fmt.Fprintln(os.Stderr, "fanout clients:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// fanoutClients opens connections and counts the events that they get. For
// each number read from stdin it writes a line once that many have come. The
// stalled ones read nothing.
func fanoutClients(spec string) error {
	var addr string
	var conns, stalled int
	if _, err := fmt.Sscan(spec, &addr, &conns, &stalled); err != nil {
		return fmt.Errorf("parse %q: %w", spec, err)
	}
	var total, target atomic.Int64
	reached := make(chan struct{}, 1)
	target.Store(1 << 62)
	var quiet []net.Conn // referred to until the end, so that none is closed
	defer func() { runtime.KeepAlive(quiet) }()
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		if i < stalled {
			if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		if i < stalled {
			quiet = append(quiet, c)
			continue
		}
		go func() {
			buf := make([]byte, 16<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if got := bytes.Count(buf[:n], []byte{fanoutMark}); got > 0 && total.Add(int64(got)) >= target.Load() {
					select {
					case reached <- struct{}{}:
					default:
					}
				}
			}
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		n, err := strconv.ParseInt(in.Text(), 10, 64)
		if err != nil {
			return err
		}
		for target.Store(n); total.Load() < n; <-reached {
		}
	}
	return nil
}

// crowd is a process of clients and the server that they are connected to.
type crowd struct {
	publish func()
	in      io.Writer
	out     *bufio.Scanner
	healthy int64
	sent    int64
	us      []float64 // CPU of this process per delivery, of each round
	kib     float64   // resident memory of this process per idle connection
}

func newCrowd(b *testing.B, handler http.HandlerFunc, open func() int, publish func(), stalled int) *crowd {
	b.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ConnContext = ConnContext
	srv.Start()
	b.Cleanup(srv.Close)
	before := resident(b)
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", fanoutEnv, srv.Listener.Addr(), fanoutConns, stalled))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil && b.Context().Err() == nil {
			b.Error(err)
		}
	})
	c := &crowd{publish: publish, in: in, out: bufio.NewScanner(out), healthy: int64(fanoutConns - stalled)}
	for open() < fanoutConns {
		runtime.Gosched()
	}
	c.sent = c.healthy // the greeting of each
	c.wait(b)
	c.kib = float64(resident(b)-before) / fanoutConns / 1024
	return c
}

// burst publishes events and waits until all clients that read have them.
func (c *crowd) burst(b *testing.B) {
	for range fanoutBurst {
		c.publish()
	}
	c.sent += fanoutBurst * c.healthy
	c.wait(b)
}

func (c *crowd) wait(b *testing.B) {
	fmt.Fprintln(c.in, c.sent)
	if !c.out.Scan() {
		b.Fatal("the clients have ended")
	}
}

func (c *crowd) round(b *testing.B) {
	before := cpu(b)
	for range fanoutBursts {
		c.burst(b)
	}
	c.us = append(c.us, float64((cpu(b)-before).Microseconds())/float64(fanoutBursts*fanoutBurst*c.healthy))
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func resident(b *testing.B) int64 {
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// plainHub is the least that a hand-written fan-out can be: a channel for each
// client, what gathers in it goes out in one write, under a deadline.
type plainHub struct {
	mu      sync.Mutex
	clients map[chan []byte]bool
}

func (h *plainHub) publish(frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		select {
		case c <- frame:
		default:
			delete(h.clients, c) // has fallen behind
			close(c)
		}
	}
}

func (h *plainHub) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

func (h *plainHub) serve(w http.ResponseWriter, r *http.Request) {
	c := make(chan []byte, 256)
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %c\n\n", fanoutMark)
	_ = rc.Flush()
	h.mu.Lock()
	h.clients[c] = true
	h.mu.Unlock()
	for {
		select {
		case <-r.Context().Done():
			return
		case frame, ok := <-c:
			if !ok || rc.SetWriteDeadline(time.Now().Add(10*time.Second)) != nil {
				return
			}
			for more := true; more; {
				if _, err := w.Write(frame); err != nil {
					return
				}
				select {
				case frame, more = <-c:
				default:
					more = false
				}
			}
			if rc.Flush() != nil {
				return
			}
		}
	}
}

// noStatus is a source whose topic never changes.
type noStatus struct{ topicSource }

func (*noStatus) Status(context.Context, string) (chat.Status, error) {
	return chat.Status{}, chat.NotFound("There is no status.")
}

// BenchmarkFanout compares the hub and its streams with the least that a
// hand-written fan-out can be: the CPU that the delivery of an event costs, as
// the median of alternating rounds.
func BenchmarkFanout(b *testing.B) {
	for _, stalled := range []int{0, fanoutConns / 10} {
		b.Run(fmt.Sprintf("stalled=%d", stalled), func(b *testing.B) {
			text := string(fanoutMark) + strings.Repeat("x", 150)

			s := testStreamer()
			s.perPrincipal = fanoutConns
			h := live.New(&noStatus{topicSource{revision: 1, text: string(fanoutMark)}}, live.Options{})
			b.Cleanup(h.Close)
			b.Cleanup(func() {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				_ = s.shutdown(ctx)
			})
			revision := int64(1)
			ours := newCrowd(b, func(w http.ResponseWriter, r *http.Request) {
				s.serve(w, r, h.Subscribe([]string{"t"}, false, ""), "")
			}, func() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) }, func() {
				revision++
				h.Publish(context.Background(), chat.Change{TopicID: "t", Revision: revision, Removed: []string{text}})
			}, stalled)

			plain := &plainHub{clients: map[chan []byte]bool{}}
			frame := []byte("id: abcdefgh.12345.t0123456789\ndata: {\"topicId\":\"t\",\"revision\":12345,\"messageId\":\"" + text + "\"}\nevent: message.removed\n\n")
			hand := newCrowd(b, plain.serve, plain.open, func() { plain.publish(frame) }, stalled)

			ours.burst(b)
			hand.burst(b)
			for b.Loop() {
				for range fanoutRounds {
					ours.round(b)
					hand.round(b)
				}
			}
			var ratios []float64
			for i := range ours.us {
				ratios = append(ratios, ours.us[i]/hand.us[i])
			}
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(ours.us), "µs-cpu/delivery")
			b.ReportMetric(median(hand.us), "µs-cpu/delivery-plain")
			if stalled == 0 { // later, the process has memory to spare
				b.ReportMetric(ours.kib, "KiB/idle-conn")
				b.ReportMetric(hand.kib, "KiB/idle-conn-plain")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
