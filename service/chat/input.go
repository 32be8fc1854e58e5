package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxInputDepth = 64

// CheckInput returns a tool's input as it will be shown, stored and run: one
// JSON object on one line, every number digit for digit. Text that is not one
// JSON object, that is not UTF-8, that names a key twice or nests deeper than
// 64 levels is an error that says what is wrong, never a guess. An input that
// is empty, or white space, stands for no arguments: {}.
func CheckInput(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}"), nil
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the arguments are not valid UTF-8")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	first, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON: %w", noEOF(err))
	}
	if first != json.Delim('{') {
		return nil, errors.New("the arguments must be one JSON object")
	}
	if err := checkObject(dec, "", 1); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the arguments hold more than one JSON value")
	}
	return compact([]byte(text))
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("they end too early")
	}
	return err
}

// checkObject reads the members of an object whose "{" is read.
func checkObject(dec *json.Decoder, at string, depth int) error {
	if depth > maxInputDepth {
		return fmt.Errorf("the arguments nest deeper than %d levels", maxInputDepth)
	}
	seen := map[string]bool{}
	for {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("the arguments are not valid JSON: %w", noEOF(err))
		}
		if tok == json.Delim('}') {
			return nil
		}
		key, _ := tok.(string)
		if seen[key] {
			return fmt.Errorf("the arguments name the key %q twice", at+"/"+key)
		}
		seen[key] = true
		if err := checkValue(dec, at+"/"+key, depth); err != nil {
			return err
		}
	}
}

func checkValue(dec *json.Decoder, at string, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("the arguments are not valid JSON: %w", noEOF(err))
	}
	switch tok {
	case json.Delim('{'):
		return checkObject(dec, at, depth+1)
	case json.Delim('['):
		if depth+1 > maxInputDepth {
			return fmt.Errorf("the arguments nest deeper than %d levels", maxInputDepth)
		}
		for i := 0; dec.More(); i++ {
			if err := checkValue(dec, at+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil { // the "]"
			return fmt.Errorf("the arguments are not valid JSON: %w", noEOF(err))
		}
	}
	return nil
}

// sameJSON reports whether a and b are the same JSON value. Numbers are
// compared by their digits, so that 1 and 1.0 differ, as they may for a tool.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	va, errA := decodeExact(a)
	vb, errB := decodeExact(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

func decodeExact(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}
