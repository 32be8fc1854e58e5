package mcp

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestRingKeepsTheLastLines(t *testing.T) {
	var many bytes.Buffer
	for i := range 100 {
		many.WriteString("line " + strconv.Itoa(i) + "\n\n")
	}
	g := &ring{}
	g.read(&many)
	if last := g.last(); len(last) != maxStderrLines || last[0] != "line 80" || last[19] != "line 99" {
		t.Errorf("kept %q", last)
	}
	g = &ring{secrets: newSecrets(chat.MCPServer{Env: map[string]string{"A": "s3cret-value"}})}
	g.read(strings.NewReader(strings.Repeat("x", 100<<10) + "s3cret-value\n" + strings.Repeat("s3cret-value ", 1000) + "\nNUL \x00 and \xff\n"))
	last := g.last()
	if len(last) != 3 || last[2] != "NUL \uFFFD and \uFFFD" {
		t.Errorf("kept %d lines, the last of them %q", len(last), last[len(last)-1])
	}
	for _, line := range last {
		if strings.Contains(line, "s3cret") || len(line) > maxStderrLine {
			t.Errorf("a line of %d bytes: %.100q", len(line), line)
		}
	}
	g = &ring{}
	g.read(strings.NewReader(strings.Repeat(strings.Repeat("y", 1000)+"\n", 20)))
	if n := len(strings.Join(g.last(), "")); n > maxStderrBytes || n < maxStderrBytes-1000 {
		t.Errorf("%d bytes are kept", n)
	}
	var none *ring
	if none.last() != nil {
		t.Error("no ring has lines")
	}
}
