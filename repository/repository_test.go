package repository_test

import (
	"path/filepath"
	"testing"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/repository/repotest"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/turn"
)

var (
	_ service.Store = (*repository.Store)(nil)
	_ turn.Store    = (*repository.Store)(nil)
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSQLite(t *testing.T) {
	repotest.Run(t, func(t *testing.T) repository.Options { return sqliteOptions(t) })
}

func TestPostgres(t *testing.T) {
	repotest.Run(t, func(t *testing.T) repository.Options { return repository.Options{URL: pgtest.URL(t)} })
}

// TestPostgresWithoutPreparing is the way of a pooler between the two.
func TestPostgresWithoutPreparing(t *testing.T) {
	repotest.Run(t, func(t *testing.T) repository.Options {
		return repository.Options{URL: pgtest.URL(t), NoPrepare: true}
	}, "deciding", "races", "pending", "adopting")
}

func sqliteOptions(t testing.TB) repository.Options {
	return repository.Options{Path: filepath.Join(t.TempDir(), "a b?c#%41.db"), Exclusive: true}
}

func open(t testing.TB, o repository.Options) *repository.Store {
	t.Helper()
	s, err := repository.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
