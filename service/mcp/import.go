package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxImport        = 1 << 20
	maxImportServers = 100
)

// importFile is the file in which desktop programs keep their tool servers.
type importFile struct {
	MCPServers map[string]json.RawMessage `json:"mcpServers"`
	Servers    map[string]json.RawMessage `json:"servers"` // as VS Code has it
}

// importEntry is what is read of one server. Other members, such as what a
// program approves by itself, are left aside: nobody has said so here.
type importEntry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
}

// placeholder is a value that another program would ask the person for.
var placeholder = regexp.MustCompile(`\$\{(input|env):[^}]*\}`)

// ParseImport reads the tool servers of the common settings file, in the order
// of their names. They have no ids yet, and all their tools ask. An error is of
// kind chat.ErrInvalid, names every entry that is wrong and quotes none of
// their values.
func ParseImport(data []byte) ([]chat.MCPServer, error) {
	if len(data) > maxImport {
		return nil, chat.Invalid("The settings are larger than %d bytes.", maxImport)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var file importFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, chat.Invalid("The settings are not valid JSON of the form {\"mcpServers\":{…}}: %s", chat.Sentence(jsonFault(err)))
	}
	entries := maps.Clone(file.MCPServers)
	if entries == nil {
		entries = map[string]json.RawMessage{}
	}
	for name, entry := range file.Servers {
		if _, ok := entries[name]; ok {
			return nil, chat.Invalid("The server %q is in both mcpServers and servers.", name)
		}
		entries[name] = entry
	}
	if len(entries) == 0 {
		return nil, chat.Invalid("The settings name no server: neither mcpServers nor servers has an entry.")
	}
	if len(entries) > maxImportServers {
		return nil, chat.Invalid("The settings name more than %d servers.", maxImportServers)
	}
	if !utf8.Valid(data) {
		return nil, chat.Invalid("The settings are not valid UTF-8.")
	}
	if at := namedTwice(json.NewDecoder(bytes.NewReader(data)), ""); at != "" { // of two servers of one name one would be lost
		return nil, chat.Invalid("The settings name %q twice.", at)
	}
	var servers []chat.MCPServer
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		server, err := importServer(name, entries[name])
		if err != nil {
			wrong = append(wrong, chat.Invalid("The server %q cannot be imported: %s", name, chat.Sentence(err)))
		}
		servers = append(servers, server)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return servers, nil
}

// namedTwice returns where a value of valid JSON has a member for the second
// time, "" if none has.
func namedTwice(values *json.Decoder, at string) string {
	opening, err := values.Token()
	if err != nil {
		return "" // it was decoded before
	}
	seen := map[string]bool{}
	found := ""
	for i := 0; opening == json.Delim('{') || opening == json.Delim('['); i++ {
		if !values.More() {
			values.Token() //nolint:errcheck // its end, which was decoded before
			break
		}
		member := strconv.Itoa(i)
		if opening == json.Delim('{') {
			name, err := values.Token()
			if err != nil {
				return ""
			}
			member = fmt.Sprint(name)
			if seen[member] {
				found = cmp.Or(found, at+"/"+member)
			}
			seen[member] = true
		}
		found = cmp.Or(found, namedTwice(values, at+"/"+member))
	}
	return found
}

func importServer(name string, raw json.RawMessage) (chat.MCPServer, error) {
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		return chat.MCPServer{}, errors.New("it is not an object")
	}
	var e importEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return chat.MCPServer{}, jsonFault(err)
	}
	server := chat.MCPServer{
		Name: name, Command: e.Command, Args: e.Args, Env: e.Env, Dir: e.Cwd,
		URL: e.URL, Headers: e.Headers, Disabled: e.Disabled,
	}
	switch strings.ToLower(e.Type) {
	case "":
		server.Transport = chat.TransportStdio
		if e.Command == "" && e.URL != "" {
			server.Transport = chat.TransportHTTP
		}
	case "stdio":
		server.Transport = chat.TransportStdio
	case "http", "streamable-http", "streamablehttp", "streamable_http":
		server.Transport = chat.TransportHTTP
	case "sse":
		return chat.MCPServer{}, errors.New("it uses the old SSE transport, which is not supported; ask for its streamable HTTP address")
	default:
		return chat.MCPServer{}, errors.New("its type is unknown; it must be stdio or http")
	}
	values := slices.Concat([]string{e.Command, e.Cwd, e.URL}, e.Args,
		slices.Collect(maps.Values(e.Env)), slices.Collect(maps.Values(e.Headers)))
	for _, value := range values {
		if found := placeholder.FindString(value); found != "" {
			return chat.MCPServer{}, fmt.Errorf("it has the placeholder %s; put in the value", shorten(found, 80))
		}
	}
	return server, server.Check()
}

// jsonFault says what is wrong with JSON without quoting a value of it.
func jsonFault(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it breaks off or is wrong at byte %d", syntax.Offset)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must not be a JSON %s", kind.Field, strings.Fields(kind.Value + " value")[0])
	}
	return errors.New("it cannot be read")
}
