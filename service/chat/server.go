package chat

import (
	"maps"
	"slices"
	"strings"
	"time"
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

// ServerSource says where a tool server is configured.
type ServerSource string

// The sources of tool servers.
const (
	SourceBuiltIn  ServerSource = "built-in" // part of this program
	SourceFile     ServerSource = "file"     // a file that the server was started with
	SourceSettings ServerSource = "settings" // the database: a person added it
)

// MCPServer is a tool server: how to reach it, and which of its tools may do
// what. Args, Env, Headers and URL may hold secrets; what may be shown of a
// server is Shown.
type MCPServer struct {
	ID        string
	Name      string
	Source    ServerSource // "" is SourceSettings
	Transport Transport
	Command   string
	Args      []string
	Env       map[string]string
	Dir       string
	URL       string
	Headers   map[string]string
	Disabled  bool
	Switches
	// Identity names what is reached, and how: it changes with every change of
	// the connection. It tells nothing of the secrets in it.
	Identity string
	// Problem says why the connection of a stored server cannot be read; it is
	// not connected then. "" if it can.
	Problem   string
	Version   int // rises with every change, from 1
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Switches is what the person said about the tools of a server, each by its
// own name on the server. A tool is in at most one of AutoApproveTools and
// AlwaysAskTools. What is kept is who may pass, not who may not: a new server
// asks for everything, and a tool that a server brings later asks too, because
// nobody has allowed it yet.
type Switches struct {
	// DisabledTools are never run and never offered.
	DisabledTools []string `json:"disabledTools"`
	// AutoApproveTools are those that the person took off the list of tools to
	// ask for, disabledAutoApproveTools.
	AutoApproveTools []string `json:"autoApproveTools"`
	// AlwaysAskTools are those that the person put on that list: no rule that
	// allows outranks them.
	AlwaysAskTools []string `json:"alwaysAskTools"`
	// Trusted says that the person trusts what the server claims of its tools.
	Trusted bool `json:"trusted"`
}

// Policy is what the person said about one tool. A tool that nothing was said
// about asks.
func (s Switches) Policy(tool string) ToolPolicy {
	return ToolPolicy{
		Disabled:    slices.Contains(s.DisabledTools, tool),
		AlwaysAsk:   slices.Contains(s.AlwaysAskTools, tool),
		AutoApprove: slices.Contains(s.AutoApproveTools, tool),
		Trusted:     s.Trusted,
	}
}

// Policy is what the person said about one of the server's tools.
func (s MCPServer) Policy(tool string) ToolPolicy {
	p := s.Switches.Policy(tool)
	p.Disabled = p.Disabled || s.Disabled
	return p
}

// DisabledAutoApproveTools returns those of the known tools that ask: every
// one that the person has not allowed to run without it.
func (s Switches) DisabledAutoApproveTools(known []string) []string {
	asks := []string{}
	for _, tool := range known {
		if !slices.Contains(s.AutoApproveTools, tool) || slices.Contains(s.AlwaysAskTools, tool) {
			asks = append(asks, tool)
		}
	}
	return asks
}

// WithDisabledAutoApproveTools returns the switches with list as the tools
// that ask: of the known tools, those that list lacks are approved
// automatically. A tool that list names although it passed until now was put
// there by the person, and so is always asked for. What was said about a tool
// that is not known now stays as it is, unless list names it.
func (s Switches) WithDisabledAutoApproveTools(known, list []string) Switches {
	for _, tool := range list {
		if slices.Contains(s.AutoApproveTools, tool) {
			s = s.withTool(tool, false, true)
		}
	}
	for _, tool := range known {
		if !slices.Contains(list, tool) {
			s = s.withTool(tool, true, false)
		}
	}
	return s
}

// WithAutoApprove returns the switches with one tool taken off the list of
// tools to ask for, or put back as one that nothing was said about.
func (s Switches) WithAutoApprove(tool string, approve bool) Switches {
	return s.withTool(tool, approve, false)
}

func (s Switches) withTool(tool string, approve, ask bool) Switches {
	s.AutoApproveTools = withMember(s.AutoApproveTools, tool, approve)
	s.AlwaysAskTools = withMember(s.AlwaysAskTools, tool, ask)
	return s
}

// withMember returns a list with name in it, once, or without it. It does not
// write to the list.
func withMember(list []string, name string, in bool) []string {
	if in && slices.Contains(list, name) {
		return list
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
	if in {
		list = append(list, name)
	}
	return list
}

// SameConnection reports whether s and o are reached in the same way, so that
// a change from one to the other needs no new connection.
func (s MCPServer) SameConnection(o MCPServer) bool {
	return s.ID == o.ID && s.Transport == o.Transport && s.Command == o.Command && slices.Equal(s.Args, o.Args) &&
		maps.Equal(s.Env, o.Env) && s.Dir == o.Dir && s.URL == o.URL && maps.Equal(s.Headers, o.Headers) && s.Disabled == o.Disabled
}

// WorkspaceName is the name, and the id, of the built-in server.
const WorkspaceName = "workspace"

const maxServerName = 64

// ownHeaders are written by the protocol itself.
var ownHeaders = []string{"accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"}

// Check says what is wrong with the settings of a server; it is nil or an
// error of kind ErrInvalid. It quotes no value that may be a secret.
func (s MCPServer) Check() error {
	if err := s.checkName(); err != nil {
		return err
	}
	switch s.Transport {
	case TransportStdio:
		return s.checkProcess()
	case TransportHTTP:
		return s.checkHTTP()
	default:
		return Invalid("The transport of the tool server %s must be %q or %q.", s.Name, TransportStdio, TransportHTTP)
	}
}

func (s MCPServer) checkName() error {
	if strings.EqualFold(s.Name, WorkspaceName) {
		return Invalid("The name %s is that of the built-in server; choose another.", WorkspaceName)
	}
	if n := utf8.RuneCountInString(s.Name); n == 0 || n > maxServerName || strings.TrimSpace(s.Name) != s.Name || !printable(s.Name) {
		return Invalid("The name of a tool server must be 1 to %d printable characters, without white space around it.", maxServerName)
	}
	if s.Name == "." || s.Name == ".." { // it may be an id, and no address can lead to it
		return Invalid("The name of a tool server must not be %q.", s.Name)
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
			return Invalid("The tool server %s has an environment variable that no process can be given: %q.", s.Name, bareName(name))
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
	seen := map[string]bool{}
	for name, value := range s.Headers {
		lower := strings.ToLower(name)
		if seen[lower] {
			return Invalid("The tool server %s has the header %s twice.", s.Name, bareName(name))
		}
		seen[lower] = true
		if slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "mcp-") {
			return Invalid("The tool server %s cannot have the header %s: the protocol sets it.", s.Name, bareName(name))
		}
		if !headerName(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return Invalid("The tool server %s has a header that cannot be sent: %q.", s.Name, bareName(name))
		}
	}
	return nil
}

func httpAddress(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "http://")
	}
	place := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		place = rest[:i]
	}
	place = place[strings.LastIndexByte(place, '@')+1:]
	return ok && hostPort(place) && printable(rest) && !strings.ContainsAny(rest, ` #\`)
}

// hostPort reports whether s is a host, with a port or without. What is none
// may be the beginning of a password.
func hostPort(s string) bool {
	host, port, _ := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") { // an IPv6 address
		i := strings.IndexByte(s, ']')
		if i < 0 {
			return false
		}
		host, port = s[:i+1], s[i+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
	}
	return host != "" && !strings.ContainsFunc(port, func(r rune) bool { return r < '0' || r > '9' })
}

// bareName is a name as it may be quoted: people paste the value along with it.
func bareName(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool { return r == '=' || r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }); i >= 0 {
		return s[:i] + "…"
	}
	return s
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
