package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	loginLife   = 24 * time.Hour
	sessionLife = 30 * 24 * time.Hour
)

// AddToken makes secret a bearer token of principal. Only its digest is
// stored.
func (s *Service) AddToken(ctx context.Context, principal, secret string) error {
	return s.store.PutToken(ctx, chat.Token{Digest: digest(secret), Kind: chat.TokenBearer, Principal: principal}, 0)
}

// NewLogin makes the secret of a login link for principal. It works once,
// within a day.
func (s *Service) NewLogin(ctx context.Context, principal string) (string, error) {
	return s.newToken(ctx, chat.TokenLogin, principal, loginLife)
}

// Login takes the secret of a login link, which it uses up, and gives the
// secret of a session and whose it is.
func (s *Service) Login(ctx context.Context, secret string) (session, principal string, err error) {
	t, err := s.store.TakeToken(ctx, digest(secret), chat.TokenLogin)
	if err != nil {
		return "", "", err
	}
	session, err = s.newToken(ctx, chat.TokenSession, t.Principal, sessionLife)
	return session, t.Principal, err
}

// SignIn takes a bearer token and gives the secret of a session and whose it
// is. It is apart from Login so that a token that lasts never works in a URL.
func (s *Service) SignIn(ctx context.Context, bearer string) (session, principal string, err error) {
	principal, err = s.Authenticate(ctx, bearer, chat.TokenBearer)
	if err != nil {
		return "", "", err
	}
	session, err = s.newToken(ctx, chat.TokenSession, principal, sessionLife)
	return session, principal, err
}

// Authenticate finds whose secret it is; ErrNotFound if nobody's.
func (s *Service) Authenticate(ctx context.Context, secret string, kind chat.TokenKind) (principal string, err error) {
	t, err := s.store.FindToken(ctx, digest(secret), kind)
	return t.Principal, err
}

// Logout ends a session.
func (s *Service) Logout(ctx context.Context, session string) error {
	return s.store.DeleteToken(ctx, digest(session))
}

func (s *Service) newToken(ctx context.Context, kind chat.TokenKind, principal string, life time.Duration) (string, error) {
	secret := rand.Text()
	return secret, s.store.PutToken(ctx, chat.Token{Digest: digest(secret), Kind: kind, Principal: principal}, life)
}

// digest names a secret without giving it away. The secrets are random and
// long, so no salt or slow hash is needed.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
