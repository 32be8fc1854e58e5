package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assent-chat/assent/api/apitest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}

// do makes a request and returns whatever comes. body may be nil, a string
// (sent as it is) or anything that JSON can hold.
func (w *world) do(method, path string, body any) (reply, error) {
	return w.request(method, path, body, nil)
}

func (w *world) request(method, path string, body any, header http.Header) (reply, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return reply{}, err
		}
		content = bytes.NewReader(raw)
	}
	_, base := w.next()
	req, err := http.NewRequestWithContext(w.t.Context(), method, base+path, content)
	if err != nil {
		return reply{}, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, raw}, err
}

// want makes a request whose answer must have the status. One that is to be
// refused as malformed or invalid may break the contract.
func (w *world) want(status int, method, path string, body any) reply {
	w.t.Helper()
	header := http.Header{}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		header.Set(apitest.Unchecked, "1")
	}
	r, err := w.request(method, path, body, header)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	if r.status != status {
		w.t.Fatalf("%s %s: got %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// topic makes a topic and returns its id.
func (w *world) topic() string {
	w.t.Helper()
	var topic chat.Topic
	w.want(201, "POST", "/topics", map[string]any{"title": w.t.Name()}).into(w.t, &topic)
	return topic.ID
}

// sent is the answer to a sent message.
type sent struct {
	Message  wireMessage   `json:"message"`
	Turn     *chat.TurnRef `json:"turn"`
	Queued   bool          `json:"queued"`
	Revision int64         `json:"revision"`
}

// send posts a message.
func (w *world) send(topic, text string) sent {
	w.t.Helper()
	var s sent
	w.want(202, "POST", "/topics/"+topic+"/messages", map[string]any{"text": text}).into(w.t, &s)
	return s
}

// history is the answer to GET messages.
type history struct {
	Messages []wireMessage `json:"messages"`
	Queued   []wireMessage `json:"queued"`
	Status   chat.Status   `json:"status"`
	Revision int64         `json:"revision"`
}

func (w *world) history(topic string) history {
	w.t.Helper()
	var h history
	w.want(200, "GET", "/topics/"+topic+"/messages", nil).into(w.t, &h)
	return h
}

// last is the newest message of the active branch.
func (w *world) last(topic string) wireMessage {
	w.t.Helper()
	h := w.history(topic)
	if len(h.Messages) == 0 {
		w.t.Fatal("the topic has no messages")
	}
	return h.Messages[len(h.Messages)-1]
}

// calls are the tool calls of the newest message.
func (w *world) calls(topic string) []chat.ToolCall {
	w.t.Helper()
	var calls []chat.ToolCall
	for _, c := range w.last(topic).Parts.Calls() {
		calls = append(calls, c.Call)
	}
	return calls
}

// pending are the waiting approvals of a topic, oldest first.
func (w *world) pending(topic string) []chat.ApprovalItem {
	w.t.Helper()
	var list struct {
		Approvals []chat.ApprovalItem `json:"approvals"`
	}
	w.want(200, "GET", "/topics/"+topic+"/approvals?state=pending", nil).into(w.t, &list)
	return list.Approvals
}

// card is the waiting approval of the call with the text.
func (w *world) card(topic, text string) chat.ApprovalItem {
	w.t.Helper()
	for _, a := range w.pending(topic) {
		var in probeInput
		if json.Unmarshal(a.Input, &in) == nil && in.Text == text {
			return a
		}
	}
	w.t.Fatalf("no card waits for %q: %+v", text, w.pending(topic))
	return chat.ApprovalItem{}
}

// approve and deny decide the card of the call with the text.
func (w *world) approve(topic, text string) chat.Decided { return w.decide(topic, text, true, "") }

func (w *world) deny(topic, text, reason string) chat.Decided {
	return w.decide(topic, text, false, reason)
}

func (w *world) decide(topic, text string, approved bool, reason string) chat.Decided {
	w.t.Helper()
	var d chat.Decided
	body := map[string]any{"approvalId": w.card(topic, text).ApprovalID, "approved": approved}
	if reason != "" {
		body["reason"] = reason
	}
	w.want(200, "POST", "/topics/"+topic+"/approvals", body).into(w.t, &d)
	return d
}

// audit is the record of the topic, oldest first.
func (w *world) audit(topic string) []chat.AuditEntry {
	w.t.Helper()
	var list struct {
		Entries []chat.AuditEntry `json:"entries"`
	}
	w.want(200, "GET", "/audit?topicId="+topic, nil).into(w.t, &list)
	for i, j := 0, len(list.Entries)-1; i < j; i, j = i+1, j-1 {
		list.Entries[i], list.Entries[j] = list.Entries[j], list.Entries[i]
	}
	return list.Entries
}

// call is one tool call of a model's turn. Every call has its text as its id.
func call(tool, text string, more ...string) llmtest.Call {
	args := `{"text":"` + text + `"`
	for _, m := range more {
		args += "," + m
	}
	return llmtest.Call{ID: "call-" + text, Name: "probe__" + tool, Args: args + "}"}
}

func (w *world) status(topic string) chat.Status {
	w.t.Helper()
	var s chat.Status
	w.want(200, "GET", "/topics/"+topic+"/status", nil).into(w.t, &s)
	return s
}

// until waits until the topic's status is the one wanted.
func (w *world) until(topic string, want chat.TopicState) chat.Status {
	w.t.Helper()
	var last chat.Status
	w.eventually(func() bool {
		last = w.status(topic)
		return last.Status == want
	}, func() string { return fmt.Sprintf("the topic is %q, want %q", last.Status, want) })
	return last
}

// eventually looks again and again until ok; patience bounds it.
func (w *world) eventually(ok func() bool, complaint func() string) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			w.t.Fatal(complaint())
		}
	}
}
