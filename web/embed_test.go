package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func serve(method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestHandlerServesThePage(t *testing.T) {
	page, err := files.ReadFile("dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/", "/t/0193a1c2-7f00", "/t/a.b", "/t/a/", "/?x=1", "/settings", "/settings/servers/a%20b", "/settings/rules/"} {
		t.Run(target, func(t *testing.T) {
			w := serve(http.MethodGet, target)
			if w.Code != http.StatusOK {
				t.Fatalf("status %d", w.Code)
			}
			if diff := cmp.Diff(string(page), w.Body.String()); diff != "" {
				t.Errorf("body (-page +got):\n%s", diff)
			}
			got := map[string]string{}
			for _, name := range []string{"Content-Type", "Cache-Control", "X-Content-Type-Options", "Referrer-Policy"} {
				got[name] = w.Header().Get(name)
			}
			want := map[string]string{
				"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandlerForbidsWhatThePageDoesNotNeed(t *testing.T) {
	got := serve(http.MethodGet, "/").Header().Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self'", "img-src 'self' data:", "media-src data:", "connect-src 'self'", "worker-src 'self'",
		"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
	} {
		if !slices.Contains(strings.Split(got, "; "), directive) {
			t.Errorf("policy %q lacks %q", got, directive)
		}
	}
	if strings.Contains(got, "unsafe") {
		t.Errorf("policy %q allows what is unsafe", got)
	}
}

func TestHandlerServesEveryAssetForEver(t *testing.T) {
	names, err := fs.Glob(files, "dist/assets/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("assets %v, error %v", names, err)
	}
	for _, name := range names {
		w := serve(http.MethodGet, strings.TrimPrefix(name, "dist"))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", name, w.Code)
		}
		if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
		// A shared worker is bound by the policy of its own script.
		if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "connect-src 'self'") {
			t.Errorf("%s: policy %q", name, got)
		}
		if filepath.Ext(name) == ".js" && w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%s: Content-Type %q", name, w.Header().Get("Content-Type"))
		}
	}
}

func TestHandlerRefusesEverythingElse(t *testing.T) {
	for _, target := range []string{"/assets/gone-12345678.js", "/assets/", "/assets", "/t", "/.sources", "/index", "/x", "/settingsx", "/assets/../.sources"} {
		if w := serve(http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: status %d", target, w.Code)
		}
	}
	w := serve(http.MethodPost, "/")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST /: status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if w := serve(http.MethodHead, "/"); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD /: status %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestPageNeedsNothingInline(t *testing.T) {
	page := serve(http.MethodGet, "/").Body.String()
	if regexp.MustCompile(`<script(?:[^>]*)>[^<]|<style|\son[a-z]+=|\sstyle=`).MatchString(page) {
		t.Errorf("the policy would block a part of the page:\n%s", page)
	}
	if regexp.MustCompile(`(?:src|href)="(?:https?:)?//`).MatchString(page) {
		t.Errorf("the page loads something from elsewhere:\n%s", page)
	}
}

// TestDistIsBuiltFromTheseSources computes what scripts/sources.mjs wrote into
// dist/.sources when dist/ was built.
func TestDistIsBuiltFromTheseSources(t *testing.T) {
	names := []string{"index.html", "package-lock.json", "package.json", "scripts/sources.mjs", "tsconfig.json", "vite.config.ts"}
	isTest := regexp.MustCompile(`\.test\.tsx?$`)
	for _, folder := range []string{"public", "src"} {
		err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !isTest.MatchString(filepath.ToSlash(name)) {
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		each := sha256.Sum256(content)
		fmt.Fprintf(sum, "%s  %s\n", hex.EncodeToString(each[:]), name)
	}
	want, err := files.ReadFile("dist/.sources")
	if err != nil {
		t.Fatal(err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)) + "\n"; got != string(want) {
		t.Error("dist/ was not built from these sources: run `npm ci && npm run build` in web/ and commit dist/")
	}
}
