package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	assent "github.com/assent-chat/assent"
	"github.com/assent-chat/assent/api/apitest"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

var _ Service = (*service.Service)(nil)

const (
	topic1   = "t1"
	message1 = "m1"
	token    = "a-bearer-token" // of ada
	ownToken = "the-owners-token"
	session  = "a-session"
	loginKey = "a-login-token"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fake is a Service that knows one topic, notes what it was asked to do and
// answers err if it is set.
type fake struct {
	mu    sync.Mutex
	calls []string
	err   error
	login error // of Login, before anything else
	panic string

	decisions []chat.Decision
	by        chat.Decider
	message   chat.NewMessage
	topic     chat.NewTopic
	patch     chat.TopicPatch
	newRule   chat.NewRule
	rulePatch chat.RulePatch
	decideErr error

	servers        []chat.ServerInfo // instead of the usual ones; the first is the one that is read
	server         chat.MCPServer
	serverPatch    chat.MCPServerPatch
	file           string
	newAssistant   chat.NewAssistant
	assistantPatch chat.AssistantPatch
	answer         chat.Answer
	deadline       time.Time // of a trial
	hang           bool      // until then
}

func (f *fake) did(call string, topicID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	if f.panic != "" {
		panic(f.panic)
	}
	if f.err != nil {
		return f.err
	}
	if topicID != topic1 && topicID != "" {
		return fmt.Errorf("read topic: %w", chat.NotFound("There is no topic %s.", topicID))
	}
	return nil
}

// last returns the last call, and forgets all.
func (f *fake) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return ""
	}
	c := f.calls[len(f.calls)-1]
	f.calls = nil
	return c
}

func aStatus() chat.Status { return chat.StatusOf(topic1, 3, nil, 0, nil) }

func aTopic() chat.Topic {
	return chat.Topic{ID: topic1, Title: "A <topic>", Model: "demo/guide", Mode: chat.ModeDefault, Revision: 3, Status: aStatus(), CreatedAt: at, UpdatedAt: at}
}

func aMessage() chat.Message {
	return chat.Message{
		ID: message1, TopicID: topic1, Role: chat.RoleUser, Status: chat.MessageSuccess, CreatedAt: at, UpdatedAt: at, Revision: 3,
		Parts: chat.Parts{chat.Text{Text: "hi"}, chat.Other{Type: "data-x", Raw: json.RawMessage(`{"type":"data-x","data":{"n":12345678901234567890}}`)}},
	}
}

func aSent() chat.Sent {
	return chat.Sent{Message: aMessage(), Turn: &chat.TurnRef{ID: "turn1", MessageID: "m2", State: chat.TurnQueued}, Revision: 3}
}

func (f *fake) Ping(context.Context) error { return f.did("Ping", "") }
func (f *fake) CreateTopic(_ context.Context, t chat.NewTopic) (chat.Topic, error) {
	f.topic = t
	return aTopic(), f.did("CreateTopic", "")
}
func (f *fake) Topic(_ context.Context, id string) (chat.Topic, error) {
	return aTopic(), f.did("Topic", id)
}
func (f *fake) Topics(_ context.Context, p chat.Page) ([]chat.Topic, string, error) {
	err := f.did(fmt.Sprintf("Topics %d %s", p.Limit, p.Cursor), "")
	if p.Cursor == "end" {
		return nil, "", err
	}
	return []chat.Topic{aTopic()}, "more", err
}
func (f *fake) UpdateTopic(_ context.Context, id string, p chat.TopicPatch) (chat.Topic, error) {
	f.patch = p
	return aTopic(), f.did("UpdateTopic", id)
}
func (f *fake) DeleteTopic(_ context.Context, id string) error { return f.did("DeleteTopic", id) }
func (f *fake) Status(_ context.Context, id string) (chat.Status, error) {
	return aStatus(), f.did("Status", id)
}
func (f *fake) Stop(_ context.Context, id string) (chat.Status, error) {
	return aStatus(), f.did("Stop", id)
}
func (f *fake) Messages(_ context.Context, id string, limit int, before string) (chat.Snapshot, error) {
	return chat.Snapshot{Topic: aTopic(), Messages: []chat.Message{aMessage()}, Status: aStatus(), Revision: 3}, f.did(fmt.Sprintf("Messages %d %s", limit, before), id)
}
func (f *fake) Tree(_ context.Context, id string) ([]chat.Message, int64, error) {
	return []chat.Message{aMessage()}, 3, f.did("Tree", id)
}
func (f *fake) Send(_ context.Context, id string, m chat.NewMessage) (chat.Sent, error) {
	f.message = m
	return aSent(), f.did("Send", id)
}
func (f *fake) EditMessage(_ context.Context, id, mid string, m chat.NewMessage) (chat.Sent, error) {
	f.message = m
	return aSent(), f.did("EditMessage "+mid, id)
}
func (f *fake) DeleteMessage(_ context.Context, id, mid string) error {
	return f.did("DeleteMessage "+mid, id)
}
func (f *fake) SendQueued(_ context.Context, id, mid string) (chat.Sent, error) {
	return aSent(), f.did("SendQueued "+mid, id)
}
func (f *fake) Regenerate(_ context.Context, id, mid string) (chat.Sent, error) {
	return aSent(), f.did("Regenerate "+mid, id)
}
func (f *fake) Retry(_ context.Context, id, mid string) (chat.Sent, error) {
	return aSent(), f.did("Retry "+mid, id)
}
func (f *fake) Select(_ context.Context, id, mid string) (chat.Topic, error) {
	return aTopic(), f.did("Select "+mid, id)
}
func (f *fake) Decide(_ context.Context, id string, ds []chat.Decision, by chat.Decider) (chat.Decided, error) {
	f.decisions, f.by = ds, by
	if f.decideErr != nil {
		return chat.Decided{}, f.decideErr
	}
	d := chat.Decided{Continuation: chat.ContinuationScheduled, Revision: 4}
	for _, one := range ds {
		d.Results = append(d.Results, chat.DecisionResult{ApprovalID: one.ApprovalID, Outcome: chat.EffectApplied, DecidedBy: by.Name, DecidedAt: at})
	}
	return d, f.did("Decide", id)
}
func (f *fake) Approvals(_ context.Context, q chat.ApprovalFilter, p chat.Page) ([]chat.ApprovalItem, string, error) {
	item := chat.ApprovalItem{
		ApprovalID: "a1", TopicID: topic1, TopicTitle: "A topic", AnchorID: "m2", ToolCallID: "c1", ToolName: "workspace__write_file",
		Input: json.RawMessage(`{"n":12345678901234567890}`), State: chat.CallApprovalRequested, Approval: chat.Approval{ID: "a1", RequestedAt: &at}, RequestedAt: &at,
	}
	return []chat.ApprovalItem{item}, "", f.did(fmt.Sprintf("Approvals topic=%s pending=%t settled=%t %d %s", q.TopicID, q.Pending, q.Settled, p.Limit, p.Cursor), "")
}
func (f *fake) Audit(_ context.Context, id string, p chat.Page) ([]chat.AuditEntry, string, error) {
	e := chat.AuditEntry{ID: "e1", ApprovalID: "a1", TopicID: topic1, AnchorID: "m2", ToolCallID: "c1", ToolName: "x__y", DecidedBy: "ada", Via: chat.ViaWeb, DecidedAt: at}
	return []chat.AuditEntry{e}, "", f.did(fmt.Sprintf("Audit topic=%s %d %s", id, p.Limit, p.Cursor), "")
}
func aRule() chat.Rule {
	return chat.Rule{ID: "r1", Name: "No <secrets>", Verdict: chat.VerdictDeny, Expression: `input.path.contains("secret")`, Reason: "Never.", Enabled: true, Position: 1, Version: 2, CreatedAt: at, UpdatedAt: at}
}
func (f *fake) Rules(context.Context) ([]chat.Rule, error) {
	return []chat.Rule{aRule()}, f.did("Rules", "")
}
func (f *fake) Rule(_ context.Context, id string) (chat.Rule, error) {
	return aRule(), f.did("Rule "+id, "")
}
func (f *fake) CreateRule(_ context.Context, n chat.NewRule, by chat.Decider) (chat.Rule, error) {
	f.newRule, f.by = n, by
	return aRule(), f.did("CreateRule", "")
}
func (f *fake) UpdateRule(_ context.Context, id string, p chat.RulePatch, by chat.Decider) (chat.Rule, error) {
	f.rulePatch, f.by = p, by
	return aRule(), f.did("UpdateRule "+id, "")
}
func (f *fake) DeleteRule(_ context.Context, id string, by chat.Decider) error {
	f.by = by
	return f.did("DeleteRule "+id, "")
}
func (f *fake) RuleVersions(_ context.Context, id string, p chat.Page) ([]chat.RuleChange, string, error) {
	before, after := aRule(), aRule()
	before.Version, before.Reason = 1, ""
	return []chat.RuleChange{
		{RuleID: "r1", Version: 3, Action: chat.ActionDeleted, By: "ada", Via: chat.ViaWeb, At: at, Before: &after},
		{RuleID: "r1", Version: 2, Action: chat.ActionChanged, By: "ada", Via: chat.ViaAPI, At: at, Before: &before, After: &after},
	}, "1", f.did(fmt.Sprintf("RuleVersions %s %d %s", id, p.Limit, p.Cursor), "")
}
func (f *fake) TryRule(_ context.Context, v chat.Verdict, expression string) (chat.RuleTrial, error) {
	sample := chat.TrialSample{TopicID: topic1, AnchorID: "m2", ToolCallID: "c1", ToolName: "x__y", Input: json.RawMessage(`{"n":12345678901234567890}`), Verdict: chat.VerdictAsk, Rule: chat.ByDefault, Error: "no such key: path"}
	return chat.RuleTrial{Matched: 12, Failed: 1, Changed: 3, Of: 50, Samples: []chat.TrialSample{sample}}, f.did(fmt.Sprintf("TryRule %s %s", v, expression), "")
}
func (f *fake) ExplainApproval(_ context.Context, id string) (chat.Explanation, error) {
	return anExplanation(), f.did("ExplainApproval "+id, "")
}
func (f *fake) ExplainCall(_ context.Context, id, call string) (chat.Explanation, error) {
	return anExplanation(), f.did("ExplainCall "+call, id)
}
func anExplanation() chat.Explanation {
	rule := aRule()
	return chat.Explanation{
		TopicID: topic1, AnchorID: "m2", ToolCallID: "c1", ToolName: "x__y", State: chat.CallOutputDenied, Verdict: chat.VerdictDeny, Rule: rule.Name,
		Why: "The rule “No <secrets>” refuses this call.", Reason: "Never.", RuleNow: "changed",
		RuleVersion: &chat.RuleChange{RuleID: "r1", Version: 2, Action: chat.ActionChanged, By: "ada", Via: chat.ViaAPI, At: at, After: &rule},
		Approval:    &chat.Approval{ID: "a1"},
	}
}
func (f *fake) Login(_ context.Context, secret string) (string, string, error) {
	err := f.did("Login "+secret, "")
	switch {
	case f.login != nil:
		return "", "", f.login
	case secret == loginKey:
		return session, "ada", err
	default:
		return "", "", fmt.Errorf("find token: %w", chat.ErrNotFound)
	}
}
func (f *fake) SignIn(_ context.Context, secret string) (string, string, error) {
	err := f.did("SignIn "+secret, "")
	switch {
	case f.login != nil:
		return "", "", f.login
	case secret == token:
		return session, "ada", err
	default:
		return "", "", fmt.Errorf("find token: %w", chat.ErrNotFound)
	}
}
func (f *fake) Authenticate(_ context.Context, secret string, kind chat.TokenKind) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.login != nil {
		return "", f.login
	}
	if secret == token && kind == chat.TokenBearer || secret == session && kind == chat.TokenSession {
		return "ada", nil
	}
	if secret == ownToken && kind == chat.TokenBearer {
		return owner, nil
	}
	return "", fmt.Errorf("find token: %w", chat.ErrNotFound)
}
func (f *fake) Logout(_ context.Context, s string) error { return f.did("Logout "+s, "") }

type fakeModels struct{}

func (fakeModels) Models(context.Context) []chat.ModelInfo {
	return []chat.ModelInfo{{Name: "demo/guide", Provider: "demo", Title: "Guide"}}
}
func (fakeModels) Providers() []chat.ProviderInfo {
	return []chat.ProviderInfo{{ID: "demo", Title: "Demo", Configured: true}}
}

// fakeEvents gives each reader one event that says what was asked for.
type fakeEvents struct{}

func (fakeEvents) Subscribe(topics []string, statuses bool, lastID string) EventReader {
	return &fakeReader{data: fmt.Sprintf(`{"topicId":"*","revision":0,"asked":"%s %t %s"}`, strings.Join(topics, ","), statuses, lastID)}
}

type fakeReader struct {
	data string
	read bool
}

func (f *fakeReader) OnReady(func()) {}
func (f *fakeReader) Take([]chat.LiveEvent) ([]chat.LiveEvent, error) {
	if f.read {
		return nil, nil
	}
	f.read = true
	return []chat.LiveEvent{{ID: "1.1", Name: "snapshot", Data: []byte(f.data)}}, nil
}
func (f *fakeReader) Close() {}

// bench is an API on a real connection whose every word is held against the
// contract.
type bench struct {
	t      *testing.T
	svc    *fake
	api    *API
	url    string
	client *http.Client
	log    *logBuffer
}

func start(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, svc: &fake{}, log: &logBuffer{}}
	opt := Options{
		Service: b.svc, Models: fakeModels{}, Events: fakeEvents{}, Contract: assent.Contract,
		Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Page:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") }),
	}
	if change != nil {
		change(&opt)
	}
	b.api = New(opt)
	srv := httptest.NewServer(b.api.Handler())
	b.url = srv.URL
	base := &http.Transport{}
	b.client = &http.Client{
		Transport:     apitest.Transport(t, base),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		if err := b.api.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		base.CloseIdleConnections()
		srv.Close()
	})
	return b
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with the bearer token. Headers are "Name: value"; one
// without a value removes it.
func (b *bench) do(method, path, body string, headers ...string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Add(name, value)
		}
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// bad sends a request that breaks the contract on purpose.
func (b *bench) bad(method, path, body string, headers ...string) answer {
	b.t.Helper()
	return b.do(method, path, body, append(headers, apitest.Unchecked+": 1")...)
}

// asOwner is the headers of a request of the owner.
var asOwner = []string{"Authorization", "Authorization: Bearer " + ownToken}

// problem reads the answer as a problem of the status.
func (a answer) problem(t *testing.T, status int) map[string]any {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answered %d %s %s, want a problem %d", a.status, a.header.Get("Content-Type"), a.body, status)
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatal(err)
	}
	if p["status"] != float64(status) {
		t.Errorf("the problem says %v in an answer %d", p["status"], status)
	}
	return p
}
