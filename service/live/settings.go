package live

import (
	"maps"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// settleSettings is how long changes of settings of one kind are joined after
// one was told: a tool server may come and go many times a second.
const settleSettings = 500 * time.Millisecond

// hint is what has been told of settings of one kind.
type hint struct {
	entry   entry // the last one, in the ring of statuses unless it fell off
	resting bool  // told a moment ago
	again   bool  // changed since
}

// Settings tells everybody who watches all statuses, on every instance, that
// settings were changed. The change must be committed by then.
func (h *Hub) Settings(what chat.SettingsKind) {
	h.Hint(what)
	h.say(signal{Kind: saySettings, Settings: what})
}

// Hint tells everybody who watches all statuses here that there is something
// new about settings. The first hint is told at once; those that follow closely
// are joined into one that is told a moment later.
func (h *Hub) Hint(what chat.SettingsKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hi := h.hints[what]
	if hi == nil {
		data, _ := chat.Marshal(settingsData{what}) // text always encodes
		hi = &hint{entry: entry{name: "settings", data: data}}
		h.hints[what] = hi
	}
	if hi.resting {
		hi.again = true
		return
	}
	h.hint(hi)
}

func (h *Hub) hint(hi *hint) {
	hi.again, hi.resting = false, true
	h.append(hi.entry, h.statuses)
	hi.entry.seq = h.seq
	time.AfterFunc(settleSettings, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		hi.resting = false
		if hi.again {
			h.hint(hi)
		}
	})
}

// hintsWithin returns the hints that were last told above from, up to to.
func (h *Hub) hintsWithin(from, to uint64) []entry {
	var entries []entry
	for _, what := range slices.Sorted(maps.Keys(h.hints)) {
		if e := h.hints[what].entry; e.seq > from && e.seq <= to {
			entries = append(entries, e)
		}
	}
	return entries
}

type settingsData struct {
	Changed chat.SettingsKind `json:"changed"`
}
