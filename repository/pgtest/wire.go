package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// When says on which side of a statement a Wire is cut.
type When string

// A Wire is cut before a statement reaches the server, or when the server has
// done it and before its answer reaches the client.
const (
	Before When = "before the server has it"
	After  When = "after the server has done it"
)

// Wire is a way to a PostgreSQL server that can be cut at a given statement.
// It knows where a message of the protocol ends, and no more. What the client
// sends up to where it waits for an answer counts as one statement.
type Wire struct {
	ln     net.Listener
	target string

	mu    sync.Mutex
	conns map[net.Conn]bool
	at    int // statements until the cut; 0: none is planned
	when  When
	stays bool
	down  bool
	seen  int
	cut   bool
	of    string
	held  []net.Conn
}

// NewWire returns a wire to the server of a URL, and the URL that leads
// through it. It ends with the test.
func NewWire(t testing.TB, dsn string) (*Wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("pgtest: the URL is not valid")
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	w := &Wire{ln: ln, target: u.Host, conns: map[net.Conn]bool{}}
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
	t.Cleanup(func() { _ = ln.Close(); w.Down(); done.Wait() })
	u.Host = ln.Addr().String()
	return w, u.String()
}

// Cut plans one cut, of all connections, at the n-th statement from now on. If
// it stays, no connection can be made afterwards, until Mend.
func (w *Wire) Cut(n int, when When, stays bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.when, w.stays, w.seen, w.cut, w.of = n, when, stays, 0, false, ""
}

// AtCommit is the next COMMIT, whatever comes before it.
const AtCommit = -1

// CutCommitOf is Cut at the next COMMIT of a transaction in which a statement
// with the text was sent. The text of a prepared one is not.
func (w *Wire) CutCommitOf(text string, when When, stays bool) {
	w.Cut(AtCommit, when, stays)
	w.mu.Lock()
	w.of = text
	w.mu.Unlock()
}

// HoldCommit lets the next COMMIT end nowhere: the client's connection is cut,
// and the server's stays open, and hears nothing more, until the test ends.
func (w *Wire) HoldCommit(t testing.TB) {
	w.Cut(AtCommit, hold, false)
	t.Cleanup(w.release)
}

const hold When = "and the server does not learn of it"

// release ends the connections that were held.
func (w *Wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.held {
		_ = c.Close()
	}
	w.held = nil
}

// Mend ends an outage and takes back a planned cut. It reports whether the cut
// was met.
func (w *Wire) Mend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.down = 0, false
	return w.cut
}

// Down cuts all connections and lets none be made, until Mend.
func (w *Wire) Down() { w.goDown(false) }

// Reset is Down for a client to which the next write on a connection fails, as
// on one whose other end is gone for good.
func (w *Wire) Reset() { w.goDown(true) }

func (w *Wire) goDown(reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for c := range w.conns {
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // one that has ended already has nothing to reset
		}
	}
	w.end()
}

// Lead sends connections that are made from now on to another server, and cuts
// those that there are.
func (w *Wire) Lead(dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = u.Host
	w.end()
	return nil
}

// end closes all connections. The lock is held.
func (w *Wire) end() {
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

// statement is told of one that came, before it goes on. It reports whether
// its answer must not come back, and whether it goes on at all.
func (w *Wire) statement(text string, sent []byte, far net.Conn) (mute, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	switch {
	case w.at == AtCommit && text == "COMMIT" && bytes.Contains(sent, []byte(w.of)):
	case w.at > 0 && w.seen == w.at:
	default:
		return false, true
	}
	if w.when == After {
		return true, true
	}
	if w.when == hold {
		w.held = append(w.held, far)
		delete(w.conns, far)
	}
	w.sever()
	return false, false
}

// sever makes the planned cut. The lock is held.
func (w *Wire) sever() {
	w.cut, w.down, w.at = true, w.stays, 0
	w.end()
}

func (w *Wire) carry(near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	if w.down || w.target != target { // it was cut meanwhile, and would not be known to have been
		w.mu.Unlock()
		return
	}
	w.conns[near], w.conns[far] = true, true
	w.mu.Unlock()
	mute := make(chan bool, 1) // the answer to the statement that was sent
	var forth sync.WaitGroup
	forth.Go(func() {
		w.forth(near, far, mute)
		w.mu.Lock()
		held := slices.Contains(w.held, far)
		w.mu.Unlock()
		if !held {
			_ = far.Close()
		}
	})
	w.back(far, near, mute)
	_ = near.Close()
	forth.Wait()
	w.mu.Lock()
	delete(w.conns, near)
	delete(w.conns, far)
	w.mu.Unlock()
}

// forth carries what the client sends, whole statements at a time.
func (w *Wire) forth(near io.Reader, far net.Conn, mute chan<- bool) {
	first, err := message(near, nil, 0) // the only one without a kind
	if err != nil {
		return
	}
	if _, err := far.Write(first); err != nil {
		return
	}
	var held, sent []byte // the statement; all of the transaction
	for {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(near, kind); err != nil {
			return
		}
		if held, err = message(near, append(held, kind...), len(held)+1); err != nil {
			return
		}
		switch kind[0] {
		case 'Q', 'S', 'X', 'p': // query, sync, goodbye, password
		default:
			continue
		}
		if kind[0] == 'Q' || kind[0] == 'S' {
			text := ""
			if kind[0] == 'Q' {
				text = string(bytes.TrimSuffix(held[5:], []byte{0}))
			}
			if sent = append(sent, held...); strings.HasPrefix(text, "BEGIN") {
				sent = sent[:0]
			}
			quiet, on := w.statement(text, sent, far)
			if !on {
				return
			}
			if quiet {
				mute <- true
			}
		}
		if _, err := far.Write(held); err != nil {
			return
		}
		held = held[:0]
	}
}

// back carries what the server answers, but for what must not come back: when
// that is complete, the wire is cut.
func (w *Wire) back(far io.Reader, near io.Writer, mute <-chan bool) {
	quiet := false
	for {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(far, kind); err != nil {
			return
		}
		m, err := message(far, kind, 1)
		if err != nil {
			return
		}
		select {
		case quiet = <-mute:
		default:
		}
		if quiet {
			if kind[0] == 'Z' { // ready for the next
				w.mu.Lock()
				w.sever()
				w.mu.Unlock()
				return
			}
			continue
		}
		if _, err := near.Write(m); err != nil {
			return
		}
	}
}

// message appends the message that begins in held at an offset with its length.
func message(r io.Reader, held []byte, length int) ([]byte, error) {
	held = append(held, 0, 0, 0, 0)
	if _, err := io.ReadFull(r, held[length:]); err != nil {
		return held, err
	}
	rest := int(binary.BigEndian.Uint32(held[length:])) - 4
	if rest < 0 {
		return held, io.ErrUnexpectedEOF
	}
	at := len(held)
	held = append(held, make([]byte, rest)...)
	_, err := io.ReadFull(r, held[at:])
	return held, err
}
