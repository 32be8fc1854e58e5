package repository

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

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
		if err := create(); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
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
		if err := create(); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		pragma("query_only = 0")
		if err := create(); err != nil {
			t.Errorf("afterwards: %v", err)
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
