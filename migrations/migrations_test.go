package migrations_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/migrations"
)

func TestBothDatabasesHaveTheSameMigrations(t *testing.T) {
	names := func(open func() (fs.FS, error)) []string {
		t.Helper()
		files, err := open()
		if err != nil {
			t.Fatal(err)
		}
		found, err := fs.Glob(files, "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	postgres := names(migrations.Postgres)
	if len(postgres) == 0 {
		t.Fatal("there are no migrations")
	}
	if diff := cmp.Diff(postgres, names(migrations.SQLite)); diff != "" {
		t.Errorf("names (-postgres +sqlite):\n%s", diff)
	}
}
