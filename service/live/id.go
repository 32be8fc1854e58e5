package live

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// A reader's place is "<hub epoch>.<sequence number>.<what it watches>". The
// last part is there because a client may come back with another set of
// topics: a topic that it did not watch before has to begin with a snapshot,
// however new its place is. Up to listed topics are named one by one, so that
// a client which adds one topic goes on with the others; a larger set only
// resumes as a whole.
const listed = 8

// watched is the last part of a place.
func watched(topics []string, statuses bool) string {
	var b strings.Builder
	if statuses {
		b.WriteByte('s')
	}
	if len(topics) > listed {
		h := fnv.New64a()
		for _, id := range topics {
			_, _ = h.Write([]byte(id + "\n")) // a hash does not fail
		}
		fmt.Fprintf(&b, "x%016x", h.Sum64())
		return b.String()
	}
	for _, id := range topics {
		b.WriteByte('t')
		b.WriteString(short(id))
	}
	return b.String()
}

func short(topicID string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(topicID)) // a hash does not fail
	return fmt.Sprintf("%010x", h.Sum64()>>24)
}

// place is a parsed id.
type place struct {
	seq     uint64
	watched string
}

// parse reads an id of this hub. Anything else, also an id of a hub before a
// restart, reports false: the reader begins with snapshots.
func (h *Hub) parse(id string) (place, bool) {
	epoch, rest, _ := strings.Cut(id, ".")
	number, set, ok := strings.Cut(rest, ".")
	if !ok || epoch != h.epoch {
		return place{}, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq > h.seq {
		return place{}, false
	}
	return place{seq, set}, true
}

// held reports whether a client at the place watched the topic.
func (p place) held(topicID string) bool {
	return slices.Contains(strings.Split(strings.TrimPrefix(p.watched, "s"), "t"), short(topicID))
}

// heldStatuses reports whether a client at the place watched all statuses.
func (p place) heldStatuses() bool { return strings.HasPrefix(p.watched, "s") }
