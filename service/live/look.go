package live

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// look compares what this hub has told with the database, again and again:
// what was not heard is told late, and never lost.
func (h *Hub) look() {
	p := h.peers
	wait := time.NewTimer(0)
	defer wait.Stop()
	failed := false
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-p.soon:
		case <-wait.C:
		}
		h.saySteps()
		err := h.lookOnce()
		if err != nil && !failed && h.ctx.Err() == nil {
			h.log.Warn("revisions cannot be read, will try again", slog.Any("error", err))
		}
		failed = err != nil
		h.mu.Lock()
		every := pollSlow + rand.N(pollSlow/4) // instances look at different times
		if time.Now().Before(p.fast) && !failed {
			every = pollFast
		}
		h.mu.Unlock()
		wait.Reset(every)
	}
}

// lookOnce looks at the revisions once.
func (h *Hub) lookOnce() error {
	p := h.peers
	ctx, cancel := context.WithTimeout(h.ctx, readTimeout)
	defer cancel()
	if err := h.lookAtSettings(ctx); err != nil {
		return err
	}
	rows, err := p.source.Revisions(ctx, h.watchedTopics(), maxTopics)
	if err != nil {
		return err
	}
	for _, id := range h.behind(rows) {
		if err := h.tellTopic(ctx, id); err != nil {
			h.mu.Lock()
			p.heal[id] = true
			h.mu.Unlock()
			return err
		}
	}
	return nil
}

func (h *Hub) watchedTopics() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id, t := range h.topics {
		if len(t.subs) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// behind compares revisions with what was told. Readers of a topic of which
// something was missed begin with a snapshot. The topics that are returned are
// those of which the watchers of all statuses have missed something.
func (h *Hub) behind(rows []chat.TopicRevision) []string {
	p := h.peers
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := make(map[string]int64, len(rows))
	for _, row := range rows {
		seen[row.TopicID] = row.Revision
		before := p.seen[row.TopicID] // 0 if it was not looked at: nothing is below that
		t := h.topics[row.TopicID]
		if t != nil && t.followed && t.known > 0 && (t.known < before || !row.Removed && max(t.statusRev, t.statusKnown) < before) {
			t.floor = max(t.floor, before)
			h.count.healed.Add(1)
			h.forget(t)
		}
		w, known := p.told[row.TopicID]
		switch {
		case !p.based, row.Removed && !known:
		case w.change < before, w.status < before:
			p.heal[row.TopicID] = true
		}
	}
	p.seen = seen
	heal := slices.Collect(maps.Keys(p.heal))
	clear(p.heal)
	if len(p.told) > maxTold {
		maps.DeleteFunc(p.told, func(id string, _ told) bool { _, recent := seen[id]; return !recent })
	}
	if len(heal) > maxHeals {
		h.forget(h.statuses)
		return nil
	}
	return heal
}

// tellTopic reads a topic and tells those who watch all of them how it is.
func (h *Hub) tellTopic(ctx context.Context, id string) error {
	topic, err := h.peers.source.Topic(ctx, id)
	gone := isGone(err)
	if err != nil && !gone {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.unwatched(id)
	if gone {
		if !t.removed {
			t.removed = true
			h.append(entry{name: "topic.removed", data: removed(id, t.floor)}, t, h.statuses)
		}
		delete(h.dirty, id)
		delete(h.peers.told, id)
		return nil
	}
	both, err := topicEvent(chat.Change{TopicID: id, Revision: topic.Revision, Topic: &topic})
	if err != nil {
		h.unencodable(h.statuses, "topic", err)
		return nil
	}
	status, err := chat.Marshal(topic.Status)
	if err != nil {
		h.unencodable(h.statuses, "status", err)
		return nil
	}
	if topic.Revision > t.topicRev && !t.removed {
		t.topicRev = topic.Revision
		h.append(both, h.statuses)
	}
	h.tellStatus(t, topic.Revision, status)
	if h.peers.based {
		w := h.peers.told[id]
		h.peers.told[id] = told{max(w.change, topic.Revision), max(w.status, topic.Revision)}
	}
	return nil
}

// lookAtSettings tells of settings that have changed since the last look. They
// may have been told already; then they are read once more.
func (h *Hub) lookAtSettings(ctx context.Context) error {
	p := h.peers
	marks, err := p.source.SettingsMarks(ctx)
	if err != nil {
		return err
	}
	for what, mark := range marks { // at first of all, which may have been read before
		if p.marks[what] != mark {
			p.local.SettingsChanged(what)
			h.Hint(what)
		}
	}
	p.marks = marks
	return nil
}
