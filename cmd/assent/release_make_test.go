package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// begun waits until the probe has begun the call.
func (w *world) begun(text string) {
	w.t.Helper()
	w.eventually(func() bool { return w.probe.starts(w.t, text) == 1 }, func() string { return text + " did not start" })
}

// ran holds against the probe's log how often calls were started.
func (w *world) ran(times map[string]int) {
	w.t.Helper()
	for text, want := range times {
		if n := w.probe.starts(w.t, text); n != want {
			w.t.Errorf("%.20s was started %d times, want %d", text, n, want)
		}
	}
}

// closed holds that the approvals cannot be decided any more.
func (w *world) closed(topic string, approvals ...string) {
	w.t.Helper()
	for _, id := range approvals {
		for _, approved := range []bool{true, false} {
			w.want(410, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": approved})
		}
	}
}

// tree is all branches, in the order of their making.
func (w *world) tree(topic string) []wireMessage {
	w.t.Helper()
	var h history
	w.want(200, "GET", "/topics/"+topic+"/messages?view=tree", nil).into(w.t, &h)
	return h.Messages
}

// heard is the last thing that the model was told in a scene.
func (w *world) heard(scene string) string {
	w.t.Helper()
	said := ""
	for _, r := range w.model.Requests() {
		if asked(r) == scene {
			said = r.Messages[len(r.Messages)-1].Text()
		}
	}
	return said
}

// asked is the last message of a person.
func asked(r llmtest.Request) string {
	text := ""
	for _, m := range r.Messages {
		if m.Role == "user" {
			text = m.Text()
		}
	}
	return text
}

// sceneModel answers in all scenes. While a release's database is made, it
// breaks those that are to be found broken.
func sceneModel(making bool) func(int, llmtest.Request) llmtest.Turn {
	never := make(chan struct{})
	return func(_ int, r llmtest.Request) llmtest.Turn {
		text := asked(r)
		results := r.Messages[len(r.Messages)-1].Role == "tool"
		switch {
		case making && text == "failed" && results:
			return llmtest.Status(401, nil, `{"error":{"message":"invalid api key"}}`)
		case making && text == "writing":
			return llmtest.Text("a par").Then(llmtest.Hang(never))
		case results:
			return llmtest.Text("heard")
		}
		for _, s := range scenes {
			if name, _, _ := strings.Cut(text, " "); name == s.name {
				return s.model(text)
			}
		}
		return llmtest.Text("nobody asked")
	}
}

// record is what a release said of its database before it was killed.
type record struct {
	Token  string            `json:"token"`         // the owner's; good for this database only
	Ada    string            `json:"ada"`           // another principal's, who decides
	Key    string            `json:"key,omitempty"` // of stored secrets
	Topics map[string]string `json:"topics"`        // scene → topic
	// Said are the answers of GET by path, of what was at rest.
	Said map[string]json.RawMessage `json:"said"`
}

// make plays all scenes and kills the server, whose database then lies as it
// fell.
func (w *world) make() record {
	w.t.Helper()
	w.answers(sceneModel(true))
	w.prepare()
	w.spawn()
	r := record{Token: w.token, Topics: map[string]string{}, Said: map[string]json.RawMessage{}}
	var ada, complaints bytes.Buffer
	args := append([]string{"new", "ada"}, w.args()...)
	if err := runToken(w.t.Context(), args, func(string) string { return "" }, &ada, &complaints); err != nil {
		w.t.Fatalf("%v: %s", err, complaints.String())
	}
	r.Ada = strings.TrimSpace(ada.String())
	w.token = r.Ada
	if key, err := os.ReadFile(filepath.Join(w.dir, "data", "secret.key")); err == nil {
		r.Key = strings.TrimSpace(string(key))
	}
	for _, s := range scenes {
		if s.ready != nil {
			s.ready(w)
		}
		var topic chat.Topic
		w.want(201, "POST", "/topics", map[string]any{"title": "Scene " + s.name, "systemPrompt": "You are in a test."}).into(w.t, &topic)
		r.Topics[s.name] = topic.ID
		w.send(topic.ID, s.name)
		s.play(w, topic.ID)
	}
	for _, s := range scenes {
		topic := "/topics/" + r.Topics[s.name]
		paths := []string{topic, topic + "/status", topic + "/messages", topic + "/messages?view=tree", topic + "/approvals", "/audit?topicId=" + r.Topics[s.name]}
		switch {
		case s.asksAnew && r.Key != "":
			paths = nil
		case s.moves:
			paths = []string{topic + "/approvals?state=pending"}
		}
		if s.says != nil {
			paths = append(paths, s.says(w, r.Topics[s.name])...)
		}
		for _, path := range paths {
			r.Said[path] = w.want(200, "GET", path, nil).body
		}
	}
	w.kill()
	return r
}

// beforeStart is what the files of newer releases do before each start.
var beforeStart []func(w *world)

func (w *world) prepare() {
	for _, do := range beforeStart {
		do(w)
	}
}

// TestRelease makes the database of this release and goes on with it. With
// ASSENT_RELEASE it is kept in that folder, for the releases to come: see
// "make release-database".
func TestRelease(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		r := w.make()
		if dir := os.Getenv("ASSENT_RELEASE"); dir != "" {
			w.keep(filepath.Join(dir, filepath.Base(t.Name())), r)
		}
		w.goOn(r)
	})
}
