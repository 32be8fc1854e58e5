package main

import (
	"testing"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestDatabaseDownIsSaidAndRecoversByItself(t *testing.T) {
	t.Parallel()
	link, dsn := pgtest.NewWire(t, pgtest.URL(t))
	w := newWorld(t, dsn)
	w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
	w.start()
	topic := w.topic()
	w.send(topic, "go")
	w.until(topic, chat.TopicAwaitingApproval)
	id := w.card(topic, "a").ApprovalID
	b := w.open("", nil, topic)
	b.converge(topic)

	link.Down()
	for _, tt := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/readyz", nil},
		{"GET", "/topics/" + topic, nil},
		{"GET", "/topics/" + topic + "/events", nil},
		{"POST", "/topics/" + topic + "/messages", map[string]any{"text": "lost?"}},
		{"POST", "/topics/" + topic + "/approvals", map[string]any{"approvalId": id, "approved": true}},
	} {
		r := w.want(503, tt.method, tt.path, tt.body)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", tt.method, tt.path)
		}
	}
	w.want(200, "GET", "/healthz", nil)

	link.Mend()
	w.eventually(func() bool { r, err := w.do("GET", "/readyz", nil); return err == nil && r.status == 200 }, func() string { return "the server did not recover" })
	if h := w.history(topic); len(h.Messages) != 2 || len(h.Queued) != 0 {
		t.Errorf("what was answered 503 was stored: %+v", h)
	}
	w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})
	w.until(topic, chat.TopicDone)
	b.converge(topic)
	if n := w.probe.starts(t, "a"); n != 1 {
		t.Errorf("started %d times", n)
	}
}
