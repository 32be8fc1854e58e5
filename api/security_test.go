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

	"github.com/assent-chat/assent/service/chat"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) {
		o.Hosts = []string{"box.lan:8420", "192.0.2.7"}
		o.PublicURL = &url.URL{Scheme: "https", Host: "Assent.Example"}
	})
	for _, host := range []string{"localhost", "LOCALHOST:99", "127.0.0.1:8420", "[::1]:8420", "[::1]", "box.lan", "box.lan.:1", "192.0.2.7:8420", "assent.example", "assent.example:443"} {
		if got := b.do("GET", "/topics", "", "Host: "+host); got.status != 200 {
			t.Errorf("%s: answered %d", host, got.status)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:8420", "localhost.evil.example", "assent.example.evil", "192.0.2.8", "127.0.0.1.nip.io", "0.0.0.0:8420", "x@localhost"} {
		for _, path := range []string{"/topics", "/healthz", "/", "/login?token=" + loginKey, "/metrics"} {
			b.do("GET", path, "", "Host: "+host).problem(t, 421)
		}
	}
	everywhere := newHostSet([]string{"0.0.0.0:8420"}, nil)
	for host, want := range map[string]bool{"192.0.2.8:8420": true, "[2001:db8::1]": true, "evil.example": false, "": false} {
		if everywhere.allows(host) != want {
			t.Errorf("listening everywhere, %q is allowed: %t", host, !want)
		}
	}
}

func TestRequestsFromOtherOrigins(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.PublicURL = &url.URL{Scheme: "https", Host: "assent.example"} })
	self := strings.TrimPrefix(b.url, "http://")
	for _, tt := range []struct {
		headers []string
		status  int
	}{
		{nil, 200},
		{[]string{"Origin: http://" + self}, 200},
		{[]string{"Origin: http://" + self, "Sec-Fetch-Site: same-origin"}, 200},
		{[]string{"Sec-Fetch-Site: none"}, 200},
		{[]string{"Host: assent.example", "Origin: https://assent.example"}, 200},
		{[]string{"Host: assent.example", "Origin: http://assent.example"}, 403},
		{[]string{"Origin: null"}, 403},
		{[]string{"Origin: https://evil.example"}, 403},
		{[]string{"Origin: http://127.0.0.1:1"}, 403},
		{[]string{"Origin: file://" + self}, 403},
		{[]string{"Origin: http://" + self + "/x"}, 403},
		{[]string{"Origin: http://" + self, "Origin: https://evil.example"}, 403},
		{[]string{"Sec-Fetch-Site: cross-site"}, 403},
		{[]string{"Sec-Fetch-Site: same-site"}, 403},
	} {
		for _, noToken := range []bool{false, true} {
			headers := tt.headers
			if noToken {
				headers = append([]string{"Authorization", "Cookie: assent_session=" + session}, headers...)
			}
			got := b.do("POST", "/topics/t1/stop", "", headers...)
			if got.status != tt.status {
				t.Errorf("%q: answered %d, want %d", headers, got.status, tt.status)
			}
			if tt.status == 403 {
				got.problem(t, 403)
			}
		}
	}
	for _, path := range []string{"/logout", "/session"} {
		b.bad("POST", path, `{"token":"`+token+`"}`, "Origin: https://evil.example").problem(t, 403)
	}
	if got := b.do("GET", "/topics", "", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"); got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page's read: %d, allowed for %q", got.status, got.header.Get("Access-Control-Allow-Origin"))
	}
}

func TestHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, got := range []answer{b.do("GET", "/topics", ""), b.do("GET", "/nothing", ""), b.do("GET", "/topics", "", "Host: evil.example"), b.do("PUT", "/topics", "")} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if h := got.header.Get(name); h != want {
				t.Errorf("%d: %s is %q, want %q", got.status, name, h, want)
			}
		}
	}
	if got := b.do("GET", "/topics", "", "X-Request-Id: from-a-proxy"); got.header.Get("X-Request-Id") != "from-a-proxy" {
		t.Errorf("a proxy's request id becomes %q", got.header.Get("X-Request-Id"))
	}
	if got := b.do("GET", "/topics", "", "X-Request-Id: a b\tlevel=ERROR"); len(got.header.Get("X-Request-Id")) != 26 {
		t.Errorf("a bad request id becomes %q", got.header.Get("X-Request-Id"))
	}
	page := b.do("GET", "/t/abc", "", "Authorization")
	if page.body != "the page" || page.header.Get("Content-Security-Policy") != "" || page.header.Get("Cache-Control") != "" {
		t.Errorf("the page is answered %q with %v", page.body, page.header)
	}
}

func TestTheLogTellsRoutesAndNoSecrets(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do("GET", "/login?token="+loginKey, "", "Authorization")
	b.do("POST", "/session", `{"token":"`+token+`"}`)
	b.do("POST", "/topics/t1/messages", `{"text":"my prompt"}`)
	b.do("GET", "/topics/secret-topic", "")
	b.svc.mu.Lock()
	b.svc.err = errors.New("broken pipe")
	b.svc.mu.Unlock()
	b.do("GET", "/topics/t1?x=my-query", "").problem(t, 500)
	b.client.CloseIdleConnections()
	log := b.log.String()
	for _, want := range []string{"route=/login status=303", "method=POST route=/topics/{topicId}/messages status=202", "route=/topics/{topicId} status=404", "request_id=", `error="broken pipe"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	for _, secret := range []string{loginKey, token, "my prompt", "secret-topic", "my-query"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log tells %q:\n%s", secret, log)
		}
	}
}

func TestMetricsCountByRouteAndStatus(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do("GET", "/topics/t1", "")
	b.do("GET", "/topics/t2", "")
	b.do("GET", "/no/such/path", "")
	got := b.do("GET", "/metrics", "").body
	for _, want := range []string{
		`assent_http_request_duration_seconds_count{method="GET",route="/topics/{topicId}",status="200"} 1`,
		`assent_http_request_duration_seconds_count{method="GET",route="/topics/{topicId}",status="404"} 1`,
		`assent_http_request_duration_seconds_count{method="GET",route="unmatched",status="404"} 1`,
		"assent_http_open_streams 0", "go_goroutines ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.svc.panic = "a secret"
	got := b.do("GET", "/topics/t1", "")
	got.problem(t, 500)
	if strings.Contains(got.body, "secret") || !strings.Contains(b.log.String(), "handler panicked") {
		t.Errorf("answered %s, logged %s", got.body, b.log)
	}
	b.svc.panic = ""
	if got := b.do("GET", "/topics/t1", ""); got.status != 200 {
		t.Errorf("after a panic: answered %d", got.status)
	}
}

// blocking is a Service whose reads wait until they are let go.
type blocking struct {
	*fake
	entered, release chan struct{}
}

func (s *blocking) Topic(ctx context.Context, id string) (chat.Topic, error) {
	if _, ok := ctx.Deadline(); !ok {
		return chat.Topic{}, errors.New("the request has no deadline")
	}
	s.entered <- struct{}{}
	<-s.release
	return s.fake.Topic(ctx, id)
}

func TestWhatThereIsNoRoomForIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	svc := &blocking{&fake{}, make(chan struct{}), make(chan struct{})}
	b := start(t, func(o *Options) { o.Service, o.MaxInFlight = svc, 1 })
	first := make(chan answer)
	go func() { first <- b.do("GET", "/topics/t1", "") }()
	<-svc.entered
	full := b.do("GET", "/topics", "")
	full.problem(t, 503)
	if full.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if got := b.do("GET", "/healthz", ""); got.status != 200 {
		t.Errorf("a busy server's health is answered %d", got.status)
	}
	close(svc.release)
	if got := <-first; got.status != 200 {
		t.Errorf("the first request: answered %d %s", got.status, got.body)
	}
	if got := b.do("GET", "/topics", ""); got.status != 200 {
		t.Errorf("afterwards: answered %d", got.status)
	}
}

func TestARequestThatTakesTooLongIsAnsweredAndOneThatLeftIsNot(t *testing.T) {
	t.Parallel()
	a := New(Options{Service: &fake{}, Models: fakeModels{}, Events: fakeEvents{}})
	fail := func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.handle(func(_ http.ResponseWriter, r *http.Request) error { return fmt.Errorf("read: %w", r.Context().Err()) }).
			ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		return w
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if got := fail(late); got.Code != 503 || got.Header().Get("Retry-After") == "" {
		t.Errorf("too late: answered %d", got.Code)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got := fail(gone); got.Body.Len() != 0 {
		t.Errorf("a client that left is answered %s", got.Body)
	}
}
