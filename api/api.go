// Package api is the HTTP interface that openapi.yaml describes. A handler
// decodes, asks the service and encodes; it returns its errors, and one table
// turns them into problems (RFC 9457).
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/assent-chat/assent/service/chat"
)

// Service is what the handlers need of the server. An error that is a kind of
// chat becomes the problem of that kind; any other is an internal error.
type Service interface {
	Ping(ctx context.Context) error

	CreateTopic(ctx context.Context, t chat.NewTopic) (chat.Topic, error)
	Topic(ctx context.Context, topicID string) (chat.Topic, error)
	Topics(ctx context.Context, p chat.Page) (topics []chat.Topic, next string, err error)
	UpdateTopic(ctx context.Context, topicID string, p chat.TopicPatch) (chat.Topic, error)
	DeleteTopic(ctx context.Context, topicID string) error
	Status(ctx context.Context, topicID string) (chat.Status, error)
	Stop(ctx context.Context, topicID string) (chat.Status, error)

	Messages(ctx context.Context, topicID string, limit int, before string) (chat.Snapshot, error)
	Tree(ctx context.Context, topicID string) (messages []chat.Message, revision int64, err error)
	Send(ctx context.Context, topicID string, m chat.NewMessage) (chat.Sent, error)
	EditMessage(ctx context.Context, topicID, messageID string, m chat.NewMessage) (chat.Sent, error)
	DeleteMessage(ctx context.Context, topicID, messageID string) error
	SendQueued(ctx context.Context, topicID, messageID string) (chat.Sent, error)
	Regenerate(ctx context.Context, topicID, messageID string) (chat.Sent, error)
	Retry(ctx context.Context, topicID, messageID string) (chat.Sent, error)
	Select(ctx context.Context, topicID, messageID string) (chat.Topic, error)

	Decide(ctx context.Context, topicID string, ds []chat.Decision, by chat.Decider) (chat.Decided, error)
	Approvals(ctx context.Context, f chat.ApprovalFilter, p chat.Page) (approvals []chat.ApprovalItem, next string, err error)
	Audit(ctx context.Context, topicID string, p chat.Page) (entries []chat.AuditEntry, next string, err error)

	Rules(ctx context.Context) ([]chat.Rule, error)
	Rule(ctx context.Context, id string) (chat.Rule, error)
	CreateRule(ctx context.Context, n chat.NewRule, by chat.Decider) (chat.Rule, error)
	UpdateRule(ctx context.Context, id string, p chat.RulePatch, by chat.Decider) (chat.Rule, error)
	DeleteRule(ctx context.Context, id string, by chat.Decider) error
	RuleVersions(ctx context.Context, id string, p chat.Page) (changes []chat.RuleChange, next string, err error)
	TryRule(ctx context.Context, v chat.Verdict, expression string) (chat.RuleTrial, error)
	ExplainApproval(ctx context.Context, approvalID string) (chat.Explanation, error)
	ExplainCall(ctx context.Context, topicID, toolCallID string) (chat.Explanation, error)

	// MCPServers says how each tool server is doing; it waits for none of them.
	MCPServers(ctx context.Context) ([]chat.ServerInfo, error)
	MCPServer(ctx context.Context, id string) (chat.ServerInfo, error)
	MCPServerTools(ctx context.Context, id string) ([]chat.ServerTool, error)
	CreateMCPServer(ctx context.Context, s chat.MCPServer, by chat.Decider) (chat.ServerInfo, error)
	// ImportMCPServers adds the servers of a common settings file, all or none.
	ImportMCPServers(ctx context.Context, file []byte, skipExisting bool, by chat.Decider) (added []chat.ServerInfo, skipped []string, err error)
	UpdateMCPServer(ctx context.Context, id string, p chat.MCPServerPatch, by chat.Decider) (chat.ServerInfo, error)
	DeleteMCPServer(ctx context.Context, id string, by chat.Decider) error
	RestartMCPServer(ctx context.Context, id string) (chat.ServerInfo, error)
	// TestMCPServer connects to a server for a trial, which may take a minute.
	// A connection that fails is no error.
	TestMCPServer(ctx context.Context, s chat.MCPServer) (chat.ServerTrial, error)
	TestStoredMCPServer(ctx context.Context, id string, p chat.MCPServerPatch) (chat.ServerTrial, error)
	MCPServerVersions(ctx context.Context, id string, p chat.Page) (changes []chat.ServerChange, next string, err error)

	Assistants(ctx context.Context) ([]chat.Assistant, error)
	Assistant(ctx context.Context, id string) (chat.Assistant, error)
	CreateAssistant(ctx context.Context, n chat.NewAssistant) (chat.Assistant, error)
	UpdateAssistant(ctx context.Context, id string, p chat.AssistantPatch) (chat.Assistant, error)
	DeleteAssistant(ctx context.Context, id string) error

	AnswerQuestion(ctx context.Context, topicID, messageID, questionID string, a chat.Answer, by chat.Decider) (chat.Answered, error)
	Questions(ctx context.Context, p chat.Page) (questions []chat.QuestionItem, next string, err error)

	// Login takes the secret of a login link, which it uses up, and gives the
	// secret of a new session; ErrNotFound if it is none.
	Login(ctx context.Context, secret string) (session, principal string, err error)
	// SignIn takes a bearer token and gives the secret of a new session;
	// ErrNotFound if it is none.
	SignIn(ctx context.Context, bearer string) (session, principal string, err error)
	// Authenticate finds whose secret it is; ErrNotFound if nobody's.
	Authenticate(ctx context.Context, secret string, kind chat.TokenKind) (principal string, err error)
	Logout(ctx context.Context, session string) error
}

// Models says what can answer.
type Models interface {
	Models(ctx context.Context) []chat.ModelInfo
	Providers() []chat.ProviderInfo
}

// Options of an API. Service, Models and Events must be set.
type Options struct {
	Service Service
	Models  Models
	Events  EventSource
	// Page serves the browser's page; without it the paths of the page are
	// unknown ones. It is asked without authentication and must hold no data.
	Page   http.Handler
	Logger *slog.Logger // discards by default
	// Collectors tell /metrics more than requests, the runtime and the process.
	Collectors []prometheus.Collector
	// Hosts are the names, beside those of the loopback and of PublicURL, by
	// which the server may be called; a port is ignored. An unspecified address
	// ("0.0.0.0", "::") stands for every IP address.
	Hosts []string
	// PublicURL is where browsers find the server, nil if they are not told.
	PublicURL *url.URL
	// NoAuth takes every request as the owner's. It is for a server that
	// listens on the loopback only.
	NoAuth bool
	// Contract is openapi.yaml.
	Contract []byte
	// Now is the clock; time.Now by default. It is not used for deadlines.
	Now func() time.Time
	// MaxInFlight bounds the requests that are served at once, streams not
	// counted; 512 by default. What is beyond is answered 503.
	MaxInFlight int
}

// API serves the HTTP interface.
type API struct {
	svc      Service
	models   Models
	events   EventSource
	page     http.Handler
	log      *slog.Logger
	hosts    hostSet
	public   *url.URL
	noAuth   bool
	contract []byte
	now      func() time.Time

	leaving  atomic.Bool // see Leave
	streams  *streamer
	metrics  *metrics
	inFlight chan struct{}
	failures *httprate.RateLimiter // of sign-ins, by client address
	docs     func() (docsPage, error)
	router   chi.Router
}

// New returns an API. It starts nothing.
func New(opt Options) *API {
	a := &API{
		svc: opt.Service, models: opt.Models, events: opt.Events, page: opt.Page,
		log:    cmp.Or(opt.Logger, slog.New(slog.DiscardHandler)),
		hosts:  newHostSet(opt.Hosts, opt.PublicURL),
		public: opt.PublicURL, noAuth: opt.NoAuth, contract: opt.Contract, now: opt.Now,
		metrics:  newMetrics(opt.Collectors),
		inFlight: make(chan struct{}, cmp.Or(opt.MaxInFlight, 512)),
		failures: newFailureLimit(),
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.docs = sync.OnceValues(func() (docsPage, error) { return renderDocs(a.contract) })
	a.streams = newStreamer(opt.Events, a.log)
	a.router = a.routes()
	return a
}

// Handler serves the interface, and the page if there is one.
func (a *API) Handler() http.Handler { return a.router }

// Leave says to whoever asks that the server is not ready, and asks clients to
// come back on other connections. Otherwise it serves on.
func (a *API) Leave() { a.leaving.Store(true) }

// sendElsewhere has clients of a server that leaves come back on connections
// that a load balancer sends elsewhere.
func (a *API) sendElsewhere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Shutdown ends the open streams, each with a word of farewell. It returns
// when all have ended, or with the context's error.
func (a *API) Shutdown(ctx context.Context) error { return a.streams.shutdown(ctx) }
