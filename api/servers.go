package api

import (
	"bytes"
	"net/http"
	"net/url"
	"unicode"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

type serverList struct {
	Servers []chat.ServerInfo `json:"servers"`
}

type importedServers struct {
	Servers []chat.ServerInfo `json:"servers"`
	Skipped []string          `json:"skipped"`
}

type serverToolList struct {
	Tools []chat.ServerTool `json:"tools"`
}

type serverVersionList struct {
	Versions []chat.ServerChange `json:"versions"`
	Next     string              `json:"nextCursor,omitempty"`
}

// maxServerID is the length of a name: that is the id of a server that is
// configured in a file.
const maxServerID = 64

// serverID is the tool server that the path names.
func serverID(r *http.Request) (string, error) {
	id, err := chi.URLParam(r, "serverId"), error(nil)
	if r.URL.RawPath != "" { // the router took it as it was sent
		id, err = url.PathUnescape(id)
	}
	if err != nil || !isServerID(id) {
		return "", chat.NotFound("There is no such tool server.")
	}
	return id, nil
}

func isServerID(s string) bool {
	if n := utf8.RuneCountInString(s); n == 0 || n > maxServerID || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

func (a *API) listServers(w http.ResponseWriter, r *http.Request) error {
	servers, err := a.svc.MCPServers(r.Context())
	if err != nil {
		return err
	}
	for i := range servers {
		servers[i] = infoFor(r, servers[i])
	}
	return a.respond(w, r, http.StatusOK, serverList{notNil(servers)})
}

// infoFor is what the principal of a request may see of a tool server.
func infoFor(r *http.Request, info chat.ServerInfo) chat.ServerInfo {
	if checkOwner(r) != nil {
		info.ServerSettings = info.ForOthers()
		info.State.Stderr = nil // it may quote the arguments
		if info.State.Error != "" {
			info.State.Error = "It cannot be reached. The owner can see why."
		}
	}
	return info
}

func (a *API) createServer(w http.ResponseWriter, r *http.Request) error {
	s, err := decodeServer(w, r)
	if err != nil {
		return err
	}
	info, err := a.svc.CreateMCPServer(r.Context(), s, decider(r))
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/mcp-servers/"+url.PathEscape(info.ID))
	return a.respond(w, r, http.StatusCreated, info)
}

// importServers takes a file as other programs keep it; which of its members
// mean something is not known here.
func (a *API) importServers(w http.ResponseWriter, r *http.Request) error {
	skip := false
	switch r.URL.Query().Get("existing") {
	case "", "refuse":
	case "skip":
		skip = true
	default:
		return malformed("", "existing must be one of refuse, skip.")
	}
	if err := checkMediaType(r); err != nil {
		return err
	}
	file, err := readAll(w, r, maxBody)
	if err != nil {
		return err
	}
	file = bytes.TrimPrefix(file, []byte("\ufeff")) // as some editors begin a file
	if err := checkText(file); err != nil {
		return err
	}
	if bytes.TrimSpace(file)[0] != '{' {
		return malformed("", "must be an object")
	}
	added, skipped, err := a.svc.ImportMCPServers(r.Context(), file, skip, decider(r))
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusCreated, importedServers{notNil(added), notNil(skipped)})
}

func (a *API) testNewServer(w http.ResponseWriter, r *http.Request) error {
	s, err := decodeServer(w, r)
	if err != nil {
		return err
	}
	return a.tried(w, r)(a.svc.TestMCPServer(r.Context(), s))
}

// testServer tries a stored server, with what the body would change of it.
func (a *API) testServer(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	raw, err := readOptionalBody(w, r, maxSettingsBody)
	if err != nil {
		return err
	}
	var p chat.MCPServerPatch
	if raw != nil {
		if p, err = serverPatchFrom(raw); err != nil {
			return err
		}
	}
	return a.tried(w, r)(a.svc.TestStoredMCPServer(r.Context(), id, p))
}

// tried answers with what came of a trial.
func (a *API) tried(w http.ResponseWriter, r *http.Request) func(chat.ServerTrial, error) error {
	return func(t chat.ServerTrial, err error) error {
		if err != nil {
			return err
		}
		t.Tools = notNil(t.Tools)
		return a.respond(w, r, http.StatusOK, t)
	}
}

func (a *API) getServer(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	info, err := a.svc.MCPServer(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, infoFor(r, info))
}

// updateServer changes switches for everybody, and the rest for the owner.
func (a *API) updateServer(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	raw, err := readBody(w, r, maxSettingsBody)
	if err != nil {
		return err
	}
	p, err := serverPatchFrom(raw)
	if err != nil {
		return err
	}
	if p == (chat.MCPServerPatch{Version: p.Version}) {
		return malformed("", "The body names nothing to change.")
	}
	if p.Connects() {
		if err := checkOwner(r); err != nil {
			return err
		}
	}
	info, err := a.svc.UpdateMCPServer(r.Context(), id, p, decider(r))
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, infoFor(r, info))
}

func (a *API) deleteServer(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteMCPServer(r.Context(), id, decider(r)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) restartServer(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	info, err := a.svc.RestartMCPServer(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, info)
}

func (a *API) listServerTools(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	tools, err := a.svc.MCPServerTools(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, serverToolList{notNil(tools)})
}

func (a *API) listServerVersions(w http.ResponseWriter, r *http.Request) error {
	id, err := serverID(r)
	if err != nil {
		return err
	}
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	versions, next, err := a.svc.MCPServerVersions(r.Context(), id, page)
	if err != nil {
		return err
	}
	if checkOwner(r) != nil {
		for i := range versions {
			for _, s := range []**chat.ServerSettings{&versions[i].Before, &versions[i].After} {
				if *s != nil {
					hidden := (*s).ForOthers()
					*s = &hidden
				}
			}
		}
	}
	return a.respond(w, r, http.StatusOK, serverVersionList{notNil(versions), next})
}
