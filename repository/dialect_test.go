package repository

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/assent-chat/assent/service/chat"
)

func TestMacrosAndPlaceholders(t *testing.T) {
	const query = `UPDATE t SET a = {now+?}, b = {now} WHERE c = ? AND d <= {now-?}`
	const locks = `SELECT a FROM t WHERE b = ? {for update}; SELECT a FROM t {for share}`
	tests := []struct {
		d     *dialect
		want  string
		locks string
	}{
		{postgres(true), "UPDATE t SET a = date_trunc('milliseconds', clock_timestamp()) + CAST($1 AS double precision) * interval '1 millisecond', " +
			"b = date_trunc('milliseconds', clock_timestamp()) WHERE c = $2 AND d <= date_trunc('milliseconds', clock_timestamp()) - CAST($3 AS double precision) * interval '1 millisecond'",
			"SELECT a FROM t WHERE b = $1 FOR UPDATE; SELECT a FROM t FOR SHARE"},
		{sqliteDialect(), "UPDATE t SET a = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (? / 1000.0) || ' seconds'), b = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') " +
			"WHERE c = ? AND d <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (-? / 1000.0) || ' seconds')",
			"SELECT a FROM t WHERE b = ? ; SELECT a FROM t "},
	}
	for _, tt := range tests {
		t.Run(tt.d.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.d.text(query)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.locks, tt.d.text(locks)); diff != "" {
				t.Errorf("locks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsHaveAKind(t *testing.T) {
	code := func(c string) error { return fmt.Errorf("read: %w", &pq.Error{Code: pqerror.Code(c), Message: "x"}) }
	tests := []struct {
		name      string
		err       error
		want      error // nil: none that a caller can act on
		retryable bool
	}{
		{"serialization failure", code("40001"), chat.ErrUnavailable, true},
		{"deadlock", code("40P01"), chat.ErrUnavailable, true},
		{"shutting down", code("57P01"), chat.ErrUnavailable, true},
		{"starting", code("57P03"), chat.ErrUnavailable, true},
		{"statement timeout", code("57014"), chat.ErrUnavailable, false},
		{"too many clients", code("53300"), chat.ErrUnavailable, false},
		{"disk full", code("53100"), chat.ErrUnavailable, false},
		{"connection failure", code("08006"), chat.ErrUnavailable, false},
		{"commit that was rolled back", &rolledBack{driver.ErrBadConn}, chat.ErrUnavailable, true},
		{"commit whose time ran out", &rolledBack{context.Canceled}, chat.ErrUnavailable, true},
		{"read only", code("25006"), chat.ErrUnavailable, true},
		{"no session", &pq.Error{Code: "28P01", Severity: "FATAL"}, chat.ErrUnavailable, false},
		{"a character that cannot be stored", code("22021"), chat.ErrMalformed, false},
		{"dead connection", fmt.Errorf("begin: %w", driver.ErrBadConn), chat.ErrUnavailable, true},
		{"refused connection", &net.OpError{Op: "dial", Err: errors.New("refused")}, chat.ErrUnavailable, true},
		{"cut connection", io.ErrUnexpectedEOF, chat.ErrUnavailable, true},
		{"commit that nobody answered", &commitError{driver.ErrBadConn}, chat.ErrUnavailable, false},
		{"commit that was refused", &rolledBack{code("40001")}, chat.ErrUnavailable, true},
		{"unique violation", code("23505"), nil, false},
		{"syntax", code("42601"), nil, false},
		{"a decision of the rules", fmt.Errorf("apply: %w", chat.Gone("closed")), chat.ErrGone, false},
		{"a lost turn", chat.ErrLost, chat.ErrLost, false},
	}
	d := postgres(true)
	all := []error{chat.ErrUnavailable, chat.ErrMalformed, chat.ErrGone, chat.ErrLost}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := d.retryable(tt.err); got != tt.retryable {
				t.Errorf("retryable: %v", got)
			}
			got := d.known(t.Context(), "do it", tt.err)
			for _, kind := range all {
				if errors.Is(got, kind) != errors.Is(tt.want, kind) {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var unknown *commitError // is said also to a caller that left
			if errors.Is(tt.want, chat.ErrUnavailable) && !errors.As(tt.err, &unknown) && !errors.Is(d.known(ctx, "do it", tt.err), context.Canceled) {
				t.Errorf("a caller that left was told %v", d.known(ctx, "do it", tt.err))
			}
		})
	}
	if d.known(t.Context(), "do it", nil) != nil {
		t.Error("nothing went wrong, and it is an error")
	}
}

func TestEveryCauseHasItsSentence(t *testing.T) {
	for code, word := range map[string]string{
		"40001": "too busy", "40P01": "too busy", "55P03": "too busy", "57014": "too busy",
		"53100": "disk", "53200": "out of memory", "53300": "max_connections", "25006": "only be read", "0A000": "only be read",
		"57P01": "restarting", "57P02": "restarting", "57P03": "restarting", "08006": "does not answer", "53000": "does not answer",
	} {
		says(t, postgres(true), code, &pq.Error{Code: pqerror.Code(code), Message: "x"}, word)
	}
	if m := postgres(true).meaning(&pq.Error{Code: "23505"}); m != (meaning{}) {
		t.Errorf("a unique violation means %+v", m)
	}
	for code, word := range map[int]string{
		sqlite3.SQLITE_BUSY: "Another program", sqlite3.SQLITE_LOCKED: "Another program", sqlite3.SQLITE_READONLY: "read-only",
		sqlite3.SQLITE_FULL: "full", sqlite3.SQLITE_CANTOPEN: "cannot be opened", sqlite3.SQLITE_IOERR: "system's log",
		sqlite3.SQLITE_CORRUPT: "damaged", sqlite3.SQLITE_NOTADB: "damaged", sqlite3.SQLITE_INTERRUPT: "does not answer", sqlite3.SQLITE_PROTOCOL: "does not answer",
	} {
		if s := sqliteMeanings[code].sentence; !strings.Contains(s, word) {
			t.Errorf("SQLite's %d is told as %q", code, s)
		}
	}
}

// says checks what is told of an error, and no more of it.
func says(t *testing.T, d *dialect, name string, err error, word string) {
	t.Helper()
	told, ok := errors.AsType[*chat.Error](d.known(t.Context(), "do it", err))
	if !ok || !strings.Contains(told.Detail, word) || !errors.Is(told, chat.ErrUnavailable) {
		t.Errorf("%s is told as %+v", name, told)
	}
}

func TestInstantsAreTextOfOneWidth(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 5, 6, 70_999_999, time.FixedZone("x", 3600))
	v, err := instant{at}.Value()
	if err != nil || v != "2026-11-30T13:05:06.070Z" {
		t.Errorf("value %v, %v", v, err)
	}
	for _, src := range []any{"2026-11-30T13:05:06.070Z", at.Truncate(time.Millisecond)} {
		var i instant
		if err := i.Scan(src); err != nil || !i.Equal(at.Truncate(time.Millisecond)) || i.Location() != time.UTC {
			t.Errorf("scan %v: %v, %v", src, i, err)
		}
	}
	i := instant{at}
	if err := i.Scan(nil); err != nil || i.ptr() != nil {
		t.Errorf("scan NULL: %v, %v", i, err)
	}
	if v, err := (instant{}).Value(); v != nil || err != nil {
		t.Errorf("NULL: %v, %v", v, err)
	}
	for _, src := range []any{"yesterday", 7} {
		if err := i.Scan(src); err == nil {
			t.Errorf("%v was read as an instant", src)
		}
	}
}

func TestCursorsComeBack(t *testing.T) {
	at := instant{time.Date(2026, 11, 30, 13, 5, 6, 70e6, time.UTC)}
	gotAt, gotID, err := readCursor(cursor(at, "an id"))
	if err != nil || !gotAt.Equal(at.Time) || gotID != "an id" {
		t.Errorf("got %v, %q, %v", gotAt, gotID, err)
	}
}
