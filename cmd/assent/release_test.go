package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// The files release_*_test.go make a release's database, see testdata/releases.
// For the releases that are older than they are, they were compiled with the
// code of these, and use only what that has.

// scene is one topic of a release's database: how the release makes it, and
// what the newest binary makes of it. The sent text that begins with the
// scene's name tells the model what to do.
type scene struct {
	name string
	// ready waits for what the scene needs; may be nil.
	ready func(w *world)
	// model answers a message of the scene, not the results of calls.
	model func(text string) llmtest.Turn
	// play runs on the old release, up to the instant at which it is killed.
	play func(w *world, topic string)
	// moves says that the old one was at work on it when it was killed.
	moves bool
	// asksAnew says that its card is of a server whose address no other test
	// can have, so that it is asked again by releases that know addresses.
	asksAnew bool
	// says are more paths whose answers must last; may be nil.
	says func(w *world, topic string) []string
	// goesOn runs on the newest.
	goesOn func(w *world, topic string)
}

// scenes are added to by the files of the releases that can do more.
var scenes = []scene{
	{
		name: "two",
		model: func(string) llmtest.Turn {
			return llmtest.Calls(llmtest.Call{ID: "two-long", Name: "probe__note", Args: `{"text":"` + longText + `"}`}, call("note", "two-b"))
		},
		play: waitsForDecision,
		goesOn: func(w *world, topic string) {
			var inbox struct {
				Approvals []chat.ApprovalItem `json:"approvals"`
			}
			w.want(200, "GET", "/approvals?state=pending", nil).into(w.t, &inbox)
			if len(inbox.Approvals) < 6 || inbox.Approvals[0].TopicID != topic || len(w.pending(topic)) != 2 {
				w.t.Errorf("the inbox begins with %+v", inbox.Approvals)
			}
			w.approve(topic, longText)
			if s := w.status(topic); s.Status != chat.TopicAwaitingApproval || s.PendingApprovals != 1 {
				w.t.Errorf("after the first decision the topic is %+v", s)
			}
			w.deny(topic, "two-b", "not this one")
			w.until(topic, chat.TopicDone)
			w.ran(map[string]int{longText: 1, "two-b": 0})
		},
	},
	{
		name:  "half",
		model: func(string) llmtest.Turn { return llmtest.Calls(call("note", "half-a"), call("note", "half-b")) },
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.deny(topic, "half-a", "no, thanks – \"nein\"")
		},
		goesOn: func(w *world, topic string) {
			id := w.calls(topic)[0].Approval.ID
			path := "/topics/" + topic + "/approvals"
			w.want(409, "POST", path, map[string]any{"approvalId": id, "approved": true})
			var d chat.Decided
			w.want(200, "POST", path, map[string]any{"approvalId": id, "approved": false}).into(w.t, &d)
			if d.Results[0].Outcome != chat.EffectAlreadySettled {
				w.t.Errorf("an equal repeat is %+v", d)
			}
			w.deny(topic, "half-b", "")
			w.until(topic, chat.TopicDone)
			w.ran(map[string]int{"half-a": 0, "half-b": 0})
		},
	},
	{
		name:  "started",
		model: func(string) llmtest.Turn { return llmtest.Calls(call("note", "started-a", `"hold":true`)) },
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.approve(topic, "started-a")
			w.begun("started-a")
		},
		moves: true,
		goesOn: func(w *world, topic string) {
			w.until(topic, chat.TopicDone)
			w.ran(map[string]int{"started-a": 0})
			c := w.calls(topic)[0]
			if c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnknown {
				w.t.Errorf("the started call is %s, %q", c.State, c.ToolMetadata.Outcome)
			}
			if e := w.audit(topic)[0]; e.Outcome != chat.OutcomeUnknown || e.StartedAt == nil {
				w.t.Errorf("the audit says %+v", e)
			}
			if heard := w.heard("started"); !strings.Contains(heard, "outcome is unknown") {
				w.t.Errorf("the model heard %q", heard)
			}
		},
	},
	{
		name: "granted",
		model: func(string) llmtest.Turn {
			return llmtest.Calls(call("peek", "granted-slow", `"hold":true`), call("note", "granted-a"))
		},
		play: func(w *world, topic string) {
			w.begun("granted-slow")
			w.approve(topic, "granted-a")
		},
		moves: true,
		goesOn: func(w *world, topic string) {
			w.until(topic, chat.TopicDone)
			w.ran(map[string]int{"granted-slow": 0, "granted-a": 1})
			calls := w.calls(topic)
			if calls[0].ToolMetadata.Outcome != chat.OutcomeUnknown || calls[1].ToolMetadata.Outcome != chat.OutcomeOK {
				w.t.Errorf("the outcomes are %q and %q", calls[0].ToolMetadata.Outcome, calls[1].ToolMetadata.Outcome)
			}
		},
	},
	{
		name:  "writing",
		model: func(string) llmtest.Turn { return llmtest.Text("all of it") },
		play: func(w *world, topic string) {
			w.until(topic, chat.TopicStreaming)
		},
		moves: true,
		goesOn: func(w *world, topic string) {
			w.until(topic, chat.TopicDone)
			if m := w.last(topic); m.lastText() != "all of it" {
				w.t.Errorf("got %+v", m.Parts)
			}
		},
	},
	{
		name:  "failed",
		model: func(string) llmtest.Turn { return llmtest.Calls(call("note", "failed-a")) },
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.approve(topic, "failed-a")
			w.until(topic, chat.TopicError)
		},
		goesOn: retryGoesOn(map[string]int{"failed-a": 0}),
	},
	{
		name:  "stopped",
		model: func(string) llmtest.Turn { return llmtest.Calls(call("note", "stopped-a"), call("note", "stopped-b")) },
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.approve(topic, "stopped-a")
			w.want(200, "POST", "/topics/"+topic+"/stop", nil)
			w.until(topic, chat.TopicAborted)
		},
		goesOn: func(w *world, topic string) {
			w.closed(topic, w.calls(topic)[1].Approval.ID)
			retryGoesOn(map[string]int{"stopped-a": 0, "stopped-b": 0})(w, topic)
		},
	},
	{
		name: "queue",
		model: func(text string) llmtest.Turn {
			if text == "queue" {
				return llmtest.Calls(call("note", "queue-a"))
			}
			return llmtest.Text("answer to " + text)
		},
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.send(topic, "queue second")
			w.send(topic, "queue third")
		},
		goesOn: func(w *world, topic string) {
			w.approve(topic, "queue-a")
			w.eventually(func() bool { m := w.history(topic); return len(m.Messages) == 6 && m.Status.Status == chat.TopicDone }, func() string { return "the queue was not sent" })
			var said []string
			for _, m := range w.history(topic).Messages {
				said = append(said, m.lastText())
			}
			if got := strings.Join(said, "|"); got != "queue|heard|queue second|answer to queue second|queue third|answer to queue third" {
				w.t.Errorf("got %s", got)
			}
		},
	},
	{
		name: "branch",
		model: func(text string) llmtest.Turn {
			if text == "branch" {
				return llmtest.Calls(call("note", "branch-old"))
			}
			return llmtest.Text("another answer")
		},
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			first := w.history(topic).Messages[0]
			w.want(202, "PATCH", "/topics/"+topic+"/messages/"+first.ID, map[string]any{"text": "branch two"})
			w.until(topic, chat.TopicDone)
			w.want(202, "POST", "/topics/"+topic+"/messages/"+w.last(topic).ID+"/regenerate", nil)
			w.until(topic, chat.TopicDone)
		},
		goesOn: func(w *world, topic string) {
			if s := w.status(topic); s.Status != chat.TopicDone || s.PendingApprovals != 0 {
				w.t.Errorf("the branch that is shown is %+v", s)
			}
			w.approve(topic, "branch-old")
			w.eventually(func() bool {
				return w.probe.starts(w.t, "branch-old") == 1 && len(w.tree(topic)) == 5 && w.tree(topic)[1].Metadata.Status == chat.MessageSuccess
			}, func() string { return fmt.Sprintf("the old branch did not go on: %+v", w.tree(topic)) })
			w.want(200, "POST", "/topics/"+topic+"/messages/"+w.tree(topic)[1].ID+"/select", nil)
			if m := w.last(topic); m.lastText() != "heard" {
				w.t.Errorf("the old branch ends with %+v", m.Parts)
			}
		},
	},
	{
		name:  "closed",
		model: func(string) llmtest.Turn { return llmtest.Calls(call("note", "closed-a")) },
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.want(202, "POST", "/topics/"+topic+"/messages", map[string]any{"text": "closed again", "whenBusy": "supersede"})
			waitsForDecision(w, topic)
			w.want(204, "DELETE", "/topics/"+topic+"/messages/"+w.history(topic).Messages[2].ID, nil)
		},
		goesOn: func(w *world, topic string) {
			closed := w.audit(topic)
			if len(closed) != 2 || closed[0].Resolution != chat.ResolutionSuperseded || closed[1].Resolution != chat.ResolutionCancelled {
				w.t.Fatalf("the audit says %+v", closed)
			}
			w.closed(topic, closed[0].ApprovalID, closed[1].ApprovalID)
			w.ran(map[string]int{"closed-a": 0})
		},
	},
	{
		name: "past",
		model: func(string) llmtest.Turn {
			return llmtest.Calls(call("note", "past-a"), call("note", "past-b"), call("peek", "past-c"), call("off", "past-d"), call("note", "past-e", `"fail":true`))
		},
		play: func(w *world, topic string) {
			waitsForDecision(w, topic)
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{
				"approvalId": w.card(topic, "past-a").ApprovalID, "approved": true, "updatedInput": map[string]any{"text": "past-a, edited", "n": 9007199254740993},
			})
			w.deny(topic, "past-b", "never")
			w.approve(topic, "past-e")
			w.until(topic, chat.TopicDone)
		},
		goesOn: func(w *world, topic string) {
			audit := w.audit(topic) // first is the tool that is off
			if len(audit) != 4 || !bytes.Contains(audit[1].ExecutedInput, []byte("9007199254740993")) || audit[1].DecidedBy != "ada" || audit[2].Reason != "never" || audit[3].Outcome != chat.OutcomeFailed {
				w.t.Errorf("the audit says %+v", audit)
			}
			w.send(topic, "past again")
			w.eventually(func() bool { return len(w.pending(topic)) == 3 }, func() string { return "no new cards" })
			w.want(200, "POST", "/topics/"+topic+"/stop", nil)
		},
	},
	{
		name: "file",
		model: func(string) llmtest.Turn {
			return llmtest.Calls(llmtest.Call{ID: "file-a", Name: "workspace__write_file", Args: `{"path":"note.txt","content":"from the old release"}`})
		},
		play: waitsForDecision,
		goesOn: func(w *world, topic string) {
			w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": w.pending(topic)[0].ApprovalID, "approved": true})
			w.until(topic, chat.TopicDone)
			wrote, err := os.ReadFile(filepath.Join(w.dir, "data", "workspace", "note.txt"))
			if err != nil || string(wrote) != "from the old release" {
				w.t.Errorf("the file holds %q, %v; the call is %+v", wrote, err, w.calls(topic)[0])
			}
		},
	},
}

// longText is an input that is longer than a page of a database.
var longText = func() string {
	var b strings.Builder
	for n := range 600 {
		fmt.Fprintf(&b, "Line %d of what would be written. ", n)
	}
	return b.String()
}()

func waitsForDecision(w *world, topic string) { w.until(topic, chat.TopicAwaitingApproval) }

func retryGoesOn(ran map[string]int) func(*world, string) {
	return func(w *world, topic string) {
		w.want(202, "POST", "/topics/"+topic+"/messages/"+w.last(topic).ID+"/retry", nil)
		w.until(topic, chat.TopicDone)
		if m := w.last(topic); m.lastText() != "heard" {
			w.t.Errorf("got %+v", m.Parts)
		}
		w.ran(ran)
	}
}
