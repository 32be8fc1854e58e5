package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestDecideTakesWhatTheContractDescribes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		name, body string
		want       []chat.Decision
	}{
		{"one", `{"approvalId":"a1","approved":true}`, []chat.Decision{{ApprovalID: "a1", Approved: true}}},
		{"a reason, kept byte for byte", `{"approvalId":"a1","approved":false,"reason":" No \n\"<é\ud83d\ude00> "}`, []chat.Decision{{ApprovalID: "a1", Reason: " No \n\"<é😀> "}}},
		{"an edited input, digit for digit", `{"approvalId":"a1","approved":true,"updatedInput":{ "n" : 12345678901234567890, "f": 1.10, "__proto__": {"a": []} }}`,
			[]chat.Decision{{ApprovalID: "a1", Approved: true, UpdatedInput: json.RawMessage(`{"n":12345678901234567890,"f":1.10,"__proto__":{"a":[]}}`)}}},
		{"an empty edited input", `{"approvalId":"a1","approved":true,"updatedInput":{}}`, []chat.Decision{{ApprovalID: "a1", Approved: true, UpdatedInput: json.RawMessage(`{}`)}}},
		{"an anchor", `{"approvalId":"a1","approved":true,"anchorId":"m2"}`, []chat.Decision{{ApprovalID: "a1", Approved: true, AnchorID: "m2"}}},
		{"to be remembered", `{"approvalId":"a1","approved":true,"remember":"always\u002dallow"}`, []chat.Decision{{ApprovalID: "a1", Approved: true, Remember: chat.RememberAlwaysAllow}}},
		{"one of a batch to be remembered", `{"decisions":[{"approvalId":"a1","approved":true,"remember":"always-allow"},{"approvalId":"a2","approved":false}]}`, []chat.Decision{{ApprovalID: "a1", Approved: true, Remember: chat.RememberAlwaysAllow}, {ApprovalID: "a2"}}},
		{"a batch", ` {"decisions":[{"approvalId":"a1","approved":true},{"approvalId":"a2","approved":false}]} `, []chat.Decision{{ApprovalID: "a1", Approved: true}, {ApprovalID: "a2"}}},
		{"a reason of 4,000 characters", `{"approvalId":"a1","approved":false,"reason":"` + strings.Repeat("é", 4000) + `"}`, []chat.Decision{{ApprovalID: "a1", Reason: strings.Repeat("é", 4000)}}},
	} {
		b.svc.decisions = nil
		if got := b.do("POST", "/topics/t1/approvals", tt.body); got.status != 200 {
			t.Errorf("%s: answered %d %s", tt.name, got.status, got.body)
		}
		if diff := cmp.Diff(tt.want, b.svc.decisions); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", tt.name, diff)
		}
	}
	hundred := `{"decisions":[` + strings.Join(decisions(100), ",") + `]}`
	if got := b.do("POST", "/topics/t1/approvals", hundred); got.status != 200 || strings.Count(got.body, `"applied"`) != 100 {
		t.Errorf("a hundred decisions: answered %d", got.status)
	}
}

func decisions(n int) []string {
	var all []string
	for i := range n {
		all = append(all, `{"approvalId":"a`+strings.Repeat("x", i)+`","approved":true}`)
	}
	return all
}

// badDecisions are bodies that decide nothing, and what their problem says.
var badDecisions = []struct {
	name, body string
	status     int
	detail     string
}{
	{"an empty body", " ", 400, "The body is empty; it must be a JSON object."},
	{"no decision", `{}`, 400, "The body holds no decision."},
	{"no decisions", `{"decisions":[]}`, 400, "decisions must not be empty."},
	{"too many decisions", `{"decisions":[` + strings.Join(decisions(101), ",") + `]}`, 400, "decisions must have at most 100 items."},
	{"decisions that are none", `{"decisions":{}}`, 400, "decisions must be an array."},
	{"null for decisions", `{"decisions":null}`, 400, "decisions must be an array."},
	{"a decision that is none", `{"decisions":[1]}`, 400, "decisions/0 must be an object."},
	{"one and several", `{"decisions":[{"approvalId":"a1","approved":true}],"approved":true}`, 400, "The body must have decisions, or the members of one decision, not both."},
	{"an id twice", `{"decisions":[{"approvalId":"a1","approved":true},{"approvalId":"a1","approved":true}]}`, 400, "decisions/1/approvalId is decided twice in this request."},
	{"no approved", `{"approvalId":"a1"}`, 400, "approved is required."},
	{"no approved in a batch", `{"decisions":[{"approvalId":"a1"}]}`, 400, "decisions/0/approved is required."},
	{"no id", `{"approved":true}`, 400, "approvalId is required."},
	{"a blank id", `{"approvalId":"","approved":true}`, 400, "approvalId is required."},
	{"a word for approved", `{"approvalId":"a1","approved":"yes"}`, 400, "approved must be a boolean."},
	{"a number for approved", `{"approvalId":"a1","approved":1}`, 400, "approved must be a boolean."},
	{"null for approved", `{"approvalId":"a1","approved":null}`, 400, "approved must be a boolean."},
	{"a number for an id", `{"approvalId":7,"approved":true}`, 400, "approvalId must be a string."},
	{"approved twice", `{"approvalId":"a1","approved":false,"approved":true}`, 400, "approved is there twice."},
	{"approved in another case", `{"approvalId":"a1","approved":false,"Approved":true}`, 400, "Approved is not a member that this request has."},
	{"a decision word", `{"approvalId":"a1","decision":"approve"}`, 400, "decision is not a member that this request has."},
	{"an unknown member", `{"approvalId":"a1","approved":true,"to/ol":"x"}`, 400, "to~1ol is not a member that this request has."},
	{"an array", `[{"approvalId":"a1","approved":true}]`, 400, "The body must be an object."},
	{"null", `null`, 400, "The body must be an object."},
	{"two values", `{"approvalId":"a1","approved":true} {}`, 400, "The body holds more than one JSON value."},
	{"something after it", `{"approvalId":"a1","approved":true}x`, 400, "The body holds more than one JSON value."},
	{"half a body", `{"approvalId":"a1","appr`, 400, "The body is not valid JSON: it ends too early."},
	{"no JSON", `approved=true`, 400, "The body is not valid JSON at byte 1."},
	{"an edit of a denial", `{"approvalId":"a1","approved":false,"updatedInput":{}}`, 400, "updatedInput goes with approved true only."},
	{"an edit that is a list", `{"approvalId":"a1","approved":true,"updatedInput":[1]}`, 400, "updatedInput must be an object."},
	{"an edit that is null", `{"approvalId":"a1","approved":true,"updatedInput":null}`, 400, "updatedInput must be an object."},
	{"an edit that is text", `{"approvalId":"a1","approved":true,"updatedInput":"{}"}`, 400, "updatedInput must be an object."},
	{"an edit with a key twice", `{"approvalId":"a1","approved":true,"updatedInput":{"a":{"b":1,"b":2}}}`, 400, `updatedInput cannot be run: the arguments name the key "/a/b" twice.`},
	{"an edit that nests too deep", `{"approvalId":"a1","approved":true,"updatedInput":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70) + `}`, 400, "updatedInput cannot be run: the arguments nest deeper than 64 levels."},
	{"a long reason", `{"approvalId":"a1","approved":false,"reason":"` + strings.Repeat("a", 4001) + `"}`, 400, "reason must have at most 4000 characters."},
	{"a long id", `{"approvalId":"` + strings.Repeat("a", 201) + `","approved":false}`, 400, "approvalId must have at most 200 characters."},
	{"an anchor that is no id", `{"approvalId":"a1","approved":true,"anchorId":"a b"}`, 400, "anchorId must have 1 to 64 letters, digits, - or _."},
	{"NUL", `{"approvalId":"a1","approved":false,"reason":"a\u0000b"}`, 400, `The body holds the character \u0000, which cannot be stored.`},
	{"NUL in an edit", `{"approvalId":"a1","approved":true,"updatedInput":{"\u0000":1}}`, 400, `The body holds the character \u0000, which cannot be stored.`},
	{"the first half of a pair", `{"approvalId":"a1","approved":false,"reason":"\ud83dx"}`, 400, "The body holds half of a surrogate pair, which is no character."},
	{"the second half of a pair", `{"approvalId":"a1","approved":false,"reason":"\\\ude00"}`, 400, "The body holds half of a surrogate pair, which is no character."},
	{"two first halves", `{"approvalId":"a1","approved":false,"reason":"\ud83d\ud83d"}`, 400, "The body holds half of a surrogate pair, which is no character."},
	{"no UTF-8", "{\"approvalId\":\"a1\",\"approved\":false,\"reason\":\"\xff\"}", 400, "The body is not valid UTF-8."},
	{"another word to be remembered", `{"approvalId":"a1","approved":true,"remember":"hunter2"}`, 422, "remember must be always-allow."},
	{"nothing to be remembered", `{"approvalId":"a1","approved":true,"remember":""}`, 422, "remember must be always-allow."},
	{"true to be remembered", `{"approvalId":"a1","approved":true,"remember":true}`, 422, "remember must be always-allow."},
	{"null to be remembered", `{"decisions":[{"approvalId":"a1","approved":true,"remember":null}]}`, 422, "decisions/0/remember must be always-allow."},
	{"an object to be remembered", `{"approvalId":"a1","approved":true,"remember":{"always":"allow"}}`, 422, "remember must be always-allow."},
	{"a denial to be remembered", `{"approvalId":"a1","approved":false,"remember":"always-allow"}`, 422, "remember goes with approved true only."},
	{"a denial to be remembered, in a batch", `{"decisions":[{"approvalId":"a1","approved":true},{"approvalId":"a2","approved":false,"remember":"always-allow"}]}`, 422, "decisions/1/remember goes with approved true only."},
}

func TestDecideRefusesWhatIsNotADecision(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range badDecisions {
		p := b.bad("POST", "/topics/t1/approvals", tt.body).problem(t, tt.status)
		if p["detail"] != tt.detail {
			t.Errorf("%s: the problem says %q, want %q", tt.name, p["detail"], tt.detail)
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %q", call)
	}
	p := b.bad("POST", "/topics/t1/approvals", `{"decisions":[{"approvalId":"a1","approved":false,"remember":"always-allow"}]}`).problem(t, 422)
	if diff := cmp.Diff([]any{map[string]any{"pointer": "/decisions/0/remember", "message": "goes with approved true only"}}, p["errors"]); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	p = b.bad("POST", "/topics/t1/approvals", `{"decisions":[{"approvalId":"a1"}]}`).problem(t, 400)
	want := []any{map[string]any{"pointer": "/decisions/0/approved", "message": "is required"}}
	if diff := cmp.Diff(want, p["errors"]); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestAProblemNeverRepeatsAValue(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const word = "hunter2"
	for path, body := range map[string]string{
		"/topics/t1/approvals": `{"approvalId":["hunter2"],"approved":true}`,
		"/topics":              `{"title":{"x":"hunter2"}}`,
		"/topics/t1/messages":  `{"text":"a","whenBusy":"hunter2"}`,
		"/session":             `{"token":{"x":"hunter2"}}`,
	} {
		if got := b.bad("POST", path, body); got.status != 400 || strings.Contains(got.body, word) {
			t.Errorf("%s: answered %d %s", path, got.status, got.body)
		}
	}
}

func TestSendTakesTextAndFilesAndNothingElse(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct {
		name, body string
		want       chat.NewMessage
	}{
		{"text", `{"text":"hi"}`, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hi"}}}},
		{"an id and a wish", `{"id":"A-z_9","text":" hi ","whenBusy":"reject"}`, chat.NewMessage{ID: "A-z_9", Parts: chat.Parts{chat.Text{Text: " hi "}}, WhenBusy: chat.WhenBusyReject}},
		{"parts", `{"parts":[{"type":"text","text":"hi"},{"type":"file","mediaType":"image/png","url":"data:image/png;base64,AA==","filename":"a.png"},{"type":"file","mediaType":"text/plain","url":"https://example.com/a"}]}`,
			chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hi"}, chat.File{MediaType: "image/png", URL: "data:image/png;base64,AA==", Filename: "a.png"}, chat.File{MediaType: "text/plain", URL: "https://example.com/a"}}}},
		{"200,000 characters", `{"text":"` + strings.Repeat("é", 200_000) + `"}`, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: strings.Repeat("é", 200_000)}}}},
	} {
		if got := b.do("POST", "/topics/t1/messages", tt.body); got.status != 202 {
			t.Errorf("%s: answered %d %s", tt.name, got.status, got.body)
		}
		tt.want.By = "ada"
		if diff := cmp.Diff(tt.want, b.svc.message); diff != "" {
			t.Errorf("%s: the service was given (-want +got):\n%s", tt.name, diff)
		}
	}
	b.svc.last()
	for _, tt := range []struct {
		name, body string
		status     int
		detail     string
	}{
		{"nothing", `{}`, 400, "The body must have text or parts."},
		{"both", `{"text":"a","parts":[{"type":"text","text":"b"}]}`, 400, "The body must have text or parts, not both."},
		{"blank text", `{"text":" \n"}`, 400, "text must not be blank."},
		{"long text", `{"text":"` + strings.Repeat("a", 200_001) + `"}`, 400, "text must have at most 200000 characters."},
		{"long text in parts", `{"parts":[{"type":"text","text":"` + strings.Repeat("a", 150_000) + `"},{"type":"text","text":"` + strings.Repeat("a", 150_000) + `"}]}`, 400, "parts must have at most 200000 characters of text."},
		{"no parts", `{"parts":[]}`, 400, "parts must not be empty."},
		{"51 parts", `{"parts":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"b"},`, 51), ",") + `]}`, 400, "parts must have at most 50 items."},
		{"a part that is none", `{"parts":["hi"]}`, 400, "parts/0 must be an object."},
		{"a part without a type", `{"parts":[{"text":"hi"}]}`, 400, "parts/0/type is required."},
		{"a type that is no text", `{"parts":[{"type":1}]}`, 400, "parts/0/type must be a string."},
		{"a type twice", `{"parts":[{"type":"text","type":"dynamic-tool","text":"x"}]}`, 400, "parts/0/type is there twice."},
		{"a text part with state", `{"parts":[{"type":"text","text":"x","state":"done"}]}`, 400, "parts/0/state is not a member that this request has."},
		{"a text part without text", `{"parts":[{"type":"text"}]}`, 400, "parts/0/text is required."},
		{"a file without a URL", `{"parts":[{"type":"file","mediaType":"image/png"}]}`, 400, "parts/0/url is required."},
		{"a file of no type", `{"parts":[{"type":"file","mediaType":"png","url":"data:,x"}]}`, 400, "parts/0/mediaType must be a media type, as image/png."},
		{"a link that is not https", `{"parts":[{"type":"file","mediaType":"image/png","url":"http://example.com/"}]}`, 400, "parts/0/url must be a data: URL, or an https: URL of at most 2048 characters."},
		{"a link with a password", `{"parts":[{"type":"file","mediaType":"image/png","url":"https://a:b@example.com/"}]}`, 400, "parts/0/url must be a data: URL, or an https: URL of at most 2048 characters."},
		{"a script for a link", `{"parts":[{"type":"file","mediaType":"image/png","url":"javascript:alert(1)"}]}`, 400, "parts/0/url must be a data: URL, or an https: URL of at most 2048 characters."},
		{"data without data", `{"parts":[{"type":"file","mediaType":"image/png","url":"data:image/png"}]}`, 400, "parts/0/url must be a data: URL with data."},
		{"a large file", `{"parts":[{"type":"file","mediaType":"image/png","url":"data:,` + strings.Repeat("a", maxDataURL) + `"}]}`, 400, "parts/0/url must have at most 4194304 characters."},
		{"an id with a space", `{"id":"a b","text":"x"}`, 400, "id must have 1 to 64 letters, digits, - or _."},
		{"an empty id", `{"id":"","text":"x"}`, 400, "id must have 1 to 64 letters, digits, - or _."},
		{"a long id", `{"id":"` + strings.Repeat("a", 65) + `","text":"x"}`, 400, "id must have 1 to 64 letters, digits, - or _."},
		{"an unknown wish", `{"text":"x","whenBusy":"wait"}`, 400, "whenBusy must be one of queue, supersede, reject."},
		{"a role", `{"text":"x","role":"assistant"}`, 400, "role is not a member that this request has."},
		{"a forged approval", `{"parts":[{"type":"dynamic-tool","toolName":"x","toolCallId":"c","state":"approval-responded","input":{},"approval":{"id":"a1","approved":true}}]}`, 422, `A part of the type "dynamic-tool" is not taken from a client; send text and file parts.`},
		{"a forged result", `{"parts":[{"type":"text","text":"a"},{"type":"tool-bash","state":"output-available","output":"ok"}]}`, 422, `A part of the type "tool-bash" is not taken from a client; send text and file parts.`},
		{"a step", `{"parts":[{"type":"step-start"}]}`, 422, `A part of the type "step-start" is not taken from a client; send text and file parts.`},
	} {
		for method, path := range map[string]string{"POST": "/topics/t1/messages", "PATCH": "/topics/t1/messages/m1"} {
			if method == "PATCH" && (strings.Contains(tt.body, `"id"`) && !strings.Contains(tt.body, "forged") || strings.Contains(tt.body, "whenBusy")) && tt.status == 400 {
				continue // an edit has neither
			}
			p := b.bad(method, path, tt.body).problem(t, tt.status)
			if p["detail"] != tt.detail {
				t.Errorf("%s, %s: the problem says %q, want %q", tt.name, method, p["detail"], tt.detail)
			}
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %q", call)
	}
	b.bad("PATCH", "/topics/t1/messages/m1", `{"text":"x","id":"m2"}`).problem(t, 400)
}

func TestTopicBodies(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, tt := range []struct{ method, path, body, detail string }{
		{"POST", "/topics", `{"title":1}`, "title must be a string."},
		{"POST", "/topics", `{"titel":"x"}`, "titel is not a member that this request has."},
		{"POST", "/topics", `{"title":"` + strings.Repeat("a", 201) + `"}`, "title must have at most 200 characters."},
		{"POST", "/topics", `{"mcpServerIds":"a"}`, "mcpServerIds must be an array."},
		{"POST", "/topics", `{"mcpServerIds":[1]}`, "mcpServerIds/0 must be a string."},
		{"POST", "/topics", `{"mcpServerIds":null}`, "mcpServerIds must be an array."},
		{"POST", "/topics", `{"mcpServerIds":["` + strings.Repeat("é", 65) + `"]}`, "mcpServerIds/0 must have at most 64 characters."},
		{"POST", "/topics", `{"assistantId":""}`, "assistantId must have 1 to 64 letters, digits, - or _."},
		{"POST", "/topics", `{"mcpServerIds":[""]}`, "mcpServerIds/0 must not be empty."},
		{"PATCH", "/topics/t1", `{}`, "The body names nothing to change."},
		{"PATCH", "/topics/t1", `{"model":""}`, "model must not be empty."},
		{"PATCH", "/topics/t1", `{"title":null}`, "title must be a string."},
		{"POST", "/session", `{}`, "token is required."},
		{"POST", "/topics/t1/stop", `{"force":true}`, "This request takes no body."},
		{"POST", "/topics/t1/messages/m1/send", `[]`, "This request takes no body."},
	} {
		p := b.bad(tt.method, tt.path, tt.body).problem(t, 400)
		if p["detail"] != tt.detail {
			t.Errorf("%s %s: the problem says %q, want %q", tt.method, tt.path, p["detail"], tt.detail)
		}
	}
	if got := b.bad("POST", "/topics/t1/stop", "{}"); got.status != 200 {
		t.Errorf("an empty object where no body is needed: answered %d", got.status)
	}
}

func TestMediaTypesAndSizes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const body = `{"text":"hi"}`
	for _, mediaType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonx", "multipart/form-data; boundary=x", ";"} {
		headers := []string{"Content-Type"}
		if mediaType != "" {
			headers = append(headers, "Content-Type: "+mediaType)
		}
		b.bad("POST", "/topics/t1/messages", body, headers...).problem(t, 415)
	}
	for _, mediaType := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON; charset=UTF-8"} {
		if got := b.bad("POST", "/topics/t1/messages", body, "Content-Type", "Content-Type: "+mediaType); got.status != 202 {
			t.Errorf("%s: answered %d", mediaType, got.status)
		}
	}
	b.bad("POST", "/topics", `{"title":"`+strings.Repeat("a", maxBody)+`"}`).problem(t, 413)
	b.bad("POST", "/topics/t1/approvals", `{"reason":"`+strings.Repeat("a", maxBody)+`"}`).problem(t, 413)
	b.bad("POST", "/topics/t1/messages", `{"text":"`+strings.Repeat("a", maxBody)+`"}`).problem(t, 400)
	b.bad("POST", "/topics/t1/messages", `{"text":"`+strings.Repeat("a", maxMessageBody)+`"}`).problem(t, 413)
}

func FuzzDecodeDecide(f *testing.F) {
	f.Add([]byte(`{"approvalId":"a1","approved":true}`))
	f.Add([]byte(`{"decisions":[{"approvalId":"a1","approved":true,"updatedInput":{"n":1e400,"s":"\ud83d\ude00"}}]}`))
	for _, tt := range badDecisions {
		if len(tt.body) < 1000 {
			f.Add([]byte(tt.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		ds, batch, err := decodeDecide(httptest.NewRecorder(), r)
		if err != nil {
			if p := problemFor(err); p.Status != 400 && p.Status != 413 && p.Status != 422 || p.Detail == "" {
				t.Fatalf("a bad body is answered %d %q: %v", p.Status, p.Detail, err)
			}
			return
		}
		// What passes must mean the same to a plain decoder that knows no rules.
		type one struct {
			ApprovalID   string          `json:"approvalId"`
			Approved     *bool           `json:"approved"`
			Reason       string          `json:"reason"`
			UpdatedInput json.RawMessage `json:"updatedInput"`
			AnchorID     string          `json:"anchorId"`
			Remember     chat.Remember   `json:"remember"`
		}
		var plain struct {
			one
			Decisions []one `json:"decisions"`
		}
		if err := json.Unmarshal(body, &plain); err != nil {
			t.Fatalf("%q passed and is not JSON: %v", body, err)
		}
		want := plain.Decisions
		if !batch {
			want = []one{plain.one}
		}
		if len(ds) == 0 || len(ds) != len(want) {
			t.Fatalf("%q: %d decisions, want %d", body, len(ds), len(want))
		}
		for i, d := range ds {
			w := want[i]
			if w.Approved == nil || d.ApprovalID != w.ApprovalID || d.Approved != *w.Approved || d.Reason != w.Reason || d.AnchorID != w.AnchorID || d.Remember != w.Remember {
				t.Fatalf("%q: decision %d is %+v", body, i, d)
			}
			if (d.UpdatedInput == nil) != (w.UpdatedInput == nil) || d.UpdatedInput != nil && !json.Valid(d.UpdatedInput) {
				t.Fatalf("%q: decision %d runs %q", body, i, d.UpdatedInput)
			}
		}
	})
}
