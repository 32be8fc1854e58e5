package llm

import (
	"net"
	"net/url"
	"strings"
)

// Environment returns the providers that the conventional variables name:
// openai, if OPENAI_API_KEY or OPENAI_BASE_URL is set, and ollama, if
// OLLAMA_HOST is. All are marked as given by the environment.
func Environment(getenv func(string) string) []Provider {
	var out []Provider
	key, base := strings.TrimSpace(getenv("OPENAI_API_KEY")), strings.TrimSpace(getenv("OPENAI_BASE_URL"))
	if key != "" || base != "" {
		if base == "" {
			base = "https://api.openai.com/v1"
		}
		out = append(out, Provider{ID: "openai", Title: "OpenAI", BaseURL: base, APIKey: key, FromEnvironment: true})
	}
	if host := strings.TrimSpace(getenv("OLLAMA_HOST")); host != "" {
		out = append(out, Provider{ID: "ollama", Title: "Ollama", BaseURL: ollamaBase(host), FromEnvironment: true})
	}
	return out
}

// ollamaBase reads OLLAMA_HOST as Ollama does: a host, host:port or URL. An
// address to listen on at every interface is reached at this machine.
func ollamaBase(host string) string {
	scheme, rest, ok := strings.Cut(host, "://")
	port := ""
	switch {
	case !ok:
		scheme, rest, port = "http", host, "11434"
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	}
	rest, path, _ := strings.Cut(rest, "/")
	name, given, err := net.SplitHostPort(rest)
	if err != nil {
		name = strings.Trim(rest, "[]")
	} else if given != "" {
		port = given
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(name, port)}
	return u.JoinPath(path, "v1").String()
}
