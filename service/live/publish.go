package live

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/assent-chat/assent/service/chat"
)

// Publish announces a committed change, and the topic's status after it. It
// waits for that one read, for at most two seconds and even if ctx has ended,
// and for no reader. A status that cannot be read is announced as soon as it
// can. A change whose revision is 0 changed nothing and is ignored.
func (h *Hub) Publish(ctx context.Context, c chat.Change) {
	if c.Revision == 0 {
		return
	}
	events, err := changeEvents(c)
	var both entry // what concerns those who watch all topics as well
	if err == nil {
		both, err = topicEvent(c)
	}

	h.mu.Lock()
	t := h.topic(c.TopicID)
	h.flushAll(t)
	if err != nil {
		h.unencodable(t, "change", err)
	}
	reset := c.Reset || err != nil
	h.tell(t, c.Revision, events, both, reset)
	h.sayChange(t, c, events, both, reset)
	if c.TopicRemoved {
		delete(h.dirty, c.TopicID)
	}
	h.mu.Unlock()

	if !c.TopicRemoved {
		h.publishStatus(context.WithoutCancel(ctx), c.TopicID, c.Revision)
	}
}

// unencodable makes up for an event that cannot be written: the snapshot that
// every reader gets instead holds the same.
func (h *Hub) unencodable(t *topic, what string, err error) {
	h.log.Error("live event cannot be encoded", slog.String("topic_id", t.id), slog.String("event", what), slog.Any("error", err))
	h.forget(t)
}

// publishStatus reads and announces the status of the topic at the revision or
// above. It reports whether nothing is left to do.
func (h *Hub) publishStatus(ctx context.Context, topicID string, revision int64) bool {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	st, err := h.src.Status(ctx, topicID)
	if err == nil && st.Revision < revision {
		err = fmt.Errorf("the status is of revision %d, older than %d", st.Revision, revision)
	}
	var data []byte
	if err == nil {
		data, err = chat.Marshal(st)
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case isGone(err): // removed since; that is announced by who removed it
		delete(h.dirty, topicID)
		return true
	case err != nil:
		want, known := h.dirty[topicID]
		h.dirty[topicID] = max(want, revision)
		if !known {
			h.log.WarnContext(ctx, "topic status cannot be read, will try again", slog.String("topic_id", topicID), slog.Any("error", err))
			select {
			case h.retry <- struct{}{}:
			default: // it is awake
			}
		}
		return false
	}
	if want, ok := h.dirty[topicID]; ok && st.Revision >= want {
		delete(h.dirty, topicID)
	}
	if h.tellStatus(h.topic(topicID), st.Revision, data) {
		h.say(signal{Kind: sayStatus, Topic: topicID, Revision: st.Revision, Events: []wireEvent{{"status", data}}})
	}
	return true
}

// readDirty tries the statuses again that could not be read, and reports
// whether none is left. It gives up at the first that fails again: then the
// others would, too.
func (h *Hub) readDirty() bool {
	h.mu.Lock()
	dirty := make(map[string]int64, len(h.dirty))
	for id, revision := range h.dirty {
		dirty[id] = revision
	}
	h.mu.Unlock()
	for id, revision := range dirty { // in no order, so that one bad topic holds up none for ever
		if !h.publishStatus(h.ctx, id, revision) {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.dirty) == 0 // another revision may be wanted by now
}

type messageData struct {
	TopicID  string `json:"topicId"`
	Revision int64  `json:"revision"`
	Message  any    `json:"message"`
}

// metadata is a message of which only the metadata is told.
type metadata chat.Message

func (m metadata) MarshalJSON() ([]byte, error) { return chat.Message(m).MetadataJSON() }

// part is a part by itself, as it stands in a message.
type part struct{ chat.Part }

func (p part) MarshalJSON() ([]byte, error) { return chat.EncodePart(p.Part) }

type partData struct {
	TopicID   string `json:"topicId"`
	Revision  int64  `json:"revision"`
	MessageID string `json:"messageId"`
	Epoch     int64  `json:"epoch"`
	Position  int    `json:"position"`
	Part      part   `json:"part"`
}

type removedData struct {
	TopicID   string `json:"topicId"`
	Revision  int64  `json:"revision"`
	MessageID string `json:"messageId,omitempty"`
}

type topicData struct {
	TopicID  string     `json:"topicId"`
	Revision int64      `json:"revision"`
	Topic    chat.Topic `json:"topic"`
}

// changeEvents encodes what a change says of the topic's messages.
func changeEvents(c chat.Change) ([]entry, error) {
	if c.Reset || c.TopicRemoved {
		return nil, nil
	}
	var events []entry
	var failed error
	add := func(name string, v any) {
		data, err := chat.Marshal(v)
		if err != nil {
			failed = fmt.Errorf("%s event: %w", name, err)
		}
		events = append(events, entry{revision: c.Revision, name: name, data: data})
	}
	for _, id := range c.Removed {
		add("message.removed", removedData{c.TopicID, c.Revision, id})
	}
	for _, m := range c.Messages {
		add("message", messageData{c.TopicID, c.Revision, m})
	}
	for _, m := range c.Metadata {
		add("message", messageData{c.TopicID, c.Revision, metadata(m)})
	}
	for _, p := range c.Parts {
		add("part", partData{c.TopicID, c.Revision, p.MessageID, p.Epoch, p.Position, part{p.Part}})
	}
	return events, failed
}

// removed encodes that a topic is gone.
func removed(topicID string, revision int64) []byte {
	data, _ := chat.Marshal(removedData{TopicID: topicID, Revision: revision}) // text and a number always encode
	return data
}

// topicEvent encodes what a change says of the topic itself; its name is empty
// if that is nothing.
func topicEvent(c chat.Change) (entry, error) {
	if c.TopicRemoved {
		return entry{revision: c.Revision, name: "topic.removed", data: removed(c.TopicID, c.Revision)}, nil
	}
	if c.Topic == nil {
		return entry{}, nil
	}
	data, err := chat.Marshal(topicData{c.TopicID, c.Revision, *c.Topic})
	if err != nil {
		return entry{}, fmt.Errorf("topic event: %w", err)
	}
	return entry{revision: c.Revision, name: "topic", data: data}, nil
}
