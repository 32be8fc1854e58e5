package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/httprate"

	"github.com/assent-chat/assent/service/chat"
)

const (
	cookieName = "assent_session"
	// cookieLife is how long a browser keeps the cookie. The session that it
	// names may end sooner.
	cookieLife = 30 * 24 * time.Hour
	owner      = "owner"
)

// authentication is how a request showed whose it is.
type authentication string

const (
	byCookie authentication = "cookie"
	byBearer authentication = "bearer"
	byNone   authentication = "none" // none is asked for
)

// identity is who sends a request.
type identity struct {
	principal string
	by        authentication
}

type identityKey struct{}

// identityFrom is who sends the request; a.authenticate has put it there.
func identityFrom(r *http.Request) identity {
	id, _ := r.Context().Value(identityKey{}).(identity)
	return id
}

// authenticate lets those pass who show whose they are.
func (a *API) authenticate(next http.Handler) http.Handler {
	return a.handle(func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout) // a stream has no time limit of its own
		id, err := a.identify(ctx, r)
		cancel()
		if err != nil {
			if errors.Is(err, chat.ErrNotFound) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="assent", error="invalid_token"`)
				return newProblem(http.StatusUnauthorized, "The token or session is not valid any more.")
			}
			return err
		}
		if id.principal == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="assent"`)
			return newProblem(http.StatusUnauthorized, "Send a bearer token or sign in.")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
		return nil
	})
}

// ownerOnly lets the owner pass, and nobody else: the command of a tool server
// runs as the user of this program.
func (a *API) ownerOnly(next http.Handler) http.Handler {
	return a.handle(func(w http.ResponseWriter, r *http.Request) error {
		if err := checkOwner(r); err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

func checkOwner(r *http.Request) error {
	if identityFrom(r).principal == owner {
		return nil
	}
	return &chat.Error{Kind: chat.ErrForbidden, Detail: "Only the owner may add, change, test, restart and delete tool servers."}
}

// identify finds who sends the request; nobody if it brings no credentials. A
// token that is not valid is not made up for by a cookie that is.
func (a *API) identify(ctx context.Context, r *http.Request) (identity, error) {
	if a.noAuth {
		return identity{owner, byNone}, nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
			return identity{}, nil
		}
		principal, err := a.svc.Authenticate(ctx, token, chat.TokenBearer)
		return identity{principal, byBearer}, err
	}
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		principal, err := a.svc.Authenticate(ctx, c.Value, chat.TokenSession)
		return identity{principal, byCookie}, err
	}
	return identity{}, nil
}

// decider is who decides with this request, and by what way. Without
// authentication a browser is known by a header that no script can set.
func decider(r *http.Request) chat.Decider {
	id := identityFrom(r)
	via := chat.ViaAPI
	if id.by == byCookie || id.by == byNone && r.Header.Get("Sec-Fetch-Site") != "" {
		via = chat.ViaWeb
	}
	return chat.Decider{Name: id.principal, Via: via}
}

type sessionAnswer struct {
	Principal struct {
		Name string `json:"name"`
	} `json:"principal"`
	Authentication authentication `json:"authentication"`
}

func answerOf(id identity) sessionAnswer {
	answer := sessionAnswer{Authentication: id.by}
	answer.Principal.Name = id.principal
	return answer
}

func (a *API) getSession(w http.ResponseWriter, r *http.Request) error {
	return a.respond(w, r, http.StatusOK, answerOf(identityFrom(r)))
}

type signIn struct {
	Token string `json:"token" validate:"required,max=500"`
}

func (a *API) createSession(w http.ResponseWriter, r *http.Request) error {
	in, err := decode[signIn](w, r, maxBody)
	if err != nil {
		return err
	}
	id, err := a.startSession(w, r, strings.TrimSpace(in.Token), a.svc.SignIn)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, answerOf(id))
}

// login follows a login link. What only looks whether the link is there must
// not use it up.
func (a *API) login(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	_, err := a.startSession(w, r, r.URL.Query().Get("token"), a.svc.Login)
	p, refused := errors.AsType[*problem](err)
	if refused && strings.Contains(r.Header.Get("Accept"), "text/html") {
		return a.loginRefused(w, p)
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// startSession exchanges a secret for a session and sets its cookie. Failures
// are counted for each address; there, a secret is not even looked at when
// there were too many.
func (a *API) startSession(w http.ResponseWriter, r *http.Request, secret string,
	exchange func(ctx context.Context, secret string) (session, principal string, err error),
) (identity, error) {
	if a.noAuth {
		return identity{owner, byNone}, nil
	}
	address := clientAddress(r)
	if below, rate, err := a.failures.Status(address); err != nil || !below || rate >= maxFailures {
		return identity{}, tooManyFailures(w)
	}
	err := error(chat.ErrNotFound)
	var session, principal string
	if secret != "" {
		session, principal, err = exchange(r.Context(), secret)
	}
	if errors.Is(err, chat.ErrNotFound) {
		if a.failures.OnLimit(w, r, address) {
			return identity{}, tooManyFailures(w)
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="assent"`)
		return identity{}, newProblem(http.StatusUnauthorized, "This token or login link is not valid, or not any more.")
	}
	if err != nil {
		return identity{}, err
	}
	a.setCookie(w, session, int(cookieLife/time.Second))
	return identity{principal, byCookie}, nil
}

func (a *API) logout(w http.ResponseWriter, r *http.Request) error {
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		if err := a.svc.Logout(r.Context(), c.Value); err != nil && !errors.Is(err, chat.ErrNotFound) {
			return err
		}
	}
	a.setCookie(w, "", -1)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.public != nil && a.public.Scheme == "https",
	})
}

// Sign-ins that may fail for one address within a minute.
const (
	maxFailures   = 10
	failureWindow = time.Minute
)

func newFailureLimit() *httprate.RateLimiter {
	// Its headers would tell a stranger how often others have failed.
	return httprate.NewRateLimiter(maxFailures, failureWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
}

func tooManyFailures(w http.ResponseWriter) error {
	w.Header().Set("Retry-After", "60")
	return newProblem(http.StatusTooManyRequests, "Too many sign-ins failed; wait a minute.")
}

// clientAddress is the address that the connection came from. What a proxy
// says of the client is not used: anybody can say it.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
