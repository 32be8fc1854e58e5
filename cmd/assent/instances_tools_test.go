package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestAToolServerThatIsDownLocksNoTopicOnAnyInstance(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		here.answers(func(_ int, r llmtest.Request) llmtest.Turn {
			switch last := r.Messages[len(r.Messages)-1]; {
			case last.Role == "tool":
				return llmtest.Text("I heard: ", last.Text())
			case last.Text() == "talk":
				return llmtest.Text("still here")
			default:
				return llmtest.Calls(boxCall("note", last.Text()))
			}
		})
		here.start()
		there.beside(here)
		b := newBox(t, "note")
		server := here.addServer(map[string]any{"name": "box", "url": b.url})
		there.server(server.ID, chat.ServerReady)
		both := []*world{here, there}
		asks := func(on *world, text string) string {
			topic := on.topic()
			on.send(topic, text)
			on.until(topic, chat.TopicAwaitingApproval)
			return topic
		}
		denied, approved, late := asks(here, "denied"), asks(there, "approved"), asks(here, "late")

		// Connections to it break off: whether it has run the call, nobody knows.
		b.breaks(true)
		there.deny(denied, "denied", "because")
		here.approve(approved, "approved")
		ended := func(topic string, state chat.CallState, outcome chat.Outcome, hears string) {
			t.Helper()
			here.until(topic, chat.TopicDone)
			m := there.last(topic)
			c := m.Parts.Calls()[0].Call
			if c.State != state || c.ToolMetadata.Outcome != outcome || !strings.Contains(m.lastText(), hears) {
				t.Errorf("the call is %s, %q, and the model %s", c.State, c.ToolMetadata.Outcome, m.lastText())
			}
			for i, w := range both {
				w.send(topic, "talk")
				w.eventually(func() bool {
					h := w.history(topic)
					return len(h.Messages) == 4+2*i && h.Status.Status == chat.TopicDone
				}, func() string { return "the topic takes no message" })
			}
		}
		ended(denied, chat.CallOutputDenied, "", "because")
		ended(approved, chat.CallOutputError, chat.OutcomeUnknown, "unknown")

		// It is back: both find it by themselves.
		b.breaks(false)
		for i, w := range both {
			w.server(server.ID, chat.ServerReady)
			other := both[1-i]
			topic := asks(w, fmt.Sprint(i))
			other.server(server.ID, chat.ServerReady)
			other.approve(topic, fmt.Sprint(i))
			w.until(topic, chat.TopicDone)
		}
		if runs := b.runs(); strings.Join(runs, "|") != "note 0|note 1" {
			t.Errorf("ran %q", runs)
		}

		// It is gone: the call has not reached it.
		b.leave()
		there.approve(late, "late")
		ended(late, chat.CallOutputError, chat.OutcomeUnavailable, "not run")
		if runs := b.runs(); len(runs) != 2 {
			t.Errorf("ran %q", runs)
		}
	})
}
