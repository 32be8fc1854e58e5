package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// events is a stream of server-sent events on its way to the SDK. Each of them
// is looked at as a whole, and left out if it may not pass.
type events struct {
	io.ReadCloser
	in      *bufio.Reader
	traffic *traffic
	call    *jsonrpc.Request // that the stream answers, nil if it answers none
	wrong   func(error)      // told once of what must end the session
	broken  func(error)      // told once when the stream breaks off

	out []byte // what may pass and was not read yet
	err error  // what comes then
}

func newEvents(body io.ReadCloser, t *traffic, call *jsonrpc.Request) *events {
	return &events{ReadCloser: body, in: bufio.NewReaderSize(body, 32<<10), traffic: t, call: call}
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 && e.err == nil {
		e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	if n == 0 && len(p) > 0 {
		return 0, e.err
	}
	return n, nil
}

// next reads one event.
func (e *events) next() {
	var event, data []byte
	var name string
	for {
		line, err := e.line(maxFrame - len(event))
		if err != nil && !errors.Is(err, io.EOF) {
			e.err = err
			if errors.Is(err, errTooLarge) {
				e.wrong(err)
			} else {
				e.broken(err)
			}
			return
		}
		e.err = err
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch value = bytes.TrimSpace(value); string(field) {
		case "data":
			if data == nil {
				data = slices.Clone(value)
			} else {
				data = append(append(data, '\n'), value...)
			}
		case "event":
			name = string(value)
			event = append(event, line...)
		case "id", "retry":
			event = append(event, line...)
		}
		if len(event)+len(data) > maxFrame {
			e.err = errTooLarge
			e.wrong(errTooLarge)
			return
		}
		// Its other fields, and its comments, mean nothing.
		if end := len(bytes.TrimRight(line, "\r\n")) == 0; end || err != nil {
			break
		}
	}
	if len(data) > 0 && (name == "" || name == "message") {
		if data = e.judge(data); e.err != nil && !errors.Is(e.err, io.EOF) {
			return
		}
	}
	if len(data) > 0 {
		for line := range bytes.Lines(data) {
			event = append(append(append(event, "data: "...), bytes.TrimRight(line, "\n")...), '\n')
		}
	}
	if len(event) > 0 {
		e.out = append(event, '\n')
	}
}

// judge returns the data of an event that may pass, nil if it may not.
func (e *events) judge(data []byte) []byte {
	m, err := decode(data)
	if err == nil && m != nil {
		was := m
		if m, err = e.traffic.received(m); m != nil && m != was {
			data, err = jsonrpc.EncodeMessage(m)
		}
	}
	if err != nil {
		e.err = err
		e.wrong(err)
		return nil
	}
	if m == nil {
		return nil
	}
	if r, ok := m.(*jsonrpc.Response); ok && e.call != nil && r.ID == e.call.ID {
		e.err = io.EOF // what comes after the answer is read by nobody
	}
	return data
}

var errTooLarge = fmt.Errorf("a message of the server is larger than %s", size(maxFrame))

// line returns the next line, with its end.
func (e *events) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errTooLarge
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
