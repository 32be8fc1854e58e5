package api

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	defaultLimit = 50
	maxLimit     = 200
	maxCursor    = 512
)

// pageFrom reads limit and cursor. Whether a cursor is one that was given out
// is the store's to say; here it must only look like one.
func pageFrom(r *http.Request) (chat.Page, error) {
	limit, err := limitFrom(r)
	if err != nil {
		return chat.Page{}, err
	}
	cursor := r.URL.Query().Get("cursor")
	if len(cursor) > maxCursor || strings.ContainsFunc(cursor, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return chat.Page{}, malformed("", "cursor is not one that this server gave.")
	}
	return chat.Page{Limit: limit, Cursor: cursor}, nil
}

func limitFrom(r *http.Request) (int, error) {
	q := r.URL.Query()
	if !q.Has("limit") {
		return defaultLimit, nil
	}
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, malformed("", "limit must be a number from 1 to "+strconv.Itoa(maxLimit)+".")
	}
	return limit, nil
}

// noBody takes an empty body, or an empty JSON object as some clients send it.
// A request that wants to say more is not understood.
func noBody(w http.ResponseWriter, r *http.Request) error {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	raw, err := io.ReadAll(io.LimitReader(r.Body, 64))
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		return malformed("", "The body could not be read to its end.")
	}
	if text := strings.TrimSpace(string(raw)); text != "" && text != "{}" {
		return malformed("", "This request takes no body.")
	}
	return nil
}

// notNil makes an empty list of none, so that its JSON is never null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
