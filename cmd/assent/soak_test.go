//go:build soak

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// soakEnv is how many seconds the servers are kept at work.
const soakEnv = "ASSENT_SOAK_SECONDS"

const (
	soakPeople = 3 // of each server
	soakSample = 2 * time.Second
	soakCount  = 10 * time.Second // between two counts of the rows
	boxRestart = 15 * time.Second
)

// TestSoak keeps two servers on PostgreSQL and one on SQLite at an even load
// and measures them from outside: what they hold and keep must level off.
func TestSoak(t *testing.T) {
	seconds, err := strconv.Atoi(orElse(os.Getenv(soakEnv), "120"))
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(seconds) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	var soaks []*soak
	for name, url := range map[string]string{"postgres": pgtest.URL(t), "sqlite": ""} {
		s := newSoak(t, name, url)
		soaks = append(soaks, s)
		for n := range soakPeople * len(s.procs) {
			all.Go(func() { s.person(ctx, n) })
		}
		all.Go(func() { s.measure(ctx, length) })
	}
	all.Wait()
	for _, s := range soaks {
		s.judge(t, length)
	}
}

// soak is a database with its servers at work.
type soak struct {
	t     *testing.T
	name  string
	w     *world
	procs []*process
	rows  *rowCounter
	turns atomic.Int64 // that have ended
	tabs  atomic.Int64
	asked atomic.Int64 // questions that were answered
	begun time.Time

	mu     sync.Mutex
	series map[string]*series
}

func newSoak(t *testing.T, name, databaseURL string) *soak {
	t.Helper()
	s := &soak{t: t, name: name, series: map[string]*series{}, w: newWorld(t, databaseURL)}
	if databaseURL != "" {
		s.w.pair()
	}
	s.w.answers(s.answer)
	s.w.flags = []string{"-log", "error"}
	s.w.spawn()
	for _, i := range s.w.servers() {
		s.procs = append(s.procs, i.proc)
	}
	at := soakBox(t)
	server := s.w.addServer(map[string]any{"name": "box", "url": at})
	s.w.want(200, "PATCH", serverPath(server.ID), map[string]any{"autoApproveTools": []string{"ask"}})
	var err error
	if s.rows, err = openRowCounter(databaseURL, filepath.Join(s.w.dir, "data", "assent.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.rows.close)
	s.begun = time.Now()
	return s
}

// answer is the model: words, two gated calls and a free one, now and then a
// tool that asks the person; and the end.
func (s *soak) answer(n int, r llmtest.Request) llmtest.Turn {
	if r.Messages[len(r.Messages)-1].Role == "tool" {
		return llmtest.Text("that ", "is ", "all.")
	}
	calls := []llmtest.Call{call("note", fmt.Sprint(n, "a")), call("note", fmt.Sprint(n, "b")), call("peek", fmt.Sprint(n, "c"))}
	if n%4 == 0 {
		calls = append(calls, llmtest.Call{ID: fmt.Sprint("ask", n), Name: "box__ask", Args: `{}`})
	}
	return llmtest.Text("let ", "me ", "see. ", strings.Repeat("words ", 50)).Then(llmtest.Calls(calls...))
}

// soakBox is an MCP server that asks, at an address that stays, and is
// restarted now and then.
func soakBox(t *testing.T) string {
	t.Helper()
	b := &box{server: sdk.NewServer(&sdk.Implementation{Name: "box", Version: "1"}, nil)}
	b.asks()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			srv := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server }, nil), ReadHeaderTimeout: patience}
			go func() { _ = srv.Serve(listener) }()
			again := pause(ctx, boxRestart)
			_ = srv.Close()
			for again {
				if listener, err = net.Listen("tcp", at); err == nil {
					break
				}
				again = pause(ctx, 50*time.Millisecond)
			}
			if !again {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return "http://" + at
}

// any is one of the servers.
func (s *soak) any() *process { return s.procs[rand.IntN(len(s.procs))] }

// person makes topics, sends, decides, looks on, and deletes most of them.
func (s *soak) person(ctx context.Context, n int) {
	for round := n; ctx.Err() == nil; round++ {
		if err := s.visit(ctx, round); err != nil && ctx.Err() == nil {
			s.t.Errorf("%s: %v", s.name, err)
			return
		}
	}
}

func (s *soak) visit(ctx context.Context, round int) error {
	var topic chat.Topic
	if err := s.any().call(ctx, "POST", "/topics", map[string]any{"title": "soak"}, &topic); err != nil {
		return err
	}
	path := "/topics/" + topic.ID
	leave, err := s.tab(ctx, topic.ID, round%5 == 0)
	if err != nil {
		return err
	}
	defer leave()
	turns := 1 + round%2
	for range turns { // the second is queued
		if err := s.any().call(ctx, "POST", path+"/messages", map[string]any{"text": "go on"}, nil); err != nil {
			return err
		}
	}
	stopped := round%7 == 0
	for done := 0; done < turns; {
		var st chat.Status
		if err := s.any().call(ctx, "GET", path+"/status", nil, &st); err != nil {
			return err
		}
		switch {
		case st.Status == chat.TopicAwaitingApproval && stopped:
			if err := s.any().call(ctx, "POST", path+"/stop", nil, nil); err != nil {
				return err
			}
			done = turns
		case st.Status == chat.TopicAwaitingApproval:
			if err := s.decide(ctx, path); err != nil {
				return err
			}
		case st.OpenQuestions > 0:
			if err := s.reply(ctx, topic.ID); err != nil {
				return err
			}
		case st.QueuedMessages == 0 && st.Status == chat.TopicDone:
			done = turns
		case st.Status == chat.TopicError, st.Status == chat.TopicAborted:
			return fmt.Errorf("topic %s is %q", topic.ID, st.Status)
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	s.turns.Add(int64(turns))
	if round%3 == 0 {
		return nil
	}
	return s.any().call(ctx, "DELETE", path, nil, nil)
}

// decide answers the cards of a topic, each at a server of its own.
func (s *soak) decide(ctx context.Context, path string) error {
	var list struct {
		Approvals []chat.ApprovalItem `json:"approvals"`
	}
	if err := s.any().call(ctx, "GET", path+"/approvals?state=pending", nil, &list); err != nil {
		return err
	}
	for i, a := range list.Approvals {
		if err := s.any().call(ctx, "POST", path+"/approvals", map[string]any{"approvalId": a.ApprovalID, "approved": i%2 == 0}, nil); err != nil {
			return err
		}
	}
	return nil
}

// reply answers the questions of a topic. One whose tool is gone meanwhile is
// none any more.
func (s *soak) reply(ctx context.Context, topicID string) error {
	var list struct {
		Questions []chat.QuestionItem `json:"questions"`
	}
	if err := s.any().call(ctx, "GET", "/questions?limit=200", nil, &list); err != nil {
		return err
	}
	for _, q := range list.Questions {
		if q.TopicID != topicID {
			continue
		}
		at := "/topics/" + topicID + "/messages/" + q.MessageID + "/questions/" + q.Question.ID
		err := s.any().call(ctx, "POST", at, map[string]any{"action": "accept", "content": map[string]any{"place": "there"}}, nil)
		if err != nil && !strings.Contains(err.Error(), ": 410 ") && !strings.Contains(err.Error(), ": 409 ") {
			return err
		}
		s.asked.Add(1)
	}
	return nil
}

// tab opens an event stream. One that stalls reads nothing.
func (s *soak) tab(ctx context.Context, topicID string, stalls bool) (leave func(), err error) {
	p := s.any()
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, "GET", p.base+"/events?topic="+topicID, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != 200 {
		cancel()
		return nil, fmt.Errorf("a tab: %s", resp.Status)
	}
	s.tabs.Add(1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		if stalls {
			<-ctx.Done()
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	return func() {
		cancel()
		<-read
		_ = resp.Body.Close()
	}, nil
}

// note adds a value to a series.
func (s *soak) note(name string, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series[name] == nil {
		s.series[name] = &series{}
	}
	s.series[name].add(time.Since(s.begun), value)
}

// measure looks at the servers and their database until ctx ends.
func (s *soak) measure(ctx context.Context, length time.Duration) {
	sample, count, warm, end := time.NewTicker(soakSample), time.NewTicker(soakCount), time.After(warmUp(length)), time.After(length-soakSample)
	defer sample.Stop()
	defer count.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-warm:
			s.profile()
		case <-end:
			s.profile()
		case <-sample.C:
			for i, p := range s.procs {
				if err := s.look(ctx, fmt.Sprint("server ", i+1, " "), p); err != nil && ctx.Err() == nil {
					s.t.Errorf("%s: %v", s.name, err)
				}
			}
		case <-count.C:
			if err := s.countRows(ctx); err != nil && ctx.Err() == nil {
				s.t.Errorf("%s: count the rows: %v", s.name, err)
			}
		}
	}
}

// look reads what a process tells and what the system knows of it.
func (s *soak) look(ctx context.Context, prefix string, p *process) error {
	req, err := http.NewRequestWithContext(ctx, "GET", p.base+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	numbers := readNumbers(s.t, text)
	// The next collection is due at twice what the last one has left.
	s.note(prefix+"heap after GC, MiB", numbers["go_memstats_next_gc_bytes"]/2/(1<<20))
	s.note(prefix+"goroutines", numbers["go_goroutines"])
	s.note(prefix+"live readers", numbers["assent_live_readers"])
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		return err
	}
	s.note(prefix+"open files", float64(len(fds)))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return err
			}
			s.note(prefix+"RSS, MiB", kib/1024)
		}
	}
	return nil
}

func (s *soak) countRows(ctx context.Context) error {
	before := s.turns.Load()
	counts, err := s.rows.count(ctx)
	if err != nil {
		return err
	}
	turns := float64(before+s.turns.Load()) / 2
	for name, n := range counts {
		if table, ok := strings.CutPrefix(name, "rows of "); ok {
			s.mu.Lock()
			if s.series["per turn, "+table] == nil {
				s.series["per turn, "+table] = &series{per: true}
			}
			s.series["per turn, "+table].pair(time.Since(s.begun), n, turns)
			s.mu.Unlock()
			continue
		}
		s.note(name, n)
	}
	return nil
}

// warmUp is what does not count: a topic is remembered for a minute and a half
// after somebody watched it.
func warmUp(length time.Duration) time.Duration {
	return max(length/4, min(length*3/4, 100*time.Second))
}

// judge prints what was measured, and complains of what grows.
func (s *soak) judge(t *testing.T, length time.Duration) {
	t.Logf("%s: %d turns, %d tabs, %d questions", s.name, s.turns.Load(), s.tabs.Load(), s.asked.Load())
	if s.turns.Load() == 0 || s.tabs.Load() == 0 || s.asked.Load() == 0 {
		t.Errorf("%s: nothing was done", s.name)
	}
	t.Logf("%-34s %10s %10s %8s %12s %6s", s.name, "1st half", "2nd half", "change", "slope/h", "z")
	names := make([]string, 0, len(s.series))
	for name := range s.series {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := s.series[name].judge(warmUp(length), length)
		t.Logf("%-34s %10.2f %10.2f %+7.1f%% %+12.2f %+6.1f", name, v.first, v.second, 100*v.change(), v.slope, v.z)
		if share, least := limits(name); v.change() > share && v.second-v.first > least && v.z > 3 {
			t.Errorf("%s: %s grows: %.2f in the first half after the warm-up, %.2f in the second", s.name, name, v.first, v.second)
		}
	}
}
