package llm

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestRetryAfterMayBeADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"Mon, 30 Nov 2026 12:00:45 GMT": 45 * time.Second,
		"Mon, 30 Nov 2026 11:00:00 GMT": 0,
		"1.5":                           1500 * time.Millisecond,
		"1e300":                         0,
		"NaN":                           0,
		"":                              0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestShortenedTextIsFitToBeShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s") + strings.Repeat(rapid.String().Draw(t, "r"), rapid.IntRange(0, 200).Draw(t, "n"))
		got := shorten(s)
		if len(got) > maxMessage || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b\u202e\u2028") {
			t.Fatalf("%q", got)
		}
		if shorten(got) != got {
			t.Fatalf("%q is shortened again", got)
		}
	})
	if got := shorten("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

func TestCodeInMarkdownHoldsAnything(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.txt": "`a.txt`", "a`b": "``a`b``", "`": "`` ` ``", "": "`  `", "a\nb": "`a b`",
	} {
		if got := code(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
