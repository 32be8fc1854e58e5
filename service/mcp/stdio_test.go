package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// readAll reads messages to the end, and returns them as they would be sent.
func readAll(t *testing.T, l *lines) (got []string, end error) {
	t.Helper()
	for {
		m, err := l.Read(t.Context())
		if err != nil {
			return got, err
		}
		raw, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
}

func lineReader(r io.Reader, stray *ring) *lines {
	return newLines(io.NopCloser(r), nil, stray)
}

func TestOnlyMessagesReachTheSession(t *testing.T) {
	in := "Starting…\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n\n  [info] hello\n" +
		`  {"jsonrpc":"2.0","id":2,"result":{"b":"x\n{"}}` + "\n{debug} warming up\n" + `{"level":"info"}` + "\n" +
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}` + "\n" + strings.Repeat("x", 100<<10) + "\nno newline"
	want := []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"result":{"b":"x\n{"}}`}
	wantStray := []string{
		"Starting…", "[info] hello", "{debug} warming up", `{"level":"info"}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, strings.Repeat("x", maxStderrLine-3) + "…", "no newline",
	}
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	}
	for name, reader := range readers {
		t.Run(name, func(t *testing.T) {
			stray := &ring{}
			got, err := readAll(t, lineReader(reader(strings.NewReader(in)), stray))
			if !errors.Is(err, io.EOF) {
				t.Errorf("it ended with %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantStray, stray.last()); diff != "" {
				t.Errorf("stray lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatEndsASession(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a message that is cut off", `{"jsonrpc":"2.0","id":1,"resu` + "\n", "cannot be read"},
		{"a message of another version", `{"jsonrpc":"1.0","id":1,"result":{}}` + "\n", "cannot be read"},
		{"an id that is none", `{"jsonrpc":"2.0","id":[1],"result":{}}` + "\n", "cannot be read"},
		{"a message without end", "{" + strings.Repeat(" ", maxFrame), "larger than 40.0 MiB"},
		{"a message of too many values", `{"jsonrpc":"2.0","id":1,"result":[` + strings.Repeat("{},", maxTokens) + `1]}` + "\n", "holds"},
		{"more questions than answers", strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", maxOpen+1), "asks more than it hears"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readAll(t, lineReader(strings.NewReader(tt.in), &ring{}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("it ended with %v, want %q", err, tt.want)
			}
			if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
				t.Errorf("it ended with what could be an answer: %#v", err)
			}
		})
	}
}

func TestMuchTextIsOneMessage(t *testing.T) {
	text := strings.Repeat(`[{\",`, (32<<20)/5)
	m, err := lineReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{"text":"`+text+`"}}`+"\n"), &ring{}).Read(t.Context())
	if r, ok := m.(*jsonrpc.Response); err != nil || !ok || len(r.Result) < len(text) {
		t.Errorf("got %T, %v", m, err)
	}
}

func TestServersAreHeardInBounds(t *testing.T) {
	request := func(method string, params int) jsonrpc.Message {
		id, err := jsonrpc.MakeID(1.0)
		if err != nil {
			t.Fatal(err)
		}
		return &jsonrpc.Request{ID: id, Method: method, Params: make([]byte, params)}
	}
	note := func(method string, params int) jsonrpc.Message {
		return &jsonrpc.Request{Method: method, Params: make([]byte, params)}
	}
	passes := func(t *testing.T, traffic *traffic, m jsonrpc.Message, want string) {
		t.Helper()
		got, err := traffic.received(m)
		method := ""
		if got != nil {
			method = got.(*jsonrpc.Request).Method
		}
		if err != nil || method != want {
			t.Errorf("%q passed as %q, %v", m.(*jsonrpc.Request).Method, method, err)
		}
	}
	traffic := &traffic{}
	passes(t, traffic, request("ping", maxRequest), "ping")
	passes(t, traffic, request("sampling/createMessage", maxRequest+1), "request-too-large")
	passes(t, traffic, note("notifications/message", 10), "")
	passes(t, traffic, note("notifications/progress", maxRequest+1), "")
	for range maxHeard {
		passes(t, traffic, note("notifications/progress", 10), "notifications/progress")
	}
	passes(t, traffic, note("notifications/progress", 10), "")
	traffic.handled()
	passes(t, traffic, note("notifications/progress", 10), "notifications/progress")
	for range 3 * maxOpen { // each of them is answered
		passes(t, traffic, request("ping", 0), "ping")
		traffic.sent(&jsonrpc.Response{})
	}
}

// blockingWriter takes what is written only when it is told to.
type blockingWriter struct{ released chan struct{} }

func (w *blockingWriter) Write(p []byte) (int, error) {
	<-w.released
	return len(p), nil
}

func (w *blockingWriter) Close() error {
	close(w.released)
	return nil
}

func TestNobodyWaitsForeverToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &blockingWriter{make(chan struct{})}
		l := newLines(io.NopCloser(strings.NewReader("")), w, &ring{})
		errs := make(chan error, 3)
		write := func(ctx context.Context, name string) {
			if err := l.Write(ctx, &jsonrpc.Request{Method: name}); err != nil {
				errs <- fmt.Errorf("%s: %w", name, err)
			}
		}
		go write(t.Context(), "first") // the server reads nothing
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go write(ctx, "second")
		go write(t.Context(), "third")
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "second") {
			t.Errorf("got %v", err)
		}
		l.Close()
		l.Close()
		synctest.Wait()
		if ended := l.Write(t.Context(), &jsonrpc.Request{Method: "fourth"}); !errors.Is(ended, io.ErrClosedPipe) && ended != nil {
			t.Errorf("after the end: %v", ended)
		}
	})
}
