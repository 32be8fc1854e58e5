package repository

import (
	"context"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

type tokenRow struct {
	Digest    string `db:"digest"`
	Kind      string `db:"kind"`
	Principal string `db:"principal"`
}

func (r tokenRow) token() chat.Token {
	return chat.Token{Digest: r.Digest, Kind: chat.TokenKind(r.Kind), Principal: r.Principal}
}

const theToken = ` digest = ? AND kind = ? AND (expires_at IS NULL OR expires_at > {now})`

var errNoToken = &chat.Error{Kind: chat.ErrNotFound, Detail: "There is no such token, or it has expired."}

// PutToken stores a token's digest for the given life, by the database's
// clock; 0 is for ever. Storing the same digest again is harmless. Tokens
// that have expired are removed on the way.
func (s *Store) PutToken(ctx context.Context, k chat.Token, life time.Duration) error {
	expires, args := "NULL", []any{k.Digest, k.Kind, k.Principal}
	if life != 0 {
		expires, args = "{now+?}", append(args, life.Milliseconds())
	}
	return s.write.run(ctx, s.write.dialect.write, "store a token", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `DELETE FROM tokens WHERE expires_at <= {now}`); err != nil {
			return err
		}
		_, err := t.exec(ctx, `
			INSERT INTO tokens (digest, kind, principal, created_at, expires_at) VALUES (?, ?, ?, {now}, `+expires+`)
			ON CONFLICT (digest) DO NOTHING`, args...)
		return err
	})
}

// FindToken finds a token of the kind that has not expired, else
// chat.ErrNotFound.
func (s *Store) FindToken(ctx context.Context, digest string, kind chat.TokenKind) (chat.Token, error) {
	var row tokenRow
	err := s.read.look(ctx, "find a token", func(ctx context.Context, t *tx) error {
		ok, err := t.find(ctx, &row, `SELECT digest, kind, principal FROM tokens WHERE`+theToken, digest, kind)
		if err == nil && !ok {
			return errNoToken
		}
		return err
	})
	return row.token(), err
}

// TakeToken finds a token and removes it: of several takers one gets it.
func (s *Store) TakeToken(ctx context.Context, digest string, kind chat.TokenKind) (chat.Token, error) {
	var row tokenRow
	err := s.write.run(ctx, s.write.dialect.write, "take a token", func(ctx context.Context, t *tx) error {
		ok, err := t.find(ctx, &row, `DELETE FROM tokens WHERE`+theToken+` RETURNING digest, kind, principal`, digest, kind)
		if err == nil && !ok {
			return errNoToken
		}
		return err
	})
	return row.token(), err
}

// DeleteToken removes a token; one that is not there is no error.
func (s *Store) DeleteToken(ctx context.Context, digest string) error {
	return s.write.run(ctx, s.write.dialect.write, "remove a token", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, `DELETE FROM tokens WHERE digest = ?`, digest)
		return err
	})
}
