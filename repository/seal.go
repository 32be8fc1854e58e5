package repository

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// keySize is the size of Options.Key.
const keySize = 32

// keys are made of Options.Key, one for each use. Without any (nil) nothing is
// sealed or opened, and nothing has an identity.
type keys struct {
	sealing  cipher.AEAD
	identity []byte
}

func deriveKeys(key []byte) (*keys, error) {
	if key == nil {
		return nil, nil
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("open the database: its key has %d bytes and must have %d", len(key), keySize)
	}
	sealing, err := hkdf.Key(sha256.New, key, nil, "assent: seal the connections of tool servers", keySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	identity, err := hkdf.Key(sha256.New, key, nil, "assent: identity of tool servers", keySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return &keys{sealing: aead, identity: identity}, nil
}

// sealedForm begins every sealed text, so that another form can follow.
const sealedForm = "v1:"

// errNoKey refuses what cannot be kept secret.
var errNoKey = chat.Conflict("The connection of a tool server cannot be stored: this program was started without the key that encrypts it.")

// seal encrypts a value as JSON. It can be opened at the same place only.
func (k *keys) seal(place string, value any) (string, error) {
	if k == nil {
		return "", errNoKey
	}
	plain, err := chat.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", place, err)
	}
	return sealedForm + base64.StdEncoding.EncodeToString(k.sealing.Seal(nil, nil, plain, []byte(place))), nil
}

var errSealed = errors.New("it was sealed with another key, or is damaged")

// open reads what seal gave for the place.
func (k *keys) open(place, sealed string, value any) error {
	text, ok := strings.CutPrefix(sealed, sealedForm)
	if k == nil || !ok {
		return errSealed
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return errSealed
	}
	plain, err := k.sealing.Open(nil, nil, raw, []byte(place))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return errSealed
	}
	return nil
}

// connection is what of a server is sealed, and what its identity is of.
type connection struct {
	Transport chat.Transport    `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

func connectionOf(s chat.MCPServer) connection {
	return connection{Transport: s.Transport, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers}
}

// canonical is one text for each connection: JSON, the names of maps in order.
func (c connection) canonical() string {
	raw, err := chat.Marshal(c)
	if err != nil { // texts, lists and maps of texts: there is nothing to fail
		panic(fmt.Sprintf("encode a connection: %T", err))
	}
	return string(raw)
}

func (k *keys) identityOf(s chat.MCPServer) string {
	if k == nil {
		return ""
	}
	mac := hmac.New(sha256.New, k.identity)
	mac.Write([]byte(connectionOf(s).canonical()))
	return hex.EncodeToString(mac.Sum(nil))
}

// programOf names the program that a server starts, or the address that it
// asks, without telling it.
func (k *keys) programOf(s chat.MCPServer) string {
	if k == nil {
		return ""
	}
	mac := hmac.New(sha256.New, k.identity)
	mac.Write([]byte("program\x00" + s.Program()))
	return hex.EncodeToString(mac.Sum(nil))
}

// Identity names what is reached by the settings of a server, and how: it is
// another for every other connection, and tells nothing of what is in it. It is
// the same in all processes with one key, and "" of a store without a key.
func (s *Store) Identity(server chat.MCPServer) string { return s.keys.identityOf(server) }
