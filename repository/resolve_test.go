package repository_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

// admin is an administrator's connection pool.
func admin(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// as is the URL for another user, who may do only what the server needs.
func as(t *testing.T, db *sql.DB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := "plain_" + strings.TrimPrefix(u.Path, "/assent_test_")
	exec(t, db, `CREATE ROLE `+name+` LOGIN`, `GRANT ALL ON SCHEMA public TO `+name)
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), `DROP OWNED BY `+name+`; DROP ROLE `+name)
		if err != nil {
			t.Error(err)
		}
	})
	u.User = url.User(name)
	return u.String()
}

func TestALostCommitIsLookedUpByAnyUser(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	wire, through := pgtest.NewWire(t, as(t, admin(t, dsn), dsn))
	s := open(t, repository.Options{URL: through})
	f := waiting(t, s, "1", "2")
	cutAtCommit(t, wire, pgtest.After, func() error { return outcome(decide(t.Context(), s, f, "1"))(chat.ContinuationWaiting) })
	cutAtCommit(t, wire, pgtest.Before, func() error { return outcome(decide(t.Context(), s, f, "2"))(chat.ContinuationScheduled) })
	if st, err := s.Status(t.Context(), f.TopicID); err != nil || st.PendingApprovals != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// cutAtCommit checks that an operation does not notice that it was cut.
func cutAtCommit(t *testing.T, wire *pgtest.Wire, when pgtest.When, op func() error) {
	t.Helper()
	wire.Cut(pgtest.AtCommit, when, false)
	if err := op(); err != nil {
		t.Errorf("cut %s: %v", when, err)
	}
	if !wire.Mend() {
		t.Error("there was no commit")
	}
}

func TestACommitThatMayNotBeLookedUpIsUnknown(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	exec(t, db, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	wire, through := pgtest.NewWire(t, as(t, db, dsn))
	s := open(t, repository.Options{URL: through})
	f := waiting(t, s, "1")
	wire.Cut(pgtest.AtCommit, pgtest.After, false)
	if _, err := decide(t.Context(), s, f, "1"); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
	if d, err := decide(t.Context(), s, f, "1"); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled {
		t.Errorf("repeated: %+v, %v", d, err)
	}
}

func TestACommitThatWasLostToAnotherClusterIsUnknown(t *testing.T) {
	t.Parallel()
	wire, through := pgtest.NewWire(t, pgtest.URL(t))
	s := open(t, repository.Options{URL: through})
	f := waiting(t, s, "1")
	s.Cluster("another")
	wire.Cut(pgtest.AtCommit, pgtest.After, false)
	_, err := decide(t.Context(), s, f, "1")
	if !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
	if d, err := decide(t.Context(), s, f, "1"); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled {
		t.Errorf("repeated: %+v, %v", d, err)
	}
}

// TestACommitOnATimelineThatEndedIsNotTakenForAnothers has a connection lead to
// an old primary yet, which takes writes and waits for a standby that does not
// confirm them any more; at the new one the same number is somebody else's.
func TestACommitOnATimelineThatEndedIsNotTakenForAnothers(t *testing.T) {
	t.Parallel()
	first, err := pgtest.Start("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { do(t, first.Stop()) })
	wire, through := pgtest.NewWire(t, first.URL())
	s := open(t, repository.Options{URL: through, MaxConns: 2})
	f := waiting(t, s, "1")
	second, err := first.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { do(t, second.Stop()) })
	do(t, second.Promote())
	there, here := admin(t, second.URL()), admin(t, first.URL())
	for range 100 { // the numbers of transactions go on there
		exec(t, there, `SELECT pg_current_xact_id()`)
	}
	answer := make(chan error, 1)
	go func() { _, err := decide(t.Context(), s, f, "1"); answer <- err }()
	for waits := 0; waits < 1; { // the COMMIT is on its way
		if err := here.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	do(t, wire.Lead(second.URL()))
	if err := <-answer; !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
	if c, err := s.Call(t.Context(), f.TopicID, "1"); err != nil || c.State != chat.CallApprovalRequested {
		t.Errorf("the call is %s, %v", c.State, err)
	}
}

// TestASessionThatTheServerDoesNotKnowToBeGoneLetsGo has the way to the server
// go silent before the COMMIT is on it: for the server the transaction is open.
func TestASessionThatTheServerDoesNotKnowToBeGoneLetsGo(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	wire, through := pgtest.NewWire(t, dsn)
	s := open(t, repository.Options{URL: through})
	f := waiting(t, s, "1")
	wire.HoldCommit(t)
	if err := outcome(decide(t.Context(), s, f, "1"))(chat.ContinuationScheduled); err != nil {
		t.Error(err)
	}
	if !wire.Mend() {
		t.Error("there was no commit")
	}
	st, err := s.Status(t.Context(), f.TopicID)
	if err != nil || st.PendingApprovals != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestConnectionsToAServerThatCanOnlyBeReadAreLeft(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	f := waiting(t, s, "1", "2")
	var wg sync.WaitGroup
	for range 16 { // so that there are many
		wg.Go(func() { _, _ = s.Status(t.Context(), f.TopicID) })
	}
	wg.Wait()
	exec(t, db, `CREATE TABLE standby AS SELECT pid FROM pg_stat_activity WHERE datname = current_database()`,
		`CREATE FUNCTION standby() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF EXISTS (SELECT FROM standby WHERE pid = pg_backend_pid()) THEN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END IF;
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER standby BEFORE UPDATE ON topics FOR EACH ROW EXECUTE FUNCTION standby()`)
	if d, err := decide(t.Context(), s, f, "1"); err != nil || d.Continuation != chat.ContinuationWaiting {
		t.Errorf("where other connections can write: %+v, %v", d, err)
	}
	exec(t, db, `CREATE OR REPLACE FUNCTION standby() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END $$`)
	if _, err := decide(t.Context(), s, f, "2"); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "can only be read") {
		t.Errorf("got %v", err)
	}
	if st, err := s.Status(t.Context(), f.TopicID); err != nil || st.PendingApprovals != 1 {
		t.Errorf("reading: %+v, %v", st, err)
	}
	exec(t, db, `DROP TRIGGER standby ON topics`)
	if d, err := decide(t.Context(), s, f, "2"); err != nil || d.Continuation != chat.ContinuationScheduled {
		t.Errorf("afterwards: %+v, %v", d, err)
	}
}

func TestADatabaseWhoseDiskIsFullSaysSo(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	f := waiting(t, s, "1")
	before, err := s.Status(t.Context(), f.TopicID)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	if _, err := decide(t.Context(), s, f, "1"); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "disk of the database is full") {
		t.Errorf("got %v", err)
	}
	if after, err := s.Status(t.Context(), f.TopicID); err != nil || after.Revision != before.Revision || after.PendingApprovals != 1 {
		t.Errorf("%+v, %v", after, err)
	}
	exec(t, db, `DROP TRIGGER full_disk ON decisions`)
	if d, err := decide(t.Context(), s, f, "1"); err != nil || d.Continuation != chat.ContinuationScheduled {
		t.Errorf("afterwards: %+v, %v", d, err)
	}
}

func TestLeasesAreRenewedWhileRequestsHoldAllConnections(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn, MaxConns: 2})
	f, other := waiting(t, s, "1", "2"), running(t, s)
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback()
	if _, err := holder.ExecContext(t.Context(), `SELECT FROM topics WHERE id = $1 FOR UPDATE`, f.TopicID); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error)
	for _, id := range []string{"1", "2"} {
		go func() {
			_, err := decide(t.Context(), s, f, id)
			answers <- err
		}()
	}
	for waits := 0; waits < 2; { // both hold a connection, and wait for the lock
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if owned, err := s.Heartbeat(t.Context(), "owner", chat.Epochs{other.TurnID: other.Epoch}, time.Hour); err != nil || owned[other.TurnID] != other.Epoch {
		t.Errorf("the lease: %v, %v", owned, err)
	}
	hurried := s.Impatient()
	for name, op := range map[string]func() error{
		"a write":            func() error { return step(t.Context(), hurried, other, true, chat.Text{Text: "done"}) },
		"a read":             func() error { _, err := hurried.Status(t.Context(), other.TopicID); return err },
		"a read without one": func() error { _, err := hurried.Rules(t.Context()); return err },
		"the ping":           func() error { return hurried.Ping(t.Context()) },
	} {
		if err := op(); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "all connections to it are in use") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("who had a connection: %v", err)
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALockedTurnStopsNoOtherLease(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	db := admin(t, dsn)
	s := open(t, repository.Options{URL: dsn})
	locked, free := running(t, s), running(t, s)
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback()
	if _, err := holder.ExecContext(t.Context(), `SELECT FROM turns WHERE id = $1 FOR UPDATE`, locked.TurnID); err != nil {
		t.Fatal(err)
	}
	until := func(f chat.Fence) (at time.Time) {
		if err := db.QueryRowContext(t.Context(), `SELECT lease_until FROM turns WHERE id = $1`, f.TurnID).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	was := until(free)
	owned, err := s.Heartbeat(t.Context(), "owner", chat.Epochs{locked.TurnID: locked.Epoch, free.TurnID: free.Epoch}, 2*time.Hour)
	if err != nil || len(owned) != 2 {
		t.Errorf("%v, %v", owned, err)
	}
	if !until(free).After(was) {
		t.Error("the other lease was not renewed")
	}
}
