package service_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/policy"
)

// told counts what the service tells of: changes to watchers, turns to the
// engine.
type told struct {
	changes  []chat.Change
	settings []chat.SettingsKind
	hints    []chat.SettingsKind
	wakes    int
	canceled []chat.Epochs
	answered []string
	state    chat.ServerPhase // of the tool's server; ready if empty
	schema   string           // of the tool; {} if empty
}

func (t *told) Publish(_ context.Context, c chat.Change) { t.changes = append(t.changes, c) }
func (t *told) Settings(what chat.SettingsKind)          { t.settings = append(t.settings, what) }
func (t *told) Hint(what chat.SettingsKind)              { t.hints = append(t.hints, what) }
func (t *told) Wake()                                    { t.wakes++ }
func (t *told) Cancel(stopped chat.Epochs)               { t.canceled = append(t.canceled, stopped) }
func (t *told) Answered(questionID string)               { t.answered = append(t.answered, questionID) }

// State is that of the server of the tool that waiting asks for; of another
// server there is none.
func (t *told) State(serverID string) (chat.ServerState, []chat.Tool) {
	if serverID != "s" {
		return chat.ServerState{}, nil
	}
	if t.state != "" && t.state != chat.ServerReady {
		return chat.ServerState{Phase: t.state}, nil
	}
	return chat.ServerState{Phase: chat.ServerReady}, []chat.Tool{{
		Name: "s__t", Server: "s", ServerID: "s", Tool: "t", InputSchema: json.RawMessage(cmp.Or(t.schema, `{}`)),
	}}
}

func (t *told) Apply(context.Context, []chat.MCPServer) error { return nil }
func (t *told) Restart(string) error                          { return nil }
func (t *told) Parse([]byte) ([]chat.MCPServer, error)        { return nil, nil }
func (t *told) Test(context.Context, chat.MCPServer) (chat.ServerState, []chat.Tool, error) {
	return chat.ServerState{}, nil, nil
}

// Tools is not asked: what a card is held against is what a server last told.
func (t *told) Tools(context.Context, chat.Topic) ([]chat.Tool, error) {
	return nil, nil
}

// Validate takes any input but {"bad":…}.
func (t *told) Validate(_ chat.Tool, input json.RawMessage) error {
	if strings.Contains(string(input), "bad") {
		return &chat.InputError{Problems: []chat.InputProblem{{Pointer: "/bad", Message: "is not allowed"}}}
	}
	return nil
}

func newService(t *testing.T) (*service.Service, *repository.Store, *told) {
	t.Helper()
	store, err := repository.Open(t.Context(), repository.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	var told told
	svc := service.New(service.Deps{
		Store: store, Engine: &told, Live: &told, Tools: &told, Servers: &told, Policy: policy.New(store, slog.New(slog.DiscardHandler)),
	}, service.Options{CheckModel: func(name string) error {
		if name == "no/model" {
			return chat.Invalid("There is no model %s.", name)
		}
		return nil
	}})
	return svc, store, &told
}

func TestTopicsTakeTheDefaultModelAndRefuseUnknownOnes(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil || topic.Model != "demo/guide" || len(told.changes) != 1 {
		t.Errorf("got %+v, %v, %d changes", topic, err, len(told.changes))
	}
	unknown := "no/model"
	if _, err := svc.CreateTopic(t.Context(), chat.NewTopic{Model: unknown}); !errors.Is(err, chat.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := svc.UpdateTopic(t.Context(), topic.ID, chat.TopicPatch{Model: &unknown}); !errors.Is(err, chat.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if len(told.changes) != 1 {
		t.Error("a refused change was announced")
	}
}

func TestTheFirstMessageNamesTheTopic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"  write   a file\nand more", "write a file"},
		{strings.Repeat("é", 100), strings.Repeat("é", 59) + "…"},
		{"\n\t ", ""},
	} {
		svc, _, told := newService(t)
		topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := svc.Send(t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.File{MediaType: "a/b", URL: "data:,"}, chat.Text{Text: tt.text}}}); err != nil {
			t.Fatal(err)
		}
		if topic, err = svc.Topic(t.Context(), topic.ID); err != nil || topic.Title != tt.want {
			t.Errorf("got %q, %v, want %q", topic.Title, err, tt.want)
		}
		if told.wakes != 1 {
			t.Errorf("the engine was woken %d times", told.wakes)
		}
	}
}

// waiting makes a topic whose one call waits for a person.
func waiting(t *testing.T, svc *service.Service, store *repository.Store) (topicID, approvalID string) {
	t.Helper()
	return waitingFor(t, svc, store, "s")
}

// waitingFor is waiting for a tool of a given server.
func waitingFor(t *testing.T, svc *service.Service, store *repository.Store, server string) (topicID, approvalID string) {
	t.Helper()
	ctx := t.Context()
	topic, err := svc.CreateTopic(ctx, chat.NewTopic{})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := svc.Send(ctx, topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	w, _, ok, err := store.Claim(ctx, chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, "owner", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	f := chat.Fence{TopicID: topic.ID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: w.Turn.Epoch}
	_, err = store.CommitStep(ctx, f, chat.Step{Build: func(at time.Time) chat.Parts {
		return chat.Parts{chat.Ask(chat.ToolCall{
			Type: chat.DynamicTool, ToolName: "s__t", ToolCallID: "c", Input: json.RawMessage(`{"a":1}`),
			ToolMetadata: &chat.ToolMetadata{Server: server, ServerID: server, Tool: "t", InputSchema: json.RawMessage(`{}`), Verdict: chat.VerdictAsk},
		}, "approval-"+topic.ID, at)}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if parked, _, _, err := store.Park(ctx, f); err != nil || !parked {
		t.Fatal(parked, err)
	}
	return topic.ID, "approval-" + topic.ID
}

func TestAnEditIsCheckedBeforeItIsDecidedAndNotAfter(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	topic, id := waiting(t, svc, store)
	ada := chat.Decider{Name: "ada", Via: chat.ViaAPI}
	bad := []chat.Decision{{ApprovalID: id, Approved: true, UpdatedInput: json.RawMessage(`{"bad":1}`)}}
	var input *chat.InputError
	if _, err := svc.Decide(t.Context(), topic, bad, ada); !errors.As(err, &input) || input.Problems[0].Pointer != "/bad" {
		t.Errorf("got %v", err)
	}
	good := []chat.Decision{{ApprovalID: id, Approved: true, UpdatedInput: json.RawMessage(`{"good":1}`)}}
	before := told.wakes
	if d, err := svc.Decide(t.Context(), topic, good, ada); err != nil || d.Continuation != chat.ContinuationScheduled {
		t.Errorf("got %+v, %v", d, err)
	}
	if told.wakes != before+1 {
		t.Error("the engine was not woken by the last decision")
	}
	// Decided already: the answer is the conflict, whatever the schema says today.
	var lost *chat.DecidedError
	if _, err := svc.Decide(t.Context(), topic, bad, ada); !errors.As(err, &lost) || lost.DecidedBy != "ada" {
		t.Errorf("got %v", err)
	}
	if d, err := svc.Decide(t.Context(), topic, good, ada); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled || told.wakes != before+1 {
		t.Errorf("got %+v, %v, %d wakes", d, err, told.wakes)
	}
}

func TestAYesIsToTheToolThatThereIsNow(t *testing.T) {
	t.Parallel()
	ada := chat.Decider{Name: "ada", Via: chat.ViaAPI}
	for _, tt := range []struct {
		name   string
		change func(*told)
		want   error // nil: the yes is taken
	}{
		{"the same tool", func(*told) {}, nil},
		{"a changed schema", func(w *told) { w.schema = `{"type":"object"}` }, chat.ErrGone},
		{"a server that is switched off", func(w *told) { w.state = chat.ServerDisabled }, chat.ErrGone},
		{"a server that is being connected", func(w *told) { w.state = chat.ServerStarting }, nil},
		{"a server that is lost", func(w *told) { w.state = chat.ServerFailed }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, store, told := newService(t)
			topic, id := waiting(t, svc, store)
			tt.change(told)
			_, err := svc.Decide(t.Context(), topic, []chat.Decision{{ApprovalID: id, Approved: true}}, ada)
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v", err)
			}
			cards, _, err := svc.Approvals(t.Context(), chat.ApprovalFilter{TopicID: topic, Pending: true}, chat.Page{Limit: 10})
			if err != nil || len(cards) != 1 || cards[0].ApprovalID == id {
				t.Fatalf("the cards are %+v, %v", cards, err)
			}
			// A no needs no tool.
			if _, err := svc.Decide(t.Context(), topic, []chat.Decision{{ApprovalID: cards[0].ApprovalID}}, ada); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStopAndDeleteTellTheEngine(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	topic, _ := waiting(t, svc, store)
	if s, err := svc.Stop(t.Context(), topic); err != nil || s.Status != chat.TopicAborted || len(told.canceled) != 1 {
		t.Errorf("got %+v, %v, %v", s, err, told.canceled)
	}
	topic, _ = waiting(t, svc, store)
	if err := svc.DeleteTopic(t.Context(), topic); err != nil || len(told.canceled) != 2 {
		t.Errorf("got %v, %v", err, told.canceled)
	}
	topic, _ = waiting(t, svc, store)
	history, err := svc.Messages(t.Context(), topic, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.DeleteMessage(t.Context(), topic, history.Messages[0].ID); err != nil || len(told.canceled) != 3 {
		t.Errorf("got %v, %v", err, told.canceled)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	svc, _, _ := newService(t)
	ctx := t.Context()
	if err := svc.AddToken(ctx, "ada", "a bearer's secret"); err != nil {
		t.Fatal(err)
	}
	link, err := svc.NewLogin(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	session, who, err := svc.Login(ctx, link)
	if err != nil || who != "ada" {
		t.Fatal(who, err)
	}
	if _, _, err := svc.Login(ctx, link); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("a login link worked twice: %v", err)
	}
	if _, who, err := svc.SignIn(ctx, "a bearer's secret"); err != nil || who != "ada" {
		t.Errorf("got %s, %v", who, err)
	}
	if _, _, err := svc.Login(ctx, "a bearer's secret"); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("a token that lasts works as a link: %v", err)
	}
	for _, tt := range []struct {
		secret string
		kind   chat.TokenKind
		ok     bool
	}{
		{session, chat.TokenSession, true},
		{"a bearer's secret", chat.TokenBearer, true},
		{session, chat.TokenBearer, false}, // a cookie is no bearer token
		{"a bearer's secret", chat.TokenSession, false},
		{link, chat.TokenSession, false},
		{"", chat.TokenBearer, false},
	} {
		if who, err := svc.Authenticate(ctx, tt.secret, tt.kind); (err == nil) != tt.ok || tt.ok && who != "ada" {
			t.Errorf("%s as %s: %q, %v", tt.secret, tt.kind, who, err)
		}
	}
	if err := svc.Logout(ctx, session); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Authenticate(ctx, session, chat.TokenSession); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("a session outlives its logout: %v", err)
	}
}
