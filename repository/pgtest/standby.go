package pgtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// Standby starts a second server that follows s, and has s wait for it with
// every commit: nothing that was confirmed is lost when it is promoted. The
// caller must call Stop on it.
func (s *Server) Standby() (*Server, error) {
	dir := filepath.Dir(s.dir)
	f, err := prepared(s.bin, dir, s.user, func(f *Server) error {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		backup := exec.CommandContext(ctx, filepath.Join(s.bin, "pg_basebackup"), "--pgdata="+f.data(), "--write-recovery-conf",
			"--checkpoint=fast", "--no-sync", "--dbname", s.URL()+"&application_name=standby")
		backup.Dir = f.dir
		backup.SysProcAttr = f.user.attributes()
		if out, err := backup.CombinedOutput(); err != nil {
			return fmt.Errorf("run pg_basebackup: %w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, setting := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"} {
		if err := execute(s.URL(), setting); err != nil {
			return nil, errors.Join(fmt.Errorf("wait for the standby: %w", err), f.Stop())
		}
	}
	if err := s.streams(); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

// streams returns once a standby follows s in step.
func (s *Server) streams() error {
	return poll(s.URL(), `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`, "no standby follows")
}

// Promote makes a standby the server that is written to. The one that it
// followed should be stopped by then.
func (s *Server) Promote() error {
	if err := execute(s.URL(), "SELECT pg_promote()"); err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	// It took its settings from the other, and would wait for a standby of its own.
	for _, setting := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		if err := execute(s.URL(), setting); err != nil {
			return fmt.Errorf("promote the standby: %w", err)
		}
	}
	return nil
}

// Halt stops the server in the middle of whatever it does, for good.
func (s *Server) Halt() error { return s.halt() }

// poll asks until the answer is true.
func poll(dsn, question, complaint string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for yes := false; !yes; {
		if err := db.QueryRowContext(ctx, question).Scan(&yes); err != nil {
			return fmt.Errorf("%s: %w", complaint, err)
		}
		if !yes {
			select {
			case <-ctx.Done():
				return errors.New(complaint)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
