package api

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/api/apitest"
	"github.com/assent-chat/assent/service/chat"
)

// operation is a good request, and what the service is asked for.
type operation struct {
	method, path, body string
	status             int
	call               string
}

// headers are those with which the request may be made.
func (op operation) headers() []string {
	if slices.Contains(ownersOperations, op) {
		return asOwner
	}
	return nil
}

// operations is one good request for each operation of the contract that is
// answered at once.
var operations = append([]operation{
	{"GET", "/topics", "", 200, "Topics 50 "},
	{"GET", "/topics?limit=7&cursor=abc-_=", "", 200, "Topics 7 abc-_="},
	{"POST", "/topics", `{}`, 201, "CreateTopic"},
	{"GET", "/topics/t1", "", 200, "Topic"},
	{"PATCH", "/topics/t1", `{"title":"Other"}`, 200, "UpdateTopic"},
	{"DELETE", "/topics/t1", "", 204, "DeleteTopic"},
	{"GET", "/topics/t1/status", "", 200, "Status"},
	{"POST", "/topics/t1/stop", "", 200, "Stop"},
	{"GET", "/topics/t1/messages", "", 200, "Messages 50 "},
	{"GET", "/topics/t1/messages?limit=2&before=m1", "", 200, "Messages 2 m1"},
	{"GET", "/topics/t1/messages?view=tree", "", 200, "Tree"},
	{"POST", "/topics/t1/messages", `{"text":"hi"}`, 202, "Send"},
	{"PATCH", "/topics/t1/messages/m1", `{"text":"ho"}`, 202, "EditMessage m1"},
	{"DELETE", "/topics/t1/messages/m1", "", 204, "DeleteMessage m1"},
	{"POST", "/topics/t1/messages/m1/send", "", 202, "SendQueued m1"},
	{"POST", "/topics/t1/messages/m1/regenerate", "", 202, "Regenerate m1"},
	{"POST", "/topics/t1/messages/m1/retry", "", 202, "Retry m1"},
	{"POST", "/topics/t1/messages/m1/select", "", 200, "Select m1"},
	{"POST", "/topics/t1/approvals", `{"approvalId":"a1","approved":true}`, 200, "Decide"},
	{"GET", "/topics/t1/approvals?state=pending", "", 200, "Approvals topic=t1 pending=true settled=false 50 "},
	{"GET", "/approvals", "", 200, "Approvals topic= pending=false settled=false 50 "},
	{"GET", "/approvals?state=settled&topicId=t1&limit=200&cursor=x", "", 200, "Approvals topic=t1 pending=false settled=true 200 x"},
	{"GET", "/audit?topicId=t1", "", 200, "Audit topic=t1 50 "},
	{"GET", "/policy/rules", "", 200, "Rules"},
	{"POST", "/policy/rules", `{"name":"No secrets","verdict":"deny","expression":"true"}`, 201, "CreateRule"},
	{"POST", "/policy/rules/try", `{"verdict":"allow","expression":"true"}`, 200, "TryRule allow true"},
	{"GET", "/policy/rules/r1", "", 200, "Rule r1"},
	{"PATCH", "/policy/rules/r1", `{"enabled":false,"version":2}`, 200, "UpdateRule r1"},
	{"DELETE", "/policy/rules/r1", "", 204, "DeleteRule r1"},
	{"GET", "/policy/rules/r1/versions?limit=3&cursor=9", "", 200, "RuleVersions r1 3 9"},
	{"GET", "/policy/explain?approvalId=a1", "", 200, "ExplainApproval a1"},
	{"GET", "/policy/explain?topicId=t1&toolCallId=call_1", "", 200, "ExplainCall call_1"},
	{"GET", "/readyz", "", 200, "Ping"},
	{"POST", "/session", `{"token":"a-bearer-token"}`, 200, "SignIn a-bearer-token"},
	{"GET", "/login?token=a-login-token", "", 303, "Login a-login-token"},
	{"POST", "/logout", "", 204, ""},
	{"GET", "/session", "", 200, ""},
	{"POST", "/topics/t1/messages/m1/questions/q1", `{"action":"accept","content":{"n":1}}`, 200, "AnswerQuestion m1 q1"},
	{"GET", "/questions?limit=3&cursor=9", "", 200, "Questions 3 9"},
	{"GET", "/mcp-servers", "", 200, "MCPServers"},
	{"GET", "/mcp-servers/s1", "", 200, "MCPServer s1"},
	{"PATCH", "/mcp-servers/s1", `{"trusted":true,"version":2}`, 200, "UpdateMCPServer s1"},
	{"GET", "/mcp-servers/s1/tools", "", 200, "MCPServerTools s1"},
	{"GET", "/mcp-servers/s1/versions?limit=3&cursor=9", "", 200, "MCPServerVersions s1 3 9"},
	{"GET", "/assistants", "", 200, "Assistants"},
	{"POST", "/assistants", `{"name":"n"}`, 201, "CreateAssistant"},
	{"GET", "/assistants/as1", "", 200, "Assistant as1"},
	{"PATCH", "/assistants/as1", `{"mode":"default","version":1}`, 200, "UpdateAssistant as1"},
	{"DELETE", "/assistants/as1", "", 204, "DeleteAssistant as1"},
	{"GET", "/models", "", 200, ""},
	{"GET", "/providers", "", 200, ""},
	{"GET", "/healthz", "", 200, ""},
	{"GET", "/metrics", "", 200, ""},
	{"GET", "/openapi.yaml", "", 200, ""},
	{"GET", "/docs", "", 200, ""},
}, ownersOperations...)

// ownersOperations are those that are for the owner alone.
var ownersOperations = []operation{
	{"POST", "/mcp-servers", `{"name":"web","url":"https://example.com/mcp"}`, 201, "CreateMCPServer"},
	{"POST", "/mcp-servers/import", `{"mcpServers":{"a":{"command":"x"}}}`, 201, "ImportMCPServers"},
	{"POST", "/mcp-servers/import?existing=skip", `{"mcpServers":{"a":{"command":"x"}}}`, 201, "ImportMCPServers skip"},
	{"POST", "/mcp-servers/test", `{"name":"web","command":"x"}`, 200, "TestMCPServer"},
	{"PATCH", "/mcp-servers/s1", `{"disabled":true}`, 200, "UpdateMCPServer s1"},
	{"DELETE", "/mcp-servers/s1", "", 204, "DeleteMCPServer s1"},
	{"POST", "/mcp-servers/s1/test", "", 200, "TestStoredMCPServer s1"},
	{"POST", "/mcp-servers/s1/test", `{"env":{"A":null}}`, 200, "TestStoredMCPServer s1"},
	{"POST", "/mcp-servers/s1/restart", "", 200, "RestartMCPServer s1"},
}

func TestEveryOperationAsksTheServiceAndAnswersAsTheContractSays(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, op := range operations {
		got := b.do(op.method, op.path, op.body, op.headers()...)
		if got.status != op.status {
			t.Errorf("%s %s: answered %d %s, want %d", op.method, op.path, got.status, got.body, op.status)
		}
		if call := b.svc.last(); call != op.call {
			t.Errorf("%s %s: the service was asked %q, want %q", op.method, op.path, call, op.call)
		}
		if op.method == "GET" && op.status == 200 {
			if head := b.do("HEAD", op.path, ""); head.status != 200 || head.body != "" {
				t.Errorf("HEAD %s: answered %d with %d bytes, want 200 without", op.path, head.status, len(head.body))
			}
			b.svc.last()
		}
	}
}

func TestTheRoutesAreThePathsOfTheContract(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Page = nil })
	got := map[string]bool{}
	err := chi.Walk(b.api.router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		got[method+" "+route] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for path, item := range apitest.Contract(t).Paths.Map() {
		for method := range item.Operations() {
			want[method+" "+path] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("contract (-) and router (+) differ:\n%s", diff)
	}
	tried := map[string]bool{"GET /topics/{topicId}/events": true, "GET /events": true} // by the tests of streams
	for _, op := range operations {
		path, _, _ := strings.Cut(op.path, "?")
		c := chi.NewRouteContext()
		tried[op.method+" "+b.api.router.Find(c, op.method, path)] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(tried))); diff != "" {
		t.Errorf("contract (-) and the operations tried here (+) differ:\n%s", diff)
	}
}

func TestErrorsOfTheServiceBecomeProblems(t *testing.T) {
	t.Parallel()
	decided := &chat.DecidedError{ApprovalID: "a1", Approved: true, Reason: "ok", DecidedBy: "bob", DecidedAt: at, Via: chat.ViaWeb}
	for _, tt := range []struct {
		name   string
		err    error
		status int
		body   string
	}{
		{"not found", fmt.Errorf("decide: %w", chat.NotFound("There is no approval a1.")), 404, `{"type":"/problems/not-found","title":"Not found","status":404,"detail":"There is no approval a1."}`},
		{"a bare kind", fmt.Errorf("select parts: %w", chat.ErrNotFound), 404, `{"type":"/problems/not-found","title":"Not found","status":404,"detail":"There is no such thing here."}`},
		{"conflict", chat.Conflict("A turn runs."), 409, `{"type":"/problems/conflict","title":"Conflict","status":409,"detail":"A turn runs."}`},
		{"decided otherwise", fmt.Errorf("decide: %w", decided), 409, `{"type":"/problems/decided","title":"Already decided","status":409,"detail":"Approval a1 was already approved by bob.","decision":{"approvalId":"a1","approved":true,"reason":"ok","decidedBy":"bob","decidedAt":"2026-11-30T12:00:00Z","via":"web"}}`},
		{"a batch", fmt.Errorf("decide: %w", &chat.BatchError{Items: []chat.BatchItem{{ApprovalID: "a1", Err: decided}, {ApprovalID: "a2", Err: chat.Gone("It is closed.")}}}), 409,
			`{"type":"/problems/batch","title":"The batch was not applied","status":409,"detail":"2 of the decisions cannot be applied; none was.","errors":[{"approvalId":"a1","status":409,"detail":"Approval a1 was already approved by bob.","decision":{"approvalId":"a1","approved":true,"reason":"ok","decidedBy":"bob","decidedAt":"2026-11-30T12:00:00Z","via":"web"}},{"approvalId":"a2","status":410,"detail":"It is closed."}]}`},
		{"a batch of one, asked for alone", &chat.BatchError{Items: []chat.BatchItem{{ApprovalID: "a1", Err: chat.Gone("It is closed.")}}}, 410, `{"type":"/problems/gone","title":"Gone","status":410,"detail":"It is closed."}`},
		{"invalid", chat.Invalid("No."), 422, `{"type":"/problems/invalid","title":"Invalid request","status":422,"detail":"No."}`},
		{"an edit that breaks the schema", &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/path", Message: "must be a string"}}}, 422,
			`{"type":"/problems/invalid-input","title":"Invalid input","status":422,"detail":"The input breaks the tool's schema: /path: must be a string.","errors":[{"pointer":"/path","message":"must be a string"}]}`},
		{"forbidden", fmt.Errorf("decide: %w", &chat.Error{Kind: chat.ErrForbidden, Detail: "Only Ada may."}), 403, `{"type":"/problems/forbidden","title":"Forbidden","status":403,"detail":"Only Ada may."}`},
		{"forbidden, without a word", chat.ErrForbidden, 403, `{"type":"/problems/forbidden","title":"Forbidden","status":403,"detail":"Only the owner may do this."}`},
		{"several at once", fmt.Errorf("import: %w", errors.Join(chat.Invalid("A is wrong."), errors.New("hidden"), fmt.Errorf("b: %w", chat.Invalid("B is wrong.")))), 422, `{"type":"/problems/invalid","title":"Invalid request","status":422,"detail":"A is wrong. B is wrong."}`},
		{"malformed", chat.Malformed("What?"), 400, `{"type":"/problems/malformed","title":"Malformed request","status":400,"detail":"What?"}`},
		{"the database is away", fmt.Errorf("begin: dial 10.0.0.7: %w", chat.ErrUnavailable), 503, `{"type":"/problems/unavailable","title":"Unavailable","status":503,"detail":"The server cannot do this right now; try again."}`},
		{"anything else", errors.New("pq: password authentication failed"), 500, `{"type":"about:blank","title":"Internal error","status":500}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, nil)
			b.svc.decideErr = tt.err
			got := b.do("POST", "/topics/t1/approvals", `{"approvalId":"a1","approved":false}`)
			got.problem(t, tt.status)
			if diff := cmp.Diff(tt.body, got.body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if retry := got.header.Get("Retry-After"); (retry != "") != (tt.status == 503) {
				t.Errorf("Retry-After is %q", retry)
			}
			if lines := strings.Count(b.log.String(), "request failed"); (lines == 1) != (tt.status >= 500) || lines > 1 {
				t.Errorf("%d lines say that the request failed:\n%s", lines, b.log)
			}
		})
	}
}

func TestEveryOperationPassesTheErrorOfItsServiceOn(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.svc.err = fmt.Errorf("begin: %w", chat.ErrUnavailable)
	for _, op := range operations {
		if op.call == "" {
			continue
		}
		got := b.do(op.method, op.path, op.body, op.headers()...)
		got.problem(t, 503)
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", op.method, op.path)
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, op := range operations {
		if !strings.HasPrefix(op.path, "/topics/t1") {
			continue
		}
		for _, id := range []string{"t2", "%00", "no%20id", strings.Repeat("a", 65)} {
			b.bad(op.method, strings.Replace(op.path, "t1", id, 1), op.body).problem(t, 404)
		}
		if strings.Contains(op.path, "/messages/m1") {
			b.bad(op.method, strings.Replace(op.path, "/m1", "/%00", 1), op.body).problem(t, 404)
		}
	}
	for _, path := range []string{"/topics/", "/nothing", "/topics/t1/nothing", "/approvals/a1", "/agents", "/questions/q1", "/mcp-servers/", "/mcp-servers/s1/nothing"} {
		b.do("GET", path, "").problem(t, 404)
	}
	got := b.do("PUT", "/topics/t1", "{}")
	got.problem(t, 405)
	if allow := got.header.Get("Allow"); allow != "GET, PATCH, DELETE, HEAD" {
		t.Errorf("Allow is %q", allow)
	}
	b.do("BREW", "/topics", "").problem(t, 405)
}

func TestQueries(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, path := range []string{
		"/topics?limit=0", "/topics?limit=201", "/topics?limit=x", "/topics?limit=", "/topics?limit=1e1", "/topics?cursor=%00", "/topics?cursor=a%20b",
		"/topics?cursor=" + strings.Repeat("a", 513), "/audit?topicId=", "/audit?topicId=%00", "/audit?limit=-1", "/audit?cursor=%0a", "/approvals?state=open",
		"/approvals?topicId=a%20b", "/approvals?limit=0", "/topics/t1/approvals?state=x", "/topics/t1/messages?view=x", "/topics/t1/messages?limit=0",
		"/topics/t1/messages?before=%00", "/questions?limit=0", "/questions?cursor=%0a", "/mcp-servers/s1/versions?limit=201", "/mcp-servers/s1/versions?cursor=a%20b",
		"/topics/t1/messages?before=", "/events?" + strings.TrimPrefix(manyTopics(51), "&"),
	} {
		b.bad("GET", path, "").problem(t, 400)
	}
	if got := b.do("GET", "/topics?cursor=end", ""); got.body != `{"topics":[]}` {
		t.Errorf("the last page is %s", got.body)
	}
	if got := b.do("GET", "/topics?unknown=1", ""); got.status != 200 {
		t.Errorf("an unknown parameter is answered %d", got.status)
	}
}

func manyTopics(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "&topic=t%d", i+1)
	}
	return s.String()
}

func TestAnswersAreWrittenAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	if got := b.do("GET", "/topics/t1", ""); !strings.Contains(got.body, `"title":"A <topic>"`) {
		t.Errorf("text is not written as it is: %s", got.body)
	}
	if got := b.do("GET", "/topics/t1/messages", ""); !strings.Contains(got.body, `{"n":12345678901234567890}`) || !strings.Contains(got.body, `"queued":[]`) {
		t.Errorf("digits are lost, or a list is null: %s", got.body)
	}
	if got := b.do("GET", "/questions?cursor=end", ""); got.body != `{"questions":[]}` {
		t.Errorf("the last page of questions is %s", got.body)
	}
	if got := b.do("POST", "/topics", `{"title":"x","mcpServerIds":["a"]}`); got.header.Get("Location") != "/topics/t1" {
		t.Errorf("Location is %q", got.header.Get("Location"))
	}
	if diff := cmp.Diff(chat.NewTopic{Title: "x", MCPServerIDs: []string{"a"}}, b.svc.topic); diff != "" {
		t.Errorf("the service was given (-want +got):\n%s", diff)
	}
	empty := ""
	b.do("PATCH", "/topics/t1", `{"title":""}`)
	if diff := cmp.Diff(chat.TopicPatch{Title: &empty}, b.svc.patch); diff != "" {
		t.Errorf("the service was given (-want +got):\n%s", diff)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	read := func(path string, headers ...string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("answered %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		var got []byte
		for chunk := make([]byte, 512); !strings.Contains(string(got), `"asked":"`) || !strings.HasSuffix(string(got), "\n\n"); {
			n, err := resp.Body.Read(chunk)
			got = append(got, chunk[:n]...)
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
		}
		_, asked, _ := strings.Cut(string(got), `"asked":"`)
		asked, _, _ = strings.Cut(asked, `"`)
		return asked
	}
	for _, tt := range []struct{ path, header, want string }{
		{"/topics/t1/events", "", "t1 false "},
		{"/topics/t1/events?last=1.2", "", "t1 false 1.2"},
		{"/topics/t1/events?last=1.2", "Last-Event-ID: 1.3", "t1 false 1.3"},
		{"/events", "", " true "},
		{"/events?topic=t1&topic=t1&last=1.4", "", "t1 true 1.4"},
	} {
		headers := []string{}
		if tt.header != "" {
			headers = append(headers, tt.header)
		}
		if got := read(tt.path, headers...); got != tt.want {
			t.Errorf("%s: subscribed to %q, want %q", tt.path, got, tt.want)
		}
	}
	b.do("GET", "/topics/t2/events", "").problem(t, 404)
	b.do("GET", "/events?topic=t1&topic=t2", "").problem(t, 404)
	b.bad("GET", "/events?topic=%00", "").problem(t, 404)
	b.do("GET", "/events", "", "Authorization").problem(t, 401)
	if got := b.do("HEAD", "/events", ""); got.status != 200 {
		t.Errorf("HEAD is answered %d", got.status)
	}
	b.svc.err = chat.ErrUnavailable
	b.do("GET", "/topics/t1/events", "").problem(t, 503)
}
