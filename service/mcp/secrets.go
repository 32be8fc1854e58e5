package mcp

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// minSecret is the length from which a configured value is taken to be a
	// secret: to hide every "1" and "on" would make texts unreadable and
	// protect nothing.
	minSecret = 4
	// minPathSecret is the same for a part of an address's path, which is
	// mostly a word that helps to understand the text.
	minPathSecret = 16
	secretMark    = "•••"
)

// secrets hides the values that a person configured for a server: its
// environment, its headers, and what its address holds beside the host and plain words.
type secrets struct {
	replace *strings.Replacer
}

func newSecrets(s chat.MCPServer) secrets {
	found := map[string]bool{}
	add := func(value string) {
		if len(value) >= minSecret {
			found[value] = true
			found[url.QueryEscape(value)] = true
			found[url.PathEscape(value)] = true
		}
	}
	for _, value := range s.Env {
		add(value)
		for line := range strings.Lines(value) { // a key of many lines is shown line by line
			add(strings.TrimSpace(line))
		}
	}
	for _, value := range s.Headers {
		add(value)
		if scheme, token, ok := strings.Cut(value, " "); ok && !strings.Contains(scheme, "=") {
			add(strings.TrimSpace(token)) // without "Bearer"
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
		}
		for _, values := range u.Query() {
			for _, value := range values {
				add(value)
			}
		}
		add(u.RawQuery)
		for part := range strings.SplitSeq(u.Path, "/") {
			if len(part) >= minPathSecret { // some addresses have their key on the way
				add(part)
			}
		}
	}
	// The longest first, so that no part of one stays.
	values := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var pairs []string
	for _, value := range values {
		pairs = append(pairs, value, secretMark)
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// hide returns text without the secrets.
func (s secrets) hide(text string) string {
	if s.replace == nil {
		return text
	}
	return s.replace.Replace(text)
}
