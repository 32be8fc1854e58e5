package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

func TestStreamsThatEndTheSession(t *testing.T) {
	tests := []struct{ name, stream, want string }{
		{"an event without end", "data: " + strings.Repeat("x", maxFrame+64<<10), "larger than 40.0 MiB"},
		{"an event of too many values", `data: {"jsonrpc":"2.0","id":ID,"result":[` + strings.Repeat("{},", maxTokens) + "1]}\n\n", "values"},
		{"more questions than answers", strings.Repeat(`data: {"jsonrpc":"2.0","id":"x","method":"ping"}`+"\n\n", 3*maxOpen), "asks more than it hears"},
		{"an event that is no message", "data: {\n\n", "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWeb(t, nil)
			c := w.connect(t, ClientOptions{MinBackoff: time.Hour})
			await(t, c, inPhase(chat.ServerReady))
			w.setAnswer(func(rw http.ResponseWriter, r *http.Request) bool {
				if m := posted(t, r); m.Method == "tools/call" {
					rw.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(rw, strings.ReplaceAll(tt.stream, "ID", fmt.Sprint(m.ID.Raw())))
					rw.(http.Flusher).Flush()
				}
				<-r.Context().Done() // it hears nothing either
				return true
			})
			if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeUnknown {
				t.Errorf("the call gave %+v", r)
			}
			if s := await(t, c, inPhase(chat.ServerFailed)); !strings.Contains(s.Error, tt.want) {
				t.Errorf("the state says %q", s.Error)
			}
		})
	}
}
