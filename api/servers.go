package api

import (
	"net/http"

	"github.com/assent-chat/assent/service/chat"
)

// ToolServers says where tools come from.
type ToolServers interface {
	// Info says how each tool server is doing. It waits for none of them.
	Info() []chat.ServerInfo
}

type serverList struct {
	Servers []chat.ServerInfo `json:"servers"`
}

func (a *API) listServers(w http.ResponseWriter, r *http.Request) error {
	return a.respond(w, r, http.StatusOK, serverList{notNil(a.servers.Info())})
}
