package mcp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// stopStep is how long a process may take to end after its input was
	// closed, and once more after it was told to terminate.
	stopStep = 2 * time.Second
	// drainTime is how long the output of a process that has ended is read on:
	// something that left its group may hold it open for ever.
	drainTime = 5 * time.Second
)

// inherited are the variables of ours that a tool server needs to run at all.
// It is given nothing else that was not configured for it.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// process is one run of a tool server's command, in a process group of its
// own. It is started once and never again.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *ring
	ended  chan struct{} // closed when the process, and its group, are gone
	err    error         // of the process; read after ended
	stop   sync.Once
}

// startProcess starts the server's command. Its standard error goes to stderr.
func startProcess(s chat.MCPServer, getenv func(string) string, stderr *ring) (*process, error) {
	cmd := exec.Command(s.Command, s.Args...) //nolint:noctx // it outlives the call; the process is stopped by close
	cmd.Dir = s.Dir
	cmd.Env = environment(s.Env, getenv)
	ownGroup(cmd)
	p := &process{cmd: cmd, stderr: stderr, ended: make(chan struct{})}

	// Pipes of our own rather than those of exec: Wait must return when the
	// process ends, not when the last of its children closes them.
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close() //nolint:errcheck // nothing was written, or it is the other side's end
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(ours, theirs...))
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		if len(ours) == 0 {
			r, w = w, r // standard input is written by us
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p.stdin, p.stdout = ours[0], ours[1]
	err := cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, fmt.Errorf("start the process: %w", err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		stderr.read(ours[2])
	}()
	go p.wait(ours[2], drained)
	return p, nil
}

// wait reaps the process, ends what it left behind and closes the pipes.
func (p *process) wait(stderr *os.File, drained <-chan struct{}) {
	defer close(p.ended)
	p.err = p.cmd.Wait()
	killGroup(p.cmd.Process.Pid)
	deadline := time.Now().Add(drainTime)
	p.stdout.SetReadDeadline(deadline) //nolint:errcheck // closed already: nothing is read from it
	stderr.SetReadDeadline(deadline)   //nolint:errcheck // a pipe of ours takes deadlines
	<-drained
	stderr.Close()  //nolint:errcheck // read to its end
	p.stdin.Close() //nolint:errcheck // nobody reads it
}

// close ends the process and its group: first by the end of its input, then
// with a signal, then by force. It returns when they are gone.
func (p *process) close() {
	p.stop.Do(func() {
		p.stdin.Close() //nolint:errcheck // the session may have closed it
		for _, end := range []func(int){terminateGroup, killGroup} {
			patience := time.NewTimer(stopStep)
			select {
			case <-p.ended:
				patience.Stop()
				return
			case <-patience.C:
				end(p.cmd.Process.Pid)
			}
		}
	})
	<-p.ended
	p.stdout.Close() //nolint:errcheck // the session may have closed it
}

func environment(configured map[string]string, getenv func(string) string) []string {
	env := []string{}
	for _, name := range inherited {
		if _, ok := configured[name]; ok {
			continue
		}
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range configured {
		env = append(env, name+"="+value)
	}
	return env
}

// messages is the standard output of a tool server. Lines that cannot be a
// message (banners, warnings) go to the kept lines instead: one of them would
// end the session.
type messages struct {
	from  io.ReadCloser
	stray *ring
	buf   []byte // read and not yet given on
	line  lineKind
	kept  []byte // of a stray line
}

type lineKind int

const (
	lineStart lineKind = iota
	lineMessage
	lineStray
)

func (m *messages) Close() error { return m.from.Close() }

func (m *messages) Read(p []byte) (int, error) {
	for {
		n := m.filter(p)
		if n > 0 {
			return n, nil
		}
		chunk := make([]byte, 32<<10)
		got, err := m.from.Read(chunk)
		m.buf = chunk[:got]
		if got == 0 && err != nil {
			if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				err = io.EOF
			}
			return 0, err
		}
	}
}

// filter moves what belongs to messages from the buffer to p.
func (m *messages) filter(p []byte) int {
	n := 0
	for len(m.buf) > 0 && n < len(p) {
		c := m.buf[0]
		switch {
		case m.line == lineStart && c == '{':
			m.line = lineMessage
		case m.line == lineStart && c != ' ' && c != '\t' && c != '\r' && c != '\n':
			m.line = lineStray
		}
		if m.line == lineMessage {
			end := len(m.buf)
			for i, b := range m.buf {
				if b == '\n' {
					end, m.line = i+1, lineStart
					break
				}
			}
			moved := copy(p[n:], m.buf[:end])
			if moved < end {
				m.line = lineMessage
			}
			n, m.buf = n+moved, m.buf[moved:]
			continue
		}
		m.buf = m.buf[1:]
		if m.line == lineStray && c != '\n' && len(m.kept) < maxRawLine {
			m.kept = append(m.kept, c)
		}
		if c == '\n' {
			if m.line == lineStray {
				m.stray.add(string(m.kept))
			}
			m.line, m.kept = lineStart, nil
		}
	}
	return n
}
