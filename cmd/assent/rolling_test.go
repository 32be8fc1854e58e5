//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// terminate tells a spawned server to stop.
func (w *world) terminate() {
	w.t.Helper()
	if err := w.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
}

// ended waits until a server that was told to stop has, and must have well.
func (w *world) ended() {
	w.t.Helper()
	w.eventually(func() bool {
		select {
		case <-w.proc.done:
			return true
		default:
			return false
		}
	}, func() string { return "the server does not end" })
	if !w.proc.cmd.ProcessState.Success() {
		w.t.Errorf("the server ended with %s", w.proc.cmd.ProcessState)
	}
}

func TestAServerThatIsToStopSaysSoAndServesOn(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")))
		w.flags = []string{"-shutdown-delay", "1h"} // the test does not wait for its end
		w.spawn()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		w.terminate()
		w.eventually(func() bool {
			r, err := w.do("GET", "/readyz", nil)
			return err == nil && r.status == 503 && r.header.Get("Retry-After") != "" && strings.Contains(string(r.body), "leaving")
		}, func() string { return "/readyz does not say that the server leaves" })
		w.want(200, "GET", "/healthz", nil)
		if d := w.approve(topic, "a"); d.Continuation != chat.ContinuationScheduled {
			t.Errorf("the continuation is %s", d.Continuation)
		}
		w.open("", nil, topic).converge(topic)
		w.send(w.topic(), "go") // for others, or for the next start
		if n := len(w.model.Requests()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// asleep reads nothing until it is woken.
type asleep struct {
	r     io.Reader
	awake <-chan struct{}
}

func (a asleep) Read(p []byte) (int, error) {
	<-a.awake
	return a.r.Read(p)
}

func TestACleanStopIsHeldUpByNobodyAndHandsOver(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.flags = append(here.flags, "-lease", "1h") // what is taken over was given
		there.flags = here.flags
		var streams atomic.Int64
		long := append(slices.Repeat([]string{strings.Repeat("word ", 20_000)}, 8), "last words") // more than a socket holds
		here.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			switch last := r.Messages[len(r.Messages)-1]; {
			case last.Role == "tool":
				return llmtest.Text("I heard: ", last.Text())
			case last.Text() == "call":
				return llmtest.Calls(call("peek", "slow", `"hold":true`))
			case streams.Add(1) == 1:
				return llmtest.Text(long...).Then(llmtest.Hang(nil))
			default:
				return llmtest.Text("a whole answer")
			}
		})
		here.spawn()
		calling, streaming := here.topic(), here.topic()
		near := here.open("", nil, streaming)
		awake := make(chan struct{})
		here.open("", func(r io.Reader) io.Reader { return asleep{r, awake} }, streaming)
		defer close(awake)
		here.send(streaming, "stream")
		here.send(calling, "call")
		here.eventually(func() bool { p, _ := near.topic(streaming); return strings.Contains(p, "last words") }, func() string { return "the tab does not show what is written" })
		here.eventually(func() bool { return here.probe.starts(t, "slow") == 1 }, func() string { return "the call does not run" })
		there.beside(here)

		if n := here.metric("assent_http_open_streams"); n != "2" {
			t.Errorf("%s streams are open", n)
		}
		here.terminate()
		here.ended()
		<-near.done
		near.mu.Lock()
		if near.client.Events["bye"] != 1 {
			t.Errorf("a tab was told %v", near.client.Events)
		}
		near.mu.Unlock()
		for _, topic := range []string{calling, streaming} {
			there.until(topic, chat.TopicDone)
		}
		if m := there.last(streaming); m.lastText() != "a whole answer" {
			t.Errorf("the answer that was cut is %.100q", m.lastText())
		}
		if c, n := there.calls(calling)[0], here.probe.starts(t, "slow"); c.ToolMetadata.Outcome != chat.OutcomeUnknown || n != 1 {
			t.Errorf("the call that did not end was started %d times: %+v", n, c)
		}
	})
}

// roller is somebody who works while servers are restarted one after the
// other, and asks again at the next one when one does not answer.
type roller struct {
	*world
	name  string
	topic string
	sent  int
	said  map[string]bool // what was answered 200: call id → approved
}

// ask repeats a request that is harmless to repeat until it is answered.
func (r *roller) ask(want int, method, path string, body any, into any) {
	var last string
	r.eventually(func() bool {
		a, err := r.do(method, path, body)
		if err != nil || a.status == 503 {
			last = fmt.Sprint(err, a.status)
			return false
		}
		if a.status != want {
			r.t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
		} else if err := json.Unmarshal(a.body, into); err != nil {
			r.t.Error(err)
		}
		return true
	}, func() string { return method + " " + path + " is not answered: " + last })
}

// play sends a message and decides its two cards, one yes and one no.
func (r *roller) play() {
	text := fmt.Sprintf("%s-%d", r.name, r.sent)
	r.sent++
	var answer sent
	r.ask(202, "POST", "/topics/"+r.topic+"/messages", map[string]any{"id": text, "text": text}, &answer)
	for {
		var list struct {
			Approvals []chat.ApprovalItem `json:"approvals"`
		}
		r.ask(200, "GET", "/topics/"+r.topic+"/approvals?state=pending", nil, &list)
		for _, a := range list.Approvals {
			approved := strings.HasSuffix(a.ToolCallID, "yes")
			var d chat.Decided
			r.ask(200, "POST", "/topics/"+r.topic+"/approvals", map[string]any{"approvalId": a.ApprovalID, "approved": approved}, &d)
			r.said[a.ToolCallID] = approved
		}
		var s chat.Status
		r.ask(200, "GET", "/topics/"+r.topic+"/status", nil, &s)
		if s.Status == chat.TopicDone || s.Status == chat.TopicError || r.t.Failed() {
			return
		}
	}
}

func TestARollingRestartLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.others = append(w.others, &world{t: t, dir: filepath.Join(w.dir, "three"), databaseURL: w.databaseURL, probe: w.probe, member: member{name: "three"}})
		w.share([]byte(strings.Repeat("5a", 32)))
		w.flags = []string{"-lease", "1h", "-shutdown-grace", "10s"} // what is not handed over is stuck
		w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			text, results := "", 0
			for _, m := range r.Messages {
				switch m.Role {
				case "user":
					text, results = m.Text(), 0
				case "tool":
					results++
				}
			}
			if results > 0 {
				return llmtest.Text("the ", "end of ", text)
			}
			return llmtest.Text("I ", "ask").Then(llmtest.Calls(call("note", text+"-yes"), call("peek", text+"-free"), call("note", text+"-no")))
		})
		w.spawn()

		var people sync.WaitGroup
		var over atomic.Bool
		var all []*roller
		for n := range 4 {
			r := &roller{world: w, name: fmt.Sprint("p", n), topic: w.topic(), said: map[string]bool{}}
			all = append(all, r)
			people.Go(func() {
				for last := false; !last && !t.Failed(); {
					last = over.Load() // once more when all are new
					r.play()
				}
			})
		}
		for _, i := range w.servers() {
			i.terminate()
			i.ended()
			i.end()
			if err := i.spawnOne(); err != nil {
				t.Error(err)
				break
			}
		}
		over.Store(true)
		people.Wait()
		if t.Failed() {
			return
		}

		for _, r := range all {
			recorded := map[string]bool{}
			for _, e := range w.audit(r.topic) {
				if e.Resolution == "" {
					recorded[e.ToolCallID] = e.Approved
				}
			}
			for id, approved := range r.said {
				if was, ok := recorded[id]; !ok || was != approved {
					t.Errorf("%s was decided %t, and is recorded as %t, %t", id, approved, was, ok)
				}
			}
			h := w.history(r.topic)
			if len(h.Messages) != 2*r.sent || h.Status.Status != chat.TopicDone || r.sent < 2 {
				t.Errorf("%d messages of %d turns, %s", len(h.Messages), r.sent, h.Status.Status)
			}
			for n := range r.sent {
				text := fmt.Sprintf("%s-%d", r.name, n)
				for call, want := range map[string]int{"-yes": 1, "-free": 1, "-no": 0} {
					if got := w.probe.starts(t, text+call); got != want {
						t.Errorf("%s%s was started %d times", text, call, got)
					}
				}
			}
			for _, m := range h.Messages {
				for _, c := range m.Parts.Calls() {
					if c.Call.State != chat.CallOutputAvailable && c.Call.State != chat.CallOutputDenied {
						t.Errorf("%s is %s, %q", c.Call.ToolCallID, c.Call.State, c.Call.ToolMetadata.Outcome)
					}
				}
			}
			w.open("", nil, r.topic).converge(r.topic)
		}
		if v := w.model.Violations(); len(v) != 0 {
			t.Errorf("the model was sent calls without results: %v", v)
		}
	}, "instances")
}
