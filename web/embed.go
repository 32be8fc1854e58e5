// Package web is the browser's page: its sources in src/, and what they are
// built to in dist/, which is committed so that the server builds without Node.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed all:dist
var files embed.FS

// policy lets the page load its own files and talk to its own server, and
// nothing else: no foreign script, no image or sound that carries something
// away (what a tool gave is in the page already), no frame around an Approve
// button.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"media-src data:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler serves the page. The files under /assets/ have their content's hash
// in their names and may be kept for ever; every other file is asked for anew
// each time. The page itself is served for /, below /t/ and for /settings and
// what is below it: these addresses are the page's own to read. Whatever is
// neither answers 404.
func Handler() http.Handler {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		panic(fmt.Sprintf("web: open the embedded files: %v", err)) // the path is a constant
	}
	return handler(dist)
}

func handler(dist fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "Only GET and HEAD are possible here.", http.StatusMethodNotAllowed)
			return
		}

		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if name == "" || name == "settings" || strings.HasPrefix(name, "t/") || strings.HasPrefix(name, "settings/") {
			name = "index.html"
		}
		// Hidden files speak of the build and are nobody's to read.
		if strings.HasPrefix(name, ".") {
			http.NotFound(w, r)
			return
		}
		content, err := fs.ReadFile(dist, name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			head.Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			head.Set("Cache-Control", "no-cache")
		}
		if t, ok := types[path.Ext(name)]; ok {
			head.Set("Content-Type", t)
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
}

// types are said here because a machine's own table may lack them or differ:
// a module script with another type does not run.
var types = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}
