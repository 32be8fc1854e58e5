package assent_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/third-party.md anew")

const (
	thirdParty    = "docs/third-party.md"
	thirdPartyTop = `# Third-party software

The program holds the Go modules below, as they were released and unchanged, for Linux on amd64, beside Go's own library and
runtime, whose licence is that of golang.org/x/sys. The texts follow the table. The page holds packages from npm; their licences
are at ` + "`/licenses.txt`" + ` on every server, and in ` + "`web/dist/licenses.txt`" + `.

The source of what is under the Mozilla Public License is at the address beside it.

A test compares this file with the modules; ` + "`go test -run ThirdParty . -args -update`" + ` writes it anew.

| module | version | licence |
|---|---|---|
`
)

// TestThirdPartyIsWhatTheProgramHolds holds the file against the modules of
// the program, their versions and the texts that they bring.
func TestThirdPartyIsWhatTheProgramHolds(t *testing.T) {
	want := thirdPartyPage(t)
	if *update {
		if err := os.WriteFile(thirdParty, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(thirdParty)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the program holds; run: go test -run ThirdParty . -args -update", thirdParty)
	}
}

type dependency struct{ Path, Version, Dir string }

func dependencies(t *testing.T) []dependency {
	t.Helper()
	found := map[string]dependency{}
	for d := json.NewDecoder(bytes.NewReader(run(t, "list", "-deps", "-json=Module", "./cmd/assent"))); ; {
		var p struct {
			Module *struct {
				dependency
				Main bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && !p.Module.Main {
			found[p.Module.Path] = p.Module.dependency
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b dependency) int { return cmp.Compare(a.Path, b.Path) })
}

// notice is what a module brings with its code and wants to be passed on.
var notice = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-_][^.]*)?(\.(txt|md))?$`)

// elsewhere is not about what the program holds: a list of the licences of all
// modules in the graph, whose own files are here, and that of a picture.
var elsewhere = []string{"modernc.org/sqlite/LICENSE-3RD-PARTY.md", "modernc.org/memory/LICENSE-LOGO"}

func thirdPartyPage(t *testing.T) []byte {
	t.Helper()
	var table, texts strings.Builder
	users := map[string][]string{} // of each text
	var order []string
	for _, m := range dependencies(t) {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		var licences []string
		for _, e := range entries {
			if !notice.MatchString(e.Name()) || slices.Contains(elsewhere, m.Path+"/"+e.Name()) {
				continue
			}
			raw, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			text := plain(string(raw))
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.Path+" ("+e.Name()+")")
			if id := licenceOf(text); !strings.EqualFold(e.Name(), "NOTICE") && !slices.Contains(licences, id) {
				licences = append(licences, id)
			}
		}
		if len(licences) == 0 || slices.Contains(licences, "") {
			t.Errorf("%s: the licence is not known: %q", m.Path, licences)
		}
		if slices.Contains(licences, "MPL-2.0") {
			licences = append(licences, fmt.Sprintf("source: <https://proxy.golang.org/%s/@v/%s.zip>", m.Path, m.Version))
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", m.Path, m.Version, strings.Join(licences, ", "))
	}
	for _, text := range order {
		fmt.Fprintf(&texts, "\n## %s\n\n~~~text\n%s\n~~~\n", strings.Join(users[text], ", "), text)
	}
	return []byte(thirdPartyTop + table.String() + texts.String())
}

// plain is a text with the line ends of this file and without blanks that no
// reader sees.
func plain(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// licenceOf is the SPDX name of a licence by words that only it has; "" if it
// is none of those that the program holds so far.
func licenceOf(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	has := func(s string) bool { return strings.Contains(words, s) }
	switch {
	case has("Third-Party Software Notices"):
		return "and others"
	case has("Mozilla Public License Version 2.0"):
		return "MPL-2.0"
	case has("Apache License Version 2.0"):
		return "Apache-2.0"
	case has("SQLite Is Public Domain"):
		return "public domain"
	case has("Redistribution and use in source and binary forms") && (has("endorse or promote") || has("Neither the name")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	}
	return ""
}

func TestLicenceOf(t *testing.T) {
	for text, want := range map[string]string{
		"                     Apache License\n            Version 2.0, January 2004":       "Apache-2.0",
		"Mozilla Public License Version 2.0\n====":                                         "MPL-2.0",
		"Redistribution and use in source and\nbinary forms, with … Neither the name of …": "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with …":                        "BSD-2-Clause",
		"MIT License\n\nPermission is hereby granted, free of charge, to":                  "MIT",
		"GNU AFFERO GENERAL PUBLIC LICENSE":                                                "",
		"":                                                                                 "",
	} {
		if got := licenceOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
