package mcp

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

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

// secretWords are those that name a secret when they stand in the name of an
// argument.
var secretWords = []string{
	"apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "jwt", "key", "pass", "passphrase", "passwd",
	"password", "pat", "pwd", "secret", "secrets", "token", "tokens",
}

// secrets hides what a person configured for a server and nobody is to read:
// its environment, its headers, what its address holds beside the host and
// plain words, and those of its arguments that are named like a secret.
type secrets struct {
	replace *strings.Replacer
	longest int // of the values, in bytes
}

// text makes what a server or its process wrote fit to be stored and shown:
// UTF-8 without NUL, without the secrets, and at most limit bytes. Every such
// text comes through here: one that was cut before its secrets were hidden may
// end in a part of one.
func (s secrets) text(text string, limit int) string {
	return shorten(s.hide(storable(text)), limit)
}

// hide returns text without the secrets.
func (s secrets) hide(text string) string {
	if s.replace == nil {
		return text
	}
	return s.replace.Replace(text)
}

func newSecrets(s chat.MCPServer) secrets {
	found := found{}
	for _, value := range s.Env {
		found.add(value)
		for line := range strings.Lines(value) { // a key of many lines is shown line by line
			found.add(strings.TrimSpace(line))
		}
		found.addAddress(value)
	}
	for _, value := range s.Headers {
		found.addCredential(value)
	}
	found.addAddress(s.URL)
	for i, arg := range s.Args {
		found.addArgument(arg)
		// The value of a flag is the next argument, unless the flag holds it.
		if strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && namesSecret(arg) && i+1 < len(s.Args) && !strings.HasPrefix(s.Args[i+1], "-") {
			found.addCredential(s.Args[i+1])
		}
	}
	// The longest first, so that no part of one stays.
	values := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	if len(values) == 0 {
		return secrets{}
	}
	var pairs []string
	for _, value := range values {
		pairs = append(pairs, value, secretMark)
	}
	return secrets{strings.NewReplacer(pairs...), len(values[0])}
}

// found is a set of values to hide.
type found map[string]bool

func (f found) add(value string) {
	if len(value) >= minSecret {
		f[value] = true
		f[url.QueryEscape(value)] = true
		f[url.PathEscape(value)] = true
	}
}

// addCredential adds a value with and without its scheme, such as "Bearer".
func (f found) addCredential(value string) {
	value = strings.TrimSpace(value)
	f.add(value)
	if scheme, token, ok := strings.Cut(value, " "); ok && !strings.Contains(scheme, "=") {
		f.add(strings.TrimSpace(token))
	}
}

// addAddress adds what an address holds beside the host and plain words. A
// text that is no address has nothing of that.
func (f found) addAddress(text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return
	}
	if password, ok := u.User.Password(); ok && password != "" {
		f.add(password)
	} else {
		f.add(u.User.Username()) // a token, as some servers take it
	}
	for _, values := range u.Query() {
		for _, value := range values {
			f.add(value)
		}
	}
	f.add(u.RawQuery)
	if u.Scheme != "http" && u.Scheme != "https" {
		return // its path is that of a file or of a database
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= minPathSecret { // some addresses have their key on the way
			f.add(part)
		}
	}
}

// addArgument adds the secret of an argument such as --token=…, API_KEY=…,
// --header=Authorization: Bearer …, or --url=https://….
func (f found) addArgument(text string) {
	f.addAddress(text)
	at := strings.IndexAny(text, "=:")
	if at < 0 {
		return
	}
	name, value := text[:at], text[at+1:]
	if namesSecret(name) {
		f.addCredential(value)
		return
	}
	f.addArgument(value)
}

// namesSecret reports whether a name, of a flag, a variable or a header, is one
// that is given to secrets.
func namesSecret(name string) bool {
	var words []string
	word := ""
	for i, r := range name {
		camel := unicode.IsUpper(r) && i > 0 && unicode.IsLower(rune(name[i-1]))
		if letter := unicode.IsLetter(r); camel || !letter {
			words, word = append(words, word), ""
			if !letter {
				continue
			}
		}
		word += string(unicode.ToLower(r))
	}
	if slices.ContainsFunc(append(words, word), func(word string) bool { return slices.Contains(secretWords, word) }) {
		return true
	}
	return slices.ContainsFunc([]string{"apikey", "token", "secret", "password", "credential"}, func(part string) bool {
		return strings.Contains(strings.ToLower(name), part)
	})
}
