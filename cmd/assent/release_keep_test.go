package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keep writes the database and what was said of it to a folder.
func (w *world) keep(dir string, r record) {
	w.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	said, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	w.pack(filepath.Join(dir, "record.json.gz"), append(said, '\n'))
	if w.databaseURL != "" {
		w.pack(filepath.Join(dir, "dump.sql.gz"), w.dump())
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, "data", "assent.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	compact := filepath.Join(w.t.TempDir(), "db")
	if _, err := db.ExecContext(w.t.Context(), `VACUUM INTO ?`, compact); err != nil {
		w.t.Fatal(err)
	}
	raw, err := os.ReadFile(compact)
	if err != nil {
		w.t.Fatal(err)
	}
	w.pack(filepath.Join(dir, "assent.db.gz"), raw)
}

// dump is the PostgreSQL database as SQL that any server takes from any
// driver: without owners, without commands of psql, and without settings that
// only the server of its making knows.
func (w *world) dump() []byte {
	w.t.Helper()
	program := "pg_dump"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"); len(found) > 0 {
		program = found[len(found)-1]
	}
	out, err := exec.CommandContext(context.Background(), program, "--no-owner", "--no-acl", "--inserts", "--no-toast-compression", w.databaseURL).Output()
	if err != nil {
		w.t.Fatalf("pg_dump: %v", err)
	}
	var kept []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "SET ") && !strings.HasPrefix(line, "--") && strings.TrimSpace(line) != "" {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, ""))
}

func (w *world) pack(path string, raw []byte) {
	w.t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := z.Write(raw); err != nil {
		w.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		w.t.Fatal(err)
	}
}
