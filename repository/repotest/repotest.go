// Package repotest holds the tests that every store must pass, whatever
// database is below it.
package repotest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// Run runs the suite, or the groups of it that are named, each test on an empty
// database that options names.
func Run(t *testing.T, options func(t *testing.T) repository.Options, only ...string) {
	for _, group := range []struct {
		name  string
		tests map[string]func(*bench)
	}{
		{"topics", topicTests}, {"sending", sendTests}, {"queue", queueTests}, {"turns", turnTests}, {"steps", stepTests}, {"fencing", fencingTests},
		{"deciding", decideTests}, {"batches", batchTests}, {"races", raceTests}, {"stopping", stopTests}, {"branches", branchTests},
		{"deleting", deleteTests}, {"lists", listTests}, {"tokens", tokenTests}, {"bytes", byteTests}, {"rules", ruleTests},
		{"servers", serverTests}, {"sealing", sealTests}, {"adopting", adoptTests}, {"remembering", rememberTests}, {"pending", pendingTests},
		{"questions", questionTests}, {"assistants", assistantTests}, {"revisions", revisionTests},
	} {
		if len(only) > 0 && !slices.Contains(only, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for name, test := range group.tests {
				t.Run(name, func(t *testing.T) {
					o := options(t)
					o.Key = key(1)
					test(&bench{T: t, Store: open(t, o), ctx: t.Context(), options: o})
				})
			}
		})
	}
}

const (
	lease = time.Hour
	over  = -time.Second // a lease that has ended before it began
)

// bench is a test with a store of its own.
type bench struct {
	*testing.T
	*repository.Store
	ctx     context.Context
	options repository.Options
	db      *sql.DB // see raw
}

// key is one of several keys.
func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func open(t *testing.T, o repository.Options) *repository.Store {
	t.Helper()
	s, err := repository.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// beside is the same database, opened with another key, or none.
func (b *bench) beside(key []byte) *repository.Store {
	b.Helper()
	o := b.options
	o.Key, o.Exclusive = key, false
	return open(b.T, o)
}

// raw is the database below the store.
func (b *bench) raw() *sql.DB {
	b.Helper()
	if b.db != nil {
		return b.db
	}
	driver, source := "postgres", b.options.URL
	if b.options.Path != "" {
		u := url.URL{Path: b.options.Path}
		driver, source = "sqlite", "file:"+u.EscapedPath()+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	b.db = db
	return db
}

// held reports whether a transaction holds the row of a tool server, so that
// nobody else can change it.
func (b *bench) held(id string) bool {
	b.Helper()
	query, db := `SELECT id FROM mcp_servers WHERE id = '`+id+`' FOR NO KEY UPDATE NOWAIT`, b.raw()
	if b.options.Path != "" {
		query = `UPDATE mcp_servers SET version = version WHERE id = '` + id + `'`
		u := url.URL{Path: b.options.Path}
		impatient, err := sql.Open("sqlite", "file:"+u.EscapedPath())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = impatient.Close() }()
		db = impatient
	}
	_, err := db.ExecContext(b.ctx, query)
	return err != nil
}

// run executes a statement in the database below the store.
func (b *bench) run(statement string) {
	b.Helper()
	if _, err := b.raw().ExecContext(b.ctx, statement); err != nil {
		b.Fatal(err)
	}
}

// text reads one text from the database below the store.
func (b *bench) text(query string) string {
	b.Helper()
	var s string
	if err := b.raw().QueryRowContext(b.ctx, query).Scan(&s); err != nil {
		b.Fatal(err)
	}
	return s
}

func must[V any](b *bench) func(V, error) V {
	return func(v V, err error) V {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func (b *bench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("got error %v, want %v", err, want)
	}
}

func (b *bench) same(what string, want, got any, opts ...cmp.Option) {
	b.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (b *bench) topic() chat.Topic {
	b.Helper()
	topic, _, err := b.CreateTopic(b.ctx, chat.NewTopic{Model: "demo/guide"})
	return must[chat.Topic](b)(topic, err)
}

func say(text string) chat.Parts { return chat.Parts{chat.Text{Text: text}} }

func (b *bench) send(topicID, text string) chat.Sent {
	b.Helper()
	sent, _, err := b.Send(b.ctx, topicID, chat.NewMessage{Parts: say(text)})
	return must[chat.Sent](b)(sent, err)
}

// claimed is a running turn.
type claimed struct {
	chat.Fence
	work   chat.Work
	change chat.Change
}

func (b *bench) claim(topicID, turnID string) claimed {
	b.Helper()
	return b.claimFor(topicID, turnID, "owner", lease)
}

func (b *bench) claimFor(topicID, turnID, owner string, lease time.Duration) claimed {
	b.Helper()
	work, change, ok, err := b.Claim(b.ctx, chat.Candidate{TopicID: topicID, TurnID: turnID}, owner, lease)
	if err != nil || !ok {
		b.Fatalf("claim: %v, %v", ok, err)
	}
	return claimed{chat.Fence{TopicID: topicID, TurnID: turnID, MessageID: work.Turn.MessageID, Epoch: work.Turn.Epoch}, work, change}
}

// start is a topic with a running turn.
func (b *bench) start() (chat.Topic, claimed) {
	b.Helper()
	topic := b.topic()
	return topic, b.claim(topic.ID, b.send(topic.ID, "hello").Turn.ID)
}

func call(id string) chat.ToolCall {
	return chat.ToolCall{
		Type: chat.DynamicTool, ToolName: "files__write", ToolCallID: id, State: chat.CallInputAvailable, Input: json.RawMessage(`{"path":"a"}`),
		ToolMetadata: &chat.ToolMetadata{Server: "files", Title: "Write a file", Verdict: chat.VerdictAsk},
	}
}

func allowed(id string) chat.ToolCall {
	c := call(id)
	c.ToolMetadata = &chat.ToolMetadata{Server: "files", Verdict: chat.VerdictAllow}
	return c
}

// asking commits a step with n gated calls and gives their approval ids.
func (b *bench) asking(f claimed, n int, others ...chat.Part) []string {
	b.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = rand.Text()
	}
	must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Position: len(f.work.Anchor.Parts), Build: func(at time.Time) chat.Parts {
		parts := append(chat.Parts{chat.StepStart{}}, others...)
		for i, id := range ids {
			parts = append(parts, chat.Ask(call(fmt.Sprintf("call-%d", i)), id, at))
		}
		return parts
	}}))
	return ids
}

func (b *bench) park(f claimed) {
	b.Helper()
	parked, _, _, err := b.Park(b.ctx, f.Fence)
	if err != nil || !parked {
		b.Fatalf("park: %v, %v", parked, err)
	}
}

// waiting is a topic whose turn waits for n decisions.
func (b *bench) waiting(n int) (chat.Topic, claimed, []string) {
	b.Helper()
	topic, f := b.start()
	ids := b.asking(f, n)
	b.park(f)
	return topic, f, ids
}

func (b *bench) done(f claimed, text string) chat.Change {
	b.Helper()
	return must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{
		Position: len(b.message(f.TopicID, f.MessageID).Parts), Done: true,
		Build: func(time.Time) chat.Parts { return say(text) },
	}))
}

func (b *bench) fail(f claimed) chat.Change {
	b.Helper()
	n := len(b.message(f.TopicID, f.MessageID).Parts)
	return must[chat.Change](b)(b.Fail(b.ctx, f.Fence, n, say("partial"), chat.TurnError{Kind: "network", Message: "It broke."}))
}

var ada = chat.Decider{Name: "ada", Via: chat.ViaAPI}

func yes(id string) chat.Decision { return chat.Decision{ApprovalID: id, Approved: true} }
func no(id string) chat.Decision  { return chat.Decision{ApprovalID: id} }

func (b *bench) decide(topicID string, ds ...chat.Decision) chat.Decided {
	b.Helper()
	d, _, err := b.Decide(b.ctx, topicID, ds, ada)
	return must[chat.Decided](b)(d, err)
}

func (b *bench) status(topicID string) chat.Status {
	b.Helper()
	return must[chat.Status](b)(b.Status(b.ctx, topicID))
}

func (b *bench) state(topicID string, want chat.TopicState) {
	b.Helper()
	if got := b.status(topicID).Status; got != want {
		b.Fatalf("the topic is %s, want %s", got, want)
	}
}

func (b *bench) snapshot(topicID string) chat.Snapshot {
	b.Helper()
	return must[chat.Snapshot](b)(b.Snapshot(b.ctx, topicID, 100, ""))
}

// message finds a message in any branch.
func (b *bench) message(topicID, id string) chat.Message {
	b.Helper()
	messages, _, err := b.Tree(b.ctx, topicID)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range messages {
		if m.ID == id {
			return m
		}
	}
	b.Fatalf("there is no message %s", id)
	return chat.Message{}
}

func (b *bench) calls(topicID, messageID string) []chat.ToolCall {
	b.Helper()
	var calls []chat.ToolCall
	for _, c := range b.message(topicID, messageID).Parts.Calls() {
		calls = append(calls, c.Call)
	}
	return calls
}

func (b *bench) claimable() []string {
	b.Helper()
	found, err := b.Claimable(b.ctx, 100)
	if err != nil {
		b.Fatal(err)
	}
	ids := []string{}
	for _, c := range found {
		ids = append(ids, c.TurnID)
	}
	return ids
}

func (b *bench) auditOf(approvalID string) (chat.AuditEntry, bool) {
	b.Helper()
	entries, _, err := b.Audit(b.ctx, "", chat.Page{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	found, n := chat.AuditEntry{}, 0
	for _, e := range entries {
		if e.ApprovalID == approvalID {
			found, n = e, n+1
		}
	}
	if n > 1 {
		b.Fatalf("approval %s is recorded %d times", approvalID, n)
	}
	return found, n == 1
}

func ids(messages []chat.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func texts(messages []chat.Message) []string {
	out := []string{}
	for _, m := range messages {
		text := ""
		for _, p := range m.Parts {
			if p, ok := p.(chat.Text); ok {
				text += p.Text
			}
		}
		out = append(out, text)
	}
	return out
}
