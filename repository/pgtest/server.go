package pgtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errNotInstalled says what to do where there is no PostgreSQL.
var errNotInstalled = errors.New("PostgreSQL is not installed: run \"apt-get install postgresql\", or \"make test\", which does, or set " + EnvURL)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
	startTries   = 5
)

// Server is a PostgreSQL server of our own, on a port of 127.0.0.1 that stays
// the same for as long as it lives. It trusts everybody who can connect, and
// keeps nothing that a power failure would spare, unless EnvDurable says so: it
// is for tests only.
type Server struct {
	bin  string // folder of the programs
	dir  string // holds the data, the log and the lock; removed by Stop
	port int
	user account
	lock *os.File
	proc *process // nil while the server is stopped
}

// Start starts a server whose data lie in a new folder below dir, or below the
// folder for temporary files if dir is "". Where root calls, the server runs as
// another user: if that one cannot reach dir, the folder is made below /tmp.
// The caller must call Stop; if its process dies before it could, the server
// dies with it, on Linux at least.
func Start(dir string) (*Server, error) {
	bin, err := findBin("/usr/lib/postgresql", os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	user, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = os.TempDir()
	}
	if !user.reaches(dir) {
		dir = "/tmp"
	}
	return prepared(bin, dir, user, (*Server).initialize)
}

// prepared starts a server below dir whose data were put there by fill.
func prepared(bin, dir string, user account, fill func(*Server) error) (_ *Server, err error) {
	s := &Server{bin: bin, user: user}
	sweep(dir)
	if s.dir, err = os.MkdirTemp(dir, dirPrefix); err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if err := s.prepare(fill); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	for try := 1; ; try++ {
		// Between the look for a free port and its use, another may take it.
		if s.port, err = freePort(); err == nil {
			err = s.run()
		}
		if err == nil {
			return s, nil
		}
		if try == startTries || !strings.Contains(s.log(), "Address already in use") {
			return nil, errors.Join(err, s.Stop())
		}
	}
}

// URL is the URL of the server's first database, from which its user, who may
// do anything, can create others.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Stop ends the server and its connections and removes its data. Stopping a
// stopped server does nothing.
func (s *Server) Stop() error {
	var errs []error
	if s.proc != nil {
		errs = append(errs, s.halt())
	}
	if s.dir != "" {
		if err := os.RemoveAll(s.dir); err != nil {
			errs = append(errs, fmt.Errorf("remove PostgreSQL's folder: %w", err))
		}
		s.dir = ""
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// Restart stops the server in the middle of whatever it does, as a crash of it
// would, and starts it again on the same port with the same data.
func (s *Server) Restart() error {
	if err := s.halt(); err != nil {
		return err
	}
	return s.run()
}

// prepare fills the server's folder.
func (s *Server) prepare(fill func(*Server) error) (err error) {
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	if err := s.user.own(s.dir); err != nil {
		return err
	}
	return fill(s)
}

// initialize makes an empty cluster.
func (s *Server) initialize() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+s.data(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions")
	initdb.Dir = s.dir
	initdb.SysProcAttr = s.user.attributes()
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("run initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run starts the server and waits until it answers.
func (s *Server) run() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("make PostgreSQL's log: %w", err)
	}
	defer log.Close()
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"max_connections=300", "shared_buffers=64MB", "log_min_messages=warning", "timezone=UTC",
		"autovacuum_naptime=1h",
	}
	if os.Getenv(EnvDurable) != "1" {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	// It lives until Stop, and so under no shorter context.
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), "-D", s.data())
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = s.user.attributes()
	if s.proc, err = startProcess(cmd); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.wait(); err != nil {
		return errors.Join(fmt.Errorf("start PostgreSQL: %w: %s", err, s.log()), s.halt())
	}
	return nil
}

// wait returns once the server takes connections.
func (s *Server) wait() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	db, err := sql.Open("postgres", s.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("it is not ready")
	for {
		// The process is asked first: another server may have taken the port.
		select {
		case <-s.proc.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("no answer in %v: %w", startTimeout, last)
		case <-tick.C:
		}
		if !s.ready() {
			continue
		}
		if last = db.PingContext(ctx); last == nil {
			return nil
		}
	}
}

// ready reports whether the server says of itself that it is, in the last line
// of its lock file.
func (s *Server) ready() bool {
	status, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	return err == nil && strings.HasSuffix(strings.TrimSpace(string(status)), "ready")
}

// halt ends the process without waiting for its clients.
func (s *Server) halt() error {
	if s.proc == nil {
		return nil
	}
	p := s.proc
	s.proc = nil
	if err := p.quit(stopTimeout); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// log returns the end of the server's log.
func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-2000):]))
}

// findBin returns the folder of the newest PostgreSQL below base, where Debian
// has its versions side by side, or else of the first on the path.
func findBin(base, path string) (string, error) {
	found, err := filepath.Glob(filepath.Join(base, "*", "bin"))
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	version := func(bin string) float64 {
		v, err := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64)
		if err != nil {
			return -1
		}
		return v
	}
	slices.SortFunc(found, func(a, b string) int {
		switch {
		case version(a) > version(b):
			return -1
		case version(a) < version(b):
			return 1
		}
		return 0
	})
	for _, bin := range append(found, filepath.SplitList(path)...) {
		if runnable(filepath.Join(bin, "initdb")) && runnable(filepath.Join(bin, "postgres")) {
			return bin, nil
		}
	}
	return "", errNotInstalled
}

func runnable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	return port, nil
}
