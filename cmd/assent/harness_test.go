package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

const (
	childEnv  = "ASSENT_TEST_CHILD" // set: this test binary is a server, see child
	slowEnv   = "ASSENT_TEST_SLOW"  // how long every call of the child's probe takes
	nameEnv   = "ASSENT_TEST_NAME"  // which of several servers the child is
	fakeModel = "fake/m"
	patience  = 60 * time.Second // for what must happen at some time; never a measure
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(childEnv) != "":
		os.Exit(child())
	case os.Getenv(streamEnv) != "":
		os.Exit(streamTabsProcess())
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
			err = serve(ctx, c, []llm.Provider{{ID: "fake", Title: "Fake", BaseURL: os.Getenv("ASSENT_TEST_MODEL")}}, os.Stdout, c.logger(os.Stderr), seen{p, os.Getenv(nameEnv)})
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
	each(t, test, "sqlite", "postgres")
}

// eachDeployment runs a test on SQLite, on PostgreSQL, and on two instances
// that share a PostgreSQL database.
func eachDeployment(t *testing.T, test func(t *testing.T, w *world)) {
	each(t, test, "sqlite", "postgres", "instances")
}

func each(t *testing.T, test func(t *testing.T, w *world), deployments ...string) {
	t.Parallel()
	for _, d := range deployments {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			dsn := ""
			if d != "sqlite" {
				dsn = pgtest.URL(t)
			}
			w := newWorld(t, dsn)
			if d == "instances" {
				w.pair()
			}
			test(t, w)
		})
	}
}

// world is a server with its model, its tools and its clients. The server is
// in this process (start), or in one of its own (spawn). It may be the first
// of several: requests and tabs then go to each in turn, those that are down
// left out.
type world struct {
	t           *testing.T
	dir         string
	databaseURL string
	flags       []string // more of them, for the server
	model       *llmtest.Server
	probe       *probe

	base, token string
	stop        func()   // ends all servers; safe to call twice
	proc        *process // of spawn
	printed     printed  // by it
	http        *http.Client

	member // of a group; see pair
}

// newWorld is a world whose server does not run yet. Without a URL it keeps its
// data in SQLite.
func newWorld(t *testing.T, databaseURL string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), databaseURL: databaseURL}
	var err error
	if w.probe, err = newProbe(filepath.Join(w.dir, "probe")); err != nil {
		t.Fatal(err)
	}
	return w
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
	return w.watched(w.model)
}

// start runs in this process what does not run.
func (w *world) start() {
	w.t.Helper()
	w.bring(func(i *world) { i.startOne() })
}

func (w *world) startOne() {
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
		err := serve(ctx, c, providers, in, c.logger(testWriter{w.t}), seen{w.probe, w.name})
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
	w.up(func() {
		w.http.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the server ended with %v", err)
		}
	})
}

// spawn runs in processes of their own, to be killed, what does not run.
func (w *world) spawn() {
	w.t.Helper()
	w.bring(func(i *world) {
		if err := i.spawnOne(); err != nil {
			w.t.Fatal(err)
		}
	})
}

func (w *world) spawnOne() error {
	p, err := w.launch()
	if err != nil {
		return err
	}
	w.proc = p
	w.ready(p.base)
	w.up(p.kill)
	return nil
}

// launch runs the server in a process of its own and gives it to the caller.
func (w *world) launch() (*process, error) {
	cmd := exec.Command(os.Args[0], w.args()...)
	cmd.Env = append(os.Environ(), childEnv+"=1", "ASSENT_TEST_MODEL="+w.modelURL(), "ASSENT_TEST_PROBE="+w.probe.dir, nameEnv+"="+w.name)
	return startCommand(w.t.Context(), cmd, filepath.Join(w.dir, "data"), testWriter{w.t}, w.printed.add)
}

// kill ends a spawned server as a crash would. Of several it is the one that
// was at work last; the others stay.
func (w *world) kill() { w.atWork().end() }

func (w *world) ready(base string) {
	secret, err := os.ReadFile(filepath.Join(w.dir, "data", "token"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.base = base
	if token := strings.TrimSpace(string(secret)); w.token != token { // a restart changes nothing that others read
		w.token = token
	}
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
