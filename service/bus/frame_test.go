package bus

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/live"
)

func testSealer(t *testing.T, key byte) sealer {
	t.Helper()
	s, err := newSealer(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPayloadsCarryAnything(t *testing.T) {
	seal := testSealer(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		b := &Postgres{seal: seal, name: "instance"}
		sent := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, live.MaxMessage), 0, 6).Draw(t, "messages")
		dropped := rapid.Bool().Draw(t, "dropped")
		var got [][]byte
		lost := false
		for _, p := range b.pack(sent, dropped) {
			if len(p) >= 8000 || !strings.HasPrefix(p, b.name) {
				t.Fatalf("the database would not take a payload of %d bytes", len(p))
			}
			frames, err := seal.open(p)
			if err != nil {
				t.Fatal(err)
			}
			messages, missing := unframe(frames)
			got, lost = append(got, messages...), lost || missing
		}
		if len(got) != len(sent) || lost != dropped {
			t.Fatalf("%d of %d messages arrive, lost %v, want %v", len(got), len(sent), lost, dropped)
		}
		for i := range sent {
			if !bytes.Equal(sent[i], got[i]) {
				t.Fatalf("message %d is another", i)
			}
		}
	})
}

func TestTheLargestMessageFitsAndALargerOneIsALoss(t *testing.T) {
	b := &Postgres{seal: testSealer(t, 1), name: "instance"}
	if room := b.seal.room(); frameSize(make([]byte, live.MaxMessage)) > room {
		t.Errorf("a message of a hub may have %d bytes, and there is room for %d", live.MaxMessage, room)
	}
	for size, want := range map[int]bool{b.seal.room(): true, b.seal.room() - frameSize(nil): false} {
		payloads := b.pack([][]byte{make([]byte, size)}, false)
		if len(payloads[0]) >= 8000 {
			t.Errorf("a payload of %d bytes", len(payloads[0]))
		}
		frames, err := b.seal.open(payloads[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, lost := unframe(frames); lost != want {
			t.Errorf("%d bytes: lost %v", size, lost)
		}
	}
}

func TestOnlyWhoHasTheKeyIsHeard(t *testing.T) {
	ours, theirs := testSealer(t, 1), testSealer(t, 2)
	good := ours.seal("instance", appendFrame(nil, []byte("private words")))
	if strings.Contains(good, "private") {
		t.Error("it can be read")
	}
	changed := []byte(good)
	changed[len(changed)-6] ^= 1
	for name, payload := range map[string]string{
		"another key": theirs.seal("instance", nil), "changed": string(changed), "another sender": "instanc2" + good[nameLength:],
		"short": "inst", "empty": "instance", "no text of ours": "instance{}", "nothing": "",
	} {
		if _, err := ours.open(payload); !errors.Is(err, errForeign) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestFramesThatCannotBeReadAreALoss(t *testing.T) {
	for frames, want := range map[string]int{"l": 0, "m": 0, "m\x05abc": 0, "z": 0, "m\x01al": 1, "m\x01am\xff": 1} {
		if messages, lost := unframe([]byte(frames)); !lost || len(messages) != want {
			t.Errorf("%q: got %q, lost %v", frames, messages, lost)
		}
	}
	if messages, lost := unframe(nil); messages != nil || lost {
		t.Error("a sign of life is taken for something else")
	}
}
