//go:build chaos

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/assent-chat/assent/service/chat"
)

// chaosTurn is the committed answer to one message.
type chaosTurn struct {
	name    string
	message wireMessage
}

// turns are the answers of the round, as they are committed.
func (c *chaos) turns() []chaosTurn {
	c.t.Helper()
	var turns []chaosTurn
	for _, topic := range c.everyTopic() {
		name := ""
		for _, m := range c.history(topic).Messages {
			if text := m.lastText(); strings.HasPrefix(text, "r") && !strings.Contains(text, ".") {
				name = text
				continue
			}
			if m.Metadata.Status == chat.MessageError {
				c.errors++
			}
			turns = append(turns, chaosTurn{name, m})
		}
	}
	return turns
}

// recorded is the decision that is committed, in a decider's words; "" is
// none, as of a card that was closed.
func recorded(call chat.ToolCall) string {
	switch a := call.Approval; {
	case a == nil || a.Approved == nil || a.Resolution != "":
		return ""
	case !*a.Approved:
		return "deny"
	case a.OriginalInput == nil:
		return "approve"
	default:
		var in probeInput
		if json.Unmarshal(call.Input, &in) != nil {
			return "an input that nobody gave"
		}
		_, mark, _ := strings.Cut(in.Text, "~")
		return "edit ~" + mark
	}
}

// closed reports whether a call was closed by a stop, an error or a message
// that superseded it, and not by a decider.
func closed(call chat.ToolCall) bool {
	return call.Approval != nil && call.Approval.Resolution != "" || call.ToolMetadata.Outcome == chat.OutcomeStopped
}

const (
	opRead  = "read"
	opClose = "close"
)

// firstDecision is an approval to those who decide: a register that keeps the
// first decision, and takes none once it is closed.
type firstDecision struct {
	is     string
	closed bool
}

var firstDecisions = porcupine.Model{
	Init: func() any { return firstDecision{} },
	Step: func(state, input, output any) (bool, any) {
		s, what, told := state.(firstDecision), input.(string), output.(string)
		next := s
		if s.is == "" && !s.closed {
			next.is = what
		}
		switch {
		case what == opRead:
			return told == s.is, s
		case what == opClose:
			return !s.closed, firstDecision{s.is, true}
		case told == outcomeUnknown:
			return true, next
		case told == string(chat.EffectApplied):
			return s.is == "" && !s.closed, next
		case told == string(chat.EffectAlreadySettled):
			return s.is == what, s
		case told == outcomeGone:
			return s.closed && s.is != what, s
		case strings.HasPrefix(told, "conflict "):
			return !s.closed && s.is != "" && s.is != what && told == fmt.Sprintf("conflict %v", s.is != "deny"), s
		}
		return false, s
	},
}

// linearizable says whether there is an order of the decisions on one
// approval that explains what everybody was told and what is recorded.
func linearizable(ops []op, recorded string, closed bool, now int64) porcupine.CheckResult {
	history := []porcupine.Operation{{Input: opRead, Call: now, Output: recorded, Return: now + 1}}
	if closed {
		history = append(history, porcupine.Operation{Input: opClose, Call: 0, Output: "", Return: now})
	}
	for _, o := range ops {
		history = append(history, porcupine.Operation{Input: o.what, Call: o.call, Output: o.outcome, Return: o.back})
	}
	return porcupine.CheckOperationsTimeout(firstDecisions, history, 10*time.Second)
}

func (c *chaos) checkLinearizable(turns []chaosTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, found := int64(time.Since(c.began)), map[string]bool{}
	for _, turn := range turns {
		for _, p := range turn.message.Parts.Calls() {
			if p.Call.Approval == nil {
				continue
			}
			id := p.Call.Approval.ID
			found[id] = true
			if r := linearizable(c.ops[id], recorded(p.Call), closed(p.Call), now); r != porcupine.Ok {
				c.t.Errorf("linearizable: approval %s of %s is recorded as %q (closed: %v), which explains this not (%s): %+v",
					id, p.Call.ToolCallID, recorded(p.Call), closed(p.Call), r, c.ops[id])
			}
		}
	}
	for id := range c.ops {
		if !found[id] {
			c.t.Errorf("linearizable: approval %s was decided on and is nowhere recorded", id)
		}
	}
}

// checkToolLog holds the tools' own log against the decisions: nothing runs
// twice, nothing that was denied or that nobody knows of runs, and what runs is what was approved.
func (c *chaos) checkToolLog(turns []chaosTurn) {
	starts := map[string][]string{} // by the call's text without an edit
	for _, l := range c.probe.log(c.t) {
		if base, _, _ := strings.Cut(l.text, "~"); l.event == "start" && strings.HasPrefix(base, fmt.Sprintf("r%dt", c.round)) {
			starts[base] = append(starts[base], l.text)
		}
	}
	for _, turn := range turns {
		for _, p := range turn.message.Parts.Calls() {
			base := strings.TrimPrefix(p.Call.ToolCallID, "call-")
			ran, decision := starts[base], recorded(p.Call)
			delete(starts, base)
			gated := p.Call.ToolMetadata.Verdict == chat.VerdictAsk
			want := base
			if mark, ok := strings.CutPrefix(decision, "edit "); ok {
				want += mark
			}
			switch {
			case len(ran) > 1:
				c.t.Errorf("tool log: %s was started %d times", base, len(ran))
			case len(ran) == 1 && gated && (decision == "" || decision == "deny"):
				c.t.Errorf("tool log: %s was started, and is recorded as %q", base, decision)
			case len(ran) == 1 && p.Call.ToolMetadata.StartedAt == nil:
				c.t.Errorf("tool log: %s was started, and is not recorded as started (%s)", base, p.Call.ToolMetadata.Outcome)
			case len(ran) == 1 && ran[0] != want:
				c.t.Errorf("tool log: %s was started, and %s was decided", ran[0], want)
			case len(ran) == 0 && p.Call.State == chat.CallOutputAvailable:
				c.t.Errorf("tool log: %s has a result and never ran", base)
			}
		}
	}
	for base := range starts {
		c.t.Errorf("tool log: %s was started, and is in no committed step", base)
	}
}

// checkSteps holds the committed steps against the model's requests: each
// step is committed once, and every request that was made after it holds that
// very step.
func (c *chaos) checkSteps(turns []chaosTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, turn := range turns {
		var letters string
		var steps []int
		for _, p := range turn.message.Parts.Calls() {
			rest := strings.TrimPrefix(p.Call.ToolCallID, "call-"+turn.name+".")
			letter, _, _ := strings.Cut(rest, ".")
			letters += letter
			if n := serial(p.Call.ToolCallID); len(steps) == 0 || steps[len(steps)-1] != n {
				steps = append(steps, n)
			}
			if !p.Call.State.Settled() {
				c.t.Errorf("steps: %s ended, and %s is %s", turn.name, p.Call.ToolCallID, p.Call.State)
			}
		}
		ended := strings.HasPrefix(turn.message.lastText(), "the end.")
		all := "abcd"
		if strings.HasSuffix(turn.name, "still") {
			all = "a"
		}
		if turn.message.Metadata.Status == chat.MessageSuccess && (letters != all || len(steps) != (len(all)+1)/2 || !ended) {
			c.t.Errorf("steps: %s has the calls %q of the requests %v and says %q", turn.name, letters, steps, turn.message.lastText())
		}
		if ended {
			steps = append(steps, serial(turn.message.lastText()))
		}
		for _, a := range c.asked[turn.name] {
			for i, n := range a.before {
				if i >= len(steps) || steps[i] != n {
					c.t.Errorf("steps: request %d of %s holds the answers %v as steps, and %v are committed", a.n, turn.name, a.before, steps)
					break
				}
			}
		}
	}
}

func TestFirstDecisionModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		recorded string
		closed   bool
		ops      []op
		want     porcupine.CheckResult
	}{
		{"a winner, a repeat and a loser", "deny", false, []op{{"deny", "applied", 1, 4}, {"deny", "already-settled", 2, 3}, {"approve", "conflict false", 2, 5}}, porcupine.Ok},
		{"two winners", "deny", false, []op{{"deny", "applied", 1, 4}, {"approve", "applied", 2, 3}}, porcupine.Illegal},
		{"a winner that is not recorded", "approve", false, []op{{"deny", "applied", 1, 4}}, porcupine.Illegal},
		{"a lost answer that took effect", "edit ~1", false, []op{{"edit ~1", outcomeUnknown, 1, math.MaxInt64}, {"approve", "conflict true", 2, 3}}, porcupine.Ok},
		{"a lost answer that had no effect", "", false, []op{{"deny", outcomeUnknown, 1, math.MaxInt64}}, porcupine.Ok},
		{"a loser before there was a winner", "deny", false, []op{{"approve", "conflict false", 1, 2}, {"deny", "applied", 3, 4}}, porcupine.Illegal},
		{"a loser that is told the wrong decision", "deny", false, []op{{"deny", "applied", 1, 2}, {"approve", "conflict true", 3, 4}}, porcupine.Illegal},
		{"a card that was closed", "", true, []op{{"approve", outcomeGone, 1, 2}, {"deny", outcomeUnknown, 1, 3}}, porcupine.Ok},
		{"a winner that was closed before it ran", "approve", true, []op{{"approve", "applied", 1, 2}, {"deny", outcomeGone, 3, 4}, {"approve", "already-settled", 5, 6}}, porcupine.Ok},
		{"gone, and nothing closed it", "", false, []op{{"approve", outcomeGone, 1, 2}}, porcupine.Illegal},
		{"a winner that was closed over", "", true, []op{{"approve", "applied", 1, 2}}, porcupine.Illegal},
		{"a winner after it was gone", "deny", true, []op{{"approve", outcomeGone, 1, 2}, {"deny", "applied", 3, 4}}, porcupine.Illegal},
	} {
		if got := linearizable(tt.ops, tt.recorded, tt.closed, 10); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
