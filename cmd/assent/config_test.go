package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func environment(pairs ...string) func(string) string {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(k string) string { return env[k] }
}

func TestConfigFlagsWinOverEnvironmentOverDefaults(t *testing.T) {
	t.Parallel()
	c, rest, err := loadConfig("serve", []string{"-addr", "localhost:1", "-lease", "2s", "x"}, environment("ASSENT_ADDR", "127.0.0.1:2", "ASSENT_MODEL", "openai/m", "ASSENT_LOG", "debug,json"), io.Discard)
	if err != nil || len(rest) != 1 {
		t.Fatal(err, rest)
	}
	if c.Addr != "localhost:1" || c.Model != "openai/m" || c.Lease != 2*time.Second || c.MaxSteps != 50 || !c.LogJSON || c.LogLevel != slog.LevelDebug || !c.Prepare {
		t.Errorf("got %+v", c)
	}
	if c.Workspace != filepath.Join(c.DataDir, "workspace") {
		t.Errorf("the workspace is %s", c.Workspace)
	}
}

func TestConfigReportsEveryMistakeAtOnceAndExits2(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	args := []string{"serve", "-addr", "here", "-lease", "never", "-max-steps", "0"}
	env := environment("DATABASE_URL", "mysql://user:secret@host/db", "ASSENT_PUBLIC_URL", "ftp://x", "ASSENT_LOG", "loud", "ASSENT_PREPARE", "maybe", "ASSENT_MODEL", "demo", "ASSENT_TOOL_TIMEOUT", "-1s")
	if code := run(t.Context(), args, env, strings.NewReader(""), &out, &errs); code != 2 {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"-addr", "-lease", "-max-steps", "DATABASE_URL", "ASSENT_PUBLIC_URL", "ASSENT_LOG", "ASSENT_PREPARE", "ASSENT_MODEL", "ASSENT_TOOL_TIMEOUT"} {
		if !strings.Contains(errs.String(), name+": ") {
			t.Errorf("the mistake in %s is not reported:\n%s", name, errs.String())
		}
	}
	if strings.Contains(errs.String(), "secret") {
		t.Error("a password is shown")
	}
}

func TestConfigReadsMCPServersAndShowsNoneOfTheirSecrets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcp.json")
	load := func(file string) (config, string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := loadConfig("serve", []string{"-mcp-config", path}, environment("ASSENT_MODEL", "demo/guide"), io.Discard)
		if err == nil {
			return c, ""
		}
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%v is no mistake in the configuration", err)
		}
		return c, err.Error()
	}
	c, complaint := load(`{"mcpServers":{"web":{"url":"http://127.0.0.1:1/mcp"},"files":{"command":"x","env":{"KEY":"s3cret"}}}}`)
	if complaint != "" || len(c.MCPServers) != 2 || c.MCPServers[0].ID != "files" || c.MCPServers[1].ID != "web" || len(c.MCPServers[0].AutoApproveTools) != 0 {
		t.Errorf("got %+v, %s", c.MCPServers, complaint)
	}
	if shown := c.LogValue().String(); strings.Contains(shown, "s3cret") || !strings.Contains(shown, "mcp_servers=2") {
		t.Errorf("logged as %s", shown)
	}
	_, complaint = load(`{"mcpServers":{"workspace":{"command":"x"},"two":{"url":"s3cret"},"three":{"command":"x","env":{"KEY":["s3cret"]}}}}`)
	for _, want := range []string{"-mcp-config: ", path, `"workspace"`, `"two"`, `"three"`} {
		if !strings.Contains(complaint, want) {
			t.Errorf("%s is not in %s", want, complaint)
		}
	}
	if strings.Contains(complaint, "s3cret") {
		t.Errorf("a secret is shown: %s", complaint)
	}
	if _, complaint = load(`{"mcpServers":{}} `); !strings.Contains(complaint, "no server") {
		t.Errorf("no server: %s", complaint)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadConfig("serve", nil, environment("ASSENT_MCP_CONFIG", path), io.Discard); err == nil || !strings.Contains(err.Error(), "ASSENT_MCP_CONFIG: ") {
		t.Errorf("no file: %v", err)
	}
}

func TestConfigNoAuthIsForLoopbackOnly(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "0.0.0.0:1": false, ":1": false, "192.0.2.1:1": false} {
		_, _, err := loadConfig("serve", []string{"-no-auth", "-addr", addr}, environment(), io.Discard)
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"version"}, 0, release},
		{[]string{"help"}, 0, "assent token new NAME"},
		{[]string{"-h"}, 0, "ASSENT_ADDR"},
		{[]string{"dance"}, 2, `no command "dance"`},
		{[]string{"serve", "more"}, 2, "no arguments"},
		{[]string{"serve", "-nonsense"}, 2, "nonsense"},
		{[]string{"demo", "more"}, 2, "no arguments"},
		{[]string{"health", "more"}, 2, "no arguments"},
		{[]string{"token", "-data-dir", dir}, 1, "start the server once"},
		{[]string{"token", "new", "ada", "-data-dir", dir}, 1, "start the server once"},
		{[]string{"token", "new", "owner", "-data-dir", dir}, 2, "cannot be a principal's name"},
		{[]string{"token", "new", "a b", "-data-dir", dir}, 2, "cannot be a principal's name"},
		{[]string{"token", "old", "-data-dir", dir}, 2, "no argument"},
		{[]string{"serve", "-data-dir", taken, "-addr", "127.0.0.1:0"}, 1, "data folder"},
		{[]string{"serve", "-data-dir", dir, "-addr", "192.0.2.1:1"}, 1, "listen"},
		{[]string{"serve", "-data-dir", filepath.Join(dir, "d"), "-model", "openai/gpt-x"}, 2, "-model: "},
		{[]string{"serve", "-data-dir", filepath.Join(dir, "d"), "-workspace", dir}, 2, "read the owner's token"},
		{[]string{"serve", "-data-dir", filepath.Join(dir, "d"), "-workspace", filepath.Join(dir, "d")}, 2, "read the owner's token"},
		{[]string{"health", "-addr", "127.0.0.1:1"}, 1, "does not answer"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), tt.args, environment(), strings.NewReader(""), &out, &out); code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%q: exit code %d, want %d; says %q, want %q", tt.args, code, tt.code, out.String(), tt.says)
		}
	}
}

func TestConfigTableOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		row := "| `-" + s.flag + "` | `" + s.env + "` |"
		if !strings.Contains(string(readme), row) {
			t.Errorf("the README has no row %s", row)
		}
	}
}
