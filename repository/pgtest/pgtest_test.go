package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		child()
		return
	}
	Main(m)
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec1(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query1[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var got T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&got); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}

func TestEachTestHasAnEmptyDatabaseOfItsOwn(t *testing.T) {
	var names []string
	for range 3 {
		db := open(t, URL(t))
		if n := query1[int](t, db, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`); n != 0 {
			t.Errorf("a fresh database has %d tables", n)
		}
		exec1(t, db, `CREATE TABLE things (id int)`) // would fail in a shared one
		names = append(names, query1[string](t, db, `SELECT current_database()`))
	}
	if names[0] == names[1] || names[1] == names[2] || names[0] == names[2] {
		t.Errorf("the databases are %v", names)
	}
}

func TestTestsMayRunSideBySide(t *testing.T) {
	for range 4 {
		t.Run("one of them", func(t *testing.T) {
			t.Parallel()
			exec1(t, open(t, URL(t)), `CREATE TABLE things (id int)`)
		})
	}
}

func TestTheDatabaseIsDroppedWithWhatIsConnectedToIt(t *testing.T) {
	var name string
	var left *sql.DB
	t.Run("a test that leaves a connection open", func(t *testing.T) {
		var err error
		if left, err = sql.Open("postgres", URL(t)); err != nil {
			t.Fatal(err)
		}
		name = query1[string](t, left, `SELECT current_database()`)
	})
	defer left.Close()
	admin, err := server()
	if err != nil {
		t.Fatal(err)
	}
	if n := query1[int](t, open(t, admin), `SELECT count(*) FROM pg_database WHERE datname = $1`, name); n != 0 {
		t.Errorf("the database %s is still there", name)
	}
}

func TestTheServerTakesManyConnections(t *testing.T) {
	if os.Getenv(EnvURL) != "" {
		t.Log("the server is not ours; it is not for us to judge its settings")
		return
	}
	if n := query1[int](t, open(t, URL(t)), `SELECT current_setting('max_connections')::int`); n < 200 {
		t.Errorf("max_connections is %d, want 200 at least", n)
	}
}

func TestServerRestartKeepsWhatWasCommitted(t *testing.T) {
	s, err := Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := s.dir
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	db := open(t, s.URL())
	exec1(t, db, `CREATE TABLE things (id int)`)
	exec1(t, db, `INSERT INTO things VALUES (7)`)
	before := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.URL()); diff != "" {
		t.Errorf("the URL has changed (-before +after):\n%s", diff)
	}
	if got := query1[int](t, open(t, s.URL()), `SELECT id FROM things`); got != 7 {
		t.Errorf("got %d", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("the second stop: %v", err)
	}
	if err := open(t, before).PingContext(t.Context()); err == nil {
		t.Error("a stopped server answers")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the server left its folder (%v)", err)
	}
}

func TestServersWaitForTheirDiskWhereThatIsAskedFor(t *testing.T) {
	for value, want := range map[string]string{"": "off", "0": "off", "1": "on"} {
		t.Run(EnvDurable+"="+value, func(t *testing.T) {
			t.Setenv(EnvDurable, value)
			s, err := Start(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}()
			db := open(t, s.URL())
			for _, setting := range []string{"fsync", "full_page_writes"} {
				if got := query1[string](t, db, `SELECT current_setting($1)`, setting); got != want {
					t.Errorf("%s is %s, want %s", setting, got, want)
				}
			}
			if got := query1[string](t, db, `SELECT current_setting('synchronous_commit')`); got != "on" {
				t.Errorf("synchronous_commit is %s", got)
			}
		})
	}
}

func TestStartSaysWhyItCouldNot(t *testing.T) {
	t.Run("no folder", func(t *testing.T) {
		if _, err := Start(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "folder") {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("initdb fails", func(t *testing.T) {
		bin := fakeBin(t, t.TempDir(), "echo no space left >&2; exit 1", "exit 0")
		s := &Server{bin: bin, dir: t.TempDir()}
		defer s.Stop()
		if err := s.prepare((*Server).initialize); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("prepare: %v", err)
		}
	})
	t.Run("postgres ends at once", func(t *testing.T) {
		bin := fakeBin(t, t.TempDir(), "exit 0", "echo FATAL: bad setting >&2; exit 1")
		s := &Server{bin: bin, dir: t.TempDir(), port: 1}
		defer s.Stop()
		if err := s.run(); err == nil || !strings.Contains(err.Error(), "bad setting") {
			t.Errorf("run: %v", err)
		}
		if s.proc != nil {
			t.Error("the process that ended is taken to be running")
		}
	})
	t.Run("postgres cannot be started", func(t *testing.T) {
		s := &Server{bin: t.TempDir(), dir: t.TempDir(), port: 1}
		defer s.Stop()
		if err := s.run(); err == nil {
			t.Error("a server without a program was started")
		}
	})
}

func fakeBin(t *testing.T, dir, initdb, postgres string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"initdb": initdb, "postgres": postgres} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindBin(t *testing.T) {
	base, path, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, version := range []string{"9.6", "15", "17"} {
		fakeBin(t, filepath.Join(base, version, "bin"), "", "")
	}
	if err := os.MkdirAll(filepath.Join(base, "18", "bin"), 0o755); err != nil { // only its client programs
		t.Fatal(err)
	}
	fakeBin(t, path, "", "")
	tests := []struct{ name, base, path, want string }{
		{"the newest that is whole", base, path, filepath.Join(base, "17", "bin")},
		{"else the first on the path", none, none + string(os.PathListSeparator) + path, path},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findBin(tt.base, tt.path)
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
	t.Run("none: says what to run", func(t *testing.T) {
		_, err := findBin(none, none)
		if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") || !strings.Contains(err.Error(), "make test") {
			t.Errorf("got %v", err)
		}
	})
}

// spy is a testing.TB that records a failure in place of the test's.
type spy struct {
	testing.TB
	fatal string
}

func (*spy) Helper() {}

func (s *spy) Fatalf(format string, args ...any) {
	s.fatal = strings.TrimSpace(format)
	for _, a := range args {
		if err, ok := a.(error); ok {
			s.fatal += err.Error()
		}
	}
	panic(s)
}

// fatal returns what URL fails the test with.
func fatal(t *testing.T) (text string) {
	t.Helper()
	s := &spy{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(s) {
			panic(p)
		}
		text = s.fatal
	}()
	URL(s)
	return ""
}

// swap gives the test a state of its own, as that of another binary would be.
func swap(t *testing.T, running bool) {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	server, url, err, tried := shared.server, shared.url, shared.err, shared.tried
	shared.server, shared.url, shared.err, shared.tried, shared.running = nil, "", nil, false, running
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.server, shared.url, shared.err, shared.tried, shared.running = server, url, err, tried, true
	})
}

func TestURLFailsTheTestClearly(t *testing.T) {
	t.Run("without Main", func(t *testing.T) {
		swap(t, false)
		if got := fatal(t); !strings.Contains(got, "pgtest.Main") {
			t.Errorf("failed with %q", got)
		}
	})
	t.Run("with a URL that is none, without telling it", func(t *testing.T) {
		swap(t, true)
		t.Setenv(EnvURL, "host=localhost password=hunter2")
		if got := fatal(t); !strings.Contains(got, EnvURL) || strings.Contains(got, "hunter2") {
			t.Errorf("failed with %q", got)
		}
	})
	t.Run("with a server that does not answer", func(t *testing.T) {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		swap(t, true)
		t.Setenv(EnvURL, (&Server{port: port}).URL())
		if got := fatal(t); !strings.Contains(got, "create a database") {
			t.Errorf("failed with %q", got)
		}
	})
}

func TestAServerThatIsGivenIsUsed(t *testing.T) {
	given, err := server()
	if err != nil {
		t.Fatal(err)
	}
	swap(t, true)
	t.Setenv(EnvURL, given)
	exec1(t, open(t, URL(t)), `CREATE TABLE things (id int)`)
	if shared.server != nil {
		t.Error("another server was started")
	}
}

func TestRunStopsTheServerAndKeepsTheCode(t *testing.T) {
	swap(t, false)
	t.Setenv(EnvURL, "")
	var url string
	if got := Run(runFunc(func() int {
		var err error
		if url, err = server(); err != nil {
			t.Error(err)
		}
		return 3
	})); got != 3 {
		t.Errorf("the exit code is %d, want 3", got)
	}
	if err := open(t, url).PingContext(context.Background()); err == nil {
		t.Error("the server still answers")
	}
}

type runFunc func() int

func (f runFunc) Run() int { return f() }
