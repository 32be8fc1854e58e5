package repository_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// muffle is a TCP proxy whose connections can go silent: they stay open, take
// what is sent, and nothing comes back. Those that are made later work.
type muffle struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	mute   []*bool
}

func newMuffle(t *testing.T, target string) *muffle {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &muffle{ln: ln, target: target}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go m.carry(c)
		}
	}()
	return m
}

func (m *muffle) carry(c net.Conn) {
	defer c.Close()
	far, err := net.Dial("tcp", m.target)
	if err != nil {
		return
	}
	defer far.Close()
	silent := new(bool)
	m.mu.Lock()
	m.mute = append(m.mute, silent)
	m.mu.Unlock()
	go func() { _, _ = io.Copy(far, c); _ = far.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := far.Read(buf)
		if err != nil {
			return
		}
		m.mu.Lock()
		drop := *silent
		m.mu.Unlock()
		if drop {
			continue
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// silence makes every connection that is open now silent.
func (m *muffle) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, silent := range m.mute {
		*silent = true
	}
}

func TestConnectionsThatGoSilentAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	m := newMuffle(t, u.Host)
	u.Host = m.ln.Addr().String()
	s := open(t, repository.Options{URL: u.String(), NetworkTimeout: 200 * time.Millisecond})
	topic, _, err := s.CreateTopic(t.Context(), chat.NewTopic{Model: "demo/guide"})
	if err != nil {
		t.Fatal(err)
	}
	// Several connections rest in the pool.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if _, err := s.Snapshot(t.Context(), topic.ID, 10, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	m.silence()
	failures := 0
	for {
		_, err := s.Status(t.Context(), topic.ID)
		if err == nil {
			break
		}
		if failures++; !errors.Is(err, chat.ErrUnavailable) || failures > 3 {
			t.Fatalf("after %d failures: %v", failures, err)
		}
	}
	if _, _, err := s.Send(t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hello"}}}); err != nil {
		t.Errorf("the store did not recover: %v", err)
	}
}

func TestADialersConnectionsDoNotWaitForEver(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := repository.Dialer(time.Millisecond).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
