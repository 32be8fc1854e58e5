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
		g.add(string(line))
		for more && err == nil { // the rest of an endless line
			_, more, err = lines.ReadLine()
		}
	}
}

func (g *ring) add(line string) {
	// Hidden before it is cut, so that no half of a secret stays.
	line = g.secrets.hide(strings.ToValidUTF8(line, "\uFFFD"))
	line = shorten(strings.ReplaceAll(line, "\x00", "\uFFFD"), maxStderrLine)
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

func (g *ring) last() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.lines...)
}
