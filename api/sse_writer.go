package api

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	streamChunk  = 32 << 10 // each has its own deadline, so a slow client only has to be steady
	streamBuffer = 64 << 10 // what is gathered before it is written; larger pieces go through
)

var errStreamCut = errors.New("the stream was cut")

// streamWriter is what the library writes to. Of the library it takes the
// header, and each Flush as the sign that the handler is awake; the frames are
// written here, gathered into one write under a deadline, and the first error
// ends the connection: the library ignores errors. It has Flush because the
// library asks for http.Flusher by type and does not unwrap.
type streamWriter struct {
	http.ResponseWriter
	conn    *connection
	rc      *http.ResponseController
	http2   bool
	buf     *bytes.Buffer // nil while nothing waits to be written
	started bool          // the header is out
	err     error
	cut     atomic.Bool

	mu    sync.Mutex
	ended bool // the handler returns: the connection is not ours any more
}

func newStreamWriter(w http.ResponseWriter, r *http.Request, c *connection) *streamWriter {
	return &streamWriter{ResponseWriter: w, conn: c, rc: http.NewResponseController(w), http2: r.ProtoMajor >= 2}
}

func (w *streamWriter) WriteHeader(status int) {
	if !w.http2 { // there, it would end the other streams of the connection
		w.Header().Set("Connection", "close") // the last deadline stays set on it
	}
	_ = w.rc.SetReadDeadline(time.Time{}) // where it cannot be set there is none
	w.ResponseWriter.WriteHeader(status)
}

// Write drops what the library makes of a wake-up.
func (w *streamWriter) Write(p []byte) (int, error) { return len(p), nil }

// Flush is called by the library after the header and after each wake-up.
func (w *streamWriter) Flush() {
	if !w.started {
		w.started = true
		if !w.send() {
			w.conn.cancel()
		}
	}
	w.conn.drain()
}

// frame adds an event to what is sent next.
func (w *streamWriter) frame(id string, data []byte, name, retry string) {
	if w.buf == nil {
		w.buf = streamBuffers.Get().(*bytes.Buffer)
	}
	w.buf.WriteString("id: ")
	w.buf.WriteString(id)
	w.buf.WriteString("\ndata: ")
	if w.buf.Len()+len(data) > streamBuffer {
		w.write(w.buf.Bytes())
		w.buf.Reset()
		w.write(data)
	} else {
		w.buf.Write(data)
	}
	w.buf.WriteString("\nevent: ")
	w.buf.WriteString(name)
	if retry != "" {
		w.buf.WriteString("\nretry: ")
		w.buf.WriteString(retry)
	}
	w.buf.WriteString("\n\n")
}

// streamBuffers holds buffers between batches, so that an idle stream has none.
var streamBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func giveBack(b *bytes.Buffer) {
	if b.Cap() <= streamBuffer {
		b.Reset()
		streamBuffers.Put(b)
	}
}

// write sends p, in pieces, each under a deadline.
func (w *streamWriter) write(p []byte) {
	for len(p) > 0 && w.arm() {
		n := min(len(p), streamChunk)
		_, w.err = w.ResponseWriter.Write(p[:n])
		p = p[n:]
	}
}

// arm sets the deadline of the next write. It reports false if there must be
// none. A cut that comes after the deadline is set moves it to the past.
func (w *streamWriter) arm() bool {
	if w.err == nil {
		_ = w.rc.SetWriteDeadline(time.Now().Add(w.conn.s.writeTimeout)) // where it cannot be set, writes are not bounded
		if w.cut.Load() {
			w.err = errStreamCut
		}
	}
	return w.err == nil
}

// send writes what has been added, or the header. It reports false if the
// connection has ended.
func (w *streamWriter) send() bool {
	if w.buf != nil {
		w.write(w.buf.Bytes())
		giveBack(w.buf)
		w.buf = nil
	} else {
		w.arm()
	}
	if w.err == nil { // what the server holds back is small, and the deadline just set
		w.err = w.rc.Flush()
	}
	if w.err == nil && w.http2 {
		// On HTTP/2 a deadline is a timer of the stream, which resets it even
		// while nothing is written.
		_ = w.rc.SetWriteDeadline(time.Time{})
	}
	return w.err == nil
}

// abort frees a handler that is stuck in a write.
func (w *streamWriter) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.cut.Store(true)
		_ = w.rc.SetWriteDeadline(time.Unix(1, 0)) // where it cannot be set, nothing frees it
	}
}

// done says that the handler returns.
func (w *streamWriter) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}
