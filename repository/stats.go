package repository

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// DecisionStats counts what became of decisions that were asked for here, call
// by call, since the store was opened.
type DecisionStats struct {
	Approved, Denied int64 // applied
	Repeated         int64 // made before, and the same
	Refused          int64 // made otherwise before, closed, or not to be made
	Failed           int64 // not made, or not known to be, since the database did not do it
}

type decisionCounters struct{ approved, denied, repeated, refused, failed atomic.Int64 }

// DecisionStats may be called at any time.
func (s *Store) DecisionStats() DecisionStats {
	c := &s.decisions
	return DecisionStats{
		Approved: c.approved.Load(), Denied: c.denied.Load(), Repeated: c.repeated.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
	}
}

// count counts decisions by what became of them.
func (c *decisionCounters) count(ds []chat.Decision, out chat.Decided, err error) {
	switch {
	case errors.Is(err, context.Canceled): // nobody waited for the answer
	case err != nil && chat.Refused(err):
		c.refused.Add(int64(len(ds)))
	case err != nil:
		c.failed.Add(int64(len(ds)))
	default:
		for i, r := range out.Results {
			switch {
			case r.Outcome != chat.EffectApplied:
				c.repeated.Add(1)
			case ds[i].Approved:
				c.approved.Add(1)
			default:
				c.denied.Add(1)
			}
		}
	}
}

// Connections says how the pools of connections are doing: by their names, and
// of SQLite the one that writes and the one that reads.
func (s *Store) Connections() map[string]sql.DBStats {
	if s.write == s.read {
		return map[string]sql.DBStats{"main": s.write.db.Stats(), "spare": s.spare.db.Stats()}
	}
	return map[string]sql.DBStats{"write": s.write.db.Stats(), "read": s.read.db.Stats()}
}

// Waiting says how many calls wait for a person, of all topics, and for how
// long the first of them does, by the clock of the database.
func (s *Store) Waiting(ctx context.Context) (n int, oldest time.Duration, err error) {
	var row struct {
		N      int     `db:"n"`
		Oldest instant `db:"oldest"`
		Now    instant `db:"now"`
	}
	err = s.read.look(ctx, "count what waits", func(ctx context.Context, t *tx) error {
		return t.get(ctx, &row, `SELECT count(*) AS n, min(requested_at) AS oldest, {now} AS now FROM parts WHERE state = 'approval-requested'`)
	})
	if err != nil || row.N == 0 {
		return 0, 0, err
	}
	return row.N, row.Now.Sub(row.Oldest.Time), nil
}
