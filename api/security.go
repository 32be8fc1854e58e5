package api

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/assent-chat/assent/service/chat"
)

// hostSet is the names by which the server may be called. A page of another
// origin whose name was made to resolve to this server (DNS rebinding) sends
// its own name, and is refused by it.
type hostSet struct {
	names map[string]bool
	anyIP bool // listening everywhere: an address cannot be rebound
}

func newHostSet(hosts []string, public *url.URL) hostSet {
	s := hostSet{names: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	for _, h := range hosts {
		name := hostName(h)
		if ip, err := netip.ParseAddr(name); err == nil && ip.IsUnspecified() {
			s.anyIP = true
		} else if name != "" {
			s.names[name] = true
		}
	}
	if public != nil {
		s.names[hostName(public.Host)] = true
	}
	return s
}

func (s hostSet) allows(host string) bool {
	name := hostName(host)
	if s.names[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return s.anyIP && err == nil
}

// hostName is a Host header's name or address, without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// checkHost refuses requests that were meant for another server.
func (a *API) checkHost(next http.Handler) http.Handler {
	return a.handle(func(w http.ResponseWriter, r *http.Request) error {
		if !a.hosts.allows(r.Host) {
			return newProblem(http.StatusMisdirectedRequest, "This server does not answer to that host name.")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// checkOrigin refuses requests that change something and were made by a page
// of another origin. Programs send neither header.
func (a *API) checkOrigin(next http.Handler) http.Handler {
	return a.handle(func(w http.ResponseWriter, r *http.Request) error {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
		default:
			if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" || !a.ownOrigin(r) {
				p := newProblem(http.StatusForbidden, "Requests that change something are taken from this server's own pages only.")
				p.Type, p.Title = "/problems/cross-origin", "Request from another origin"
				return p
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// ownOrigin reports whether the request's Origin, if there is one, is the
// server's own. Behind a proxy the server does not see whether it is called by
// https; under its public name it must be as the public URL says.
func (a *API) ownOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	o, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || o.Host == "" || o.Path != "" {
		return false
	}
	if a.public != nil && strings.EqualFold(o.Host, a.public.Host) {
		return o.Scheme == a.public.Scheme
	}
	return (o.Scheme == "http" || o.Scheme == "https") && strings.EqualFold(o.Host, r.Host)
}

// securityHeaders are those of every answer that is not the page's.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		next.ServeHTTP(w, r)
	})
}

func setSecurityHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// checkRequestID keeps an id that a proxy gave if it can be logged as it is,
// and makes one otherwise.
func checkRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(middleware.RequestIDHeader); !isID(id) {
			r.Header.Set(middleware.RequestIDHeader, rand.Text())
		}
		w.Header().Set(middleware.RequestIDHeader, r.Header.Get(middleware.RequestIDHeader))
		next.ServeHTTP(w, r)
	})
}

// recoverPanics answers a handler's panic as an internal error, if nothing was
// answered yet, and keeps the server alive.
func (a *API) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it, too
				panic(v)
			}
			a.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
				slog.String("request_id", middleware.GetReqID(r.Context())), slog.String("stack", string(debug.Stack())))
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			a.fail(w, r, errors.New("panic: "+chat.PanicText(v)))
		}()
		next.ServeHTTP(w, r)
	})
}
