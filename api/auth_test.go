package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestEveryOperationButThePublicOnesAsksForCredentials(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	public := map[string]bool{"/healthz": true, "/readyz": true, "/openapi.yaml": true, "/docs": true, "/logout": true}
	for _, op := range operations {
		path, _, _ := strings.Cut(op.path, "?")
		if public[path] || path == "/login" || op.method == "POST" && path == "/session" {
			continue
		}
		got := b.do(op.method, op.path, op.body, "Authorization")
		got.problem(t, 401)
		if challenge := got.header.Get("WWW-Authenticate"); challenge != `Bearer realm="assent"` {
			t.Errorf("%s: WWW-Authenticate is %q", op.path, challenge)
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("the service was asked %q", call)
	}
	for path := range public {
		method := "GET"
		if path == "/logout" {
			method = "POST"
		}
		if got := b.do(method, path, "", "Authorization"); got.status >= 300 {
			t.Errorf("%s: answered %d without credentials", path, got.status)
		}
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const none, wrong = `Bearer realm="assent"`, `Bearer realm="assent", error="invalid_token"`
	for _, tt := range []struct {
		name    string
		headers []string
		body    string // of a 200
		asked   string // of a 401
	}{
		{"a token", nil, `{"principal":{"name":"ada"},"authentication":"bearer"}`, ""},
		{"a token, the scheme in capitals", []string{"Authorization", "Authorization: BEARER " + token}, `{"principal":{"name":"ada"},"authentication":"bearer"}`, ""},
		{"a cookie", []string{"Authorization", "Cookie: assent_session=" + session}, `{"principal":{"name":"ada"},"authentication":"cookie"}`, ""},
		{"a wrong token", []string{"Authorization", "Authorization: Bearer x"}, "", wrong},
		{"a wrong token beside a good cookie", []string{"Authorization", "Authorization: Bearer x", "Cookie: assent_session=" + session}, "", wrong},
		{"a token in the cookie", []string{"Authorization", "Cookie: assent_session=" + token}, "", wrong},
		{"a session as a token", []string{"Authorization", "Authorization: Bearer " + session}, "", wrong},
		{"another scheme", []string{"Authorization", "Authorization: Basic YTpi"}, "", none},
		{"no token", []string{"Authorization", "Authorization: Bearer"}, "", none},
		{"an empty cookie", []string{"Authorization", "Cookie: assent_session="}, "", none},
	} {
		got := b.do("GET", "/session", "", tt.headers...)
		if tt.asked != "" {
			got.problem(t, 401)
			if h := got.header.Get("WWW-Authenticate"); h != tt.asked {
				t.Errorf("%s: WWW-Authenticate is %q, want %q", tt.name, h, tt.asked)
			}
		} else if got.status != 200 || got.body != tt.body {
			t.Errorf("%s: answered %d %s, want %s", tt.name, got.status, got.body, tt.body)
		}
	}
	b.svc.login = fmt.Errorf("find token: %w", chat.ErrUnavailable)
	b.do("GET", "/session", "").problem(t, 503)
	b.svc.login = errors.New("no such column")
	b.do("GET", "/session", "").problem(t, 500)
}

func TestWhoDecidesAndByWhatWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		noAuth  bool
		headers []string
		want    chat.Decider
	}{
		{"a token", false, nil, chat.Decider{Name: "ada", Via: chat.ViaAPI}},
		{"a token in a browser", false, []string{"Sec-Fetch-Site: same-origin"}, chat.Decider{Name: "ada", Via: chat.ViaAPI}},
		{"a cookie", false, []string{"Authorization", "Cookie: assent_session=" + session}, chat.Decider{Name: "ada", Via: chat.ViaWeb}},
		{"nobody, with a program", true, []string{"Authorization"}, chat.Decider{Name: "owner", Via: chat.ViaAPI}},
		{"nobody, with a browser", true, []string{"Authorization", "Sec-Fetch-Site: same-origin"}, chat.Decider{Name: "owner", Via: chat.ViaWeb}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, func(o *Options) { o.NoAuth = tt.noAuth })
			if got := b.do("POST", "/topics/t1/approvals", `{"approvalId":"a1","approved":true}`, tt.headers...); got.status != 200 {
				t.Fatalf("answered %d %s", got.status, got.body)
			}
			if diff := cmp.Diff(tt.want, b.svc.by); diff != "" {
				t.Errorf("decider (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const cookie = "assent_session=a-session; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
	link := b.do("GET", "/login?token="+loginKey, "", "Authorization")
	if link.status != 303 || link.header.Get("Location") != "/" || link.header.Get("Set-Cookie") != cookie {
		t.Errorf("a login link: answered %d to %q with %q", link.status, link.header.Get("Location"), link.header.Get("Set-Cookie"))
	}
	b.svc.last()
	if head := b.bad("HEAD", "/login?token="+loginKey, "", "Authorization"); head.status != 303 || b.svc.last() != "" {
		t.Errorf("a look at a login link: answered %d, and it was used up", head.status)
	}
	pasted := b.do("POST", "/session", `{"token":" `+token+` "}`, "Authorization")
	if pasted.status != 200 || pasted.header.Get("Set-Cookie") != cookie || pasted.body != `{"principal":{"name":"ada"},"authentication":"cookie"}` {
		t.Errorf("a pasted token: answered %d %s with %q", pasted.status, pasted.body, pasted.header.Get("Set-Cookie"))
	}
	out := b.do("POST", "/logout", "", "Authorization", "Cookie: assent_session="+session)
	if out.status != 204 || out.header.Get("Set-Cookie") != "assent_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" || b.svc.last() != "Logout a-session" {
		t.Errorf("signing out: answered %d with %q", out.status, out.header.Get("Set-Cookie"))
	}
	secure := start(t, func(o *Options) { o.PublicURL = &url.URL{Scheme: "https", Host: "assent.example"} })
	if got := secure.do("POST", "/session", `{"token":"`+token+`"}`); !strings.Contains(got.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("under https the cookie is %q", got.header.Get("Set-Cookie"))
	}
	open := start(t, func(o *Options) { o.NoAuth = true })
	if got := open.do("GET", "/session", "", "Authorization"); got.body != `{"principal":{"name":"owner"},"authentication":"none"}` {
		t.Errorf("without authentication the session is %s", got.body)
	}
	if got := open.do("GET", "/login?token=x", "", "Authorization"); got.status != 303 || got.header.Get("Set-Cookie") != "" {
		t.Errorf("without authentication a link is answered %d with %q", got.status, got.header.Get("Set-Cookie"))
	}
}

func TestSignInsThatFail(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do("GET", "/login?token=x", "", "Authorization").problem(t, 401)
	b.bad("GET", "/login", "", "Authorization").problem(t, 401)
	page := b.do("GET", "/login?token=%3Cscript%3E", "", "Authorization", "Accept: text/html,*/*")
	if page.status != 401 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.body, "not valid any more") && !strings.Contains(page.body, "not any more") || strings.Contains(page.body, "<script") {
		t.Errorf("a person is shown %d %s", page.status, page.body)
	}
	b.do("POST", "/session", `{"token":"x"}`, "Authorization").problem(t, 401)
	for range 6 {
		b.do("POST", "/session", `{"token":"x"}`, "Authorization").problem(t, 401)
	}
	b.svc.last()
	for _, good := range []string{token, "x"} {
		got := b.do("POST", "/session", `{"token":"`+good+`"}`, "Authorization")
		got.problem(t, 429)
		if got.header.Get("Retry-After") == "" || got.header.Get("Set-Cookie") != "" {
			t.Errorf("after too many failures: %v", got.header)
		}
	}
	if call := b.svc.last(); call != "" {
		t.Errorf("after too many failures the service was asked %q", call)
	}
	if got := b.do("GET", "/topics", ""); got.status != 200 {
		t.Errorf("a token is answered %d after somebody's failures", got.status)
	}

	away := start(t, nil)
	away.svc.login = chat.ErrUnavailable
	for range maxFailures + 1 {
		away.do("POST", "/session", `{"token":"x"}`, "Authorization").problem(t, 503)
	}
}

func TestAStreamEndsWithTheSessionThatOpenedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := &fake{}
		a := New(Options{Service: svc, Models: fakeModels{}, Events: fakeEvents{}})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil)
		r.AddCookie(&http.Cookie{Name: cookieName, Value: session})
		ended := false
		go func() {
			a.untilRefused(t.Context(), r)
			ended = true
		}()
		refuse := func(err error) {
			svc.mu.Lock()
			svc.login = err
			svc.mu.Unlock()
			time.Sleep(recheckEvery)
			synctest.Wait()
		}
		for _, err := range []error{nil, chat.ErrUnavailable, nil} {
			if refuse(err); ended {
				t.Fatalf("the stream ended when its session was checked with %v", err)
			}
		}
		if refuse(chat.ErrNotFound); !ended {
			t.Error("the stream goes on after its session has ended")
		}
	})
}

func TestTheWatchOfAStreamEndsWithTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Service: &fake{}, Models: fakeModels{}, Events: fakeEvents{}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a.untilRefused(ctx, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)) // or the test never ends
	})
}
