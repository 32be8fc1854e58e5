package service_test

import (
	"errors"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

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
