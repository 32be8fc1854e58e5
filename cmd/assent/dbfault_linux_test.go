package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestASQLiteFileThatCannotGrowSaysWhyAndGoesOnByItself has the system refuse
// what the server writes behind the first page of any file.
func TestASQLiteFileThatCannotGrowSaysWhyAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	f := fault(w, w.spawn)
	limit := func(size uint64) {
		t.Helper()
		var was unix.Rlimit
		if err := unix.Prlimit(w.proc.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &was); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(w.proc.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: was.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(4096) // a page, and no frame of the log
	f.model()   // its answer comes while nothing can be written
	f.writesAre("disk", f.waits, f.card)
	limit(unix.RLIM_INFINITY)
	f.goesOn()
}

// TestASQLiteFileThatAnotherProgramWrites holds the write lock for longer than
// it is waited for.
func TestASQLiteFileThatAnotherProgramWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	f := fault(w, w.start)
	other, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, "data", "assent.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	held, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Rollback()
	f.model()
	before := f.history(f.waits)
	answers := make(chan reply, 3)
	for _, ask := range []struct {
		path string
		body any
	}{
		{"/topics", map[string]any{"title": "lost?"}},
		{"/topics/" + f.waits + "/messages", map[string]any{"text": "lost?"}},
		{"/topics/" + f.waits + "/approvals", map[string]any{"approvalId": f.card, "approved": true}},
	} {
		go func() {
			r, err := f.do("POST", ask.path, ask.body)
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	for range cap(answers) {
		// One has the writing connection, and the others wait for it.
		if r := <-answers; r.status != 503 || r.header.Get("Retry-After") == "" || detail(r) == "" {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	f.want(200, "GET", "/readyz", nil)
	if after := f.history(f.waits); after.Revision != before.Revision || len(after.Queued) != 0 {
		t.Errorf("what was answered 503 was stored: %+v", after)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	f.goesOn()
}
