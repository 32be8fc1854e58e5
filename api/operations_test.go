package api

import (
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	_ "github.com/lib/pq" // the driver whose errors are logged

	"github.com/assent-chat/assent/service/chat"
)

// unreachable is the error of the driver where nobody listens any more.
func unreachable(t *testing.T, password string) error {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("assent", password), Host: ln.Addr().String(), Path: "/assent", RawQuery: "sslmode=disable"}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("postgres", u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err = db.PingContext(t.Context()); err == nil {
		t.Fatal("a server that is not there answers")
	}
	return err
}

func TestReadinessLogsWhyTheDatabaseDoesNotAnswerAndTellsNobody(t *testing.T) {
	t.Parallel()
	const password = "Nacht-und-Nebel"
	b := start(t, nil)
	b.svc.err = fmt.Errorf("ping: %w: %w", chat.Unavailable("The database does not answer."), unreachable(t, password))
	got := b.do("GET", "/readyz", "", "Authorization")
	got.problem(t, 503)
	if !strings.Contains(got.body, "The database does not answer.") || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("the answer is %s", got.body)
	}
	if after := got.header.Get("Retry-After"); after != "5" {
		t.Errorf("Retry-After is %q", after)
	}
	log := b.log.String()
	for _, want := range []string{"request failed", "/readyz", "503", "ask the database: ", "connection refused"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, password) {
		t.Errorf("the log holds the password:\n%s", log)
	}
}

func TestThePathsOfThePageAreThePages(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, path := range []string{"/", "/t/t1", "/settings", "/settings/servers/a", "/assets/index.js", "/favicon.svg", "/licenses.txt"} {
		if got := b.do("GET", path, "", "Authorization"); got.status != 200 || got.body != "the page" {
			t.Errorf("GET %s: answered %d %s", path, got.status, got.body)
		}
	}
	if got := b.do("GET", "/licenses", "", "Authorization"); got.status != 404 {
		t.Errorf("GET /licenses: answered %d", got.status)
	}
}
