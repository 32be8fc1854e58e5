package assent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/assent-chat/assent"

// rule says what a package may import: which others of ours, and which of
// everybody else's it may not, with all below those.
type rule struct{ ours, refused []string }

// program is the shape of the program. A vocabulary in the middle imports
// nothing, adapters around it never import each other, and the command wires
// them. docs/architecture.md has the same table for people.
var program = map[string]rule{
	"":               {},
	"service/chat":   {refused: []string{"context", "database/sql", "io/fs", "log", "net", "os"}},
	"service/bus":    {refused: []string{"net/http", "os"}},
	"service/live":   {ours: []string{"service/chat"}, refused: []string{"database/sql", "net/http"}},
	"service/llm":    {ours: []string{"service/chat"}, refused: []string{"database/sql"}},
	"service/mcp":    {ours: []string{"service/chat"}, refused: []string{"database/sql"}},
	"service/policy": {ours: []string{"service/chat"}, refused: []string{"database/sql", "net/http", "os"}},
	"service/turn":   {ours: []string{"service/chat", "service/live"}, refused: []string{"database/sql", "net/http"}},
	"service":        {ours: []string{"service/chat", "service/live", "service/turn"}, refused: []string{"database/sql", "net/http"}},
	"repository":     {ours: []string{"service/chat", "migrations"}, refused: []string{"net/http"}},
	"api":            {ours: []string{"service/chat", "service"}, refused: []string{"database/sql"}},
	"web":            {},
	"migrations":     {},
	"cmd/assent": {ours: []string{
		"", "api", "migrations", "repository", "service", "service/bus", "service/chat", "service/live", "service/llm", "service/mcp", "service/policy", "service/turn", "web",
	}},
}

// forTests are fakes, suites and throwaway servers. They may import what they
// like of ours, and nothing in the program may import them.
var forTests = []string{"api/apitest", "repository/pgtest", "repository/repotest", "service/bus/bustest", "service/live/livetest", "service/llm/llmtest"}

func TestPackagesImportOnlyWhatTheirPlaceAllows(t *testing.T) {
	for _, p := range list(t) {
		if r, ok := program[p.Path]; ok {
			for _, wrong := range r.broken(p.Imports) {
				t.Errorf("package %q may not import %q", p.Path, wrong)
			}
		} else if !slices.Contains(forTests, p.Path) {
			t.Errorf("package %q has no place yet: say here and in docs/architecture.md what it may import", p.Path)
		}
	}
}

func TestEveryRuleIsOfAPackageThatExists(t *testing.T) {
	var paths []string
	for _, p := range list(t) {
		paths = append(paths, p.Path)
	}
	for path := range program {
		if !slices.Contains(paths, path) {
			t.Errorf("there is no package %q", path)
		}
	}
	for _, path := range forTests {
		if !slices.Contains(paths, path) {
			t.Errorf("there is no package %q", path)
		}
	}
}

func TestARuleFindsWhatBreaksIt(t *testing.T) {
	r := rule{ours: []string{"service/chat"}, refused: []string{"net/http", "os"}}
	for imported, fits := range map[string]bool{
		"strings": true, "net": true, "net/url": true, "osmosis": true, "example.org/net/http": true,
		module + "/service/chat": true,
		"net/http":               false, "net/http/httptest": false, "os": false, "os/exec": false,
		module: false, module + "/service": false, module + "/service/chat/deep": false, module + "/repository/pgtest": false,
	} {
		if broken := r.broken([]string{imported}); (len(broken) == 0) != fits {
			t.Errorf("%s: fits %v, want %v", imported, !fits, fits)
		}
	}
}

// broken returns the imports that the rule does not allow.
func (r rule) broken(imports []string) []string {
	var wrong []string
	for _, path := range imports {
		own, ours := cutModule(path)
		if ours && !slices.Contains(r.ours, own) || !ours && slices.ContainsFunc(r.refused, func(refused string) bool { return below(path, refused) }) {
			wrong = append(wrong, path)
		}
	}
	return wrong
}

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// cutModule is a path within the module, if it is one.
func cutModule(path string) (own string, ours bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// listed is a package of ours, its path within the module, with what its code
// imports; its tests may import more.
type listed struct {
	Path    string
	Imports []string
}

func list(t *testing.T) []listed {
	t.Helper()
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(run(t, "list", "-json=ImportPath,Imports", "./..."))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		own, ours := cutModule(p.ImportPath)
		if ours && !below(own, "web/node_modules") { // what npm brings may hold Go files
			packages = append(packages, listed{own, p.Imports})
		}
	}
	if len(packages) == 0 {
		t.Fatal("no package was listed")
	}
	return packages
}

// run runs the go command for the platform of the image, so that the answer
// is the same on every machine.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}
