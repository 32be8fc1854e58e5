//go:build chaos

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assent-chat/assent/api/apitest"
	"github.com/assent-chat/assent/repository/pgtest"
)

// chaosServer is one of the servers. It may be down.
type chaosServer struct {
	*world
	name    string    // of its link, and of its sessions at the database
	out     io.Writer // its log
	mu      sync.Mutex
	running *process
}

func (i *chaosServer) at() (base, token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running.base, i.running.token
}

// up starts the server. A connection that is cut while it starts ends it, as
// it should, and it is started again.
func (i *chaosServer) up() error {
	var err error
	for range 20 {
		cmd := exec.Command(os.Args[0], i.args()...)
		cmd.Env = append(os.Environ(), childEnv+"=1", "GOTRACEBACK=all", "ASSENT_TEST_MODEL="+i.modelURL(), "ASSENT_TEST_PROBE="+i.probe.dir)
		var p *process
		err = bound(cmd, func() (done <-chan struct{}, err error) {
			if p, err = startCommand(i.t.Context(), cmd, filepath.Join(i.dir, "data"), i.out, func(string) {}); err != nil {
				return nil, err
			}
			return p.done, nil
		})
		if err == nil {
			i.mu.Lock()
			i.running = p
			i.mu.Unlock()
			return nil
		}
		if !pause(i.t.Context(), 100*time.Millisecond) {
			break
		}
	}
	return err
}

// bound starts a program that dies with the test binary, however that dies. On
// Linux it is the death of the thread that counts, so the thread that starts it
// is kept until the program has ended.
func bound(cmd *exec.Cmd, start func() (done <-chan struct{}, err error)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done, err := start()
		started <- err
		if err == nil {
			<-done
		}
	}()
	return <-started
}

// down kills the server. From then on its address is nobody's: another
// program may be given its port.
func (i *chaosServer) down() {
	i.mu.Lock()
	gone := *i.running
	gone.base = "http://127.0.0.1:0"
	i.running = &gone
	i.mu.Unlock()
	gone.kill()
}

func (i *chaosServer) signal(s syscall.Signal) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running.cmd.Process.Signal(s)
}

// chaosDatabase is a PostgreSQL server of the test's own, so that it can be
// restarted, or one that was named, which cannot.
type chaosDatabase struct {
	*sql.DB
	url string
	own *pgtest.Server
}

func openChaosDatabase(t *testing.T) *chaosDatabase {
	t.Helper()
	d := &chaosDatabase{}
	if os.Getenv(pgtest.EnvURL) != "" {
		d.url = pgtest.URL(t)
		t.Logf("the database is the one of %s, and is not restarted", pgtest.EnvURL)
	} else {
		var err error
		if d.own, err = pgtest.Start(""); err != nil {
			t.Fatal(err)
		}
		d.url = d.own.URL()
		t.Cleanup(func() {
			if err := d.own.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	var err error
	if d.DB, err = sql.Open("postgres", d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// sure does what may fail while the database restarts.
func (d *chaosDatabase) sure(ctx context.Context, do func(context.Context) error) error {
	var err error
	for range 100 {
		if err = do(ctx); err == nil || !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}

func (d *chaosDatabase) do(ctx context.Context, statement string, args ...any) error {
	return d.sure(ctx, func(ctx context.Context) error {
		_, err := d.ExecContext(ctx, statement, args...)
		return err
	})
}

// quiet waits until none of the transactions is open that the named sessions
// have now. A request of which no answer came has then had its effect, or will
// have none.
func (d *chaosDatabase) quiet(ctx context.Context, name string) error {
	open := func() (map[string]bool, error) {
		all := map[string]bool{}
		err := d.sure(ctx, func(ctx context.Context) error {
			rows, err := d.QueryContext(ctx, `SELECT pid || ' ' || xact_start FROM pg_stat_activity WHERE application_name = $1 AND xact_start IS NOT NULL`, name)
			if err != nil {
				return err
			}
			defer rows.Close()
			clear(all)
			for rows.Next() {
				var x string
				if err := rows.Scan(&x); err != nil {
					return err
				}
				all[x] = true
			}
			return rows.Err()
		})
		return all, err
	}
	before, err := open()
	if err != nil {
		return err
	}
	for until := time.Now().Add(patience); time.Now().Before(until); {
		now, err := open()
		if err != nil {
			return err
		}
		over := true
		for x := range now {
			over = over && !before[x]
		}
		if over {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("a transaction of %s does not end: %v", name, before)
}

// newServers makes the servers, each with its link, and starts them.
func (c *chaos) newServers(dir string) {
	t := c.t
	probe, err := newProbe(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for k := range chaosServers {
		i := &chaosServer{name: "chaos-" + strconv.Itoa(k), out: c.logFile("server-" + strconv.Itoa(k))}
		u, err := url.Parse(c.db.url)
		if err != nil {
			t.Fatal(err)
		}
		if u.Host, err = c.links.lay(i.name, u.Host); err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("application_name", i.name)
		u.RawQuery = q.Encode()
		i.world = &world{t: t, dir: filepath.Join(dir, i.name), databaseURL: u.String(), probe: probe,
			flags: []string{"-key-file", key, "-lease", chaosLease.String()}}
		i.http = &http.Client{Transport: patient{apitest.Transport(t, http.DefaultTransport)}}
		i.answers(c.answer(k))
		if err := i.up(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { i.running.kill() })
		c.servers = append(c.servers, i)
	}
	c.world = c.servers[0].world
}

// logFile opens a log that outlives a test that failed.
func (c *chaos) logFile(name string) io.Writer {
	f, err := os.OpenFile(filepath.Join(c.logs, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = f.Close() })
	return f
}

// tails logs the last lines of each server.
func (c *chaos) tails() {
	for k := range c.servers {
		raw, err := os.ReadFile(filepath.Join(c.logs, "server-"+strconv.Itoa(k)))
		if err != nil {
			c.t.Log(err)
			continue
		}
		lines := strings.SplitAfter(string(raw), "\n")
		c.t.Logf("the end of the log of %s:\n%s", c.servers[k].name, strings.Join(lines[max(0, len(lines)-20):], ""))
	}
}

// dump has every server write what its goroutines do into its log, and die of
// it. A server that stands still is woken first.
func (c *chaos) dump() {
	for _, i := range c.servers {
		_ = i.signal(syscall.SIGCONT) // it may be gone
		_ = i.signal(syscall.SIGQUIT)
	}
	for _, i := range c.servers {
		select {
		case <-i.running.done:
		case <-time.After(5 * time.Second):
		}
	}
}
