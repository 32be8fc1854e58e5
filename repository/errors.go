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

// commitError is a COMMIT that was not confirmed, and of which the database did
// not say afterwards what became of it: whether it took effect is not known.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit, with an unknown outcome: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// rolledBack is a COMMIT that failed and took no effect.
type rolledBack struct{ err error }

func (e *rolledBack) Error() string { return "commit, rolled back: " + e.err.Error() }
func (e *rolledBack) Unwrap() error { return e.err }

// What is said of a database that cannot do it now, where its error does not
// say more.
const (
	silentSentence  = "The database does not answer. Nothing was done; try again."
	unknownSentence = "The database was lost while it stored this, and whether it did is not known. Send the same request again, or look."
)

// retryable reports whether the whole transaction may be run again: it had no
// effect, and the reason may have passed.
func (d *dialect) retryable(err error) bool {
	var c *commitError
	if errors.As(err, &c) {
		return false
	}
	var undone *rolledBack
	m := d.meaning(err)
	return m.again || m.misled || disconnected(err) || errors.As(err, &undone) && m.sentence == ""
}

// known gives an error its kind. What the caller can act on is returned as it
// is; everything else says what was being done.
func (d *dialect) known(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	var unknown *commitError
	var undone *rolledBack
	switch {
	case chat.Refused(err), errors.Is(err, chat.ErrLost), errors.Is(err, errUnchanged):
		return err
	case errors.As(err, &unknown):
		return fmt.Errorf("%s: %w: %w", doing, chat.Unavailable(unknownSentence), err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.Is(err, chat.ErrUnavailable):
		return fmt.Errorf("%s: %w", doing, err)
	case d.unstorable(err):
		return chat.Malformed("The request holds a character that cannot be stored (U+0000, or text that is not UTF-8).")
	}
	why := d.meaning(err).sentence
	if why == "" && (disconnected(err) || errors.As(err, &undone)) {
		why = silentSentence
	}
	if why != "" {
		return fmt.Errorf("%s: %w: %w", doing, chat.Unavailable("%s", why), err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
