package chat

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// hiddenMark stands for a text that is not shown.
const hiddenMark = "•••"

// ServerSettings is a server's settings as they may be shown: of what may be a
// secret it names what there is. Of Env and Headers every value is nil; user
// information and query values of URL are hidden. Args are shown, since nobody
// could say otherwise what runs.
type ServerSettings struct {
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Source    ServerSource       `json:"source"`
	Transport Transport          `json:"transport"`
	Command   string             `json:"command,omitempty"`
	Args      []string           `json:"args,omitempty"`
	Env       map[string]*string `json:"env,omitempty"`
	Dir       string             `json:"dir,omitempty"`
	URL       string             `json:"url,omitempty"`
	Headers   map[string]*string `json:"headers,omitempty"`
	Disabled  bool               `json:"disabled"`
	Switches
	Version   int        `json:"version"`
	CreatedAt *time.Time `json:"createdAt,omitempty"` // absent of what is built in or in a file
	UpdatedAt *time.Time `json:"updatedAt,omitempty"`
}

// Shown returns what may be shown of the server.
func (s MCPServer) Shown() ServerSettings {
	shown := ServerSettings{
		ID: s.ID, Name: s.Name, Source: s.Source, Transport: s.Transport, Command: s.Command, Args: slices.Clone(s.Args), Env: names(s.Env), Dir: s.Dir,
		URL: hiddenURL(s.URL), Headers: names(s.Headers), Disabled: s.Disabled, Version: s.Version,
		Switches: Switches{
			DisabledTools: list(s.DisabledTools), AutoApproveTools: list(s.AutoApproveTools), AlwaysAskTools: list(s.AlwaysAskTools), Trusted: s.Trusted,
		},
	}
	if shown.Source == "" {
		shown.Source = SourceSettings
	}
	if !s.CreatedAt.IsZero() {
		shown.CreatedAt, shown.UpdatedAt = &s.CreatedAt, &s.UpdatedAt
	}
	return shown
}

func list(tools []string) []string { return append([]string{}, tools...) }

func names(values map[string]string) map[string]*string {
	if len(values) == 0 {
		return nil
	}
	shown := make(map[string]*string, len(values))
	for name := range values {
		shown[name] = nil
	}
	return shown
}

// hiddenURL hides what an address may hold beside the place: user information,
// and everything after the question mark but the names. Of what is no address
// of the web it shows nothing.
func hiddenURL(address string) string {
	if address == "" {
		return ""
	}
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "http" && scheme != "https" {
		return hiddenMark
	}
	rest, query, asks := strings.Cut(rest, "?")
	host, path, slash := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = hiddenMark + host[i:]
	}
	shown := scheme + "://" + host
	if slash {
		shown += "/" + path
	}
	if asks {
		var pairs []string
		for pair := range strings.SplitSeq(query, "&") {
			if name, _, valued := strings.Cut(pair, "="); valued {
				pairs = append(pairs, name+"="+hiddenMark)
			} else {
				pairs = append(pairs, hiddenMark)
			}
		}
		shown += "?" + strings.Join(pairs, "&")
	}
	return shown
}

// ForOthers returns the settings as those may see them who do not manage
// servers: arguments and addresses may hold a key.
func (s ServerSettings) ForOthers() ServerSettings {
	if len(s.Args) > 0 {
		s.Args = []string{hiddenMark}
	}
	if scheme, rest, ok := strings.Cut(s.URL, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		if host, _, _ = strings.Cut(host, "?"); path != "" || host != rest {
			s.URL = scheme + "://" + host + "/" + hiddenMark
		}
	}
	return s
}

// MCPServerPatch changes a server; nil members stay as they are. The transport
// of a server never changes.
type MCPServerPatch struct {
	Name    *string
	Command *string
	Args    *[]string
	// Env and Headers replace all there were; a nil value keeps what is stored
	// under its name.
	Env      *map[string]*string
	Dir      *string
	URL      *string
	Headers  *map[string]*string
	Disabled *bool

	DisabledTools    *[]string
	AutoApproveTools *[]string
	AlwaysAskTools   *[]string
	// DisabledAutoApproveTools is applied as Switches.WithDisabledAutoApproveTools
	// has it. It does not go with the two lists above.
	DisabledAutoApproveTools *[]string
	// KnownTools are the tools that whoever made DisabledAutoApproveTools has
	// seen: one that the server brought since goes on asking. nil is all.
	KnownTools *[]string
	Trusted    *bool

	// Version, if set, must be the version that the server has.
	Version *int
}

// Connects reports whether the patch names anything but switches of tools.
func (p MCPServerPatch) Connects() bool { return p.Name != nil || p.Disabled != nil || p.reaches() }

// reaches reports whether the patch names anything of the way to the server.
func (p MCPServerPatch) reaches() bool {
	return p.Command != nil || p.Args != nil || p.Env != nil || p.Dir != nil || p.URL != nil || p.Headers != nil
}

// Apply returns the server with the patch applied; known are the tools that it
// has now, by their own names. If another program is started by it, or another
// address asked, no tool runs without asking any more and nothing is trusted,
// unless the patch says so itself. The version, the identity and the times are not
// touched. An error is of kind ErrInvalid, or ErrConflict if the server is at
// another version or is configured elsewhere; the server is as it was then.
func (p MCPServerPatch) Apply(s MCPServer, known []string) (MCPServer, error) {
	next, err := p.apply(s, known)
	if err != nil {
		return s, err
	}
	return next, nil
}

func (p MCPServerPatch) apply(s MCPServer, known []string) (MCPServer, error) {
	was := s
	if p.Version != nil && *p.Version != s.Version {
		return s, Conflict("The tool server is at version %d by now, not %d.", s.Version, *p.Version)
	}
	if p.Connects() {
		switch s.Source {
		case SourceBuiltIn:
			return s, Conflict("The server %s is part of this program: only its tools can be switched.", s.Name)
		case SourceFile:
			return s, Conflict("The server %s is configured in a file: change it there. Its tools can be switched here.", s.Name)
		case SourceSettings, "":
		}
		put(&s.Name, p.Name)
		put(&s.Command, p.Command)
		put(&s.Args, p.Args)
		put(&s.Dir, p.Dir)
		put(&s.Disabled, p.Disabled)
		if p.URL != nil && *p.URL != hiddenURL(s.URL) { // else it is what was shown
			if strings.Contains(*p.URL, hiddenMark) {
				return s, Invalid("The url holds “%s”, which stands for what is not shown; write it out.", hiddenMark)
			}
			s.URL = *p.URL
		}
		var err error
		if s.Env, err = replace(s.Env, p.Env, "environment variable"); err != nil {
			return s, err
		}
		if s.Headers, err = replace(s.Headers, p.Headers, "header"); err != nil {
			return s, err
		}
		check := s.Check
		if s.Problem != "" && !p.reaches() { // what cannot be read can still be renamed and switched off
			check = s.checkName
		}
		if err := check(); err != nil {
			return s, err
		}
	}
	if !s.sameProgram(was) { // what was allowed, and trusted, was another
		s.AutoApproveTools, s.Trusted = nil, false
	}
	switches, err := p.applySwitches(s.Switches, known)
	s.Switches = switches
	return s, err
}

func replace(old map[string]string, with *map[string]*string, what string) (map[string]string, error) {
	if with == nil {
		return old, nil
	}
	next := make(map[string]string, len(*with))
	for name, value := range *with {
		if value != nil {
			next[name] = *value
			continue
		}
		kept, ok := old[name]
		if !ok {
			return old, Invalid("There is no %s %q yet, so its value is needed.", what, bareName(name))
		}
		next[name] = kept
	}
	return next, nil
}

const (
	maxSwitches   = 1000
	maxSwitchName = 256
)

func (p MCPServerPatch) applySwitches(s Switches, known []string) (Switches, error) {
	for _, names := range []*[]string{p.DisabledTools, p.AutoApproveTools, p.AlwaysAskTools, p.DisabledAutoApproveTools} {
		if names == nil {
			continue
		}
		if len(*names) > maxSwitches {
			return s, Invalid("A list of tools holds at most %d.", maxSwitches)
		}
		for _, name := range *names {
			if name == "" || len(name) > maxSwitchName {
				return s, Invalid("The name of a tool has 1 to %d bytes.", maxSwitchName)
			}
		}
	}
	if p.DisabledAutoApproveTools != nil && (p.AutoApproveTools != nil || p.AlwaysAskTools != nil) {
		return s, Invalid("disabledAutoApproveTools says of every tool whether it asks: name either it, or autoApproveTools and alwaysAskTools.")
	}
	put(&s.Trusted, p.Trusted)
	if p.DisabledTools != nil {
		s.DisabledTools = distinct(*p.DisabledTools)
	}
	if p.AutoApproveTools != nil && p.AlwaysAskTools != nil {
		for _, name := range *p.AutoApproveTools {
			if slices.Contains(*p.AlwaysAskTools, name) {
				return s, Invalid("The tool %q cannot both run without asking and always be asked for.", name)
			}
		}
	}
	if p.AutoApproveTools != nil {
		s.AutoApproveTools = distinct(*p.AutoApproveTools)
		s.AlwaysAskTools = without(s.AlwaysAskTools, s.AutoApproveTools)
	}
	if p.AlwaysAskTools != nil {
		s.AlwaysAskTools = distinct(*p.AlwaysAskTools)
		s.AutoApproveTools = without(s.AutoApproveTools, s.AlwaysAskTools)
	}
	if p.DisabledAutoApproveTools != nil {
		if p.KnownTools != nil {
			known = slices.DeleteFunc(slices.Clone(known), func(tool string) bool { return !slices.Contains(*p.KnownTools, tool) })
		}
		s = s.WithDisabledAutoApproveTools(known, *p.DisabledAutoApproveTools)
	}
	return s, nil
}

func distinct(names []string) []string {
	var out []string
	for _, name := range names {
		out = withMember(out, name, true)
	}
	return out
}

func without(names, not []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return slices.Contains(not, s) })
}

// sameProgram reports whether s and o start the same program, or ask the same
// address, whatever keys it is given.
func (s MCPServer) sameProgram(o MCPServer) bool { return s.Program() == o.Program() }

// Program is one text for the program that is started, or the address that is
// asked. It may hold secrets.
func (s MCPServer) Program() string {
	raw, err := Marshal([]any{s.Transport, s.Command, list(s.Args), s.Dir, s.URL}) // no arguments are no arguments, nil or not
	if err != nil {
		panic(err) // texts always encode
	}
	return string(raw)
}

// SameSettings reports whether s and o are the same but for their version and
// times.
func (s MCPServer) SameSettings(o MCPServer) bool {
	return s.SameConnection(o) && s.Name == o.Name && s.Trusted == o.Trusted && slices.Equal(s.DisabledTools, o.DisabledTools) &&
		slices.Equal(s.AutoApproveTools, o.AutoApproveTools) && slices.Equal(s.AlwaysAskTools, o.AlwaysAskTools)
}

// ServerChange is one entry of the append-only record of a tool server's
// settings. It holds no secret. The entries of a server that was deleted stay.
type ServerChange struct {
	ServerID string    `json:"serverId"`
	Version  int       `json:"version"` // the server's after it
	Action   Action    `json:"action"`
	By       string    `json:"by"`
	Via      Via       `json:"via"`
	At       time.Time `json:"at"`
	// ApprovalID names the card on which a tool was allowed for good; absent of
	// changes made in the settings.
	ApprovalID string          `json:"approvalId,omitempty"`
	Before     *ServerSettings `json:"before,omitempty"` // absent when it was created
	After      *ServerSettings `json:"after,omitempty"`  // absent when it was deleted
	// Secrets says that the value of an environment variable, a header or the
	// hidden part of the address changed, without saying to what.
	Secrets bool `json:"secrets,omitempty"`
}

// SameSecrets reports whether s and o have the same environment, headers and
// address.
func (s MCPServer) SameSecrets(o MCPServer) bool {
	return maps.Equal(s.Env, o.Env) && maps.Equal(s.Headers, o.Headers) && s.URL == o.URL
}
