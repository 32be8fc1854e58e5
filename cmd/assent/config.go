package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// config is everything that can be set. Flags win over the environment, which
// wins over the defaults. The README has the same table.
type config struct {
	Addr          string           // address to listen on; not loopback needs authentication
	DataDir       string           // SQLite file, workspace, token
	DatabaseURL   string           // PostgreSQL instead of SQLite
	PublicURL     string           // the URL that browsers use, if another than Addr
	Workspace     string           // folder of the built-in tools; DataDir/workspace
	MCPServers    []chat.MCPServer // of a file, beside those that people add
	KeyFile       string           // key for stored secrets; made in DataDir if empty
	Model         string           // of topics that name none
	NoAuth        bool             // everybody is the owner; loopback only
	Prepare       bool             // keep prepared statements; off behind pgbouncer in transaction mode
	LogLevel      slog.Level       //
	LogJSON       bool             //
	Lease         time.Duration    // how long a turn stays its owner's without a heartbeat
	MaxSteps      int              // model steps of a turn
	ToolTimeout   time.Duration    // of one run of a tool
	ShutdownGrace time.Duration    // for running calls at a clean shutdown
	ShutdownDelay time.Duration    // from the word that the server leaves to its leaving
	Expiry        time.Duration    // of an approval that nobody decides; 0 is never
}

// setting is one row of the configuration: the flag -a-b is the environment
// variable ASSENT_A_B, but for DATABASE_URL, which has its usual name.
type setting struct {
	flag, env, value, help string
	set                    func(c *config, value string) error
}

func settings() []setting {
	return []setting{
		{"addr", "ASSENT_ADDR", "127.0.0.1:8420", "`address` to listen on", func(c *config, v string) error {
			host, port, err := net.SplitHostPort(v)
			if _, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil {
				return fmt.Errorf("%q is not host:port", v)
			}
			c.Addr = net.JoinHostPort(host, port)
			return nil
		}},
		{"data-dir", "ASSENT_DATA_DIR", "assent-data", "`folder` for the SQLite file, the workspace and the token", func(c *config, v string) error {
			dir, err := filepath.Abs(v)
			c.DataDir = dir
			return err
		}},
		{"database-url", "DATABASE_URL", "", "PostgreSQL `URL`; SQLite in the data folder if empty", func(c *config, v string) error {
			if v == "" {
				return nil
			}
			u, err := url.Parse(v)
			if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
				return errors.New("it must be a URL that begins with postgres://") // never the value: it holds a password
			}
			c.DatabaseURL = v
			return nil
		}},
		{"public-url", "ASSENT_PUBLIC_URL", "", "`URL` that browsers use, if it is not the address", func(c *config, v string) error {
			if v == "" {
				return nil
			}
			u, err := url.Parse(v)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
				return fmt.Errorf("%q is not an http(s) URL without a path", v)
			}
			c.PublicURL = u.Scheme + "://" + u.Host
			return nil
		}},
		{"workspace", "ASSENT_WORKSPACE", "", "`folder` that the built-in tools work in; \"workspace\" in the data folder if empty", func(c *config, v string) error {
			if v == "" {
				return nil
			}
			dir, err := filepath.Abs(v)
			c.Workspace = dir
			return err
		}},
		{"mcp-config", "ASSENT_MCP_CONFIG", "", "`file` of MCP servers, {\"mcpServers\": {…}}", func(c *config, v string) (err error) {
			if v != "" {
				c.MCPServers, err = readServers(v)
			}
			return err
		}},
		{"key-file", "ASSENT_KEY_FILE", "", "`file` with the key that stored secrets are encrypted with; made in the data folder if empty", func(c *config, v string) error {
			c.KeyFile = v
			return nil
		}},
		{"model", "ASSENT_MODEL", "demo/guide", "`model` of topics that name none, as provider/model", func(c *config, v string) error {
			if provider, name, ok := strings.Cut(v, "/"); !ok || provider == "" || name == "" {
				return fmt.Errorf("%q is not provider/model", v)
			}
			c.Model = v
			return nil
		}},
		{"log", "ASSENT_LOG", "info", "`level` debug, info, warn or error; with \",json\" for JSON", func(c *config, v string) error {
			level, form, _ := strings.Cut(v, ",")
			if err := c.LogLevel.UnmarshalText([]byte(level)); err != nil || form != "" && form != "json" && form != "text" {
				return fmt.Errorf("%q is not a level, or a level and \",json\"", v)
			}
			c.LogJSON = form == "json"
			return nil
		}},
		{"prepare", "ASSENT_PREPARE", "true", "keep prepared statements; false behind pgbouncer in transaction mode", func(c *config, v string) (err error) {
			if c.Prepare, err = strconv.ParseBool(v); err != nil {
				return fmt.Errorf("%q is not true or false", v)
			}
			return nil
		}},
		{"lease", "ASSENT_LEASE", "10s", "how long a turn stays its owner's without a heartbeat", func(c *config, v string) error {
			return duration(&c.Lease, v, 500*time.Millisecond)
		}},
		{"max-steps", "ASSENT_MAX_STEPS", "50", "model steps of a turn", func(c *config, v string) (err error) {
			if c.MaxSteps, err = strconv.Atoi(v); err != nil || c.MaxSteps < 1 {
				return fmt.Errorf("%q is not a positive number", v)
			}
			return nil
		}},
		{"tool-timeout", "ASSENT_TOOL_TIMEOUT", "10m", "of one run of a tool; then its outcome is unknown", func(c *config, v string) error {
			return duration(&c.ToolTimeout, v, time.Millisecond)
		}},
		{"approval-expiry", "ASSENT_APPROVAL_EXPIRY", "0", "after how long an approval that nobody decides is closed as denied; 0 is never", func(c *config, v string) error {
			return durationOrNone(&c.Expiry, v, time.Second)
		}},
		{"shutdown-grace", "ASSENT_SHUTDOWN_GRACE", "10s", "how long a clean shutdown waits for running calls", func(c *config, v string) error {
			return duration(&c.ShutdownGrace, v, time.Millisecond)
		}},
		{"shutdown-delay", "ASSENT_SHUTDOWN_DELAY", "0", "how long a server that is to stop says so on /readyz and serves on, for load balancers to notice", func(c *config, v string) error {
			return durationOrNone(&c.ShutdownDelay, v, time.Millisecond)
		}},
	}
}

func duration(into *time.Duration, v string, least time.Duration) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < least {
		return fmt.Errorf("%q is not a duration of at least %s, like 10s", v, least)
	}
	*into = d
	return nil
}

// durationOrNone is duration that takes "0" too, and then leaves into alone.
func durationOrNone(into *time.Duration, v string, least time.Duration) error {
	if v == "0" {
		return nil
	}
	return duration(into, v, least)
}

// loadConfig reads flags and environment once. It reports every mistake, not
// only the first, as one usageError. The rest of args is returned.
func loadConfig(name string, args []string, getenv func(string) string, stderr io.Writer) (config, []string, error) {
	var c config
	flags := flag.NewFlagSet("assent "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	rows := settings()
	given := make([]*string, len(rows))
	for i, s := range rows {
		given[i] = flags.String(s.flag, cmp.Or(getenv(s.env), s.value), s.help+" ("+s.env+")")
	}
	flags.BoolVar(&c.NoAuth, "no-auth", false, "let everybody in who can connect; on loopback only")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, nil, err
		}
		return c, nil, usageError{err}
	}

	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	var errs []error
	for i, s := range rows {
		if err := s.set(&c, *given[i]); err != nil {
			source := s.env
			if set[s.flag] {
				source = "-" + s.flag
			}
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
	}
	if c.NoAuth && c.Addr != "" && !loopback(c.Addr) {
		errs = append(errs, fmt.Errorf("-no-auth: %s is not a loopback address; everybody who reaches it could approve tool calls", c.Addr))
	}
	if err := errors.Join(errs...); err != nil {
		return c, nil, usageError{fmt.Errorf("the configuration has mistakes:\n%w", err)}
	}
	c.Workspace = cmp.Or(c.Workspace, filepath.Join(c.DataDir, "workspace"))
	return c, flags.Args(), nil
}

// loopback reports whether only this machine reaches addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// LogValue keeps the database's password out of logs.
func (c config) LogValue() slog.Value {
	database := "sqlite"
	if c.DatabaseURL != "" {
		database = "postgresql"
	}
	return slog.GroupValue(
		slog.String("addr", c.Addr), slog.String("data_dir", c.DataDir), slog.String("database", database),
		slog.String("model", c.Model), slog.Int("mcp_servers", len(c.MCPServers)), slog.Bool("auth", !c.NoAuth), slog.Duration("lease", c.Lease),
	)
}

// logger writes to w what the configuration asks for.
func (c config) logger(w io.Writer) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}
