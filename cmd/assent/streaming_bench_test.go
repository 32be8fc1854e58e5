package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assent-chat/assent/api"
	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
)

const (
	streamEnv    = "ASSENT_STREAM_CLIENTS" // this binary is the benchmark's tabs
	streamTurns  = 200
	streamTabs   = 5                     // of each
	streamPace   = 40 * time.Millisecond // between two deltas of a turn, as the hub gathers them
	streamBeats  = 50                    // deltas of each turn in a round
	streamWords  = "some of the words that a model says "
	stallOneIn   = 10
	streamPeople = 20 // who share the tabs: one may have a hundred
)

// streamTabsProcess is this binary as a process of tabs, so that what they use is
// not counted as the server's. It returns the code to exit with.
func streamTabsProcess() int {
	if err := streamClients(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tabs:", err)
		return 1
	}
	return 0
}

// tabPlan says what a tab connects to. One that stalls reads nothing.
type tabPlan struct {
	Addr, Path, Token string
	Stalls            bool
}

// heardMarks is what tabs that read have heard since they were last asked:
// every delta bears the time at which it was written.
type heardMarks struct {
	N        int
	P50, P99 time.Duration
}

// streamClients reads plans, one a line, until an empty line, connects, and
// then answers each line with what was heard.
func streamClients(in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	var late []time.Duration
	lines := bufio.NewScanner(in)
	var quiet []net.Conn
	for lines.Scan() && lines.Text() != "" {
		var p tabPlan
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return err
		}
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return err
		}
		if p.Stalls {
			if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				return err
			}
			quiet = append(quiet, c)
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", p.Path, p.Addr, p.Token); err != nil {
			return err
		}
		if p.Stalls {
			continue
		}
		go func() {
			buf, kept, last := make([]byte, 32<<10), 0, int64(0)
			for {
				n, err := c.Read(buf[kept:])
				if err != nil {
					return
				}
				now := time.Now()
				text := buf[:kept+n]
				for {
					at := bytes.IndexByte(text, '@')
					if at < 0 {
						kept = 0
						break
					}
					if len(text) < at+20 { // the rest comes with the next read
						kept = copy(buf, text[at:])
						break
					}
					mark, err := strconv.ParseInt(string(text[at+1:at+20]), 10, 64)
					text = text[at+20:]
					if err != nil || mark <= last {
						continue // not ours, or told again
					}
					last = mark
					mu.Lock()
					late = append(late, now.Sub(time.Unix(0, mark)))
					mu.Unlock()
				}
			}
		}()
	}
	for lines.Scan() {
		mu.Lock()
		h := heardMarks{N: len(late)}
		if lines.Text() == "report" && len(late) > 0 {
			slices.Sort(late)
			h.P50, h.P99 = late[len(late)/2], late[len(late)*99/100]
		}
		if lines.Text() == "report" {
			late = nil
		}
		mu.Unlock()
		if err := json.NewEncoder(out).Encode(h); err != nil {
			return err
		}
	}
	for _, c := range quiet {
		_ = c.Close()
	}
	return nil
}

// audience is a process of tabs.
type audience struct {
	in  io.WriteCloser
	out *json.Decoder
}

func newAudience(b *testing.B, plans []tabPlan) *audience {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), streamEnv+"=1")
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
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	to := json.NewEncoder(in)
	for _, p := range plans {
		if err := to.Encode(p); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		b.Fatal(err)
	}
	return &audience{in, json.NewDecoder(out)}
}

func (a *audience) ask(b *testing.B, what string) (h heardMarks) {
	b.Helper()
	if _, err := io.WriteString(a.in, what+"\n"); err != nil {
		b.Fatal(err)
	}
	if err := a.out.Decode(&h); err != nil {
		b.Fatal(err)
	}
	return h
}

// stage is a server with turns that stream, and the tabs that watch them.
type stage struct {
	*audience
	say     func(turn int, text string)
	readers func() int
	expect  int // deliveries of a round
}

// play has every turn write its deltas at their pace, and says what the tabs
// heard, what this process used for each delivery, and how long it took.
func (s *stage) play(b *testing.B, turns int) (heardMarks, float64, time.Duration) {
	b.Helper()
	s.ask(b, "report")
	began, cpu := time.Now(), usedCPU(b)
	var all sync.WaitGroup
	for i := range turns {
		all.Go(func() {
			wait := time.NewTimer(streamPace * time.Duration(i) / time.Duration(turns)) // they do not speak in chorus
			<-wait.C
			pace := time.NewTicker(streamPace)
			defer pace.Stop()
			for range streamBeats {
				s.say(i, fmt.Sprintf("%s@%019d ", streamWords, time.Now().UnixNano()))
				<-pace.C
			}
		})
	}
	all.Wait()
	said := time.Since(began)
	deadline := time.Now().Add(10 * time.Second)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for s.ask(b, "count").N < s.expect && time.Now().Before(deadline) {
		<-look.C
	}
	used := usedCPU(b) - cpu
	h := s.ask(b, "report")
	return h, used.Seconds() * 1e6 / float64(max(h.N, 1)), said
}

func usedCPU(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// newStage makes a server with turns that stream, each watched by tabs at it
// or, if there is another hub, at that one's server.
func newStage(b *testing.B, store *repository.Store, writes, tells *live.Hub, turns int, stalls bool) *stage {
	b.Helper()
	svc := service.New(service.Deps{Store: store, Live: tells}, service.Options{})
	handler := api.New(api.Options{Service: svc, Events: eventSource{tells}, Hosts: []string{"127.0.0.1"}})
	srv := httptest.NewUnstartedServer(handler.Handler())
	srv.Config.ConnContext = api.ConnContext
	srv.Start()
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = handler.Shutdown(ctx)
		srv.CloseClientConnections()
		srv.Close()
	})
	people := max(streamPeople, turns*streamTabs/100+1)
	tokens := make([]string, people)
	for i := range tokens {
		tokens[i] = rand.Text()
		if err := svc.AddToken(b.Context(), fmt.Sprint("person", i), tokens[i]); err != nil {
			b.Fatal(err)
		}
	}
	fences := make([]chat.Fence, turns)
	offsets := make([]int, turns)
	var plans []tabPlan
	for i := range fences {
		fences[i] = speaking(b, store)
		writes.Begin(fences[i], 1, 0)
		writes.Delta(fences[i], chat.Delta{Part: 1, Field: "text", Start: chat.Text{}})
		for range streamTabs {
			plans = append(plans, tabPlan{
				Addr: srv.Listener.Addr().String(), Path: "/topics/" + fences[i].TopicID + "/events", Token: tokens[len(plans)%people],
				Stalls: stalls && len(plans)%stallOneIn == 0,
			})
		}
	}
	s := &stage{audience: newAudience(b, plans), readers: func() int { return tells.Stats().Readers }}
	for _, p := range plans {
		if !p.Stalls {
			s.expect += streamBeats
		}
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for s.readers() < len(plans) {
		<-look.C
	}
	s.say = func(i int, text string) {
		writes.Delta(fences[i], chat.Delta{Part: 1, Field: "text", Offset: offsets[i], Text: text})
		offsets[i] += len(text)
	}
	return s
}

// speaking is a topic whose turn runs.
func speaking(b *testing.B, store *repository.Store) chat.Fence {
	b.Helper()
	topic, _, err := store.CreateTopic(b.Context(), chat.NewTopic{Model: fakeModel})
	if err != nil {
		b.Fatal(err)
	}
	sent, _, err := store.Send(b.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "go"}}})
	if err != nil {
		b.Fatal(err)
	}
	work, _, ok, err := store.Claim(b.Context(), chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, "owner", time.Hour)
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	return chat.Fence{TopicID: topic.ID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: work.Turn.Epoch}
}

// bareStage is the least that there could be: each delta's bytes go to a
// channel for each tab, and from there to the connection.
func bareStage(b *testing.B, turns int) *stage {
	b.Helper()
	var mu sync.Mutex
	var open atomic.Int64
	fans := make([][]chan []byte, turns)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.URL.Query().Get("turn"))
		if err != nil {
			return
		}
		events := make(chan []byte, 1024)
		mu.Lock()
		fans[i] = append(fans[i], events)
		mu.Unlock()
		open.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		to := http.NewResponseController(w)
		_ = to.Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case e := <-events:
				if _, err := w.Write(e); err != nil || to.Flush() != nil {
					return
				}
			}
		}
	}))
	b.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	var plans []tabPlan
	for i := range turns * streamTabs {
		plans = append(plans, tabPlan{Addr: srv.Listener.Addr().String(), Path: "/?turn=" + strconv.Itoa(i/streamTabs)})
	}
	id := rand.Text()
	s := &stage{audience: newAudience(b, plans), readers: func() int { return int(open.Load()) }, expect: len(plans) * streamBeats}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for s.readers() < len(plans) {
		<-look.C
	}
	s.say = func(i int, text string) { // the same bytes as those of a delta
		e := fmt.Appendf(nil, "id: %s-%d\nevent: delta\ndata: {\"topicId\":%q,\"revision\":3,\"messageId\":%q,\"epoch\":1,\"part\":1,\"field\":\"text\",\"offset\":1234,\"text\":%q}\n\n",
			id[:8], i, id+id[:10], id+id[:10], text)
		mu.Lock()
		defer mu.Unlock()
		for _, c := range fans[i] {
			select {
			case c <- e:
			default:
			}
		}
	}
	return s
}

// BenchmarkStreaming has 200 turns stream to 1,000 tabs over HTTP: a bare
// fan-out, ours, and ours while every tenth tab has stopped to read, in turns
// in one run.
func BenchmarkStreaming(b *testing.B) {
	store, err := repository.Open(b.Context(), repository.Options{Path: filepath.Join(b.TempDir(), "a.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	stages := map[string]*stage{"bare": bareStage(b, streamTurns)}
	for name, stalls := range map[string]bool{"ours": false, "stalled": true} {
		hub := live.New(store, live.Options{})
		b.Cleanup(hub.Close)
		stages[name] = newStage(b, store, hub, hub, streamTurns, stalls)
	}
	results := map[string][]float64{}
	first := true
	for b.Loop() {
		for _, name := range []string{"bare", "ours", "stalled"} {
			h, us, _ := stages[name].play(b, streamTurns)
			if first { // connections learn, rings fill
				continue
			}
			results[name+"-us/delivery"] = append(results[name+"-us/delivery"], us)
			results[name+"-p50-ms"] = append(results[name+"-p50-ms"], h.P50.Seconds()*1000)
			results[name+"-p99-ms"] = append(results[name+"-p99-ms"], h.P99.Seconds()*1000)
			results[name+"-heard"] = append(results[name+"-heard"], float64(h.N)/float64(stages[name].expect))
		}
		first = false
	}
	report(b, results)
	b.ReportMetric(medianOf(results["ours-us/delivery"])/medianOf(results["bare-us/delivery"]), "cpu-ours/bare")
	b.ReportMetric(medianOf(results["stalled-p50-ms"])/medianOf(results["ours-p50-ms"]), "p50-stalled/ours")
}

// BenchmarkStreamingElsewhere has turns stream on one instance to tabs of
// another, over the bus.
func BenchmarkStreamingElsewhere(b *testing.B) {
	for _, turns := range []int{streamTurns, 2 * streamTurns} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			url := pgtest.URL(b)
			store, err := repository.Open(b.Context(), repository.Options{URL: url})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			var hubs [2]*live.Hub
			var buses [2]*bus.Postgres
			for i := range hubs {
				p, err := bus.OpenPostgres(bus.PostgresOptions{URL: url, Dialer: repository.Dialer(0), Key: make([]byte, 32)})
				if err != nil {
					b.Fatal(err)
				}
				buses[i], hubs[i] = p, live.New(store, live.Options{})
				hubs[i].Join(p, store, deaf{})
				b.Cleanup(func() {
					hubs[i].Close()
					p.Close()
				})
			}
			s := newStage(b, store, hubs[0], hubs[1], turns, false)
			results := map[string][]float64{}
			before, first := [2]bus.Stats{}, true
			for b.Loop() {
				h, us, took := s.play(b, turns)
				if first {
					before, first = [2]bus.Stats{buses[0].Stats(), buses[1].Stats()}, false
					continue
				}
				results["offered/s"] = append(results["offered/s"], float64(turns*streamBeats)/took.Seconds())
				results["heard"] = append(results["heard"], float64(h.N)/float64(s.expect))
				results["us/delivery"] = append(results["us/delivery"], us)
				results["p50-ms"] = append(results["p50-ms"], h.P50.Seconds()*1000)
				results["p99-ms"] = append(results["p99-ms"], h.P99.Seconds()*1000)
			}
			report(b, results)
			from, to := buses[0].Stats(), buses[1].Stats()
			b.ReportMetric(float64(from.Dropped-before[0].Dropped), "dropped")
			b.ReportMetric(float64(from.Sent-before[0].Sent)/float64(max(from.Batches-before[0].Batches, 1)), "signals/notification")
			b.ReportMetric(float64(to.Received-before[1].Received)/float64(max(from.Sent-before[0].Sent, 1)), "received/sent")
			b.ReportMetric(float64(hubs[1].Stats().Losses), "losses")
		})
	}
}

func report(b *testing.B, results map[string][]float64) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	for name, list := range results {
		b.ReportMetric(medianOf(list), name)
	}
}

func medianOf(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}
