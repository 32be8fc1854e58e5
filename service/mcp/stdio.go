package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// processWire is the way to a server that is a process.
func processWire(p *process, stderr *ring) *wire {
	l := newLines(p.stdout, p.stdin, stderr)
	return &wire{
		transport: l,
		traffic:   l.traffic,
		lost:      l.lost,
		end: func() error {
			if p.err != nil {
				return fmt.Errorf("the process ended: %w", p.err)
			}
			return errors.New("the process ended")
		},
		close: func(sessionClosed <-chan struct{}) {
			p.close()
			<-sessionClosed
		},
	}
}

// lines is a transport of one message a line, and its only connection. Lines
// that cannot be a message (banners, warnings) go to the kept lines instead.
//
// The SDK has one too. In that, whoever writes waits for those who write before,
// however long, and a line that is no message ends the session.
type lines struct {
	from    io.ReadCloser
	to      io.WriteCloser
	stray   *ring
	traffic *traffic

	in      *bufio.Reader
	lost    chan error    // gets what Read ended with
	writing chan struct{} // held while a message is written
	closed  chan struct{}
	once    sync.Once
	err     error // of closing
}

func newLines(from io.ReadCloser, to io.WriteCloser, stray *ring) *lines {
	return &lines{
		from: from, to: to, stray: stray, traffic: &traffic{}, in: bufio.NewReaderSize(from, 32<<10),
		lost: make(chan error, 1), writing: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Connect returns the connection.
func (l *lines) Connect(context.Context) (sdk.Connection, error) { return l, nil }

// SessionID is empty: a process is one session.
func (l *lines) SessionID() string { return "" }

// Read returns the next message. Close ends it.
func (l *lines) Read(context.Context) (jsonrpc.Message, error) {
	m, err := l.next()
	// Ways to say that it is over.
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	if err != nil {
		select {
		case l.lost <- err:
		default:
		}
	}
	return m, err
}

func (l *lines) next() (jsonrpc.Message, error) {
	for {
		line, end := l.line()
		if len(line) > 0 {
			m, err := decode(line)
			switch {
			case err != nil && bytes.Contains(line, []byte(`"jsonrpc"`)):
				return nil, err
			case err != nil || m == nil:
				l.stray.add(string(bytes.TrimSpace(line[:min(len(line), maxRawLine)])), len(line) > maxRawLine)
			default:
				if m, err = l.traffic.received(m); m != nil || err != nil {
					return m, err
				}
			}
		}
		if end != nil {
			return nil, end
		}
	}
}

// line returns the next line that may be a message. The last one may come with
// an error.
func (l *lines) line() ([]byte, error) {
	for {
		var line []byte
		message, cut := false, false
		for {
			part, err := l.in.ReadSlice('\n')
			if len(line) == 0 { // the beginning
				part = bytes.TrimLeft(part, " \t\r\n")
				message = len(part) > 0 && part[0] == '{'
			}
			if message && len(line)+len(part) > maxFrame {
				return nil, fmt.Errorf("a message of the server is larger than %s", size(maxFrame))
			}
			if !message && len(line)+len(part) > maxRawLine {
				part, cut = part[:max(0, maxRawLine-len(line))], true
			}
			line = append(line, part...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if message {
				return line, err
			}
			l.stray.add(string(bytes.TrimSpace(line)), cut)
			if err != nil {
				return nil, err
			}
			break
		}
	}
}

// Write writes a message. While others write it waits, until ctx ends.
func (l *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return io.ErrClosedPipe
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.traffic.sending(ctx, m)
	defer l.traffic.sent(m)
	if callOf(m) != nil {
		traceOf(ctx).arrived()
	}
	_, err = l.to.Write(append(data, '\n'))
	return err
}

// Close ends Read, and every Write.
func (l *lines) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = errors.Join(l.from.Close(), l.to.Close())
	})
	return l.err
}
