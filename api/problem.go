package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/assent-chat/assent/service/chat"
)

// problem is an RFC 9457 error body. A handler may return one as its error.
type problem struct {
	Type     string             `json:"type"`
	Title    string             `json:"title"`
	Status   int                `json:"status"`
	Detail   string             `json:"detail,omitempty"`
	Errors   any                `json:"errors,omitempty"`
	Decision *chat.DecidedError `json:"decision,omitempty"`
}

func (p *problem) Error() string { return p.Detail }

// batchError is one decision that stood in the way of its batch.
type batchError struct {
	ApprovalID string             `json:"approvalId"`
	Status     int                `json:"status"`
	Detail     string             `json:"detail"`
	Decision   *chat.DecidedError `json:"decision,omitempty"`
}

// titles gives each status its problem's type and title.
var titles = map[int]struct{ slug, title string }{
	http.StatusBadRequest:            {"malformed", "Malformed request"},
	http.StatusUnauthorized:          {"unauthenticated", "Not signed in"},
	http.StatusForbidden:             {"forbidden", "Forbidden"},
	http.StatusNotFound:              {"not-found", "Not found"},
	http.StatusMethodNotAllowed:      {"method", "Method not allowed"},
	http.StatusConflict:              {"conflict", "Conflict"},
	http.StatusGone:                  {"gone", "Gone"},
	http.StatusRequestEntityTooLarge: {"too-large", "Request too large"},
	http.StatusUnsupportedMediaType:  {"media-type", "Unsupported media type"},
	http.StatusMisdirectedRequest:    {"misdirected", "Unknown host"},
	http.StatusUnprocessableEntity:   {"invalid", "Invalid request"},
	http.StatusTooManyRequests:       {"too-many-requests", "Too many requests"},
	http.StatusServiceUnavailable:    {"unavailable", "Unavailable"},
}

func newProblem(status int, detail string) *problem {
	t := titles[status]
	return &problem{Type: "/problems/" + t.slug, Title: t.title, Status: status, Detail: detail}
}

// kinds is the mapping from the kinds of failure to HTTP. First match wins.
// The sentence stands where the failure brings none that may be shown: shows
// tells which may be.
var kinds = []struct {
	err      error
	status   int
	sentence string
	shows    func(*chat.Error) bool
}{
	{chat.ErrUnavailable, http.StatusServiceUnavailable, "The server cannot do this right now; try again.", unavailable},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "The server took too long; it may or may not have been done.", none},
	{chat.ErrForbidden, http.StatusForbidden, "Only the owner may do this.", every},
	{chat.ErrNotFound, http.StatusNotFound, "There is no such thing here.", every},
	{chat.ErrGone, http.StatusGone, "It is gone.", every},
	{chat.ErrConflict, http.StatusConflict, "This is not possible as things stand.", every},
	{chat.ErrInvalid, http.StatusUnprocessableEntity, "A rule does not allow this.", every},
	{chat.ErrMalformed, http.StatusBadRequest, "The request cannot be understood.", every},
}

func every(*chat.Error) bool { return true }
func none(*chat.Error) bool  { return false }

// unavailable are those that say why; what else went wrong is no answer to that.
func unavailable(e *chat.Error) bool { return errors.Is(e.Kind, chat.ErrUnavailable) }

// problemFor says how an error is answered. The text of an error is shown
// only where its type says that it may be.
func problemFor(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*chat.BatchError](err); ok {
		p := newProblem(http.StatusConflict, sentence(e.Error()))
		p.Type, p.Title = "/problems/batch", "The batch was not applied"
		items := make([]batchError, len(e.Items))
		for i, item := range e.Items {
			alone := problemFor(item.Err)
			items[i] = batchError{item.ApprovalID, alone.Status, alone.Detail, alone.Decision}
		}
		p.Errors = items
		return p
	}
	if e, ok := errors.AsType[*chat.DecidedError](err); ok {
		p := newProblem(http.StatusConflict, sentence(e.Error()))
		p.Type, p.Title, p.Decision = "/problems/decided", "Already decided", e
		return p
	}
	if e, ok := errors.AsType[*chat.InputError](err); ok {
		p := newProblem(http.StatusUnprocessableEntity, sentence(e.Error()))
		p.Type, p.Title = "/problems/invalid-input", "Invalid input"
		if len(e.Problems) > 0 {
			p.Errors = e.Problems
		}
		return p
	}
	for _, k := range kinds {
		if !errors.Is(err, k.err) {
			continue
		}
		p := newProblem(k.status, k.sentence)
		if details := detailsOf(err, k.shows); len(details) > 0 {
			p.Detail = strings.Join(details, " ")
		}
		return p
	}
	return &problem{Type: "about:blank", Title: "Internal error", Status: http.StatusInternalServerError}
}

// detailsOf collects the sentences of an error that may be shown: several if
// several things are wrong at once.
func detailsOf(err error, shows func(*chat.Error) bool) []string {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case *chat.Error:
		if !shows(e) {
			return nil
		}
		return []string{e.Detail}
	case interface{ Unwrap() error }:
		return detailsOf(e.Unwrap(), shows)
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range e.Unwrap() {
			all = append(all, detailsOf(one, shows)...)
		}
		return all
	}
	return nil
}

// sentence makes an error's text one that a person may read.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first := text[0]
	if 'a' <= first && first <= 'z' {
		first -= 'a' - 'A'
	}
	if text[len(text)-1] != '.' {
		text += "."
	}
	return string(first) + text[1:]
}

// handler is an http.HandlerFunc that may fail instead of answering.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle answers what h returns.
func (a *API) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// fail answers an error, and logs it if it is the server's. A client that has
// left is answered nothing.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p := problemFor(err)
	if p.Status >= http.StatusInternalServerError {
		a.log.LogAttrs(ctx, slog.LevelError, "request failed",
			slog.String("method", r.Method), slog.String("route", routeOf(r)), slog.Int("status", p.Status),
			slog.String("request_id", middleware.GetReqID(ctx)), slog.Any("error", err))
	}
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "2")
	}
	setSecurityHeaders(w.Header())
	a.write(w, r, p.Status, "application/problem+json", p)
}

// respond answers with v as JSON.
func (a *API) respond(w http.ResponseWriter, r *http.Request, status int, v any) error {
	a.write(w, r, status, "application/json", v)
	return nil
}

func (a *API) write(w http.ResponseWriter, r *http.Request, status int, mediaType string, v any) {
	body, err := chat.Marshal(v)
	if err != nil {
		a.log.LogAttrs(r.Context(), slog.LevelError, "answer not encoded", slog.String("route", routeOf(r)), slog.Any("error", err))
		status, mediaType, body = http.StatusInternalServerError, "application/problem+json",
			[]byte(`{"type":"about:blank","title":"Internal error","status":500}`)
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has left; nobody to tell
}
