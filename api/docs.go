package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v4"
)

//go:embed html
var htmlFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"prose": prose, "inline": inlineHTML}).ParseFS(htmlFiles, "html/*.gohtml"))

// docsPage is the contract as a page, and the policy under which it is shown.
type docsPage struct {
	html []byte
	csp  string
}

func (a *API) getDocs(w http.ResponseWriter, _ *http.Request) error {
	page, err := a.docs()
	if err != nil {
		return fmt.Errorf("render the contract: %w", err)
	}
	writePage(w, http.StatusOK, page)
	return nil
}

// loginRefused tells a person with a browser why the login link did not work.
func (a *API) loginRefused(w http.ResponseWriter, p *problem) error {
	page, err := renderPage("login.gohtml", p)
	if err != nil {
		return err
	}
	writePage(w, p.Status, page)
	return nil
}

func writePage(w http.ResponseWriter, status int, page docsPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", page.csp)
	w.WriteHeader(status)
	_, _ = w.Write(page.html) // the client has left; nobody to tell
}

// renderPage runs a template whose only style is its one <style> element.
func renderPage(name string, data any) (docsPage, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return docsPage{}, fmt.Errorf("render %s: %w", name, err)
	}
	_, rest, _ := bytes.Cut(b.Bytes(), []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	sum := sha256.Sum256(style)
	return docsPage{b.Bytes(), "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}, nil
}

// What the template shows.
type (
	docsView struct {
		Title, Summary, Description string
		Groups                      []docsGroup
		Schemas                     []docsSchema
	}
	docsGroup struct {
		Name, Description string
		Operations        []docsOperation
	}
	docsOperation struct {
		ID, Method, Path, Summary, Description string
		Open                                   bool // needs no authentication
		Params                                 []docsField
		Body                                   *docsContent
		Answers                                []docsContent
		Events                                 []docsField
	}
	docsField struct {
		Name, In, Description string
		Required              bool
		Type                  []docsWord
	}
	// docsContent is a body: of a request, or of an answer with its status.
	docsContent struct {
		Status, Description, MediaType string
		Type                           []docsWord
		Examples                       []docsExample
	}
	docsExample struct{ Summary, Text string }
	docsSchema  struct {
		Name, Description string
		Type              []docsWord // of a schema without members
		Fields            []docsField
	}
	// docsWord is a piece of a type's description; Schema, if set, is where it
	// leads.
	docsWord struct{ Text, Schema string }
)

func renderDocs(contract []byte) (docsPage, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(contract, &doc); err != nil {
		return docsPage{}, fmt.Errorf("read the contract: %w", err)
	}
	if len(doc.Content) == 0 {
		return docsPage{}, errors.New("the contract is empty")
	}
	c := contractReader{doc.Content[0]}
	return renderPage("docs.gohtml", c.view())
}

// prose turns the little Markdown that the contract uses into HTML:
// paragraphs, lists, `code` and **strong** text.
func prose(text string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		list, isList := strings.CutPrefix(block, "* ")
		switch {
		case isList:
			b.WriteString("<ul>")
			for item := range strings.SplitSeq(list, "\n* ") {
				b.WriteString("<li>" + inline(item) + "</li>")
			}
			b.WriteString("</ul>")
		case block != "":
			b.WriteString("<p>" + inline(block) + "</p>")
		}
	}
	return template.HTML(b.String()) //nolint:gosec // inline escapes every piece of text
}

func inlineHTML(text string) template.HTML {
	return template.HTML(inline(text)) //nolint:gosec // inline escapes every piece of text
}

// inline marks `code` and **strong** text.
func inline(text string) string {
	var b strings.Builder
	for i, piece := range strings.Split(text, "`") {
		piece = template.HTMLEscapeString(piece)
		if i%2 == 1 {
			b.WriteString("<code>" + piece + "</code>")
			continue
		}
		for j, part := range strings.Split(piece, "**") {
			if j%2 == 1 {
				part = "<strong>" + part + "</strong>"
			}
			b.WriteString(part)
		}
	}
	return b.String()
}
