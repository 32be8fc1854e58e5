package bus

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// maxPayload is what one notification of PostgreSQL carries: 7,999 bytes at
// most, of text in the database's encoding.
const maxPayload = 7990

// nameLength is the length of an instance's name, with which its payloads begin.
const nameLength = 8

// sealer makes payloads of frames. Whoever can connect to a database hears its
// notifications and can send some, whatever rights they have in it. So a payload
// is encrypted, and nobody without the key makes one that is opened: what a
// card shows must not come from somebody else.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (sealer, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "assent bus", 32)
	if err != nil {
		return sealer{}, fmt.Errorf("derive the key of the bus: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return sealer{}, fmt.Errorf("derive the key of the bus: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// room is how many bytes of frames a payload has.
func (s sealer) room() int {
	return base64.StdEncoding.DecodedLen((maxPayload-nameLength)/4*4) - s.aead.Overhead() - 2
}

// seal encrypts frames for a payload of the sender.
func (s sealer) seal(sender string, frames []byte) string {
	sealed := s.aead.Seal(nil, nil, frames, []byte(sender))
	return sender + base64.StdEncoding.EncodeToString(sealed)
}

var errForeign = errors.New("a signal was not made with the key of this instance")

// open decrypts a payload.
func (s sealer) open(payload string) (frames []byte, err error) {
	if len(payload) < nameLength {
		return nil, errForeign
	}
	sealed, err := base64.StdEncoding.DecodeString(payload[nameLength:])
	if err != nil {
		return nil, errForeign
	}
	if frames, err = s.aead.Open(nil, nil, sealed, []byte(payload[:nameLength])); err != nil {
		return nil, errForeign
	}
	return frames, nil
}

// A frame is a letter, and for a message its length and bytes.
const (
	messageFrame = 'm'
	lossFrame    = 'l' // the sender has lost some
)

func appendFrame(frames, message []byte) []byte {
	frames = append(frames, messageFrame)
	frames = binary.AppendUvarint(frames, uint64(len(message)))
	return append(frames, message...)
}

// frameSize is at least the length of a message's frame.
func frameSize(message []byte) int { return 1 + binary.MaxVarintLen32 + len(message) }

// unframe takes frames apart. What it cannot read counts as lost.
func unframe(frames []byte) (messages [][]byte, lost bool) {
	for len(frames) > 0 {
		if frames[0] != messageFrame { // a loss, or what a later release says
			return messages, true
		}
		n, used := binary.Uvarint(frames[1:])
		if used <= 0 || n > uint64(len(frames)-1-used) {
			return messages, true
		}
		body := frames[1+used:][:n]
		messages, frames = append(messages, body), frames[1+used+int(n):]
	}
	return messages, false
}
