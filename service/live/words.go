package live

import (
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

// runningStep is a step that runs on an instance, and how much it had written
// a look or two ago. Who has less has lost something.
type runningStep struct {
	Topic string `json:"t"`
	Turn  string `json:"x"`
	Epoch int64  `json:"e"`
	Step  uint64 `json:"s"`
	Units int    `json:"u"`
}

// sayDelta tells other instances what a step here has written.
func (h *Hub) sayDelta(t *topic, tn *turn, d delta) {
	if h.peers == nil || tn.remote {
		return
	}
	s := signal{Topic: t.id, Turn: tn.id, Message: tn.messageID, Epoch: tn.epoch, Part: d.part, AsOf: t.floor}
	if d.field == "progress" {
		s.Kind, s.Revision, s.Text = sayProgress, t.floor, string(d.text)
		h.say(s) // the next one comes soon
		return
	}
	h.sayPart(s, tn.step, d.part, d.field, d.offset, string(d.text), d.start)
}

// sayPart tells other instances a piece of a step, in as many signals as it
// takes.
func (h *Hub) sayPart(s signal, st *step, part int, field string, offset int, text string, start chat.Part) {
	s.Kind, s.Revision, s.Step, s.Base = sayText, st.revision, st.number, st.base
	s.Part, s.Field, s.Offset, s.Begin = part, field, offset, part == st.base
	if st.mute {
		return
	}
	if start != nil {
		var err error
		if s.Start, err = chat.EncodePart(start); err == nil && len(s.Start) > MaxMessage/4 {
			if call, ok := start.(chat.ToolCall); ok { // the committed part will have it
				call.CallProviderMetadata = nil
				s.Start, err = chat.EncodePart(call)
			}
		}
		if err != nil {
			return // it could not be told here either
		}
	}
	for {
		s.Text = firstBytes(text, pieceBytes)
		if !h.say(s) {
			st.mute = true // its commit will be heard
			h.log.Warn("text of a step does not fit on the bus", slog.String("topic_id", s.Topic))
			return
		}
		if text = text[len(s.Text):]; text == "" {
			return
		}
		s.Offset, s.Start = s.Offset+chat.UTF16Len(s.Text), nil
	}
}

// firstBytes is the beginning of a text, of whole characters.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// hearText takes in what a step of another instance has written.
func (h *Hub) hearText(s signal) {
	var start chat.Part
	if s.Start != nil {
		var err error
		if start, err = chat.DecodePart(s.Start); err != nil {
			h.log.Debug("a part of another instance cannot be read", slog.String("topic_id", s.Topic), slog.Any("error", err))
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.Topic]
	if t == nil || !t.followed {
		return
	}
	tn := t.turns[s.Turn]
	switch {
	case tn != nil && (tn.epoch > s.Epoch || tn.epoch == s.Epoch && !tn.remote):
		return // of an owner that has lost the turn
	case tn == nil || tn.epoch < s.Epoch || tn.number < s.Step:
		if s.Begin {
			h.beginRemote(t, tn, s, start)
		} else {
			h.want(t)
		}
		return
	case tn.number > s.Step || tn.step == nil || s.Begin:
		return // over, or said already
	}
	d, gap := tn.step.beyond(chat.Delta{Part: s.Part, Field: s.Field, Offset: s.Offset, Text: s.Text, Start: start})
	if gap {
		h.want(t)
		return
	}
	if tn.step.add(d) {
		h.emit(t, tn, delta{part: d.Part, field: d.Field, offset: d.Offset, text: []byte(d.Text), start: d.Start})
	}
}

// beginRemote opens a step that runs on another instance, as Begin does for
// one that runs here. It may be over by now, if the owner had not heard of
// revisions of which this hub has: then it is not told in pieces, and whether it
// is part of the topic is for the snapshot to say.
func (h *Hub) beginRemote(t *topic, old *turn, s signal, start chat.Part) {
	if s.AsOf < t.floor {
		h.forget(t)
	}
	t.floor = max(t.floor, s.Revision)
	if t.known > 0 && t.known < s.Revision { // what it builds on has not been heard
		h.forget(t)
	}
	if old != nil && old.epoch == s.Epoch && old.showed(s.Base) {
		h.forget(t)
	}
	t.tidy(s.Turn)
	tn := &turn{id: s.Turn, messageID: s.Message, epoch: s.Epoch, remote: true, number: s.Step}
	tn.step = &step{turn: tn, base: s.Base, revision: s.Revision, number: s.Step, parts: []livePart{{start: start}}}
	t.turns[s.Turn] = tn
	h.emit(t, tn, delta{part: s.Base, field: s.Field, start: start})
}

// beyond is what a delta adds to the step; it adds nothing if its text is there
// already, and leaves a gap if text before it is not.
func (s *step) beyond(d chat.Delta) (_ chat.Delta, gap bool) {
	i := d.Part - s.base
	switch {
	case i < 0 || i > len(s.parts) || i == len(s.parts) && (d.Start == nil || d.Offset != 0):
		return d, true
	case i == len(s.parts):
		return d, false
	}
	units := s.parts[i].units
	if d.Offset > units {
		return d, true
	}
	d.Text, d.Start = afterUnits(d.Text, units-d.Offset), nil
	d.Offset = units
	if d.Text == "" {
		d.Part = -1 // nothing to add
	}
	return d, false
}

// afterUnits drops the first n UTF-16 units of a text.
func afterUnits(text string, n int) string {
	for i, r := range text {
		if n <= 0 {
			return text[i:]
		}
		n -= chat.UTF16Len(string(r))
	}
	return ""
}

// hearProgress takes in how far a call on another instance has come.
func (h *Hub) hearProgress(s signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.Topic]
	if t == nil || !t.followed {
		return
	}
	if tn := t.turns[s.Turn]; tn != nil && (tn.epoch > s.Epoch || tn.epoch == s.Epoch && !tn.remote) {
		return
	}
	h.emit(t, &turn{messageID: s.Message, epoch: s.Epoch, remote: true}, delta{part: s.Part, field: "progress", text: []byte(s.Text)})
}

// hearEnd takes in that a step of another instance is over.
func (h *Hub) hearEnd(s signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.Topic]
	if t == nil {
		return
	}
	if tn := t.turns[s.Turn]; tn != nil && tn.remote && tn.step != nil && tn.epoch == s.Epoch && tn.number == s.Step {
		tn.end()
	}
}

// hearSteps asks for the text of steps of which this hub has less than it
// should.
func (h *Hub) hearSteps(s signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range s.Steps {
		t := h.topics[r.Topic]
		if t == nil || !t.followed {
			continue
		}
		tn := t.turns[r.Turn]
		switch {
		case tn == nil, tn.epoch < r.Epoch, tn.epoch == r.Epoch && tn.remote && tn.number < r.Step,
			tn.epoch == r.Epoch && tn.remote && tn.number == r.Step && tn.step != nil && tn.step.units() < r.Units:
			h.want(t)
		}
	}
}

// want asks for the text of all steps that run in the topic on other instances.
func (h *Hub) want(t *topic) {
	now := time.Now()
	if now.Sub(t.wanted) < wantEvery {
		return
	}
	t.wanted = now
	h.say(signal{Kind: sayWant, Topic: t.id})
}

// hearWant repeats what the steps that run here have written. Who has it
// already takes nothing from that.
func (h *Hub) hearWant(s signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.Topic]
	if t == nil {
		return
	}
	for _, tn := range t.turns {
		if tn.remote || tn.step == nil {
			continue
		}
		h.flush(t, tn)
		for i, p := range tn.step.parts {
			to := signal{Topic: t.id, Turn: tn.id, Message: tn.messageID, Epoch: tn.epoch, AsOf: t.floor}
			h.sayPart(to, tn.step, tn.step.base+i, fieldOf(p.start), 0, string(p.text), p.start)
		}
	}
}

func fieldOf(p chat.Part) string {
	if _, ok := p.(chat.ToolCall); ok {
		return "input"
	}
	return "text"
}

// saySteps tells other instances which steps run here.
func (h *Hub) saySteps() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var steps []runningStep
	for _, t := range h.topics {
		for _, tn := range t.turns {
			if st := tn.step; st != nil && !tn.remote && !st.mute {
				steps = append(steps, runningStep{t.id, tn.id, tn.epoch, st.number, st.before[0]})
				st.before = [2]int{st.before[1], st.units()}
			}
		}
	}
	for some := range slices.Chunk(steps, wordsAtOnce) {
		h.say(signal{Kind: saySteps, Steps: some})
	}
}

// units is how much a step has written: its text, and its parts.
func (s *step) units() int {
	n := len(s.parts)
	for _, p := range s.parts {
		n += p.units
	}
	return n
}
