package mcp

import (
	"bufio"
	"io"
	"strings"
	"sync"
)

const (
	maxStderrLines = 20
	maxStderrBytes = 8 << 10
	maxStderrLine  = 1 << 10
	maxRawLine     = 16 << 10 // read of one line before the rest of it is dropped
)

// ring keeps the last lines that a process wrote, without the secrets it was
// given.
type ring struct {
	secrets secrets
	mu      sync.Mutex
	lines   []string
	bytes   int
}

// read keeps the lines of r until r ends.
func (g *ring) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxRawLine)
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		g.add(string(line), more)
		for more && err == nil { // the rest of an endless line
			_, more, err = lines.ReadLine()
		}
	}
}

// add keeps a line, or the beginning of one that was cut.
func (g *ring) add(line string, wasCut bool) {
	line = g.secrets.hide(storable(line))
	if wasCut { // it may end in a part of a secret, which is not found
		line = storable(line[:max(0, len(line)-g.secrets.longest)])
	}
	line = shorten(line, maxStderrLine)
	if strings.TrimSpace(line) == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, line)
	g.bytes += len(line)
	for len(g.lines) > maxStderrLines || g.bytes > maxStderrBytes {
		g.bytes -= len(g.lines[0])
		g.lines = g.lines[1:]
	}
}

// last returns the kept lines, the oldest first.
func (g *ring) last() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.lines...)
}
