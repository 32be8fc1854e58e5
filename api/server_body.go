package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

// newServer and serverPatch hold secrets: what is said of them names members,
// never values.
type newServer struct {
	Name      string            `json:"name" validate:"required,max=64"`
	Transport *chat.Transport   `json:"transport" validate:"omitnil,oneof=stdio http"`
	Command   string            `json:"command" validate:"max=4096"`
	Args      []string          `json:"args" validate:"max=200,dive,max=16384"`
	Env       map[string]string `json:"env"`
	Dir       string            `json:"dir" validate:"max=4096"`
	URL       string            `json:"url" validate:"max=8192"`
	Headers   map[string]string `json:"headers"`
	Disabled  bool              `json:"disabled"`
}

// serverPatch has the fields of a chat.MCPServerPatch.
type serverPatch struct {
	Name     *string             `json:"name" validate:"omitnil,min=1,max=64"`
	Command  *string             `json:"command" validate:"omitnil,max=4096"`
	Args     *[]string           `json:"args" validate:"omitnil,max=200,dive,max=16384"`
	Env      *map[string]*string `json:"env"`
	Dir      *string             `json:"dir" validate:"omitnil,max=4096"`
	URL      *string             `json:"url" validate:"omitnil,max=8192"`
	Headers  *map[string]*string `json:"headers"`
	Disabled *bool               `json:"disabled"`

	DisabledTools            *[]string `json:"disabledTools" validate:"omitnil,max=1000,dive,min=1,max=256"`
	AutoApproveTools         *[]string `json:"autoApproveTools" validate:"omitnil,max=1000,dive,min=1,max=256"`
	AlwaysAskTools           *[]string `json:"alwaysAskTools" validate:"omitnil,max=1000,dive,min=1,max=256"`
	DisabledAutoApproveTools *[]string `json:"disabledAutoApproveTools" validate:"omitnil,max=1000,dive,min=1,max=256"`
	KnownTools               *[]string `json:"knownTools" validate:"omitnil,max=1000,dive,min=1,max=256"`
	Trusted                  *bool     `json:"trusted"`

	Version *int `json:"version" validate:"omitnil,min=1"`
}

// decodeServer reads a server that is not stored. What it can be is for
// chat.MCPServer.Check to say.
func decodeServer(w http.ResponseWriter, r *http.Request) (chat.MCPServer, error) {
	in, err := decode[newServer](w, r, maxSettingsBody)
	if err != nil {
		return chat.MCPServer{}, err
	}
	if err := checkPairs(in.Env, "/env"); err != nil {
		return chat.MCPServer{}, err
	}
	if err := checkPairs(in.Headers, "/headers"); err != nil {
		return chat.MCPServer{}, err
	}
	s := chat.MCPServer{
		Name: in.Name, Source: chat.SourceSettings, Transport: chat.TransportStdio, Command: in.Command, Args: in.Args, Env: in.Env, Dir: in.Dir,
		URL: in.URL, Headers: in.Headers, Disabled: in.Disabled,
	}
	switch {
	case in.Transport != nil:
		s.Transport = *in.Transport
	case in.URL != "":
		s.Transport = chat.TransportHTTP
	}
	return s, nil
}

func serverPatchFrom(raw json.RawMessage) (chat.MCPServerPatch, error) {
	in, err := decodeAt[serverPatch](raw, "")
	if err != nil {
		return chat.MCPServerPatch{}, err
	}
	if in.Env != nil {
		if err := checkPairs(valuesOf(*in.Env), "/env"); err != nil {
			return chat.MCPServerPatch{}, err
		}
	}
	if in.Headers != nil {
		if err := checkPairs(valuesOf(*in.Headers), "/headers"); err != nil {
			return chat.MCPServerPatch{}, err
		}
	}
	return chat.MCPServerPatch(in), nil
}

func valuesOf(pairs map[string]*string) map[string]string {
	values := make(map[string]string, len(pairs))
	for name, value := range pairs {
		values[name] = ""
		if value != nil {
			values[name] = *value
		}
	}
	return values
}

const (
	maxPairs     = 200
	maxPairName  = 256
	maxPairValue = 16 << 10
)

// checkPairs holds environment variables or headers against the contract. Of
// several that break it the first by name is named.
func checkPairs(pairs map[string]string, at string) error {
	if len(pairs) > maxPairs {
		return malformed(at, "must have at most "+strconv.Itoa(maxPairs)+" members")
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if n := utf8.RuneCountInString(name); n == 0 || n > maxPairName {
			return malformed(at, "must have names of 1 to "+strconv.Itoa(maxPairName)+" characters")
		}
		if utf8.RuneCountInString(pairs[name]) > maxPairValue {
			return malformed(at+"/"+escapePointer(name), "must have at most "+strconv.Itoa(maxPairValue)+" characters")
		}
	}
	return nil
}
