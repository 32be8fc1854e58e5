package apitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// answerer answers every request with the same.
type answerer struct {
	status int
	header http.Header
	body   string
	got    *http.Request
}

func (a *answerer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.got = r
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

var (
	isJSON    = http.Header{"Content-Type": {"application/json"}}
	isProblem = http.Header{"Content-Type": {"application/problem+json"}}
)

const status = `{"topicId":"t1","revision":1,"status":"idle","activeExecutions":[],"awaitingApprovalAnchors":[],"pendingApprovals":0,"openQuestions":0,"queuedMessages":0}`

func TestTransport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		method string
		path   string
		header http.Header
		body   string
		answer answerer
		broken string // "" if all is well
	}{
		{"an answer as it should be", "GET", "/topics/t1/status", nil, "", answerer{200, isJSON, status, nil}, ""},
		{"a member of the wrong type", "GET", "/topics/t1/status", nil, "", answerer{200, isJSON, strings.Replace(status, "idle", "asleep", 1), nil}, "the answer 200 breaks"},
		{"an answer without a body", "GET", "/topics/t1/status", nil, "", answerer{200, isJSON, "", nil}, "the answer 200 breaks"},
		{"a status that is not in the contract", "GET", "/topics/t1/status", nil, "", answerer{418, isProblem, `{}`, nil}, "the answer 418 breaks"},
		{"a problem as plain JSON", "GET", "/topics/t1/status", nil, "", answerer{404, isJSON, `{"type":"x","title":"x","status":404}`, nil}, "the answer 404 breaks"},
		{"a request that lacks a member", "POST", "/topics/t1/approvals", isJSON, `{"approved":true}`, answerer{400, isProblem, `{"type":"x","title":"x","status":400}`, nil}, "the request breaks"},
		{"the same on purpose", "POST", "/topics/t1/approvals", http.Header{"Content-Type": {"application/json"}, Unchecked: {"1"}}, `{"approved":true}`, answerer{400, isProblem, `{"type":"x","title":"x","status":400}`, nil}, ""},
		{"an unknown part type in an answer", "GET", "/topics/t1/messages?view=tree", nil, "", answerer{200, isJSON, `{"revision":1,"messages":[{"id":"m","role":"user","parts":[{"type":"data-x","data":1}],"metadata":{"status":"success","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z","revision":1}}]}`, nil}, ""},
		{"a text part without text", "GET", "/topics/t1/messages?view=tree", nil, "", answerer{200, isJSON, `{"revision":1,"messages":[{"id":"m","role":"user","parts":[{"type":"text"}],"metadata":{"status":"success","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z","revision":1}}]}`, nil}, "the answer 200 breaks"},
		{"a stream", "GET", "/events?topic=a&topic=b", nil, "", answerer{200, http.Header{"Content-Type": {"text/event-stream"}}, "event: ping\n\n", nil}, ""},
		{"no body where none belongs", "DELETE", "/topics/t1", nil, "", answerer{204, http.Header{}, "", nil}, ""},
		{"a body where none belongs", "DELETE", "/topics/t1", nil, "", answerer{204, isJSON, "{}", nil}, "a body where none belongs"},
		{"a request body where none belongs", "DELETE", "/topics/t1", isJSON, "{}", answerer{204, http.Header{}, "", nil}, "the request breaks"},
		{"no request body where none belongs", "POST", "/mcp-servers/s1/restart", nil, "", answerer{404, isProblem, `{"type":"x","title":"x","status":404}`, nil}, ""},
		{"no request body where it may be left out", "POST", "/mcp-servers/s1/test", nil, "", answerer{404, isProblem, `{"type":"x","title":"x","status":404}`, nil}, ""},
		{"a request body that may be left out, of another type", "POST", "/mcp-servers/s1/test", http.Header{"Content-Type": {"text/plain"}}, "{}", answerer{415, isProblem, `{"type":"x","title":"x","status":415}`, nil}, "the request breaks"},
		{"no request body where one must be", "PATCH", "/mcp-servers/s1", nil, "", answerer{415, isProblem, `{"type":"x","title":"x","status":415}`, nil}, "the request breaks"},
		{"a path with an escaped name", "GET", "/mcp-servers/a%20b%2Fc/tools", nil, "", answerer{200, isJSON, `{}`, nil}, "the answer 200 breaks"},
		{"half an answer", "GET", "/topics/t1/status", nil, "", answerer{200, isJSON, status[:20], nil}, "the body is not JSON"},
		{"a time that is none", "GET", "/topics/t1/status", nil, "", answerer{200, isJSON, strings.Replace(status, "}", `,"lastCompletedAt":"yesterday"}`, 1), nil}, "the answer 200 breaks"},
		{"a path of the page", "GET", "/t/abc", nil, "", answerer{200, http.Header{}, "<html>", nil}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var broken []string
			tr := &transport{base: &tt.answer, report: func(err error) { broken = append(broken, err.Error()) }}
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://127.0.0.1:1"+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.header {
				req.Header[k] = v
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != tt.answer.body {
				t.Errorf("body is %q, %v; want it as it was sent", body, err)
			}
			if tt.answer.got.Header.Get(Unchecked) != "" {
				t.Error("the header that turns the check off was sent on")
			}
			got := strings.Join(broken, "\n")
			if tt.broken == "" && got != "" || !strings.Contains(got, tt.broken) {
				t.Errorf("reported %q, want it to contain %q", got, tt.broken)
			}
		})
	}
}
