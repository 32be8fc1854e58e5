package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

const placeSchema = `{"type":"object","properties":{"place":{"type":"string","minLength":2},"size":{"type":"integer"}},"required":["place"]}`

// asks offers a tool that asks the person for a place, and tells it back.
func (b *box) asks() {
	b.server.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		a, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{
				Mode: "form", Message: "Where to?", RequestedSchema: json.RawMessage(placeSchema),
			}}}, nil
		}
		text, err := json.Marshal(a)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}, err
	})
}

// asking is a topic in which a call asks something.
func (w *world) asking(start func()) (topic string, m wireMessage, q chat.Question) {
	w.t.Helper()
	w.answers(func(_ int, r llmtest.Request) llmtest.Turn {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return llmtest.Text("ok")
		}
		return llmtest.Calls(llmtest.Call{ID: "c", Name: "box__ask", Args: `{}`})
	})
	b := newBox(w.t)
	b.asks()
	start()
	server := w.addServer(map[string]any{"name": "box", "url": b.url})
	w.want(200, "PATCH", serverPath(server.ID), map[string]any{"autoApproveTools": []string{"ask"}})
	topic = w.topic()
	w.send(topic, "go")
	w.eventually(func() bool { return w.status(topic).OpenQuestions == 1 }, func() string { return "nothing was asked" })
	m = w.last(topic)
	return topic, m, *m.Parts.Calls()[0].Call.OpenQuestion()
}

func questionPath(topic string, m wireMessage, id string) string {
	return "/topics/" + topic + "/messages/" + m.ID + "/questions/" + id
}

func TestAQuestionOfAToolIsAnsweredInPlace(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		topic, m, q := w.asking(w.start)
		if q.Message != "Where to?" || len(q.Schema) == 0 || len(q.ID) < 20 {
			t.Errorf("the question is %+v", q)
		}
		var inbox struct {
			Questions []chat.QuestionItem `json:"questions"`
		}
		w.want(200, "GET", "/questions", nil).into(t, &inbox)
		if len(inbox.Questions) != 1 || inbox.Questions[0].Question.ID != q.ID || inbox.Questions[0].TopicID != topic || inbox.Questions[0].Server != "box" {
			t.Errorf("the inbox holds %+v", inbox)
		}
		path := questionPath(topic, m, q.ID)
		wrong := w.want(422, "POST", path, `{"action":"accept","content":{"place":"x","size":1.5}}`)
		if text := string(wrong.body); !strings.Contains(text, "/place") || !strings.Contains(text, "/size") {
			t.Errorf("the problem says %s", text)
		}
		w.want(400, "POST", path, `{"action":"yes"}`)
		w.want(400, "POST", path, `{"action":"decline","content":{"place":"there"}}`)
		w.want(404, "POST", questionPath(topic, m, "none"), `{"action":"decline"}`)
		w.want(404, "POST", questionPath(w.topic(), m, q.ID), `{"action":"decline"}`)

		var done chat.Answered
		w.want(200, "POST", path, `{"action":"accept","content":{"place":"there","size":9007199254740993}}`).into(t, &done)
		if done.Outcome != chat.EffectApplied || done.AnsweredBy != owner {
			t.Errorf("answered: %+v", done)
		}
		w.until(topic, chat.TopicDone)
		w.want(200, "POST", path, `{"action":"accept","content":{"size":9007199254740993,"place":"there"}}`).into(t, &done)
		if done.Outcome != chat.EffectAlreadySettled {
			t.Errorf("the repeat gives %+v", done)
		}
		w.want(409, "POST", path, `{"action":"decline"}`)
		c := w.calls(topic)[0]
		if c.ToolMetadata.Outcome != chat.OutcomeOK || !strings.Contains(string(c.Output), "there") || c.OpenQuestion() != nil || c.ToolMetadata.Questions[0].AnsweredBy != owner {
			t.Errorf("the call is %s, %+v", c.Output, c.ToolMetadata)
		}
		if s := w.status(topic); s.OpenQuestions != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestADeclinedQuestionIsToldToTheTool(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		topic, m, q := w.asking(w.start)
		w.want(200, "POST", questionPath(topic, m, q.ID), `{"action":"decline"}`)
		w.until(topic, chat.TopicDone)
		if c := w.calls(topic)[0]; !strings.Contains(string(c.Output), "decline") {
			t.Errorf("the call is %+v", c)
		}
	})
}

func TestAStopClosesAQuestion(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		topic, m, q := w.asking(w.start)
		w.want(200, "POST", "/topics/"+topic+"/stop", nil)
		w.want(410, "POST", questionPath(topic, m, q.ID), `{"action":"accept","content":{"place":"there"}}`)
		c := w.calls(topic)[0]
		if c.ToolMetadata.Outcome != chat.OutcomeUnknown || c.OpenQuestion() != nil || c.ToolMetadata.Questions[0].Resolution != chat.ResolutionCancelled {
			t.Errorf("the call is %+v", c.ToolMetadata)
		}
		if s := w.status(topic); s.OpenQuestions != 0 || s.Status != chat.TopicAborted {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestAKilledServerLeavesNoQuestionOpen(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		topic, m, q := w.asking(w.spawn)
		w.kill()
		w.spawn()
		w.until(topic, chat.TopicDone)
		c := w.calls(topic)[0]
		if c.ToolMetadata.Outcome != chat.OutcomeUnknown || c.ToolMetadata.Questions[0].Resolution != chat.ResolutionCancelled {
			t.Errorf("the call is %+v", c.ToolMetadata)
		}
		w.want(410, "POST", questionPath(topic, m, q.ID), `{"action":"decline"}`)
	})
}
