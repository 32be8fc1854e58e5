package live

import (
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// way is how a change is told to the readers of its topic.
type way int

const (
	inPieces way = iota // by its events
	covered             // not at all: every reader has it, or will have it
	anew                // by a snapshot
)

// way says how a change is told, and remembers that it was.
func (h *Hub) way(t *topic, revision int64, reset bool) way {
	late := revision < t.published
	t.published = max(t.published, revision)
	t.floor = max(t.floor, revision)
	switch {
	case reset:
		return anew
	case h.peers == nil:
		if late {
			return anew
		}
		return inPieces
	case !t.followed:
		return anew
	case t.known == 0:
		if len(t.early) == maxEarly {
			return anew
		}
		t.early = append(t.early, revision)
		return inPieces
	case revision <= t.known:
		return covered
	case revision == t.known+1:
		t.known = revision
		return inPieces
	}
	return anew
}

// settle makes a snapshot the ground that later changes build on, if there is
// none. It reports false if changes are missing between the snapshot and what
// was told since.
func (t *topic) settle(revision int64) bool {
	if t.known > 0 {
		t.floor = max(t.floor, revision)
		return true
	}
	known := revision
	slices.Sort(t.early)
	for _, r := range t.early {
		if r == known+1 {
			known = r
		}
	}
	if known < t.floor {
		return false
	}
	t.floor = known
	t.known, t.statusKnown, t.early = known, max(t.statusKnown, revision), nil
	return true
}

// tell puts a change, encoded, into the rings.
func (h *Hub) tell(t *topic, revision int64, events []entry, both entry, reset bool) {
	switch h.way(t, revision, reset) {
	case inPieces:
		for _, e := range events {
			h.append(e, t)
		}
	case anew:
		h.forget(t)
	case covered:
	}
	if both.name != "" && revision > t.topicRev && !t.removed {
		t.topicRev = revision
		t.removed = both.name == "topic.removed"
		h.append(both, t, h.statuses)
	}
	h.toldChange(t.id, revision)
}

// sayChange tells other instances of a change, by its events if they fit.
func (h *Hub) sayChange(t *topic, c chat.Change, events []entry, both entry, reset bool) {
	if h.peers == nil {
		return
	}
	s := signal{Kind: sayChange, Topic: c.TopicID, Revision: c.Revision, Reset: reset, Removed: c.TopicRemoved, Writes: t.writes(c)}
	size := len(both.data)
	if both.name != "" && size < MaxMessage {
		s.Both = &wireEvent{both.name, both.data}
	} else if both.name != "" {
		s.Bare = true
	}
	for _, e := range events {
		s.Events = append(s.Events, wireEvent{e.name, e.data})
		size += len(e.data)
	}
	if size < MaxMessage && h.say(s) { // what cannot fit is not even encoded
		return
	}
	s.Events, s.Writes, s.Reset = nil, nil, true // a snapshot has it all
	if h.say(s) {
		return
	}
	s.Both, s.Bare = nil, true
	h.say(s)
}

// writes is what a change wrote of messages that turns fill.
func (t *topic) writes(c chat.Change) []write {
	var all []write
	for _, m := range c.Messages {
		if m.Role == chat.RoleAssistant {
			all = append(all, write{Message: m.ID, Epoch: m.Epoch, Upto: whole})
		}
	}
	for _, p := range c.Parts {
		i := slices.IndexFunc(all, func(w write) bool { return w.Message == p.MessageID && w.Upto != whole })
		if i < 0 {
			all = append(all, write{Message: p.MessageID, Epoch: p.Epoch, Upto: p.Position})
		} else {
			all[i].Upto = max(all[i].Upto, p.Position)
		}
	}
	for i, w := range all {
		for _, tn := range t.turns {
			if last := tn.last(); !tn.remote && last != nil && tn.messageID == w.Message && tn.epoch == w.Epoch {
				all[i].Step = last.number
			}
		}
	}
	return all
}

// hearChange takes in a change that another instance has announced.
func (h *Hub) hearChange(s signal) {
	events := make([]entry, len(s.Events))
	for i, e := range s.Events {
		events[i] = entry{revision: s.Revision, name: e.Name, data: e.Data}
	}
	var both entry
	if s.Both != nil {
		both = entry{revision: s.Revision, name: s.Both.Name, data: s.Both.Data}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.unwatched(s.Topic)
	h.flushAll(t)
	reset := s.Reset
	for _, w := range s.Writes {
		if t.endBy(w, s.Revision) {
			reset = true
		}
	}
	h.tell(t, s.Revision, events, both, reset)
	if s.Removed {
		delete(h.dirty, s.Topic)
	}
	if s.Bare {
		h.peers.heal[s.Topic] = true
		h.lookSoon()
	}
}

// endBy ends a step of another instance that a change has overtaken. It reports
// whether readers were shown another step than the one that is committed, in
// the same place: one that was asked again, unheard. Then parts of it would
// stay.
func (t *topic) endBy(w write, revision int64) (other bool) {
	for _, tn := range t.turns {
		last := tn.last()
		if !tn.remote || tn.messageID != w.Message || last == nil || revision <= last.revision || w.Epoch < tn.epoch ||
			w.Epoch == tn.epoch && w.Upto != whole && w.Upto < last.base {
			continue
		}
		if w.Upto != whole && !tn.settled && w.Epoch == tn.epoch && w.Step != tn.number {
			other = true
		}
		tn.settled = true
		if tn.step != nil {
			tn.end()
		}
	}
	return other
}

// hearStatus takes in a status that another instance has read.
func (h *Hub) hearStatus(s signal) {
	if len(s.Events) != 1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tellStatus(h.unwatched(s.Topic), s.Revision, s.Events[0].Data)
}

// tellStatus puts a status into the rings, unless a newer one was quicker.
func (h *Hub) tellStatus(t *topic, revision int64, data []byte) bool {
	if revision <= t.statusRev || t.removed {
		return false
	}
	t.statusRev = revision
	h.append(entry{revision: revision, name: "status", data: data}, t, h.statuses)
	h.toldStatus(t.id, revision)
	return true
}

// unwatched returns the topic without marking it as used: what other instances
// do keeps nothing alive here.
func (h *Hub) unwatched(id string) *topic {
	if t := h.topics[id]; t != nil {
		return t
	}
	return h.topic(id)
}

// follow begins to keep up with a topic, because somebody watches it: from now
// on its ring holds what happens on every instance.
func (h *Hub) follow(t *topic) {
	if h.peers == nil || t == h.statuses || t.followed {
		return
	}
	t.followed = true
	h.forget(t)
	h.want(t)
}

// toldChange remembers that those who watch all statuses were told of a change.
// One after a gap does not count, nor one of a topic that they had not been
// told of: what is missing will be read.
func (h *Hub) toldChange(topicID string, revision int64) {
	p := h.peers
	if p == nil || !p.based {
		return
	}
	if h.topics[topicID].removed {
		delete(p.told, topicID)
		return
	}
	w := p.told[topicID]
	if revision == w.change+1 {
		w.change = revision
	}
	p.told[topicID] = w
}

func (h *Hub) toldStatus(topicID string, revision int64) {
	p := h.peers
	if p == nil || !p.based {
		return
	}
	w := p.told[topicID]
	w.status = max(w.status, revision)
	p.told[topicID] = w
}

// base makes a snapshot of all topics what its readers are known to know, if
// nobody knows anything else.
func (h *Hub) base(revisions map[string]int64) {
	p := h.peers
	if p == nil || p.based {
		return
	}
	p.based = true
	for id, revision := range revisions {
		p.told[id] = told{revision, revision}
	}
}
