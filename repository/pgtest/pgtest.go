// Package pgtest gives each test a PostgreSQL database of its own.
//
// The server is the one that ASSENT_TEST_DATABASE_URL names, or else one that
// is started from the installed PostgreSQL the first time a test of the binary
// asks for it, and that ends with the binary, however the binary ends.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver that the server uses
)

// EnvURL names the environment variable with the URL of a server to use. Its
// user must be allowed to create databases.
const EnvURL = "ASSENT_TEST_DATABASE_URL"

// EnvDurable names the environment variable that, if it is "1", makes the
// servers that are started wait for their disk, as one in production does.
// Tests need no such server, and are slower with it; benchmarks measure
// nothing without.
const EnvDurable = "ASSENT_TEST_DURABLE"

const statementTimeout = time.Minute

// shared is the server of this test binary.
var shared struct {
	mu      sync.Mutex
	running bool // Run is on the stack
	tried   bool
	server  *Server // nil if the server is not ours
	url     string  // of the database from which others are created
	err     error
}

// Main runs the tests of a package and exits, for use as the whole of TestMain.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests of a package, stops the server if one was started, and
// returns the exit code. It is for a TestMain that has more to do than Main.
func Run(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	shared.running, shared.tried, shared.server, shared.url, shared.err = false, false, nil, "", nil
	return code
}

// URL creates an empty database and returns its URL. The database is dropped
// when the test and its subtests are done, with whatever is connected to it.
// The package's TestMain must call Main or Run.
func URL(t testing.TB) string {
	t.Helper()
	admin, err := server()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	own, drop, err := create(admin)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return own
}

// server returns the URL of the server, which it starts if it has to.
func server() (string, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		return "", errors.New("TestMain does not call pgtest.Main, so nothing would stop the server")
	}
	if shared.tried {
		return shared.url, shared.err
	}
	shared.tried = true
	if given := os.Getenv(EnvURL); given != "" {
		shared.url, shared.err = given, checkURL(given)
		return shared.url, shared.err
	}
	if shared.server, shared.err = Start(""); shared.err == nil {
		shared.url = shared.server.URL()
	}
	return shared.url, shared.err
}

func checkURL(given string) error {
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New(EnvURL + " is not a URL such as postgres://user:password@host/database") // which it may hold a password of
	}
	return nil
}

// create makes a database on the server of admin. It returns its URL and the
// function that drops it.
func create(admin string) (own string, drop func() error, err error) {
	name := "assent_test_" + strings.ToLower(rand.Text())
	if err := execute(admin, "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("create a database: %w", err)
	}
	u, err := url.Parse(admin)
	if err != nil {
		return "", nil, fmt.Errorf("parse the server's URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), func() error {
		if err := execute(admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop the database: %w", err)
		}
		return nil
	}, nil
}

// execute runs one statement on a connection of its own: nothing stays open
// between tests, so that a look for leaked goroutines finds none of ours.
func execute(dsn, statement string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement)
	return err
}
