package mcp

import "strings"

const (
	maxReason    = 1 << 10  // bytes of a text that says why a connection failed
	maxErrorText = 16 << 10 // bytes of a text that says why a call failed
)

// storable makes a text fit to be stored: UTF-8, without NUL, which databases
// refuse.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// shorten cuts s to at most limit bytes, visibly and between characters.
func shorten(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len(mark)], "") + mark
}

// errorText makes a text fit to be stored as the reason of a failure.
func errorText(s string) string { return shorten(storable(s), maxErrorText) }
