package repository

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/assent-chat/assent/service/chat"
)

// unavailable checks the kind of an error, and a word for people in it.
func unavailable(t *testing.T, err error, word string) {
	t.Helper()
	if !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), word) {
		t.Errorf("got %v, want %q", err, word)
	}
}

func TestASQLiteFileThatCannotBeWrittenIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	topic, _, err := s.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil {
		t.Fatal(err)
	}
	pragma := func(text string) {
		t.Helper()
		if _, err := s.write.db.ExecContext(t.Context(), "PRAGMA "+text); err != nil {
			t.Fatal(err)
		}
	}
	create := func() error {
		_, _, err := s.CreateTopic(t.Context(), chat.NewTopic{})
		return err
	}

	t.Run("while another process writes for too long", func(t *testing.T) {
		pragma("busy_timeout = 0")
		other, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		tx, err := other.write.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		unavailable(t, create(), "Another program is writing")
		if _, err := s.Topic(t.Context(), topic.ID); err != nil {
			t.Errorf("reading: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := create(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("while it is read only", func(t *testing.T) {
		pragma("query_only = 1")
		unavailable(t, create(), "read-only")
		pragma("query_only = 0")
		if err := create(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("while its disk is full", func(t *testing.T) {
		full := func() error {
			_, _, err := s.CreateTopic(t.Context(), chat.NewTopic{SystemPrompt: strings.Repeat("long ", 100_000)})
			return err
		}
		count := func() (n int) {
			if err := s.read.db.GetContext(t.Context(), &n, `SELECT count(*) FROM topics`); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := count()
		pragma("max_page_count = 1") // as many as there are
		unavailable(t, full(), "disk of the database is full")
		if n := count(); n != before {
			t.Errorf("%d topics became %d", before, n)
		}
		pragma("max_page_count = 1000000")
		if err := full(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("a commit that was written and not synced is done away with, or not known to be", func(t *testing.T) {
		broke := errors.New("disk I/O error (1034)")
		var undone *rolledBack
		if err := s.write.resolve.lost(t.Context(), "", broke); !errors.As(err, &undone) {
			t.Errorf("got %v", err)
		}
		reader, err := s.read.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Rollback()
		var n int
		if err := reader.GetContext(t.Context(), &n, `SELECT count(*) FROM topics`); err != nil {
			t.Fatal(err)
		}
		if err := create(); err != nil { // the reader is behind now, and the log must stay
			t.Fatal(err)
		}
		var unknown *commitError
		if err := s.write.resolve.lost(t.Context(), "", broke); !errors.As(err, &unknown) {
			t.Errorf("while the log cannot be emptied: %v", err)
		} else {
			unavailable(t, s.write.dialect.known(t.Context(), "create a topic", err), "is not known")
		}
	})
	t.Run("nothing is written by way of the readers", func(t *testing.T) {
		if _, err := s.read.db.ExecContext(t.Context(), `DELETE FROM topics`); err == nil {
			t.Error("a reader wrote")
		}
	})
	t.Run("the settings are those that were asked for", func(t *testing.T) {
		for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
			var got string
			if err := s.write.db.GetContext(t.Context(), &got, "PRAGMA "+name); err != nil || got != want {
				t.Errorf("%s is %s, want %s (%v)", name, got, want, err)
			}
		}
	})
}

func TestADamagedSQLiteFileSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 20 {
		if _, _, err := s.CreateTopic(t.Context(), chat.NewTopic{SystemPrompt: strings.Repeat("x", 10_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.write.db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	size, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("damage ", int(size.Size()-4096)/7)), 4096); err != nil { // all but the first page
		t.Fatal(err)
	}
	other, err := sqliteReader(path) // one that remembers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	err = other.look(t.Context(), "read", func(ctx context.Context, t *tx) error {
		var n int
		return t.get(ctx, &n, `SELECT count(*) FROM topics`)
	})
	unavailable(t, err, "restore a backup")
}

func sqliteReader(path string) (*pool, error) {
	db, err := sqlx.Open("sqlite", sqliteURL(path, "query_only(1)"))
	return newPool(db, sqliteDialect(), false, nil), err
}
