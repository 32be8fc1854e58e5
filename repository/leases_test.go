package repository_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// held locks rows until it is rolled back.
func held(t *testing.T, db *sql.DB, statement string, args ...any) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	return tx
}

// waitFor waits until n sessions wait for locks.
func waitFor(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	for now := -1; now != n; {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&now); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALeaseWhoseRowIsHeldIsRenewedBeforeOthersClaimIt has a transaction hold a
// turn until its lease is over, as a heartbeat does that was cut off.
func TestALeaseWhoseRowIsHeldIsRenewedBeforeOthersClaimIt(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	f, free := running(t, s), running(t, s)
	exec(t, db, `UPDATE turns SET lease_until = now() - interval '1 day'`)
	cut := held(t, db, `SELECT FROM turns WHERE id = $1 FOR NO KEY UPDATE`, f.TurnID)
	beaten := make(chan error, 1)
	go func() {
		owned, err := s.Heartbeat(t.Context(), "owner", chat.Epochs{f.TurnID: f.Epoch, free.TurnID: free.Epoch}, 10*time.Minute)
		if len(owned) != 2 {
			err = errors.Join(err, errors.New("it is not told that both are its own"))
		}
		beaten <- err
	}()
	waitFor(t, db, 1) // the heartbeat, for the turn that is held
	if found, err := s.Claimable(t.Context(), 10); err != nil || len(found) != 1 || found[0].TurnID != f.TurnID {
		t.Errorf("the turn that is free was not renewed: %v, %v", found, err)
	}
	claimed := make(chan bool, 1)
	go func() {
		_, _, ok, _ := s.Claim(t.Context(), chat.Candidate{TopicID: f.TopicID, TurnID: f.TurnID}, "other", time.Hour)
		claimed <- ok
	}()
	waitFor(t, db, 2) // and one that claims, behind it
	if err := cut.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-beaten; err != nil {
		t.Error(err)
	}
	if <-claimed {
		t.Error("an owner that beat lost its turn")
	}
}

func TestATurnWhoseRowIsHeldKeepsNoOtherFromBeingGivenBack(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	locked, free := running(t, s), running(t, s)
	held(t, db, `SELECT FROM turns WHERE id = $1 FOR UPDATE`, locked.TurnID)
	if err := s.LetGo(t.Context(), "owner"); err != nil {
		t.Error(err)
	}
	if found, err := s.Claimable(t.Context(), 10); err != nil || len(found) != 1 || found[0].TurnID != free.TurnID {
		t.Errorf("given back: %v, %v", found, err)
	}
}

func TestATopicThatIsLockedKeepsNoStoppedTurnOfAnotherOpen(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	locked, free := running(t, s), running(t, s)
	for _, f := range []chat.Fence{locked, free} {
		if _, _, err := s.Stop(t.Context(), f.TopicID); err != nil {
			t.Fatal(err)
		}
	}
	held(t, db, `SELECT FROM topics WHERE id = $1 FOR UPDATE`, locked.TopicID)
	changes, err := s.CloseStopped(t.Context(), 0)
	if len(changes) != 1 || changes[0].TopicID != free.TopicID || err == nil {
		t.Errorf("%d were closed, %v", len(changes), err)
	}
}

func TestAHeartbeatOnASilentConnectionLeavesTimeForAnother(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	m := newMuffle(t, u.Host)
	u.Host = m.ln.Addr().String()
	s := open(t, repository.Options{URL: u.String(), SpareTimeout: 100 * time.Millisecond}) // of 10 s for requests
	f := running(t, s)
	beat := func() error {
		_, err := s.Heartbeat(t.Context(), "owner", chat.Epochs{f.TurnID: f.Epoch}, time.Hour)
		return err
	}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	m.silence()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // before the read of a request is given up
	defer cancel()
	for err := beat(); err != nil; err = beat() {
		if ctx.Err() != nil {
			t.Fatalf("no heartbeat was written: %v", err)
		}
	}
}

func TestAMessageThatCannotBeReadKeepsNoServerFromStarting(t *testing.T) {
	t.Parallel()
	o := repository.Options{Path: filepath.Join(t.TempDir(), "db"), Exclusive: true}
	first, err := repository.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := running(t, first)
	if err := step(t.Context(), first, f, false, chat.Text{Text: "words"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.Stop(t.Context(), f.TopicID); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, db, `UPDATE parts SET payload = '{'`)
	open(t, o)
}
