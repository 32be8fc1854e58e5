package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// TestKill ends a real server with SIGKILL at random moments around step
// commit, park, decide, continuation and tool run, starts it again, and holds
// what it then says against what its clients were answered and what the tool
// itself wrote. Of two instances it ends one, and starts it again while the
// clients use both. ASSENT_KILL_ROUNDS sets the rounds of each deployment,
// ASSENT_KILL_SEED repeats a run's choices.
func TestKill(t *testing.T) {
	rounds, err := strconv.Atoi(orElse(os.Getenv("ASSENT_KILL_ROUNDS"), "20"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(orElse(os.Getenv("ASSENT_KILL_SEED"), strconv.FormatUint(rand.Uint64(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	eachDeployment(t, func(t *testing.T, w *world) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, uint64(len(w.databaseURL)+len(w.others))))
		w.answers(killModel)
		w.spawn()
		for n := range rounds {
			k := &killRound{world: w, n: n, random: random, decided: map[string]bool{}}
			k.play()
			if t.Failed() {
				t.Fatalf("round %d of seed %d", n, seed)
			}
		}
		if v := w.model.Violations(); len(v) != 0 {
			t.Errorf("the provider was sent what it refuses: %v", v)
		}
	})
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// killModel makes two gated calls and a free one, then one more gated call,
// then says that it is done. Its calls carry the name of the round.
func killModel(_ int, r llmtest.Request) llmtest.Turn {
	round, results := "", 0
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			round, results = m.Text(), 0
		case "tool":
			results++
		}
	}
	switch results {
	case 0:
		return llmtest.Text("some ", "words ").Then(llmtest.Calls(call("note", round+"-a"), call("peek", round+"-b"), call("note", round+"-c")))
	case 3:
		return llmtest.Calls(call("note", round+"-d"))
	default:
		return llmtest.Text("done with ", round)
	}
}

// killRound is one topic, during which a server is killed once.
type killRound struct {
	*world
	n       int
	random  *rand.Rand
	topic   string
	cards   map[string]string // text → approval id, as first seen
	decided map[string]bool   // text → what a client decided, and was or may have been answered
}

// play runs the round: work, kill, restart, work to the end, check.
func (k *killRound) play() {
	k.cards = map[string]string{}
	k.topic = k.world.topic()
	var tabs []*tab
	for range k.servers() {
		tabs = append(tabs, k.open("", nil, k.topic))
	}
	victim := k.servers()[k.random.IntN(len(k.servers()))]
	moment := k.random.IntN(5)
	delay := time.Duration(k.random.IntN(60_000)) * time.Microsecond
	outage := time.Duration(k.random.IntN(500)) * time.Millisecond
	over := make(chan struct{})
	var once sync.Once
	reached := func(m int) { // the kill comes a little after its moment
		if m == moment {
			once.Do(func() {
				time.AfterFunc(delay, func() {
					defer close(over)
					victim.end()
					if len(k.others) > 0 && pause(k.t.Context(), outage) { // the clients use the other meanwhile
						if err := victim.spawnOne(); err != nil {
							k.t.Error(err)
						}
					}
				})
			})
		}
	}
	k.drive(reached)
	reached(moment) // the moment may not have come
	<-over
	k.spawn()
	k.drive(func(int) {})
	k.check()
	for _, b := range tabs {
		select {
		case <-b.done:
			b.close()
			b.connect(b.lastID())
		default: // its server was not killed
		}
		b.converge(k.topic)
		b.leave()
	}
}

// ask makes a request. If a server dies of it, another is asked; it fails if
// there is no other.
func (k *killRound) ask(method, path string, body any) (reply, error) {
	r, err := k.do(method, path, body)
	for range k.others {
		if err == nil {
			return r, nil
		}
		r, err = k.do(method, path, body)
	}
	if err != nil && len(k.others) > 0 {
		k.t.Errorf("no server answers: %v", err)
	}
	return r, err
}

// drive sends the message and decides cards until the topic is done, or the
// server does not answer any more. It may be called again after a restart.
func (k *killRound) drive(reached func(int)) {
	message := map[string]any{"id": fmt.Sprintf("m%d", k.n), "text": fmt.Sprintf("r%d", k.n)}
	reached(0)
	r, err := k.ask("POST", "/topics/"+k.topic+"/messages", message)
	if err != nil {
		return
	}
	if r.status != 202 {
		k.t.Errorf("sending: %d %s", r.status, r.body)
		return
	}
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		r, err := k.ask("GET", "/topics/"+k.topic+"/approvals?state=pending", nil)
		if err != nil {
			return
		}
		var list struct {
			Approvals []chat.ApprovalItem `json:"approvals"`
		}
		r.into(k.t, &list)
		for _, a := range list.Approvals {
			reached(1)
			var in probeInput
			if err := json.Unmarshal(a.Input, &in); err != nil {
				k.t.Error(err)
			}
			if id, seen := k.cards[in.Text]; seen && id != a.ApprovalID {
				k.t.Errorf("the card of %s was %s and is %s", in.Text, id, a.ApprovalID)
			}
			k.cards[in.Text] = a.ApprovalID
			if _, undecided := k.decided[in.Text]; !undecided {
				k.decided[in.Text] = k.random.IntN(3) > 0
			}
			reached(2)
			r, err := k.ask("POST", "/topics/"+k.topic+"/approvals", map[string]any{"approvalId": a.ApprovalID, "approved": k.decided[in.Text]})
			if err != nil {
				return // it may have been applied: the same decision is made again after the restart
			}
			if r.status != 200 {
				k.t.Errorf("deciding %s: %d %s", in.Text, r.status, r.body)
			}
			reached(3)
		}
		if r, err = k.ask("GET", "/topics/"+k.topic+"/status", nil); err != nil {
			return
		}
		var s chat.Status
		r.into(k.t, &s)
		switch s.Status {
		case chat.TopicDone:
			reached(4)
			return
		case chat.TopicError, chat.TopicAborted:
			k.t.Errorf("the topic is %s: %s", s.Status, mustJSON(k.t, k.last(k.topic)))
			return
		case chat.TopicIdle, chat.TopicPending, chat.TopicStreaming, chat.TopicAwaitingApproval:
			pause(k.t.Context(), 2*time.Millisecond) // the machine has more to do than to answer this client
		}
	}
	k.t.Errorf("the round did not end: %+v", k.status(k.topic))
}

// check holds the end of the round against the tool's own log.
func (k *killRound) check() {
	t := k.t
	t.Helper()
	round := fmt.Sprintf("r%d", k.n)
	m := k.last(k.topic)
	calls := m.Parts.Calls()
	if len(calls) != 4 || m.lastText() != "done with "+round {
		t.Errorf("the turn has %d calls and says %q", len(calls), m.lastText())
	}
	for _, c := range calls {
		text := strings.TrimPrefix(c.Call.ToolCallID, "call-")
		starts, ends := 0, 0
		for _, l := range k.probe.log(t) {
			if l.text == text && l.event == "start" {
				starts++
			} else if l.text == text {
				ends++
			}
		}
		approved, gated := k.decided[text], c.Call.ToolMetadata.Verdict == chat.VerdictAsk
		switch {
		case starts > 1:
			t.Errorf("%s was started %d times", text, starts)
		case gated && (c.Call.Approval == nil || c.Call.Approval.Approved == nil || *c.Call.Approval.Approved != approved):
			t.Errorf("%s was decided %v, and is recorded as %+v", text, approved, c.Call.Approval)
		case gated && !approved && (starts > 0 || c.Call.State != chat.CallOutputDenied):
			t.Errorf("%s was denied; it is %s and was started %d times", text, c.Call.State, starts)
		case c.Call.State == chat.CallOutputAvailable && (starts != 1 || ends != 1):
			t.Errorf("%s has a result; it was started %d times and ended %d times", text, starts, ends)
		case c.Call.State == chat.CallOutputError && c.Call.ToolMetadata.Outcome != chat.OutcomeUnknown:
			t.Errorf("%s ended as %q: %s", text, c.Call.ToolMetadata.Outcome, c.Call.ErrorText)
		case !c.Call.State.Settled():
			t.Errorf("%s is still %s", text, c.Call.State)
		}
	}
	for _, e := range k.audit(k.topic) {
		text := strings.TrimPrefix(e.ToolCallID, "call-")
		if e.Approved != k.decided[text] || e.ApprovalID != k.cards[text] {
			t.Errorf("the audit says of %s: %+v", text, e)
		}
	}
	if n := len(k.audit(k.topic)); n != 3 {
		t.Errorf("the audit has %d rows of 3 decisions", n)
	}
}
