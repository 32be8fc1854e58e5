package repository

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

func keysOf(t testing.TB, b byte) *keys {
	t.Helper()
	k, err := deriveKeys(bytes.Repeat([]byte{b}, keySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var connections = rapid.Custom(func(t *rapid.T) connection {
	text := rapid.SampledFrom([]string{"", "a", "b", "€ \x00 <&>", `","`, "a\nb"})
	texts := rapid.MapOfN(text, text, 0, 3)
	return connection{
		Transport: rapid.SampledFrom([]chat.Transport{chat.TransportStdio, chat.TransportHTTP}).Draw(t, "transport"),
		Command:   text.Draw(t, "command"), Args: rapid.SliceOfN(text, 0, 3).Draw(t, "args"), Env: texts.Draw(t, "env"),
		Dir: text.Draw(t, "dir"), URL: text.Draw(t, "url"), Headers: texts.Draw(t, "headers"),
	}
})

func (c connection) server() chat.MCPServer {
	return chat.MCPServer{Transport: c.Transport, Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir, URL: c.URL, Headers: c.Headers}
}

func (c connection) equal(o connection) bool {
	return c.Transport == o.Transport && c.Command == o.Command && slices.Equal(c.Args, o.Args) && maps.Equal(c.Env, o.Env) &&
		c.Dir == o.Dir && c.URL == o.URL && maps.Equal(c.Headers, o.Headers)
}

func TestWhatIsSealedIsOpenedAtItsPlaceWithItsKey(t *testing.T) {
	k, other := keysOf(t, 1), keysOf(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		c := connections.Draw(t, "connection")
		sealed, err := k.seal("place", c)
		if err != nil {
			t.Fatal(err)
		}
		var got connection
		if err := k.open("place", sealed, &got); err != nil || !got.equal(c) {
			t.Fatalf("opened as %+v, %v", got, err)
		}
		cut := rapid.IntRange(0, len(sealed)-1).Draw(t, "cut")
		for name, open := range map[string]func(*connection) error{
			"another key":   func(c *connection) error { return other.open("place", sealed, c) },
			"no key":        func(c *connection) error { return (*keys)(nil).open("place", sealed, c) },
			"another place": func(c *connection) error { return k.open("place/1", sealed, c) },
			"another form":  func(c *connection) error { return k.open("place", "v2:"+sealed[3:], c) },
			"no form":       func(c *connection) error { return k.open("place", sealed[3:], c) },
			"a cut end":     func(c *connection) error { return k.open("place", sealed[:cut], c) },
			"nothing":       func(c *connection) error { return k.open("place", "", c) },
		} {
			var c connection
			if err := open(&c); !errors.Is(err, errSealed) || !c.equal(connection{}) {
				t.Fatalf("with %s it is opened as %+v, %v", name, c, err)
			}
		}
	})
}

func TestEveryChangeOfASealedTextIsSeen(t *testing.T) {
	k := keysOf(t, 1)
	sealed, err := k.seal("place", connection{Command: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed[:len(sealed)-3] { // the last may hold bits that base64 does not use
		changed := []byte(sealed)
		if changed[i]++; k.open("place", string(changed), &connection{}) == nil {
			t.Errorf("a change of byte %d is not seen", i)
		}
	}
}

func TestNothingIsSealedWithoutAKey(t *testing.T) {
	k, err := deriveKeys(nil)
	if err != nil || k != nil {
		t.Fatal(k, err)
	}
	if _, err := k.seal("place", 1); !errors.Is(err, chat.ErrConflict) || !strings.Contains(err.Error(), "key") {
		t.Errorf("got %v", err)
	}
}

func TestKeysAreDerivedFromOneOfTheRightSize(t *testing.T) {
	k := keysOf(t, 1)
	if bytes.Equal(k.identity, bytes.Repeat([]byte{1}, keySize)) || bytes.Equal(k.identity, keysOf(t, 2).identity) {
		t.Error("the key of identities is not derived")
	}
	for n := range 64 {
		if n == keySize {
			continue
		}
		if _, err := deriveKeys(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes is taken", n)
		}
	}
}

func TestAnIdentityIsOfTheConnectionAndOfNothingElse(t *testing.T) {
	k := keysOf(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		one, two := connections.Draw(t, "one"), connections.Draw(t, "two")
		a, b := one.server(), two.server()
		if (k.identityOf(a) == k.identityOf(b)) != one.equal(two) {
			t.Fatalf("%+v is %s, %+v is %s", one, k.identityOf(a), two, k.identityOf(b))
		}
		c := a
		c.ID, c.Name, c.Disabled, c.Version, c.Trusted, c.DisabledTools = "x", "y", true, 7, true, []string{"z"}
		if diff := cmp.Diff(k.identityOf(a), k.identityOf(c)); diff != "" {
			t.Fatalf("identity (-connection +all):\n%s", diff)
		}
	})
	nothing, empty := chat.MCPServer{}, chat.MCPServer{Args: []string{}, Env: map[string]string{}, Headers: map[string]string{}}
	if k.identityOf(nothing) != k.identityOf(empty) {
		t.Error("an empty list is another connection than none")
	}
	if k.identityOf(nothing) == keysOf(t, 2).identityOf(nothing) || (*keys)(nil).identityOf(nothing) != "" {
		t.Error("an identity does not depend on the key")
	}
}
