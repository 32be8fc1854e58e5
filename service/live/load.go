package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// snapshot is a topic, or all statuses, as read for all who waited for it.
type snapshot struct {
	from     uint64 // the events above it belong to it
	revision int64
	data     []byte
	// messages are those of the snapshot as committed, to tell which steps it
	// has overtaken.
	messages map[string]committed
	// skip are the steps whose text the snapshot does not continue.
	skip map[*step]bool
	// revisions are those of the topics in a snapshot of all.
	revisions map[string]int64
}

type committed struct {
	epoch   int64
	parts   int
	running bool
}

// overtaken reports whether the message holds the step already, ended without
// it, or belongs to a later owner than the step's. (A turn never runs again
// under the same epoch once its message says that it has ended.)
func (c committed) overtaken(epoch int64, base int) bool {
	return c.epoch > epoch || c.epoch == epoch && (c.parts > base || !c.running)
}

// errStale is a snapshot that is too old, or whose continuation is not in the
// ring any more.
var errStale = errors.New("the snapshot is older than what was announced")

// load sees to it that the subscriptions of t which wait get a snapshot.
func (h *Hub) load(t *topic) {
	if t.loading || h.ctx.Err() != nil {
		return
	}
	t.loading = true
	h.wg.Go(func() { h.loadAll(t) })
}

// loadAll reads snapshots of t until nobody waits for one.
func (h *Hub) loadAll(t *topic) {
	backOff := time.Duration(0)
	for {
		select {
		case <-time.After(backOff):
		case <-h.ctx.Done():
			return
		}
		select {
		case h.loads <- struct{}{}:
		case <-h.ctx.Done():
			return
		}
		done, err := h.loadOnce(t)
		<-h.loads
		if done || h.ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errStale) {
			h.log.Warn("snapshot cannot be read, will try again", slog.String("topic_id", t.id), slog.Any("error", err))
		}
		backOff = min(max(2*backOff, minBackOff/4), maxBackOff)
	}
}

// loadOnce reads one snapshot and hands it to all who wait. It reports whether
// that was the end of it.
func (h *Hub) loadOnce(t *topic) (done bool, err error) {
	h.mu.Lock()
	if !t.waited() {
		t.loading = false
		h.mu.Unlock()
		return true, nil
	}
	h.flushAll(t)
	snap := &snapshot{from: h.seq}
	steps, floor := t.copySteps(), t.floor
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(h.ctx, readTimeout)
	defer cancel()
	if t == h.statuses {
		err = h.readStatuses(ctx, snap)
	} else {
		err = h.readTopic(ctx, t.id, steps, snap)
	}
	gone := isGone(err)
	if err != nil && !gone {
		return false, err
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if !gone {
		if snap.revision < floor || t.ring.low > snap.from {
			return false, errStale
		}
		if t == h.statuses {
			h.base(snap.revisions)
		} else if h.peers != nil && !t.settle(snap.revision) {
			return false, errStale
		}
		snap.skipOvertaken(t)
	}
	for _, s := range t.subs {
		if s.state != waiting {
			continue
		}
		if gone {
			s.state = missing
		} else {
			s.state, s.snap = ready, snap
		}
		s.reader.poke()
	}
	t.loading, t.touched = false, time.Now()
	return true, nil
}

func (t *topic) waited() bool {
	return slices.ContainsFunc(t.subs, func(s *sub) bool { return s.state == waiting })
}

type snapshotData struct {
	TopicID  string         `json:"topicId"`
	Revision int64          `json:"revision"`
	Topic    chat.Topic     `json:"topic"`
	Messages []chat.Message `json:"messages"`
	Queued   []chat.Message `json:"queued"`
	Status   chat.Status    `json:"status"`
	HasMore  bool           `json:"hasMore"`
	Before   string         `json:"before,omitempty"`
}

// readTopic reads the topic and adds the text of the running steps to it.
func (h *Hub) readTopic(ctx context.Context, topicID string, steps []stepCopy, snap *snapshot) error {
	h.count.snapshots.Add(1)
	s, err := h.src.Snapshot(ctx, topicID, h.messages, "")
	if err != nil {
		return fmt.Errorf("snapshot of topic %s: %w", topicID, err)
	}
	snap.revision = s.Revision
	snap.messages = map[string]committed{}
	for _, m := range s.Messages {
		if m.Role == chat.RoleAssistant {
			snap.messages[m.ID] = committed{m.Epoch, len(m.Parts), m.Status == chat.MessagePending}
		}
	}
	messages := slices.Clone(s.Messages) // the source's own are left alone
	snap.skip = map[*step]bool{}
	for _, c := range steps {
		i := slices.IndexFunc(messages, func(m chat.Message) bool { return m.ID == c.messageID })
		if i < 0 || snap.messages[c.messageID] != (committed{c.epoch, c.base, true}) {
			snap.skip[c.step] = true
			continue
		}
		parts := slices.Clone(messages[i].Parts)
		for _, p := range c.parts {
			parts = append(parts, p.part())
		}
		messages[i].Parts = parts
	}
	if messages == nil {
		messages = []chat.Message{}
	}
	queued := s.Queued
	if queued == nil {
		queued = []chat.Message{}
	}
	snap.data, err = chat.Marshal(snapshotData{topicID, s.Revision, s.Topic, messages, queued, s.Status, s.HasMore, s.Before})
	if err != nil {
		return fmt.Errorf("encode snapshot of topic %s: %w", topicID, err)
	}
	return nil
}

// skipOvertaken adds the steps that began while the snapshot was read and are
// in it already. A step that begins later cannot be.
func (snap *snapshot) skipOvertaken(t *topic) {
	look := func(s *step) {
		if m, ok := snap.messages[s.turn.messageID]; ok && m.overtaken(s.turn.epoch, s.base) {
			snap.skip[s] = true
		}
	}
	for _, e := range t.ring.after(snap.from) {
		if e.step != nil && !snap.skip[e.step] {
			look(e.step)
		}
	}
	snap.messages = nil
}

type statusesData struct {
	TopicID  string       `json:"topicId"`
	Revision int64        `json:"revision"`
	Topics   []chat.Topic `json:"topics"`
	Complete bool         `json:"complete"`
}

func (h *Hub) readStatuses(ctx context.Context, snap *snapshot) error {
	topics, next, err := h.src.Topics(ctx, chat.Page{Limit: maxTopics})
	if err != nil {
		return fmt.Errorf("snapshot of all topics: %w", err)
	}
	if topics == nil {
		topics = []chat.Topic{}
	}
	snap.revisions = make(map[string]int64, len(topics))
	for _, t := range topics {
		snap.revisions[t.ID] = t.Revision
	}
	snap.data, err = chat.Marshal(statusesData{TopicID: h.statuses.id, Topics: topics, Complete: next == ""})
	if err != nil {
		return fmt.Errorf("encode snapshot of all topics: %w", err)
	}
	return nil
}

// isGone reports whether a topic is not there, or not there any more.
func isGone(err error) bool { return errors.Is(err, chat.ErrNotFound) || errors.Is(err, chat.ErrGone) }
