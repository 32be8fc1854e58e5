package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// MaxMessage is how many bytes a message on a bus has at most.
const MaxMessage = 5900

// Bus carries what hubs tell each other to the hubs of other processes. It may
// lose messages, repeat them and change their order: a hub makes good what it
// did not hear. It carries nothing that is true by itself.
type Bus interface {
	// Send hands on a message of at most MaxMessage bytes, which it may keep. It
	// never waits; what cannot be carried is lost.
	Send(message []byte)
	// Receive gives each message that arrives to deliver, one after the other,
	// and calls lost when others may have been missed. It returns when ctx ends.
	// Messages of one's own may be among them.
	Receive(ctx context.Context, deliver func(message []byte), lost func())
}

// Shared is a source that other processes write to as well. Its methods read
// what a hub may not have heard of.
type Shared interface {
	Source
	Topic(ctx context.Context, topicID string) (chat.Topic, error)
	// Revisions reads the revisions of the given topics and of those n that
	// changed last, also of topics that were removed.
	Revisions(ctx context.Context, topicIDs []string, n int) ([]chat.TopicRevision, error)
	// SettingsMarks gives a mark for each kind of settings that changes when
	// settings of the kind do.
	SettingsMarks(ctx context.Context) (map[chat.SettingsKind]string, error)
}

// Local is told what happened on other instances and concerns this one beyond
// its watchers. None of its methods may wait.
type Local interface {
	// Wake says that there may be a queued turn that its own instance has not
	// taken.
	Wake()
	// Cancel says that turns were stopped, as they were at these epochs.
	Cancel(stopped chat.Epochs)
	// Answered says that a question was answered.
	Answered(questionID string)
	// SettingsChanged says that settings of the kind were changed.
	SettingsChanged(what chat.SettingsKind)
}

const (
	pollSlow    = 3 * time.Second        // between two looks at the revisions
	pollFast    = 250 * time.Millisecond // the same, after something was lost
	fastFor     = 3 * time.Second        // how long, since the last loss
	wakeAfter   = 100 * time.Millisecond // the instance where a turn was queued is to take it
	wantEvery   = 250 * time.Millisecond // the text of a topic is asked for at most so often
	pieceBytes  = 600                    // of text; at six bytes for each it still fits into a message
	maxEarly    = 256                    // changes told in pieces before it is known what they continue
	maxHeals    = 50                     // topics that are healed one by one
	maxTold     = 4 * maxTopics          // topics of which it is remembered what was told
	wordsAtOnce = 40                     // steps that one message says are running
)

// peers is a hub's side of the bus.
type peers struct {
	bus    Bus
	source Shared
	local  Local
	// fast is until when the revisions are looked at often.
	fast time.Time
	// soon wakes the goroutine that looks at the revisions.
	soon chan struct{}
	// seen are the revisions as they were at the last look. A topic that has not
	// come so far since is behind: what is on its way arrives sooner.
	seen  map[string]int64
	marks map[chat.SettingsKind]string
	// told is what those who watch all statuses have been told of each topic,
	// since a snapshot of all began it; based says that one did.
	told  map[string]told
	based bool
	// heal are topics whose state must be read, since a message was too small
	// for it.
	heal   map[string]bool
	waking bool // a wake is on its way to the engine
}

// told is up to which revision watchers of all statuses know a topic: its
// changes without a gap, and its status.
type told struct{ change, status int64 }

// Join connects the hub to those of other processes over a bus. It is called
// once, before anybody watches.
func (h *Hub) Join(bus Bus, source Shared, local Local) {
	p := &peers{
		bus: bus, source: source, local: local, soon: make(chan struct{}, 1),
		seen: map[string]int64{}, told: map[string]told{}, heal: map[string]bool{},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers = p
	h.wg.Go(func() { bus.Receive(h.ctx, h.hear, h.lost) })
	h.wg.Go(h.look)
}

// Wake tells the engines of other instances that there may be a turn to take.
func (h *Hub) Wake() { h.say(signal{Kind: sayWake}) }

// Cancel tells the engines of other instances that turns were stopped.
func (h *Hub) Cancel(stopped chat.Epochs) {
	if len(stopped) > 0 {
		h.say(signal{Kind: sayCancel, Epochs: stopped})
	}
}

// Answered tells the engines of other instances that a question was answered.
func (h *Hub) Answered(questionID string) {
	h.say(signal{Kind: sayAnswered, Question: questionID})
}

// The kinds of signals.
const (
	sayChange   = "change"   // a change was committed
	sayStatus   = "status"   // so is the status of a topic
	sayText     = "text"     // a step has written this
	sayProgress = "progress" // so far a call has come
	sayEnd      = "end"      // the step is over
	saySteps    = "steps"    // these steps run here
	sayWant     = "want"     // repeat the text of the topic's steps
	saySettings = "settings"
	sayWake     = "wake"
	sayCancel   = "cancel"
	sayAnswered = "answered"
)

// signal is what one hub tells the others. A member that its kind does not use
// is left out.
type signal struct {
	From string `json:"by"` // the hub's epoch
	Kind string `json:"is"`

	Topic    string      `json:"topic,omitempty"`
	Revision int64       `json:"rev,omitempty"` // of a change or status; of a step, what it builds on
	Events   []wireEvent `json:"events,omitempty"`
	Both     *wireEvent  `json:"both,omitempty"`    // for those who watch all topics as well
	Reset    bool        `json:"reset,omitempty"`   // it cannot be told in pieces
	Bare     bool        `json:"bare,omitempty"`    // Both was too large
	Removed  bool        `json:"removed,omitempty"` // of the topic
	Writes   []write     `json:"writes,omitempty"`

	Turn    string          `json:"turn,omitempty"`
	Message string          `json:"msg,omitempty"`
	Epoch   int64           `json:"epoch,omitempty"`
	Step    uint64          `json:"step,omitempty"` // rises with every step of an owner
	Base    int             `json:"base,omitempty"`
	Begin   bool            `json:"begin,omitempty"`
	AsOf    int64           `json:"of,omitempty"` // the newest revision that the owner's hub had heard of
	Part    int             `json:"part,omitempty"`
	Field   string          `json:"field,omitempty"`
	Offset  int             `json:"at,omitempty"`
	Text    string          `json:"text,omitempty"`
	Start   json.RawMessage `json:"start,omitempty"`
	Steps   []runningStep   `json:"steps,omitempty"`

	Epochs   chat.Epochs       `json:"epochs,omitempty"`
	Question string            `json:"question,omitempty"`
	Settings chat.SettingsKind `json:"settings,omitempty"`
}

type wireEvent struct {
	Name string          `json:"n"`
	Data json.RawMessage `json:"d"`
}

// write is what a change wrote of a message: parts up to a position, or all of
// it. A step that runs there is over by it.
type write struct {
	Message string `json:"m"`
	Epoch   int64  `json:"e"`
	Upto    int    `json:"p"`
	Step    uint64 `json:"s,omitempty"` // the last one of the owner, if it runs where the change was made
}

const whole = -1

// say sends a signal if there is a bus. It waits for nothing, so it may be
// called under the hub's lock, where the order of signals is that of events. It
// reports whether the signal was small enough.
func (h *Hub) say(s signal) bool {
	if h.peers == nil {
		return true
	}
	s.From = h.epoch
	data, err := chat.Marshal(s)
	if err != nil {
		h.log.Error("signal cannot be encoded", slog.String("kind", s.Kind), slog.String("topic_id", s.Topic), slog.Any("error", err))
		return false
	}
	if len(data) > MaxMessage {
		h.count.tooLarge.Add(1)
		return false
	}
	h.peers.bus.Send(data)
	return true
}

// hear takes in a message of the bus.
func (h *Hub) hear(message []byte) {
	var s signal
	if err := json.Unmarshal(message, &s); err != nil { // of a release that speaks otherwise
		h.log.Debug("signal cannot be read", slog.Any("error", err))
		return
	}
	if s.From == h.epoch {
		return
	}
	switch s.Kind {
	case sayChange:
		h.hearChange(s)
	case sayStatus:
		h.hearStatus(s)
	case sayText:
		h.hearText(s)
	case sayProgress:
		h.hearProgress(s)
	case sayEnd:
		h.hearEnd(s)
	case saySteps:
		h.hearSteps(s)
	case sayWant:
		h.hearWant(s)
	case saySettings:
		h.hearSettings(s.Settings)
	case sayWake:
		h.hearWake()
	case sayCancel:
		h.peers.local.Cancel(s.Epochs)
	case sayAnswered:
		h.peers.local.Answered(s.Question)
	}
}

// lost has the revisions looked at at once, and often for a while.
func (h *Hub) lost() {
	h.count.losses.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers.fast = time.Now().Add(fastFor)
	h.lookSoon()
}

func (h *Hub) lookSoon() {
	select {
	case h.peers.soon <- struct{}{}:
	default:
	}
}

// hearSettings passes on that settings were changed elsewhere.
func (h *Hub) hearSettings(what chat.SettingsKind) {
	h.peers.local.SettingsChanged(what)
	h.Hint(what)
}

// hearWake wakes the engine, unless it is about to be. Every instance hears of
// a queued turn, and one is to take it: the one where it was queued, if it can.
func (h *Hub) hearWake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.peers.waking {
		return
	}
	h.peers.waking = true
	time.AfterFunc(wakeAfter, func() {
		h.mu.Lock()
		h.peers.waking = false
		h.mu.Unlock()
		h.peers.local.Wake()
	})
}
