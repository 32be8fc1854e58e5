package repository_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

func TestADatabaseThatGoesAwayIsUnavailableAndComesBack(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, repository.Options{URL: url})
	admin, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], "?")
	f := waiting(t, s, "1", "2")

	t.Run("idle connections that died are replaced", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 16 { // so that there are many
			wg.Go(func() { _, _ = s.Status(t.Context(), f.TopicID) })
		}
		wg.Wait()
		kill(t, admin, name)
		if _, err := decide(t.Context(), s, f, "1"); err != nil {
			t.Errorf("after the connections died: %v", err)
		}
	})
	t.Run("a transaction whose connection dies is run again", func(t *testing.T) {
		tries := 0
		_, c, err := s.EditCalls(t.Context(), again(t, s), func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			if tries++; tries == 1 {
				kill(t, admin, name)
			}
			return calls
		})
		if err != nil || tries != 2 || c.Revision == 0 {
			t.Errorf("%d tries, %+v, %v", tries, c, err)
		}
	})
	t.Run("one that dies every time is unavailable, and nothing is written", func(t *testing.T) {
		g := again(t, s)
		before, err := s.Status(t.Context(), g.TopicID)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.EditCalls(t.Context(), g, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
			kill(t, admin, name)
			return calls
		})
		if !errors.Is(err, chat.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		after, err := s.Status(t.Context(), g.TopicID)
		if err != nil || after.Revision != before.Revision {
			t.Errorf("revision %d became %d, %v", before.Revision, after.Revision, err)
		}
	})
	t.Run("a database that takes no connections is unavailable, and back when it does", func(t *testing.T) {
		elsewhere, err := sql.Open("postgres", strings.Replace(url, name, "postgres", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		if _, err := elsewhere.ExecContext(t.Context(), `REVOKE CONNECT ON DATABASE `+name+` FROM PUBLIC`); err != nil {
			t.Fatal(err)
		}
		if _, err := elsewhere.ExecContext(t.Context(), `ALTER DATABASE `+name+` ALLOW_CONNECTIONS false`); err != nil {
			t.Fatal(err)
		}
		kill(t, elsewhere, name)
		if _, err := decide(t.Context(), s, f, "2"); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if err := s.Ping(t.Context()); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("ping: %v", err)
		}
		if _, err := elsewhere.ExecContext(t.Context(), `ALTER DATABASE `+name+` ALLOW_CONNECTIONS true`); err != nil {
			t.Fatal(err)
		}
		if d, err := decide(t.Context(), s, f, "2"); err != nil || d.Continuation != chat.ContinuationScheduled {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// again is a running turn with a call.
func again(t *testing.T, s *repository.Store) chat.Fence {
	t.Helper()
	f := running(t, s)
	if _, err := s.CommitStep(t.Context(), f, chat.Step{Build: func(time.Time) chat.Parts {
		return chat.Parts{chat.ToolCall{ToolName: "t", ToolCallID: "c", State: chat.CallInputAvailable, Input: []byte(`{}`), ToolMetadata: &chat.ToolMetadata{Server: "t", Verdict: chat.VerdictAllow}}}
	}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// kill ends all connections to the database but the one that asks for it.
func kill(t *testing.T, db *sql.DB, database string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), `
		SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND datname = $1`, database); err != nil {
		t.Error(err)
	}
}

func TestACallerThatLeavesIsToldSo(t *testing.T) {
	for name, s := range map[string]*repository.Store{
		"sqlite": open(t, sqliteOptions(t)), "postgres": open(t, repository.Options{URL: pgtest.URL(t)}),
	} {
		t.Run(name, func(t *testing.T) {
			f := waiting(t, s, name+"1", name+"2")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := decide(ctx, s, f, name+"1"); !errors.Is(err, context.Canceled) || errors.Is(err, chat.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if _, err := s.Status(ctx, f.TopicID); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			_, _, err := s.EditCalls(ctx, again(t, s), func(calls []chat.PlacedCall, _ time.Time) []chat.PlacedCall {
				cancel()
				return calls
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if d, err := decide(t.Context(), s, f, name+"1"); err != nil || d.Results[0].Outcome != chat.EffectApplied {
				t.Errorf("afterwards: %+v, %v", d, err)
			}
		})
	}
}

func TestACallerThatLeavesDoesNotWaitForALock(t *testing.T) {
	url := pgtest.URL(t)
	s := open(t, repository.Options{URL: url})
	f := waiting(t, s, "1")
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback()
	if _, err := holder.ExecContext(t.Context(), `SELECT FROM topics FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := decide(ctx, s, f, "1")
		done <- err
	}()
	for waits := 0; waits == 0; { // until it waits for the lock
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAClosedStoreIsAnError(t *testing.T) {
	s, err := repository.Open(t.Context(), sqliteOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("a closed store answers")
	}
	if _, _, err := s.CreateTopic(t.Context(), chat.NewTopic{}); err == nil {
		t.Error("a closed store writes")
	}
}
