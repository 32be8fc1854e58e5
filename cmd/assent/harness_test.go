package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assent-chat/assent/api/apitest"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

const (
	childEnv  = "ASSENT_TEST_CHILD" // set: this test binary is a server, see child
	slowEnv   = "ASSENT_TEST_SLOW"  // how long every call of the child's probe takes
	fakeModel = "fake/m"
	patience  = 60 * time.Second // for what must happen at some time; never a measure
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	pgtest.Main(m)
}

// child is the real server in a process that a test can kill: everything but
// for a probe beside the built-in tools, and a model on loopback.
func child() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, _, err := loadConfig("serve", os.Args[1:], os.Getenv, os.Stderr)
	if err == nil {
		var p *probe
		if p, err = newProbe(os.Getenv("ASSENT_TEST_PROBE")); err == nil {
			p.slow, err = time.ParseDuration(orElse(os.Getenv(slowEnv), "0s"))
		}
		if err == nil {
			err = serve(ctx, c, []llm.Provider{{ID: "fake", Title: "Fake", BaseURL: os.Getenv("ASSENT_TEST_MODEL")}}, os.Stdout, c.logger(os.Stderr), p)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// eachDatabase runs a test on SQLite and on PostgreSQL.
func eachDatabase(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, db := range []string{"sqlite", "postgres"} {
		t.Run(db, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: t.TempDir()}
			if db == "postgres" {
				w.databaseURL = pgtest.URL(t)
			}
			p, err := newProbe(filepath.Join(w.dir, "probe"))
			if err != nil {
				t.Fatal(err)
			}
			w.probe = p
			test(t, w)
		})
	}
}

// world is one server with its model, its tools and its clients. The server
// is in this process (start), or in one of its own (spawn).
type world struct {
	t           *testing.T
	dir         string
	databaseURL string
	flags       []string // more of them, for the server
	model       *llmtest.Server
	probe       *probe

	base, token string
	stop        func()   // ends the server; safe to call twice
	proc        *process // of spawn
	printed     printed  // by it
	http        *http.Client
}

// printed is what spawned servers wrote.
type printed struct {
	mu   sync.Mutex
	text []string
}

func (p *printed) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, line)
}

// link is the newest login link.
func (p *printed) link() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range slices.Backward(p.text) {
		if i := strings.Index(line, "http"); i >= 0 && strings.Contains(line, "/login?token=") {
			return line[i:]
		}
	}
	return ""
}

// says gives the world a model that answers the n-th request with the n-th turn.
func (w *world) says(turns ...llmtest.Turn) { w.model = llmtest.New(w.t, turns...) }

// answers gives the world a model that answers by a rule.
func (w *world) answers(rule func(n int, r llmtest.Request) llmtest.Turn) {
	w.model = llmtest.Start(w.t, llmtest.Handler(rule))
}

func (w *world) args() []string {
	return append([]string{
		"-addr", "127.0.0.1:0", "-data-dir", filepath.Join(w.dir, "data"), "-database-url", w.databaseURL, "-model", fakeModel,
		"-log", "warn", "-lease", "1s", "-shutdown-grace", "1s",
	}, w.flags...)
}

func (w *world) modelURL() string {
	if w.model == nil {
		w.says() // a model that must not be asked
	}
	return w.model.URL
}

// start runs the server in this process.
func (w *world) start() {
	w.t.Helper()
	c, _, err := loadConfig("serve", w.args(), func(string) string { return "" }, io.Discard)
	if err != nil {
		w.t.Fatal(err)
	}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	providers := []llm.Provider{{ID: "fake", Title: "Fake", BaseURL: w.modelURL()}}
	go func() {
		err := serve(ctx, c, providers, in, c.logger(testWriter{w.t}), w.probe)
		in.CloseWithError(cmp.Or(err, io.EOF))
		done <- err
	}()
	ready := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, base, ok := strings.Cut(lines.Text(), "is ready on "); ok {
			ready = base
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if ready == "" {
		w.t.Fatalf("the server did not start: %v", <-done)
	}
	w.ready(ready)
	w.stop = sync.OnceFunc(func() {
		w.http.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the server ended with %v", err)
		}
	})
	w.t.Cleanup(w.stop)
}

// spawn runs the server in a process of its own, to be killed.
func (w *world) spawn() {
	w.t.Helper()
	p, err := w.launch()
	if err != nil {
		w.t.Fatal(err)
	}
	w.proc = p
	w.ready(p.base)
	w.stop = sync.OnceFunc(p.kill)
	w.t.Cleanup(w.stop)
}

// launch runs the server in a process of its own and gives it to the caller.
func (w *world) launch() (*process, error) {
	cmd := exec.Command(os.Args[0], w.args()...)
	cmd.Env = append(os.Environ(), childEnv+"=1", "ASSENT_TEST_MODEL="+w.modelURL(), "ASSENT_TEST_PROBE="+w.probe.dir)
	return startCommand(w.t.Context(), cmd, filepath.Join(w.dir, "data"), testWriter{w.t}, w.printed.add)
}

// kill ends the spawned server as a crash would.
func (w *world) kill() { w.stop() }

func (w *world) ready(base string) {
	secret, err := os.ReadFile(filepath.Join(w.dir, "data", "token"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.base, w.token = base, strings.TrimSpace(string(secret))
	if w.http == nil {
		// Every request and answer of every test is held against the contract.
		w.http = &http.Client{Transport: apitest.Transport(w.t, http.DefaultTransport)}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Helper()
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}

// do makes a request and returns whatever comes. body may be nil, a string
// (sent as it is) or anything that JSON can hold.
func (w *world) do(method, path string, body any) (reply, error) {
	return w.request(method, path, body, nil)
}

func (w *world) request(method, path string, body any, header http.Header) (reply, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return reply{}, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, content)
	if err != nil {
		return reply{}, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw}, err
}

// want makes a request whose answer must have the status. One that is to be
// refused as malformed or invalid may break the contract.
func (w *world) want(status int, method, path string, body any) reply {
	w.t.Helper()
	header := http.Header{}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		header.Set(apitest.Unchecked, "1")
	}
	r, err := w.request(method, path, body, header)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	if r.status != status {
		w.t.Fatalf("%s %s: got %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// topic makes a topic and returns its id.
func (w *world) topic() string {
	w.t.Helper()
	var topic chat.Topic
	w.want(201, "POST", "/topics", map[string]any{"title": w.t.Name()}).into(w.t, &topic)
	return topic.ID
}

// sent is the answer to a sent message.
type sent struct {
	Message  wireMessage   `json:"message"`
	Turn     *chat.TurnRef `json:"turn"`
	Queued   bool          `json:"queued"`
	Revision int64         `json:"revision"`
}

// send posts a message.
func (w *world) send(topic, text string) sent {
	w.t.Helper()
	var s sent
	w.want(202, "POST", "/topics/"+topic+"/messages", map[string]any{"text": text}).into(w.t, &s)
	return s
}

// history is the answer to GET messages.
type history struct {
	Messages []wireMessage `json:"messages"`
	Queued   []wireMessage `json:"queued"`
	Status   chat.Status   `json:"status"`
	Revision int64         `json:"revision"`
}

func (w *world) history(topic string) history {
	w.t.Helper()
	var h history
	w.want(200, "GET", "/topics/"+topic+"/messages", nil).into(w.t, &h)
	return h
}

// last is the newest message of the active branch.
func (w *world) last(topic string) wireMessage {
	w.t.Helper()
	h := w.history(topic)
	if len(h.Messages) == 0 {
		w.t.Fatal("the topic has no messages")
	}
	return h.Messages[len(h.Messages)-1]
}

// calls are the tool calls of the newest message.
func (w *world) calls(topic string) []chat.ToolCall {
	w.t.Helper()
	var calls []chat.ToolCall
	for _, c := range w.last(topic).Parts.Calls() {
		calls = append(calls, c.Call)
	}
	return calls
}

// pending are the waiting approvals of a topic, oldest first.
func (w *world) pending(topic string) []chat.ApprovalItem {
	w.t.Helper()
	var list struct {
		Approvals []chat.ApprovalItem `json:"approvals"`
	}
	w.want(200, "GET", "/topics/"+topic+"/approvals?state=pending", nil).into(w.t, &list)
	return list.Approvals
}

// card is the waiting approval of the call with the text.
func (w *world) card(topic, text string) chat.ApprovalItem {
	w.t.Helper()
	for _, a := range w.pending(topic) {
		var in probeInput
		if json.Unmarshal(a.Input, &in) == nil && in.Text == text {
			return a
		}
	}
	w.t.Fatalf("no card waits for %q: %+v", text, w.pending(topic))
	return chat.ApprovalItem{}
}

// approve and deny decide the card of the call with the text.
func (w *world) approve(topic, text string) chat.Decided { return w.decide(topic, text, true, "") }

func (w *world) deny(topic, text, reason string) chat.Decided {
	return w.decide(topic, text, false, reason)
}

func (w *world) decide(topic, text string, approved bool, reason string) chat.Decided {
	w.t.Helper()
	var d chat.Decided
	body := map[string]any{"approvalId": w.card(topic, text).ApprovalID, "approved": approved}
	if reason != "" {
		body["reason"] = reason
	}
	w.want(200, "POST", "/topics/"+topic+"/approvals", body).into(w.t, &d)
	return d
}

func (w *world) status(topic string) chat.Status {
	w.t.Helper()
	var s chat.Status
	w.want(200, "GET", "/topics/"+topic+"/status", nil).into(w.t, &s)
	return s
}

// until waits until the topic's status is the one wanted.
func (w *world) until(topic string, want chat.TopicState) chat.Status {
	w.t.Helper()
	var last chat.Status
	w.eventually(func() bool {
		last = w.status(topic)
		return last.Status == want
	}, func() string { return fmt.Sprintf("the topic is %q, want %q", last.Status, want) })
	return last
}

// eventually looks again and again until ok; patience bounds it.
func (w *world) eventually(ok func() bool, complaint func() string) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			w.t.Fatal(complaint())
		}
	}
}

// audit is the record of the topic, oldest first.
func (w *world) audit(topic string) []chat.AuditEntry {
	w.t.Helper()
	var list struct {
		Entries []chat.AuditEntry `json:"entries"`
	}
	w.want(200, "GET", "/audit?topicId="+topic, nil).into(w.t, &list)
	for i, j := 0, len(list.Entries)-1; i < j; i, j = i+1, j-1 {
		list.Entries[i], list.Entries[j] = list.Entries[j], list.Entries[i]
	}
	return list.Entries
}

// call is one tool call of a model's turn. Every call has its text as its id.
func call(tool, text string, more ...string) llmtest.Call {
	args := `{"text":"` + text + `"`
	for _, m := range more {
		args += "," + m
	}
	return llmtest.Call{ID: "call-" + text, Name: "probe__" + tool, Args: args + "}"}
}
