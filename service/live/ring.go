package live

import "sort"

// entry is one event as it lies in a ring. It is never changed once it is
// there, so readers take it without copying.
type entry struct {
	seq      uint64
	revision int64 // of the topic; 0 for a delta, which no revision dates
	step     *step // the step that a delta belongs to
	name     string
	data     []byte
}

// entryCost is what an entry takes beside its data, roughly.
const entryCost = 96

// ring keeps the newest entries, bounded by their number and their bytes.
type ring struct {
	entries []entry // oldest first
	// low is the low-water mark: every entry above it that was ever appended
	// is here. A reader below it has missed something.
	low      uint64
	bytes    int
	maxCount int
	maxBytes int
}

func (r *ring) append(e entry) {
	r.entries = append(r.entries, e)
	r.bytes += len(e.data) + entryCost
	for len(r.entries) > r.maxCount || r.bytes > r.maxBytes {
		old := r.entries[0]
		r.entries[0] = entry{} // lets go of the data while the array lives on
		r.entries = r.entries[1:]
		r.bytes -= len(old.data) + entryCost
		r.low = old.seq
		if len(r.entries) == 0 {
			break
		}
	}
}

// forget drops every entry; whoever stands below seq needs a snapshot.
func (r *ring) forget(seq uint64) {
	r.entries, r.bytes, r.low = nil, 0, seq
}

// after returns the entries above seq, oldest first.
func (r *ring) after(seq uint64) []entry {
	n := len(r.entries)
	if n == 0 || r.entries[n-1].seq <= seq {
		return nil
	}
	return r.entries[sort.Search(n, func(i int) bool { return r.entries[i].seq > seq }):]
}
