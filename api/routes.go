package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

const (
	// requestTimeout bounds what a request may take, streams and trials of tool
	// servers excepted.
	requestTimeout = 30 * time.Second
	// trialTimeout is that of a trial: programs may have to be fetched first.
	trialTimeout = 75 * time.Second
	// answerTimeout bounds how long a client may take over its answer, from
	// the request on. Streams set deadlines of their own.
	answerTimeout = 2 * time.Minute
)

// routes is the whole interface. Each path is a path of openapi.yaml.
func (a *API) routes() chi.Router {
	r := chi.NewRouter()
	r.Use(a.sendElsewhere, limitWrites, checkRequestID, middleware.RequestID, a.observe, a.recoverPanics, a.checkHost, middleware.GetHead)
	r.NotFound(a.handle(notFound).ServeHTTP)
	r.MethodNotAllowed(a.handle(a.methodNotAllowed).ServeHTTP)

	if a.page != nil {
		for _, path := range []string{"/", "/t/*", "/settings", "/settings/*", "/assets/*", "/favicon.svg", "/licenses.txt"} {
			r.Method(http.MethodGet, path, a.page)
		}
	}

	r.Group(func(r chi.Router) {
		r.Use(securityHeaders, a.checkOrigin)
		r.Group(func(r chi.Router) { // anybody
			r.Use(limitTime(requestTimeout))
			r.Method(http.MethodGet, "/healthz", a.handle(healthz))
			r.Method(http.MethodGet, "/readyz", a.handle(a.readyz))
			r.Method(http.MethodGet, "/openapi.yaml", a.handle(a.getContract))
			r.Method(http.MethodGet, "/docs", a.handle(a.getDocs))

			r.Group(func(r chi.Router) {
				r.Use(a.limitInFlight)
				r.Method(http.MethodGet, "/login", a.handle(a.login))
				r.Method(http.MethodPost, "/session", a.handle(a.createSession))
				r.Method(http.MethodPost, "/logout", a.handle(a.logout))
			})
		})

		r.Group(func(r chi.Router) { // a principal, for as long as they like
			r.Use(a.authenticate)
			r.Method(http.MethodGet, "/events", a.handle(a.streamAll))
			r.Method(http.MethodGet, "/topics/{topicId}/events", a.handle(a.streamTopic))
		})

		r.Group(func(r chi.Router) { // the owner, who has more time
			r.Use(limitTime(trialTimeout), a.limitInFlight, a.authenticate, a.ownerOnly)
			r.Method(http.MethodPost, "/mcp-servers/test", a.handle(a.testNewServer))
			r.Method(http.MethodPost, "/mcp-servers/{serverId}/test", a.handle(a.testServer))
		})

		r.Group(func(r chi.Router) { // a principal
			r.Use(limitTime(requestTimeout), a.limitInFlight, a.authenticate)
			r.Method(http.MethodGet, "/topics", a.handle(a.listTopics))
			r.Method(http.MethodPost, "/topics", a.handle(a.createTopic))
			r.Method(http.MethodGet, "/topics/{topicId}", a.handle(a.getTopic))
			r.Method(http.MethodPatch, "/topics/{topicId}", a.handle(a.updateTopic))
			r.Method(http.MethodDelete, "/topics/{topicId}", a.handle(a.deleteTopic))
			r.Method(http.MethodGet, "/topics/{topicId}/status", a.handle(a.getStatus))
			r.Method(http.MethodPost, "/topics/{topicId}/stop", a.handle(a.stopTopic))

			r.Method(http.MethodGet, "/topics/{topicId}/messages", a.handle(a.listMessages))
			r.Method(http.MethodPost, "/topics/{topicId}/messages", a.handle(a.sendMessage))
			r.Method(http.MethodPatch, "/topics/{topicId}/messages/{messageId}", a.handle(a.editMessage))
			r.Method(http.MethodDelete, "/topics/{topicId}/messages/{messageId}", a.handle(a.deleteMessage))
			r.Method(http.MethodPost, "/topics/{topicId}/messages/{messageId}/send", a.handle(a.sendQueued))
			r.Method(http.MethodPost, "/topics/{topicId}/messages/{messageId}/regenerate", a.handle(a.regenerate))
			r.Method(http.MethodPost, "/topics/{topicId}/messages/{messageId}/retry", a.handle(a.retry))
			r.Method(http.MethodPost, "/topics/{topicId}/messages/{messageId}/select", a.handle(a.selectMessage))

			r.Method(http.MethodGet, "/topics/{topicId}/approvals", a.handle(a.listTopicApprovals))
			r.Method(http.MethodPost, "/topics/{topicId}/approvals", a.handle(a.decide))
			r.Method(http.MethodGet, "/approvals", a.handle(a.listApprovals))
			r.Method(http.MethodPost, "/topics/{topicId}/messages/{messageId}/questions/{questionId}", a.handle(a.answerQuestion))
			r.Method(http.MethodGet, "/questions", a.handle(a.listQuestions))
			r.Method(http.MethodGet, "/audit", a.handle(a.listAudit))

			r.Method(http.MethodGet, "/policy/rules", a.handle(a.listRules))
			r.Method(http.MethodPost, "/policy/rules", a.handle(a.createRule))
			r.Method(http.MethodPost, "/policy/rules/try", a.handle(a.tryRule))
			r.Method(http.MethodGet, "/policy/rules/{ruleId}", a.handle(a.getRule))
			r.Method(http.MethodPatch, "/policy/rules/{ruleId}", a.handle(a.updateRule))
			r.Method(http.MethodDelete, "/policy/rules/{ruleId}", a.handle(a.deleteRule))
			r.Method(http.MethodGet, "/policy/rules/{ruleId}/versions", a.handle(a.listRuleVersions))
			r.Method(http.MethodGet, "/policy/explain", a.handle(a.explain))

			r.Method(http.MethodGet, "/mcp-servers", a.handle(a.listServers))
			r.Method(http.MethodGet, "/mcp-servers/{serverId}", a.handle(a.getServer))
			r.Method(http.MethodPatch, "/mcp-servers/{serverId}", a.handle(a.updateServer))
			r.Method(http.MethodGet, "/mcp-servers/{serverId}/tools", a.handle(a.listServerTools))
			r.Method(http.MethodGet, "/mcp-servers/{serverId}/versions", a.handle(a.listServerVersions))
			r.Group(func(r chi.Router) { // the owner
				r.Use(a.ownerOnly)
				r.Method(http.MethodPost, "/mcp-servers", a.handle(a.createServer))
				r.Method(http.MethodPost, "/mcp-servers/import", a.handle(a.importServers))
				r.Method(http.MethodDelete, "/mcp-servers/{serverId}", a.handle(a.deleteServer))
				r.Method(http.MethodPost, "/mcp-servers/{serverId}/restart", a.handle(a.restartServer))
			})

			r.Method(http.MethodGet, "/assistants", a.handle(a.listAssistants))
			r.Method(http.MethodPost, "/assistants", a.handle(a.createAssistant))
			r.Method(http.MethodGet, "/assistants/{assistantId}", a.handle(a.getAssistant))
			r.Method(http.MethodPatch, "/assistants/{assistantId}", a.handle(a.updateAssistant))
			r.Method(http.MethodDelete, "/assistants/{assistantId}", a.handle(a.deleteAssistant))

			r.Method(http.MethodGet, "/models", a.handle(a.listModels))
			r.Method(http.MethodGet, "/providers", a.handle(a.listProviders))
			r.Method(http.MethodGet, "/session", a.handle(a.getSession))
			r.Method(http.MethodGet, "/metrics", a.metrics.handler())
		})
	})
	return r
}

// limitTime gives a request a deadline. Handlers see it as their context's;
// the problem table answers it.
func limitTime(timeout time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// limitWrites gives the connection a deadline for the answer. It is set anew
// for each request of a connection, and so never ends a later one.
func limitWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // a test's writer knows none
		next.ServeHTTP(w, r)
	})
}

// limitInFlight refuses at once what the server has no room for: a request
// that waits for its turn holds a connection and helps nobody.
func (a *API) limitInFlight(next http.Handler) http.Handler {
	return a.handle(func(w http.ResponseWriter, r *http.Request) error {
		select {
		case a.inFlight <- struct{}{}:
			defer func() { <-a.inFlight }()
			next.ServeHTTP(w, r)
			return nil
		default:
			return newProblem(http.StatusServiceUnavailable, "The server has too much to do; try again.")
		}
	})
}

func notFound(http.ResponseWriter, *http.Request) error {
	return newProblem(http.StatusNotFound, "There is nothing at this path.")
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	if r.URL.RawPath != "" { // it is what the router looks at
		path = r.URL.RawPath
	}
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if a.router.Match(chi.NewRouteContext(), m, path) {
			allow = append(allow, m)
		}
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	return newProblem(http.StatusMethodNotAllowed, "This path takes "+strings.Join(allow, ", ")+".")
}
