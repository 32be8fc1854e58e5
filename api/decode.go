package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxBody         = 1 << 20
	maxMessageBody  = 8 << 20
	maxSettingsBody = 256 << 10 // of a tool server, and of an answer
)

// decode reads the body as a T. It takes only what the contract describes: a
// JSON object whose members have the exact names and types of T's fields, each
// at most once, and pass T's validate tags. Errors name the member and what it
// must be, never its value.
func decode[T any](w http.ResponseWriter, r *http.Request, limit int64) (T, error) {
	raw, err := readBody(w, r, limit)
	if err != nil {
		var none T
		return none, err
	}
	return decodeAt[T](raw, "")
}

// decodeAt reads the value that was found at a pointer into the body.
func decodeAt[T any](raw json.RawMessage, at string) (T, error) {
	v, err := bindAt[T](raw, at)
	if err != nil {
		return v, err
	}
	return v, check(v, at)
}

// readBody reads one JSON value whose strings can be stored.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (json.RawMessage, error) {
	if err := checkMediaType(r); err != nil {
		return nil, err
	}
	raw, err := readAll(w, r, limit)
	if err != nil {
		return nil, err
	}
	return raw, checkText(raw)
}

// readOptionalBody is readBody for requests that may have no body: nil then.
func readOptionalBody(w http.ResponseWriter, r *http.Request, limit int64) (json.RawMessage, error) {
	raw, err := readAll(w, r, limit)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return nil, err
	}
	if err := checkMediaType(r); err != nil {
		return nil, err
	}
	return raw, checkText(raw)
}

func checkMediaType(r *http.Request) error {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return newProblem(http.StatusUnsupportedMediaType, "The body must be application/json.")
	}
	if set, ok := params["charset"]; ok && !strings.EqualFold(set, "utf-8") {
		return newProblem(http.StatusUnsupportedMediaType, "The body must be in UTF-8.")
	}
	return nil
}

func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	// A body that trickles in must not hold a request for longer than it may
	// take. A writer that knows no deadlines is a test's.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = conn.SetReadDeadline(time.Time{})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newProblem(http.StatusRequestEntityTooLarge, "The body may have at most "+strconv.FormatInt(limit, 10)+" bytes.")
	}
	if err != nil {
		return nil, malformed("", "The body could not be read to its end.")
	}
	return raw, nil
}

// checkText reports why raw is not one JSON value that can be kept as it is.
func checkText(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return malformed("", "The body is empty; it must be a JSON object.")
	}
	if !utf8.Valid(raw) {
		return malformed("", "The body is not valid UTF-8.")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			return malformed("", "The body is not valid JSON at byte "+strconv.FormatInt(e.Offset, 10)+".")
		}
		return malformed("", "The body is not valid JSON: it ends too early.")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("", "The body holds more than one JSON value.")
	}
	return checkEscapes(raw)
}

// checkEscapes looks for escapes in valid JSON that stand for no character
// that can be stored: the decoder would replace them silently.
func checkEscapes(raw []byte) error {
	unit := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 32)
		return rune(n), err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		c, ok := unit(i)
		switch {
		case !ok:
			i++ // an escape of one letter
		case c == 0:
			return malformed("", `The body holds the character \u0000, which cannot be stored.`)
		case 0xD800 <= c && c <= 0xDBFF:
			if low, ok := unit(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
				return malformed("", "The body holds half of a surrogate pair, which is no character.")
			}
			i += 11
		case 0xDC00 <= c && c <= 0xDFFF:
			return malformed("", "The body holds half of a surrogate pair, which is no character.")
		default:
			i += 5
		}
	}
	return nil
}
