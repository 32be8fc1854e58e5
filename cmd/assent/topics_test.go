package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

func TestATopicIsOfferedTheToolsOfItsServersOnly(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
		w.start()
		var topic chat.Topic
		w.want(201, "POST", "/topics", map[string]any{"mcpServerIds": []string{"workspace"}}).into(t, &topic)
		w.send(topic.ID, "go")
		w.until(topic.ID, chat.TopicDone)
		for _, tool := range w.model.Requests()[0].Tools {
			if !strings.HasPrefix(tool.Function.Name, "workspace__") {
				t.Errorf("the model was offered %s", tool.Function.Name)
			}
		}
		// It calls one of another server all the same, which is none to it.
		if c := w.calls(topic.ID)[0]; c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnavailable || len(w.probe.log(t)) != 0 {
			t.Errorf("got %s, %+v, log %v", c.State, c.ToolMetadata, w.probe.log(t))
		}
		r := w.want(422, "POST", "/topics", map[string]any{"mcpServerIds": []string{"nothing"}})
		if !strings.Contains(string(r.body), "nothing") {
			t.Errorf("the problem does not name the server: %s", r.body)
		}
	})
}

func TestAReplyThatEndsEarlyIsKeptAndMarked(t *testing.T) {
	for finish, kind := range map[string]string{"length": "length", "content_filter": "content-filter", "stop": ""} {
		t.Run(finish, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, w *world) {
				w.says(llmtest.Text("as far as").Then(llmtest.Finish(finish)))
				w.start()
				topic := w.topic()
				w.send(topic, "tell")
				w.until(topic, chat.TopicDone)
				var h struct {
					Messages []struct {
						Metadata struct {
							Status chat.MessageStatus `json:"status"`
							Error  *chat.TurnError    `json:"error"`
						} `json:"metadata"`
					} `json:"messages"`
				}
				w.want(200, "GET", "/topics/"+topic+"/messages", nil).into(t, &h)
				m := h.Messages[1].Metadata
				got := ""
				if m.Error != nil {
					got = m.Error.Kind
				}
				if m.Status != chat.MessageSuccess || got != kind || w.last(topic).lastText() != "as far as" {
					t.Errorf("got %s, %q, %q", m.Status, got, w.last(topic).lastText())
				}
			})
		})
	}
}

func TestABatchAnswersAsABatchHoweverSmall(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		a, b := w.card(topic, "a").ApprovalID, w.card(topic, "b").ApprovalID
		path := "/topics/" + topic + "/approvals"
		listed := func(r reply) (ids []string, statuses []int) {
			t.Helper()
			var p struct {
				Errors []struct {
					ApprovalID string `json:"approvalId"`
					Status     int    `json:"status"`
				} `json:"errors"`
			}
			r.into(t, &p)
			for _, e := range p.Errors {
				ids, statuses = append(ids, e.ApprovalID), append(statuses, e.Status)
			}
			return ids, statuses
		}
		ids, statuses := listed(w.want(409, "POST", path, `{"decisions":[{"approvalId":"nothing","approved":true}]}`))
		if len(ids) != 1 || ids[0] != "nothing" || statuses[0] != 404 {
			t.Errorf("got %v %v", ids, statuses)
		}
		ids, statuses = listed(w.want(409, "POST", path, `{"decisions":[{"approvalId":"`+a+`","approved":true},{"approvalId":"`+b+`","approved":true,"updatedInput":{"text":7}}]}`))
		if len(ids) != 1 || ids[0] != b || statuses[0] != 422 {
			t.Errorf("got %v %v", ids, statuses)
		}
		w.want(422, "POST", path, `{"approvalId":"`+b+`","approved":true,"updatedInput":{"text":7}}`)
		w.want(404, "POST", path, `{"approvalId":"nothing","approved":true}`)
		if n := len(w.pending(topic)); n != 2 {
			t.Errorf("%d wait", n)
		}
	})
}

func TestTheServerAnswersToItsOwnNamesOnly(t *testing.T) {
	t.Parallel()
	p, err := newProbe(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir(), probe: p, flags: []string{"-addr", "localhost:0"}}
	w.start()
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1": 200, "evil.example.org": 421, "192.0.2.1": 421} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.base+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", host, resp.StatusCode, want)
		}
	}
}

func TestModelsAndTopicsThatCannotBeAreRefused(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.start()
		w.want(422, "POST", "/topics", map[string]any{"model": "nowhere/m"})
		topic := w.topic()
		w.want(422, "PATCH", "/topics/"+topic, map[string]any{"model": "nowhere/m"})
		w.want(200, "PATCH", "/topics/"+topic, map[string]any{"title": "Renamed"})
		for _, cursor := range []string{
			"rubbish", base64.RawURLEncoding.EncodeToString([]byte("0000-01-01T00:00:00.000Z x")),
			base64.RawURLEncoding.EncodeToString([]byte("2026-01-01T00:00:00.000Z m/99999999999")),
		} {
			w.want(400, "GET", "/approvals?cursor="+cursor, nil)
		}
		w.want(400, "GET", "/topics?cursor=rubbish", nil)
		w.want(400, "GET", "/topics?cursor="+base64.RawURLEncoding.EncodeToString([]byte("0000-01-01T00:00:00.000Z x")), nil)
		var list struct {
			Topics []json.RawMessage `json:"topics"`
			Next   string            `json:"nextCursor"`
		}
		w.topic()
		w.want(200, "GET", "/topics?limit=1", nil).into(t, &list)
		if len(list.Topics) != 1 || list.Next == "" {
			t.Fatalf("got %d topics, next %q", len(list.Topics), list.Next)
		}
		w.want(200, "GET", "/topics?limit=1&cursor="+list.Next, nil).into(t, &list)
		if len(list.Topics) != 1 || !strings.Contains(string(list.Topics[0]), "Renamed") {
			t.Errorf("got %s", list.Topics)
		}
	})
}
