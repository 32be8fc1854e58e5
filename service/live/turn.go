package live

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// turn is a running turn as its readers see it.
type turn struct {
	id        string
	messageID string
	epoch     int64
	remote    bool   // it runs on another instance
	number    uint64 // of a remote one's last step
	settled   bool   // what a remote one's last step wrote has been committed
	step      *step  // the one that the model writes now, nil if it writes none
	// ended is the step that was dropped last. If another begins in its place,
	// what it showed was never committed.
	ended    *step
	pending  *delta         // text that waits to be sent
	progress map[int]string // of running calls, by position; the last one wins
	armed    bool           // a timer will flush
}

// step is the text of a step that is not committed yet. It is only added to.
type step struct {
	turn     *turn
	base     int // position of its first part
	revision int64
	parts    []livePart
	number   uint64 // of the steps of an owner the later ones have the higher
	mute     bool   // other instances cannot be told of it
	before   [2]int // its length, two looks ago and one look ago
}

// livePart is a part that is being written. The bytes of text are never
// written again once they are there, so a copy of the slice is a copy of the
// text.
type livePart struct {
	start chat.Part
	text  []byte
	units int // length of the text in UTF-16 units
}

// delta is text on its way to the readers.
type delta struct {
	part   int
	field  string
	offset int
	text   []byte
	start  chat.Part
}

// Begin opens the live part of a step at the position, and shows that it has
// begun. If the same owner had begun a step there before, what that one showed
// will not be committed: every reader gets a snapshot.
func (h *Hub) Begin(f chat.Fence, revision int64, position int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topic(f.TopicID)
	tn := t.turns[f.TurnID]
	if tn != nil && tn.epoch > f.Epoch {
		return
	}
	t.tidy(f.TurnID)
	t.floor = max(t.floor, revision)
	if t.known > 0 && t.known < revision { // what it builds on is told later
		h.forget(t)
	}
	if tn != nil && tn.epoch == f.Epoch {
		h.flush(t, tn)
		if tn.showed(position) {
			h.forget(t)
		}
	}
	if tn != nil {
		tn.pending, tn.progress = nil, nil // of an owner that has lost the turn
	}
	tn = &turn{id: f.TurnID, messageID: f.MessageID, epoch: f.Epoch}
	tn.step = &step{turn: tn, base: position, revision: revision, number: h.seq}
	t.turns[f.TurnID] = tn
	tn.step.parts = append(tn.step.parts, livePart{start: chat.StepStart{}})
	h.emit(t, tn, delta{part: position, field: "text", start: chat.StepStart{}})
}

// tidy forgets what is over, but for the turn named. Of turns of other
// instances some are kept: what was said of them may be said again.
func (t *topic) tidy(turnID string) {
	for id, tn := range t.turns {
		if id != turnID && tn.step == nil && len(tn.progress) == 0 && (!tn.remote || len(t.turns) > keepTurns) {
			delete(t.turns, id)
		}
	}
}

const keepTurns = 16

// showed reports whether the turn's last step began at the position.
func (tn *turn) showed(position int) bool {
	last := tn.last()
	return last != nil && last.base == position
}

// last is the step that runs, or ran last.
func (tn *turn) last() *step {
	if tn.step != nil {
		return tn.step
	}
	return tn.ended
}

// end drops the text of the turn's step.
func (tn *turn) end() {
	tn.ended, tn.step = tn.step, nil
	tn.ended.parts = nil
}

// Delta adds to the text of the open step. One that does not continue what is
// there, or is of another epoch, changes nothing. Text is gathered for a short
// while before it is sent.
func (h *Hub) Delta(f chat.Fence, d chat.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, tn := h.open(f)
	if tn == nil || !tn.step.add(d) {
		return
	}
	if p := tn.pending; p != nil && p.part == d.Part && p.field == d.Field {
		p.text = append(p.text, d.Text...)
		return
	}
	h.flush(t, tn)
	tn.pending = &delta{part: d.Part, field: d.Field, offset: d.Offset, text: []byte(d.Text), start: d.Start}
	h.arm(t, tn)
}

// add appends d to the part that it continues.
func (s *step) add(d chat.Delta) bool {
	i := d.Part - s.base
	switch {
	case i < 0 || i > len(s.parts), d.Field != "text" && d.Field != "input":
		return false
	case i == len(s.parts):
		if d.Start == nil || d.Offset != 0 {
			return false
		}
		s.parts = append(s.parts, livePart{start: d.Start})
	case d.Start != nil || d.Offset != s.parts[i].units:
		return false
	}
	s.parts[i].text = append(s.parts[i].text, d.Text...)
	s.parts[i].units += chat.UTF16Len(d.Text)
	return true
}

// Progress tells how far a running call has come. What comes faster than text
// is sent is left out, but for the last.
func (h *Hub) Progress(f chat.Fence, position int, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topic(f.TopicID)
	tn := t.turns[f.TurnID]
	switch {
	case tn == nil || tn.epoch < f.Epoch:
		tn = &turn{id: f.TurnID, messageID: f.MessageID, epoch: f.Epoch}
		t.turns[f.TurnID] = tn
	case tn.epoch > f.Epoch:
		return
	}
	if tn.progress == nil {
		tn.progress = map[int]string{}
	}
	tn.progress[position] = text
	h.arm(t, tn)
}

// End drops the live part of the step: it is committed, or will not be.
func (h *Hub) End(f chat.Fence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, tn := h.open(f)
	if tn == nil {
		return
	}
	h.flush(t, tn)
	h.say(signal{Kind: sayEnd, Topic: f.TopicID, Turn: f.TurnID, Epoch: f.Epoch, Step: tn.step.number})
	tn.end()
}

// open returns the turn if the fence's owner has a step open.
func (h *Hub) open(f chat.Fence) (*topic, *turn) {
	t := h.topics[f.TopicID]
	if t == nil {
		return nil, nil
	}
	tn := t.turns[f.TurnID]
	if tn == nil || tn.step == nil || tn.epoch != f.Epoch {
		return nil, nil
	}
	t.touched = time.Now()
	return t, tn
}

// arm makes sure that what waits is sent soon. A timer that finds nothing to
// send does nothing, so none is ever stopped.
func (h *Hub) arm(t *topic, tn *turn) {
	if tn.armed {
		return
	}
	tn.armed = true
	time.AfterFunc(h.flushEvery, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		tn.armed = false
		h.flush(t, tn)
	})
}

// flushAll sends what waits in the topic, before something that comes after it.
func (h *Hub) flushAll(t *topic) {
	for _, tn := range t.turns {
		h.flush(t, tn)
	}
}

func (h *Hub) flush(t *topic, tn *turn) {
	if d := tn.pending; d != nil {
		tn.pending = nil
		h.emit(t, tn, *d)
	}
	if len(tn.progress) == 0 {
		return
	}
	for position, text := range tn.progress {
		h.emit(t, tn, delta{part: position, field: "progress", text: []byte(text)})
	}
	tn.progress = nil
}

type deltaData struct {
	TopicID   string          `json:"topicId"`
	Revision  int64           `json:"revision"`
	MessageID string          `json:"messageId"`
	Epoch     int64           `json:"epoch"`
	Part      int             `json:"part"`
	Field     string          `json:"field"`
	Offset    int             `json:"offset"`
	Text      string          `json:"text"`
	Start     json.RawMessage `json:"start,omitempty"`
}

func (h *Hub) emit(t *topic, tn *turn, d delta) {
	data := deltaData{
		TopicID: t.id, Revision: t.floor, MessageID: tn.messageID, Epoch: tn.epoch,
		Part: d.part, Field: d.field, Offset: d.offset, Text: string(d.text),
	}
	e := entry{name: "delta"}
	if d.field != "progress" { // belongs to a call that is committed, not to a step
		e.step, data.Revision = tn.step, tn.step.revision
	}
	var err error
	if d.start != nil {
		data.Start, err = chat.EncodePart(d.start)
	}
	if err == nil {
		e.data, err = chat.Marshal(data)
	}
	if err != nil {
		h.unencodable(t, "delta", err)
		return
	}
	h.append(e, t)
	h.sayDelta(t, tn, d)
}

// stepCopy is a step at one instant.
type stepCopy struct {
	step      *step
	messageID string
	epoch     int64
	base      int
	parts     []livePart
}

func (t *topic) copySteps() []stepCopy {
	var copies []stepCopy
	for _, tn := range t.turns {
		if s := tn.step; s != nil {
			copies = append(copies, stepCopy{s, tn.messageID, tn.epoch, s.base, slices.Clone(s.parts)})
		}
	}
	return copies
}

// part is the part with what has been written of it.
func (p livePart) part() chat.Part {
	switch start := p.start.(type) {
	case chat.Text:
		start.Text += string(p.text)
		return start
	case chat.Reasoning:
		start.Text += string(p.text)
		return start
	case chat.ToolCall:
		start.RawInput += string(p.text)
		return start
	case chat.File, chat.StepStart, chat.Other:
	}
	return p.start
}
