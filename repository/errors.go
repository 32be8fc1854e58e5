package repository

import (
	"context"
	"errors"
	"fmt"

	"github.com/assent-chat/assent/service/chat"
)

// errUnchanged ends a transaction that turned out to have nothing to change:
// it is rolled back, so that no revision is spent on it.
var errUnchanged = errors.New("nothing to change")

// commitError is a failed COMMIT: whether it took effect is not known.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// retryable reports whether the whole transaction may be run again: it had no
// effect, and the reason may have passed.
func (d *dialect) retryable(err error) bool {
	if d.again(err) {
		return true
	}
	var c *commitError
	return disconnected(err) && !errors.As(err, &c)
}

// known gives an error its kind. What the caller can act on is returned as it
// is; everything else says what was being done.
func (d *dialect) known(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case chat.Refused(err), errors.Is(err, chat.ErrUnavailable), errors.Is(err, chat.ErrLost), errors.Is(err, errUnchanged):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case d.unstorable(err):
		return chat.Malformed("The request holds a character that cannot be stored (U+0000, or text that is not UTF-8).")
	case disconnected(err) || d.away(err):
		return fmt.Errorf("%s: %w: %w", doing, chat.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
