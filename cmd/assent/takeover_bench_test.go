package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// BenchmarkTakeover kills the server that runs a turn, again and again, and
// measures how long it is until another asks the model in its place, in leases.
// A lease is 0 to 0.3 old when its owner dies, and what has ended is found by
// the next look, 0.3 later at most: so 0.7 to 1.3, and the other's own work.
func BenchmarkTakeover(b *testing.B) {
	const lease = time.Second
	dir, url := b.TempDir(), pgtest.URL(b)
	asked := make(chan int, 16) // who asked the model
	var servers [2]*process
	start := func(n int) {
		model := llmtest.Start(b, llmtest.Handler(func(int, llmtest.Request) llmtest.Turn {
			asked <- n
			return llmtest.Text("I think").Then(llmtest.Hang(nil))
		}))
		data := filepath.Join(dir, string(rune('a'+n)))
		if err := os.MkdirAll(data, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "secret.key"), []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-addr", "127.0.0.1:0", "-data-dir", data, "-database-url", url, "-model", fakeModel, "-log", "error", "-lease", lease.String())
		cmd.Env = append(os.Environ(), childEnv+"=1", "ASSENT_TEST_MODEL="+model.URL, "ASSENT_TEST_PROBE="+dir)
		p, err := startCommand(b.Context(), cmd, data, new(bytes.Buffer), func(string) {})
		if err != nil {
			b.Fatal(err)
		}
		servers[n] = p
	}
	for n := range servers {
		start(n)
		b.Cleanup(func() { servers[n].kill() })
	}
	var took []float64
	for b.Loop() {
		var topic chat.Topic
		if err := servers[0].call(b.Context(), "POST", "/topics", map[string]any{}, &topic); err != nil {
			b.Fatal(err)
		}
		path := "/topics/" + topic.ID
		if err := servers[0].call(b.Context(), "POST", path+"/messages", map[string]any{"text": "go"}, nil); err != nil {
			b.Fatal(err)
		}
		owner := <-asked
		if err := servers[owner].wait(b.Context(), topic.ID, chat.TopicStreaming); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		servers[owner].kill()
		if by := <-asked; by == owner {
			b.Fatal("the model was asked by a server that is dead")
		}
		took = append(took, time.Since(began).Seconds()/lease.Seconds())
		if err := servers[1-owner].call(b.Context(), "DELETE", path, nil, nil); err != nil {
			b.Fatal(err)
		}
		start(owner)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "leases-p50")
	b.ReportMetric(took[len(took)*9/10], "leases-p90")
	b.ReportMetric(took[len(took)-1], "leases-max")
}
