package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

func TestSecrets(t *testing.T) {
	s := newSecrets(chat.MCPServer{
		URL:     "https://user:pass%20word@example.org/mcp/0123456789abcdef?key=k3y/value&n=1",
		Headers: map[string]string{"Authorization": "Bearer t0ken", "X-Key": "Zm9v=="},
		Env:     map[string]string{"LONG": "abcd-efgh", "SHORT": "abcd", "FLAG": "on", "PEM": "-----BEGIN-----\nMIIabc\n-----END-----\n"},
	})
	tests := []struct{ in, want string }{
		{"Bearer t0ken", "•••"},
		{"the token t0ken is old", "the token ••• is old"},
		{`Post "https://example.org/mcp/0123456789abcdef": EOF`, `Post "https://example.org/mcp/•••": EOF`},
		{`Post "https://user:***@example.org/mcp?key=k3y/value&n=1": EOF`, `Post "https://user:***@example.org/mcp?•••": EOF`},
		{"key k3y%2Fvalue", "key •••"},
		{"pass word", "•••"},
		{"abcd-efgh and abcd", "••• and •••"},
		{"it is on", "it is on"},
		{"PEM line MIIabc", "PEM line •••"},
	}
	for _, tt := range tests {
		if got := s.hide(tt.in); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := (secrets{}).hide("as it is"); got != "as it is" {
		t.Errorf("without secrets: %q", got)
	}
}

func TestSecretsOfArguments(t *testing.T) {
	tests := []struct {
		name string
		args []string
		in   string
		want string
	}{
		{"the value after a flag", []string{"--api-key", "abcd1234"}, "key abcd1234", "key •••"},
		{"the value within a flag", []string{"--token=abcd1234"}, "abcd1234!", "•••!"},
		{"in other spellings", []string{"-accessToken", "abcd1234", "--DB_PASSWORD", "efgh5678"}, "abcd1234 efgh5678", "••• •••"},
		{"a variable for a container", []string{"run", "-e", "GITHUB_PAT=abcd1234", "image"}, "abcd1234", "•••"},
		{"a header", []string{"--header", "Authorization: Bearer abcd1234"}, "Bearer abcd1234, abcd1234", "•••, •••"},
		{"a header within a flag", []string{"--header=X-Auth:abcd1234"}, "abcd1234", "•••"},
		{"an address", []string{"postgres://ada:abcd1234@db/files?sslkey=efgh5678"}, "abcd1234 of ada in files with efgh5678", "••• of ada in files with •••"},
		{"an address within a flag", []string{"--url=https://abcd1234@example.org/mcp"}, "https://abcd1234@example.org/mcp", "https://•••@example.org/mcp"},
		{"the next flag is no value", []string{"--token", "--verbose"}, "use --verbose", "use --verbose"},
		{"what is no secret stays", []string{"--author", "ada lovelace", "--keyboard=german", "--dir=/data/files", "monkey=banana"}, "ada lovelace german /data/files banana", "ada lovelace german /data/files banana"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newSecrets(chat.MCPServer{Args: tt.args}).hide(tt.in); got != tt.want {
				t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestAUserWithoutAPasswordIsASecret(t *testing.T) {
	for _, url := range []string{"http://t0ken-value@host/mcp", "http://t0ken-value:@host/mcp"} {
		if got := newSecrets(chat.MCPServer{URL: url}).hide(`Post "` + url + `": EOF`); strings.Contains(got, "t0ken") {
			t.Errorf("%s: %q", url, got)
		}
	}
}

// A text that is cut in the middle of a secret would show the half of it.
func TestNoHalfOfASecretIsShown(t *testing.T) {
	const secret = "s3cret-s3cret-s3cret-s3cret-s3cret"
	s := newSecrets(chat.MCPServer{Env: map[string]string{"A": secret}})
	for n := range 60 {
		text := strings.Repeat("x", n) + secret + strings.Repeat(secret, 3)
		if got := s.text(text, 50); strings.Contains(got, "s3") || len(got) > 50 || !utf8.ValidString(got) {
			t.Errorf("after %d bytes: %q", n, got)
		}
	}
	long := strings.Repeat("s3cret-", 100)
	s = newSecrets(chat.MCPServer{Env: map[string]string{"A": long}})
	for n := range 20 { // where a line is cut while it is read
		g := &ring{secrets: s}
		g.read(strings.NewReader(strings.Repeat(".", 40*n) + strings.Repeat(long, maxRawLine/len(long)+1) + "\n"))
		if got := strings.Join(g.last(), ""); strings.Contains(got, "s3") {
			t.Errorf("of a long line %q is kept", got)
		}
	}
}
