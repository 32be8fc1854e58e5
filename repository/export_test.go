package repository

import "time"

// Patience sets how long the store asks what became of a lost commit. Nothing
// may use the store meanwhile.
func (s *Store) Patience(d time.Duration) { s.write.resolve.patience = d }

// Impatient is the store on the same connections, for those who do not wait
// until one is free.
func (s *Store) Impatient() *Store {
	hurried := func(p *pool) *pool {
		q := newPool(p.db, p.dialect, false, p.resolve)
		q.crowd = time.Millisecond
		return q
	}
	w := hurried(s.write)
	return &Store{write: w, read: w, spare: hurried(s.spare), keys: s.keys}
}

// Cluster makes the store believe that it was opened at another cluster.
func (s *Store) Cluster(name string) { s.write.resolve.cluster = name }
