package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxMessage   = 300      // bytes of a provider's own words that are shown
	maxErrorBody = 64 << 10 // bytes of an error's body that are read
)

// refusal is a failure with what the provider said about it, which is not
// fit to be shown yet.
type refusal struct {
	chat.ModelError
	said string
}

// fit gives the error that may be shown: the provider's words without the key,
// shortened. The key goes first, lest a cut leaves a part of it.
func (r *refusal) fit(key string) *chat.ModelError {
	e := r.ModelError
	said := r.said
	if key != "" {
		said = strings.ReplaceAll(said, key, "[key]")
	}
	if said = shorten(said); said == "" {
		e.Message += "."
	} else {
		e.Message += ": " + said
	}
	return &e
}

func (r *refusal) Error() string { return r.Message }

// statusError reads the refusal of a request.
func statusError(resp *http.Response, model string) *refusal {
	e := chat.ModelError{
		Kind: kindOf(resp.StatusCode), Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	// A body that cannot be read to its end still says what it says.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	said := providerMessage(body, resp.Header.Get("Content-Type"))
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound && model != "":
		e.Message = fmt.Sprintf("The provider does not know the model %q, or its address is wrong (404)", shorten(model))
	case code >= 300 && code < 400:
		e.Message = fmt.Sprintf("The provider answered with a redirect (%d), which is not followed", code)
	default:
		e.Message = fmt.Sprintf("The provider refused %s (%d)", reason(e.Kind), code)
	}
	return &refusal{e, said}
}

// notAStream is a 200 that holds something else than a stream.
func notAStream(resp *http.Response, mediaType string) *refusal {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &in) == nil && present(in.Error) {
		return eventError(in.Error)
	}
	return &refusal{ModelError: chat.ModelError{
		Kind: chat.ModelServer, Status: resp.StatusCode,
		Message: "The provider answered with " + mediaType + " where a stream of events was asked for",
	}}
}

// eventError reads an error that came within a stream: a string, or an object
// with any of message, code, type and status.
func eventError(raw json.RawMessage) *refusal {
	var in struct {
		Code, Type, Status json.RawMessage
	}
	_ = json.Unmarshal(raw, &in) // a bare string has none of them
	e := chat.ModelError{Kind: chat.ModelServer}
	for _, v := range []json.RawMessage{in.Code, in.Status, in.Type} {
		word := strings.Trim(string(v), `"`)
		if code, err := strconv.Atoi(word); err == nil && code >= 400 && code < 600 {
			e.Status, e.Kind = code, kindOf(code)
			break
		}
		if kind, ok := kindOfWord(word); ok {
			e.Kind = kind
			break
		}
	}
	e.Message = "The provider broke off its reply " + reason(e.Kind)
	return &refusal{e, messageOf(raw)}
}

func kindOf(status int) chat.ModelErrorKind {
	switch {
	case status == http.StatusTooManyRequests:
		return chat.ModelRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return chat.ModelAuth
	case status == http.StatusServiceUnavailable, status == 529: // 529: "overloaded", outside of the standard
		return chat.ModelOverloaded
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return chat.ModelBadRequest
	default:
		return chat.ModelServer
	}
}

func kindOfWord(word string) (chat.ModelErrorKind, bool) {
	word = strings.ToLower(word)
	for _, k := range []struct {
		part string
		kind chat.ModelErrorKind
	}{
		{"rate_limit", chat.ModelRateLimit},
		{"resource_exhausted", chat.ModelRateLimit},
		{"quota", chat.ModelRateLimit},
		{"overloaded", chat.ModelOverloaded},
		{"unavailable", chat.ModelOverloaded},
		{"authentication", chat.ModelAuth},
		{"permission", chat.ModelAuth},
		{"api_key", chat.ModelAuth},
		{"invalid", chat.ModelBadRequest},
		{"bad_request", chat.ModelBadRequest},
		{"badrequest", chat.ModelBadRequest},
		{"context_length", chat.ModelBadRequest},
		{"not_found", chat.ModelBadRequest},
	} {
		if strings.Contains(word, k.part) {
			return k.kind, true
		}
	}
	return "", false
}

// reason is the end of the sentence "The provider refused …".
func reason(kind chat.ModelErrorKind) string {
	switch kind {
	case chat.ModelRateLimit:
		return "because of too many requests, or a quota that is used up"
	case chat.ModelOverloaded:
		return "because it is overloaded"
	case chat.ModelAuth:
		return "because the key is missing, wrong or not allowed to do this"
	case chat.ModelBadRequest:
		return "because it does not accept the request"
	case chat.ModelServer, chat.ModelNetwork, chat.ModelIncomplete, chat.ModelCanceled:
	}
	return "with an error of its own"
}

// retryAfter reads the wait that a provider asks for, 0 if it asks for none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e10 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > 0 && s < 1e7 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// providerMessage finds the words in the body of an error. A web page has none.
func providerMessage(body []byte, contentType string) string {
	if json.Valid(body) {
		return messageOf(body)
	}
	if mt, _, _ := mime.ParseMediaType(contentType); mt == "text/plain" {
		return string(body)
	}
	return ""
}

// messageOf finds the words in a JSON value: itself if it is a string, or one
// of the members in which servers put them.
func messageOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return messageOf(list[0])
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	for _, key := range []string{"error", "message", "detail", "msg"} {
		if v, ok := m[key]; ok {
			if text := messageOf(v); text != "" {
				return text
			}
		}
	}
	return ""
}

// shorten makes foreign text fit to be shown: one line, no control or
// direction characters, at most maxMessage bytes.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if len(s) <= maxMessage {
		return s
	}
	const mark = "…"
	cut := maxMessage - len(mark)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// present reports whether a member is there and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
