package turn

// waitingTurns bounds the turns that are here, if most of them only wait for
// answers, as a multiple of Options.MaxTurns: each holds its history in memory.
const waitingTurns = 16

// room is how many turns more may be claimed. A turn that only waits for
// answers takes no room: the person may let it wait for days, and that must
// not hold up other topics.
func (e *Engine) room() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	busy := 0
	for _, r := range e.runs {
		if !r.waits() {
			busy++
		}
	}
	return min(e.opt.MaxTurns-busy, waitingTurns*e.opt.MaxTurns-len(e.runs))
}

// waits reports whether calls of the run run and every one of them waits for
// an answer. The engine is locked.
func (r *run) waits() bool {
	for _, questions := range r.running {
		if questions == 0 {
			return false
		}
	}
	return len(r.running) > 0
}

// begin notes that the call at a position runs, until end.
func (r *run) begin(position int) (end func()) {
	r.note(func() { r.running[position] = 0 })
	return func() { r.note(func() { delete(r.running, position) }) }
}

// await notes that the call at a position waits for an answer, until end. The
// call may have ended by then, or before.
func (r *run) await(position int) (end func()) {
	add := func(n int) {
		r.note(func() {
			if _, runs := r.running[position]; runs {
				r.running[position] += n
			}
		})
	}
	add(1)
	return func() { add(-1) }
}

// note changes what is known of the calls that run, and wakes the engine if
// that makes room.
func (r *run) note(change func()) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	before := r.waits()
	change()
	if r.waits() && !before {
		r.e.Wake()
	}
}
