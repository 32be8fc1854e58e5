package chat

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Transport is the way to a tool server.
type Transport string

// The transports of tool servers.
const (
	TransportStdio Transport = "stdio" // a process of ours: its standard input and output
	TransportHTTP  Transport = "http"  // streamable HTTP
)

// MCPServer is a tool server that a person added: how to reach it, and which
// of its tools may do what. Env, Headers and URL may hold secrets.
type MCPServer struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Transport Transport         `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Disabled  bool              `json:"disabled,omitempty"`
	// DisabledTools are never run and never offered.
	DisabledTools []string `json:"disabledTools,omitempty"`
	// AutoApproveTools are those that the person took off the list of tools to
	// ask for, disabledAutoApproveTools. What is kept is who may pass, not who
	// may not: a new server asks for everything, and a tool that a server
	// brings later asks too, because nobody has allowed it yet.
	AutoApproveTools []string `json:"autoApproveTools,omitempty"`
}

// Policy is what the person said about one of the server's tools. A tool that
// nothing was said about asks.
func (s MCPServer) Policy(tool string) ToolPolicy {
	return ToolPolicy{
		Disabled:    s.Disabled || slices.Contains(s.DisabledTools, tool),
		AutoApprove: slices.Contains(s.AutoApproveTools, tool),
	}
}

// DisabledAutoApproveTools returns those of the known tools that ask.
func (s MCPServer) DisabledAutoApproveTools(known []string) []string {
	asks := []string{}
	for _, tool := range known {
		if !slices.Contains(s.AutoApproveTools, tool) {
			asks = append(asks, tool)
		}
	}
	return asks
}

// WithDisabledAutoApproveTools returns the server with list as the tools that
// ask: of the known tools, those that list lacks are approved automatically.
// What was said about a tool that is not known now stays as it is, unless list
// names it.
func (s MCPServer) WithDisabledAutoApproveTools(known, list []string) MCPServer {
	var allowed []string
	for _, tool := range s.AutoApproveTools {
		if !slices.Contains(known, tool) && !slices.Contains(list, tool) {
			allowed = append(allowed, tool)
		}
	}
	for _, tool := range known {
		if !slices.Contains(list, tool) && !slices.Contains(allowed, tool) {
			allowed = append(allowed, tool)
		}
	}
	s.AutoApproveTools = allowed
	return s
}

// WithAutoApprove returns the server with one tool taken off the list of tools
// to ask for, or put back on it.
func (s MCPServer) WithAutoApprove(tool string, approve bool) MCPServer {
	s.AutoApproveTools = slices.DeleteFunc(slices.Clone(s.AutoApproveTools), func(t string) bool { return t == tool })
	if approve {
		s.AutoApproveTools = append(s.AutoApproveTools, tool)
	}
	return s
}

// SameConnection reports whether s and o are reached in the same way, so that
// a change from one to the other needs no new connection.
func (s MCPServer) SameConnection(o MCPServer) bool {
	return s.ID == o.ID && s.Transport == o.Transport && s.Command == o.Command && slices.Equal(s.Args, o.Args) &&
		maps.Equal(s.Env, o.Env) && s.Dir == o.Dir && s.URL == o.URL && maps.Equal(s.Headers, o.Headers) && s.Disabled == o.Disabled
}

const maxServerName = 64

// ownHeaders are written by the protocol itself.
var ownHeaders = []string{"accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"}

// Check says what is wrong with the settings of a server; it is nil or an
// error of kind ErrInvalid. It quotes no value that may be a secret.
func (s MCPServer) Check() error {
	if n := utf8.RuneCountInString(s.Name); n == 0 || n > maxServerName || strings.TrimSpace(s.Name) != s.Name || !printable(s.Name) {
		return Invalid("The name of a tool server must be 1 to %d printable characters, without white space around it.", maxServerName)
	}
	switch s.Transport {
	case TransportStdio:
		if err := s.checkProcess(); err != nil {
			return err
		}
	case TransportHTTP:
		if err := s.checkHTTP(); err != nil {
			return err
		}
	default:
		return Invalid("The transport of the tool server %s must be %q or %q.", s.Name, TransportStdio, TransportHTTP)
	}
	return nil
}

func (s MCPServer) checkProcess() error {
	if strings.TrimSpace(s.Command) == "" {
		return Invalid("The tool server %s needs a command.", s.Name)
	}
	if s.URL != "" || len(s.Headers) > 0 {
		return Invalid("The tool server %s is a command, so it has neither a url nor headers.", s.Name)
	}
	for _, text := range append([]string{s.Command, s.Dir}, s.Args...) {
		if strings.ContainsRune(text, 0) {
			return Invalid("The command of the tool server %s must not hold NUL characters.", s.Name)
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return Invalid("The tool server %s has an environment variable that no process can be given: %q.", s.Name, name)
		}
	}
	return nil
}

func (s MCPServer) checkHTTP() error {
	if !httpAddress(s.URL) {
		return Invalid("The url of the tool server %s must be an http or https address.", s.Name)
	}
	if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != "" {
		return Invalid("The tool server %s has a url, so it has no command, args, env or dir.", s.Name)
	}
	for name, value := range s.Headers {
		lower := strings.ToLower(name)
		if slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "mcp-") {
			return Invalid("The tool server %s cannot have the header %s: the protocol sets it.", s.Name, name)
		}
		if !headerName(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return Invalid("The tool server %s has a header that cannot be sent: %q.", s.Name, name)
		}
	}
	return nil
}

func httpAddress(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	host := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host = rest[:i]
	}
	return ok && host != "" && printable(rest) && !strings.ContainsAny(rest, " #")
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// headerName reports whether s is a token as RFC 9110 has it.
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
