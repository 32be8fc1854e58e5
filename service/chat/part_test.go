package chat_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestPartsKeepWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"type":"text","text":"a <b> & c","state":"done"}`,
		`{"type":"reasoning","text":"hm","providerMetadata":{"openai":{"reasoningField":"reasoning"}}}`,
		`{"type":"file","mediaType":"image/png","url":"data:image/png;base64,AA=="}`,
		`{"type":"step-start"}`,
		`{"type":"data-weather","id":"w","data":{"b":1,"a":12345678901234567890}}`,
		`{"type":"source-url","sourceId":"s","url":"https://example.org"}`,
		`{"type":"something-new","x":null}`,
		`{"type":"dynamic-tool","toolName":"s__t","toolCallId":"c","state":"input-available","input":{"n":12345678901234567890,"__proto__":{"a":1},"s":"\u0000"}}`,
		`{"type":"tool-weather","toolCallId":"c","state":"output-error","input":{},"errorText":"no"}`,
		`{"type":"dynamic-tool","toolName":"s__t","toolCallId":"c","state":"output-available","input":{},"output":null}`,
	} {
		p, err := chat.DecodePart([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got, err := chat.EncodePart(p)
		if err != nil || string(got) != raw {
			t.Errorf("got  %s (%v)\nwant %s", got, err, raw)
		}
	}
}

func TestPartsRefuseWhatIsNoPart(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{}`, `[]`, `"text"`, `{"type":7}`, `{"type":"text","text":5}`, `{"type":"dynamic-tool","toolCallId":{}}`, `{"type":"text"`} {
		if p, err := chat.DecodePart([]byte(raw)); err == nil {
			t.Errorf("%s was taken as %#v", raw, p)
		}
	}
}

func TestMessageJSON(t *testing.T) {
	t.Parallel()
	m := chat.Message{ID: "m1", Role: chat.RoleAssistant, Status: chat.MessagePending, CreatedAt: noon, UpdatedAt: noon, Revision: 7}
	got, err := json.Marshal(m)
	want := `{"id":"m1","role":"assistant","parts":[],"metadata":{"status":"pending","createdAt":"2026-11-30T12:00:00Z","updatedAt":"2026-11-30T12:00:00Z","revision":7}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	meta, err := m.MetadataJSON()
	if err != nil || bytes.Contains(meta, []byte("parts")) {
		t.Errorf("got %s, %v", meta, err)
	}
}

func FuzzPartsRoundTrip(f *testing.F) {
	f.Add([]byte(`[{"type":"text","text":"a"},{"type":"dynamic-tool","toolName":"t","toolCallId":"c","state":"approval-requested","input":{"a":1},"approval":{"id":"x"}}]`))
	f.Add([]byte(`[{"type":"data-x","data":[1,2,{"a":"\ud800"}]},{"type":"step-start","more":1}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b chat.Parts
		if json.Unmarshal(data, &a) != nil {
			return
		}
		wire, err := chat.Marshal(a)
		if err != nil {
			t.Fatalf("cannot write %#v: %v", a, err)
		}
		if bytes.ContainsAny(wire, "\r\n") {
			t.Fatalf("more than one line: %q", wire)
		}
		if err := json.Unmarshal(wire, &b); err != nil {
			t.Fatalf("cannot read back %s: %v", wire, err)
		}
		again, err := chat.Marshal(b)
		if err != nil || !bytes.Equal(again, wire) {
			t.Fatalf("%s != %s (%v)", again, wire, err)
		}
	})
}

func TestCheckInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want, err string }{
		{` {"a": 12345678901234567890, "b" : 1.50 } `, `{"a":12345678901234567890,"b":1.50}`, ""},
		{"", `{}`, ""},
		{" \n", `{}`, ""},
		{`{"__proto__":{"x":1},"constructor":2}`, `{"__proto__":{"x":1},"constructor":2}`, ""},
		{`{"s":"\u0000 \ud800"}`, `{"s":"\u0000 \ud800"}`, ""},
		{`{"a":1,"a":2}`, "", "twice"},
		{`{"o":{"x":[{"k":1,"\u006b":2}]}}`, "", `"/o/x/0/k" twice`},
		{`{"a":1`, "", "too early"},
		{`{"a":1}{"b":2}`, "", "more than one"},
		{`{"a":1} x`, "", "more than one"},
		{`[1]`, "", "one JSON object"},
		{`"rm -rf"`, "", "one JSON object"},
		{`null`, "", "one JSON object"},
		{`{a:1}`, "", "not valid JSON"},
		{"{\"a\":\"\xff\"}", "", "UTF-8"},
		{strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), "", "deeper"},
		{`{"a":` + strings.Repeat(`[`, 100) + strings.Repeat("]", 100) + "}", "", "deeper"},
	} {
		got, err := chat.CheckInput(tt.in)
		if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: got %s, %v; want %s, %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func FuzzCheckInput(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"c":"\u00e9"}`)
	f.Add(`{"a":1,"a":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := chat.CheckInput(text)
		if err != nil {
			if got != nil {
				t.Fatal("an error and an input")
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil || members == nil {
			t.Fatalf("%q became %s: %v", text, got, err)
		}
		if again, err := chat.CheckInput(string(got)); err != nil || string(again) != string(got) {
			t.Fatalf("%s is not stable: %s, %v", got, again, err)
		}
	})
}

func TestToolName(t *testing.T) {
	t.Parallel()
	if got := chat.ToolName("workspace", "read_file"); got != "workspace__read_file" {
		t.Errorf("got %q", got)
	}
	seen := map[string]string{}
	for _, pair := range [][2]string{
		{"a b", "c"}, {"a_b", "c"}, {"a.b", "c"}, {"a__b", "c"}, {"a", "b__c"}, {"a_", "b"}, {"a", "_b"}, {"ü", "x"}, {"ö", "x"},
		{strings.Repeat("s", 70), "t"}, {strings.Repeat("s", 70), "u"}, {"s", strings.Repeat("t", 70)},
	} {
		name := chat.ToolName(pair[0], pair[1])
		if other, taken := seen[name]; taken {
			t.Errorf("%v and %s share the name %q", pair, other, name)
		}
		seen[name] = strings.Join(pair[:], "/")
		if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("%v gives %q", pair, name)
		}
	}
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	turn := func(state chat.TurnState, output bool, pending int) chat.TurnView {
		return chat.TurnView{ID: "t-" + string(state), MessageID: "m", State: state, HasOutput: output, Pending: pending}
	}
	for _, tt := range []struct {
		name    string
		turns   []chat.TurnView
		want    chat.TopicState
		pending int
		active  int
		anchors int
	}{
		{"no turn", nil, chat.TopicIdle, 0, 0, 0},
		{"queued", []chat.TurnView{turn(chat.TurnQueued, false, 0)}, chat.TopicPending, 0, 1, 0},
		{"claimed, nothing shown", []chat.TurnView{turn(chat.TurnRunning, false, 0)}, chat.TopicPending, 0, 1, 0},
		{"streaming", []chat.TurnView{turn(chat.TurnRunning, true, 0)}, chat.TopicStreaming, 0, 1, 0},
		{"asked while a sibling call runs", []chat.TurnView{turn(chat.TurnRunning, true, 1)}, chat.TopicStreaming, 1, 1, 1},
		{"waiting", []chat.TurnView{turn(chat.TurnAwaitingApproval, true, 2)}, chat.TopicAwaitingApproval, 2, 0, 1},
		{"one model waits, one streams", []chat.TurnView{turn(chat.TurnAwaitingApproval, true, 1), turn(chat.TurnRunning, true, 0)}, chat.TopicStreaming, 1, 1, 1},
		{"one waits, one failed", []chat.TurnView{turn(chat.TurnAwaitingApproval, true, 1), turn(chat.TurnFailed, true, 0)}, chat.TopicAwaitingApproval, 1, 0, 1},
		{"failed before stopped before done", []chat.TurnView{turn(chat.TurnDone, true, 0), turn(chat.TurnAborted, true, 0), turn(chat.TurnFailed, true, 0)}, chat.TopicError, 0, 0, 0},
		{"stopped before done", []chat.TurnView{turn(chat.TurnDone, true, 0), turn(chat.TurnAborted, true, 0)}, chat.TopicAborted, 0, 0, 0},
		{"done", []chat.TurnView{turn(chat.TurnDone, true, 0)}, chat.TopicDone, 0, 0, 0},
	} {
		got := chat.StatusOf("t", 3, tt.turns, 2, &noon)
		if got.Status != tt.want || got.PendingApprovals != tt.pending || len(got.ActiveExecutions) != tt.active || len(got.AwaitingApprovalAnchors) != tt.anchors || got.QueuedMessages != 2 {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
	asking := []chat.TurnView{{State: chat.TurnRunning, HasOutput: true, Questions: 2}, {State: chat.TurnAwaitingApproval, Pending: 1, Questions: 1}}
	if got := chat.StatusOf("t", 3, asking, 0, nil); got.OpenQuestions != 3 || got.PendingApprovals != 1 || got.Status != chat.TopicStreaming {
		t.Errorf("with questions: got %+v", got)
	}
	idle, err := json.Marshal(chat.StatusOf("t", 1, nil, 0, nil))
	want := `{"topicId":"t","revision":1,"status":"idle","activeExecutions":[],"awaitingApprovalAnchors":[],"pendingApprovals":0,"openQuestions":0,"queuedMessages":0}`
	if d := cmp.Diff(want, string(idle)); err != nil || d != "" {
		t.Error(d, err)
	}
}

func TestSameTool(t *testing.T) {
	t.Parallel()
	tool := chat.Tool{ServerID: "s", Tool: "t", InputSchema: json.RawMessage(`{"type":"object","maxProperties":1}`)}
	call := chat.ToolCall{ToolMetadata: &chat.ToolMetadata{ServerID: "s", Tool: "t", InputSchema: json.RawMessage(`{"maxProperties": 1, "type": "object"}`)}}
	if !chat.SameTool(call, tool) {
		t.Error("the same tool is another")
	}
	for _, other := range []chat.Tool{
		{ServerID: "s2", Tool: "t", InputSchema: tool.InputSchema},
		{ServerID: "s", Tool: "u", InputSchema: tool.InputSchema},
		{ServerID: "s", Tool: "t", InputSchema: json.RawMessage(`{"type":"object","maxProperties":2}`)},
		{ServerID: "s", Tool: "t"},
	} {
		if chat.SameTool(call, other) {
			t.Errorf("%+v passes for the tool", other)
		}
	}
}
