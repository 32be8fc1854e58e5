//go:build soak

package main

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// series is what was measured of one thing, in the order of time.
type series struct {
	at     []time.Duration
	values []float64
	over   []float64 // the turns that had ended, of what is counted for each
	per    bool
}

func (s *series) add(at time.Duration, value float64) {
	s.at, s.values = append(s.at, at), append(s.values, value)
}

func (s *series) pair(at time.Duration, rows, turns float64) {
	s.add(at, rows)
	s.over = append(s.over, turns)
}

// verdict is how a series did after the warm-up: the medians of its halves, its
// slope (the median of those between any two values, per hour), and how sure
// it is that there is one (Mann and Kendall; above 3 it is no accident).
type verdict struct{ first, second, slope, z float64 }

func (v verdict) change() float64 {
	if v.first == 0 {
		return v.second
	}
	return v.second/v.first - 1
}

func (s *series) judge(warm, length time.Duration) verdict {
	at, values := s.after(warm)
	if s.per {
		at, values = s.gains(warm)
	}
	if len(values) < 4 {
		return verdict{}
	}
	middle := warm + (length-warm)/2
	cut, _ := slices.BinarySearch(at, middle)
	cut = min(max(cut, 1), len(values)-1)
	v := verdict{first: middleOf(values[:cut]), second: middleOf(values[cut:])}
	var slopes []float64
	up := 0
	for i := range values {
		for j := range i {
			if dt := (at[i] - at[j]).Hours(); dt > 0 {
				slopes = append(slopes, (values[i]-values[j])/dt)
			}
			switch {
			case values[i] > values[j]:
				up++
			case values[i] < values[j]:
				up--
			}
		}
	}
	v.slope = middleOf(slopes)
	n := float64(len(values))
	v.z = float64(up) / math.Sqrt(n*(n-1)*(2*n+5)/18)
	return v
}

func (s *series) after(warm time.Duration) ([]time.Duration, []float64) {
	from, _ := slices.BinarySearch(s.at, warm)
	return s.at[from:], s.values[from:]
}

// gains are the rows that were added for each turn that ended, from one count
// to the next.
func (s *series) gains(warm time.Duration) (at []time.Duration, values []float64) {
	for i := 1; i < len(s.values); i++ {
		if turns := s.over[i] - s.over[i-1]; s.at[i] >= warm && turns > 0 {
			at, values = append(at, s.at[i]), append(values, (s.values[i]-s.values[i-1])/turns)
		}
	}
	return at, values
}

func middleOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// limits says by how much the second half may lie above the first: by this
// share, or by this amount.
func limits(name string) (share, amount float64) {
	switch {
	case strings.HasPrefix(name, "size"): // a database keeps what it is told
		return math.Inf(1), 0
	case strings.HasPrefix(name, "dead"): // that a vacuum has left
		return 0.5, 1000
	case strings.Contains(name, "MiB"):
		return 0.15, 2
	case strings.HasPrefix(name, "per turn"):
		return 0.10, 0.05
	}
	return 0.15, 5
}

func TestSoakSeesWhatGrows(t *testing.T) {
	levels, leaks, steps := &series{}, &series{}, &series{per: true}
	for i := range 100 {
		at, noise := time.Duration(i)*time.Second, float64(i*7919%13)
		levels.add(at, 100+noise)
		leaks.add(at, 100+noise+float64(i))
		steps.pair(at, float64(i*i), float64(i)) // each turn keeps more than the one before
	}
	if v := levels.judge(25*time.Second, 100*time.Second); v.change() > 0.05 || v.z > 3 {
		t.Errorf("what is level is %+v", v)
	}
	for name, s := range map[string]*series{"a leak": leaks, "rows": steps} {
		if v := s.judge(25*time.Second, 100*time.Second); v.change() < 0.15 || v.z < 3 || v.slope <= 0 {
			t.Errorf("%s is %+v", name, v)
		}
	}
}

// rowCounter counts what a database holds.
type rowCounter struct {
	db   *sql.DB
	file string // of SQLite
}

func openRowCounter(url, file string) (*rowCounter, error) {
	if url != "" {
		db, err := sql.Open("postgres", url)
		return &rowCounter{db: db}, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	return &rowCounter{db: db, file: file}, err
}

func (r *rowCounter) close() { _ = r.db.Close() }

// count counts rows, what is dead among them and stays so, and the size of it
// all in MiB.
func (r *rowCounter) count(ctx context.Context) (map[string]float64, error) {
	found := map[string]float64{}
	if r.file == "" { // a server does so by itself, and that of the tests hardly ever
		if _, err := r.db.ExecContext(ctx, "VACUUM"); err != nil {
			return nil, err
		}
	}
	for _, table := range []string{"topics", "messages", "parts", "turns", "decisions", "tokens", "mcp_server_versions"} {
		var n float64
		if err := r.db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			return nil, err
		}
		found["rows of "+table] = n
		if r.file != "" {
			continue
		}
		var dead, bytes float64
		if err := r.db.QueryRowContext(ctx, `SELECT n_dead_tup, pg_table_size(relid) FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&dead, &bytes); err != nil {
			return nil, err
		}
		found["dead rows of "+table], found["size of "+table+", MiB"] = dead, bytes/(1<<20)
	}
	if r.file == "" {
		return found, nil
	}
	for name, suffix := range map[string]string{"size of the file, MiB": "", "WAL file, MiB": "-wal"} {
		info, err := os.Stat(r.file + suffix)
		if err != nil {
			return nil, fmt.Errorf("the size: %w", err)
		}
		found[name] = float64(info.Size()) / (1 << 20)
	}
	return found, nil
}
