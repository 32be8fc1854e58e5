package mcp

import (
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxProgress = 500 // bytes of one text

// reporter passes progress on until it is closed: a tool that was left behind
// must not report on a call that is settled.
type reporter struct {
	mu     sync.Mutex
	to     func(string)
	closed bool
}

func (r *reporter) report(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil && !r.closed {
		r.to(text)
	}
}

func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// progressText is what a notification tells of how far a call has come: the
// server's words, or else its numbers.
func progressText(p *sdk.ProgressNotificationParams, hidden secrets) string {
	if p.Message != "" {
		return hidden.text(p.Message, maxProgress)
	}
	done := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		done += "/" + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	return done
}
