package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyBytes is how long the key is under which stored secrets are encrypted.
const keyBytes = 32

// secretKey reads the key under which stored secrets are encrypted. The first
// start makes one. With a key file that was named, nothing is made: several
// servers on one database must have the same.
func secretKey(c config) ([]byte, error) {
	path := c.KeyFile
	if path == "" {
		path = filepath.Join(c.DataDir, "secret.key")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.KeyFile == "" {
		key := make([]byte, keyBytes)
		rand.Read(key) // never fails
		text, err = makeSecret(c.DataDir, path, hex.EncodeToString(key))
	}
	if err != nil {
		return nil, fmt.Errorf("the key for stored secrets: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("the key for stored secrets: %s must hold %d bytes in hex, as `openssl rand -hex %d` prints them", path, keyBytes, keyBytes)
	}
	return key, nil
}

// makeSecret writes a secret to a file of the folder, whole or not at all. Of
// two servers that start at once for the first time, one writes it and both
// read it.
func makeSecret(dir, path, secret string) ([]byte, error) {
	f, err := os.CreateTemp(dir, ".secret-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // it has another name by then, or is of no use
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}
