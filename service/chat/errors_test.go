package chat_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{chat.ErrNotFound, true},
		{chat.ErrGone, true},
		{fmt.Errorf("read it: %w", chat.NotFound("There is no server %s.", "x")), true},
		{fmt.Errorf("read it: %w", chat.Gone("The server was deleted.")), true},
		{chat.Conflict("It is there."), false},
		{chat.Invalid("It is wrong."), false},
		{chat.Unavailable("It is not known."), false},
		{errors.New("it broke"), false},
	} {
		if got := chat.Missing(tt.err); got != tt.want {
			t.Errorf("%v: got %v", tt.err, got)
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"It broke": "It broke.", "It broke.": "It broke.", "It broke...": "It broke."} {
		if got := chat.Sentence(errors.New(text)); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if err := chat.Unavailable("The server %s is away.", "x"); !errors.Is(err, chat.ErrUnavailable) || chat.Sentence(err) != "The server x is away." {
		t.Errorf("got %v", err)
	}
}
