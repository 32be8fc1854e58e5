package repository_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
)

func TestStatsTellHowLongTheFirstCardWaits(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	s := open(t, repository.Options{URL: dsn})
	if n, oldest, err := s.Waiting(t.Context()); n != 0 || oldest != 0 || err != nil {
		t.Errorf("of none: %d, %s, %v", n, oldest, err)
	}
	waiting(t, s, "1", "2")
	exec(t, admin(t, dsn), `UPDATE parts SET requested_at = requested_at - interval '1 hour' WHERE approval_id = '2'`)
	if n, oldest, err := s.Waiting(t.Context()); n != 2 || oldest < time.Hour || oldest > 2*time.Hour || err != nil {
		t.Errorf("%d wait, the first for %s, %v", n, oldest, err)
	}
}

func TestStatsCountWhatBecameOfDecisions(t *testing.T) {
	t.Parallel()
	wire, through := pgtest.NewWire(t, pgtest.URL(t))
	s := open(t, repository.Options{URL: through})
	f := waiting(t, s, "1", "2")
	wire.Down()
	if _, err := decide(t.Context(), s, f, "1"); err == nil {
		t.Error("decided without a database")
	}
	wire.Mend()
	for range 2 {
		if _, err := decide(t.Context(), s, f, "1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := decide(t.Context(), s, f, "nobody's"); err == nil {
		t.Error("decided what is not there")
	}
	want := repository.DecisionStats{Approved: 1, Repeated: 1, Refused: 1, Failed: 1}
	if diff := cmp.Diff(want, s.DecisionStats()); diff != "" {
		t.Error(diff)
	}
}
