package main

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// wire is a TCP proxy that can be cut: connections end, and new ones are
// refused until it is mended.
type wire struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	dead   bool
	conns  map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, target: target, conns: map[net.Conn]bool{}}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			done.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); w.cut(); done.Wait() })
	return w
}

func (w *wire) carry(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return
	}
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	if dead = w.dead; !dead { // it may have been cut since
		w.conns[c], w.conns[far] = true, true
	}
	w.mu.Unlock()
	if dead {
		return
	}
	go func() { _, _ = io.Copy(far, c); _ = far.Close() }()
	_, _ = io.Copy(c, far)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

func TestDatabaseDownIsSaidAndRecoversByItself(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := newWire(t, u.Host)
	u.Host = proxy.ln.Addr().String()
	w.databaseURL = u.String()
	if w.probe, err = newProbe(filepath.Join(w.dir, "probe")); err != nil {
		t.Fatal(err)
	}
	w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
	w.start()
	topic := w.topic()
	w.send(topic, "go")
	w.until(topic, chat.TopicAwaitingApproval)
	id := w.card(topic, "a").ApprovalID
	b := w.open("", nil, topic)
	b.converge(topic)

	proxy.cut()
	for _, tt := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/readyz", nil},
		{"GET", "/topics/" + topic, nil},
		{"GET", "/topics/" + topic + "/events", nil},
		{"POST", "/topics/" + topic + "/messages", map[string]any{"text": "lost?"}},
		{"POST", "/topics/" + topic + "/approvals", map[string]any{"approvalId": id, "approved": true}},
	} {
		r := w.want(503, tt.method, tt.path, tt.body)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", tt.method, tt.path)
		}
	}
	w.want(200, "GET", "/healthz", nil)

	proxy.mend()
	w.eventually(func() bool { r, err := w.do("GET", "/readyz", nil); return err == nil && r.status == 200 }, func() string { return "the server did not recover" })
	if h := w.history(topic); len(h.Messages) != 2 || len(h.Queued) != 0 {
		t.Errorf("what was answered 503 was stored: %+v", h)
	}
	w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})
	w.until(topic, chat.TopicDone)
	b.converge(topic)
	if n := w.probe.starts(t, "a"); n != 1 {
		t.Errorf("started %d times", n)
	}
}
