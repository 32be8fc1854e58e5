package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestAProblemShowsWhatMayBeShown(t *testing.T) {
	secret := errors.New("pq: host=db.internal password=hunter2")
	tests := []struct {
		name   string
		err    error
		status int
		detail string
	}{
		{"why the database cannot do it", fmt.Errorf("decide: %w: %w", chat.Unavailable("The disk is full."), secret), 503, "The disk is full."},
		{"that it cannot, with nothing to show", fmt.Errorf("decide: %w: %w", chat.ErrUnavailable, secret), 503, "The server cannot do this right now; try again."},
		{"that it cannot, and not what else there is", fmt.Errorf("%w: %w", chat.ErrUnavailable, chat.NotFound("No topic.")), 503, "The server cannot do this right now; try again."},
		{"that time ran out", fmt.Errorf("%w: %w", context.DeadlineExceeded, secret), 503, "The server took too long; it may or may not have been done."},
		{"two things at once", errors.Join(chat.Conflict("One."), chat.Conflict("Two.")), 409, "One. Two."},
		{"nothing of a fault", secret, 500, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p := problemFor(tt.err); p.Status != tt.status || p.Detail != tt.detail {
				t.Errorf("got %d %q", p.Status, p.Detail)
			}
		})
	}
}
