package api

import (
	"html"
	"strings"
	"testing"

	"github.com/assent-chat/assent/api/apitest"
)

func TestTheDocsShowTheWholeContract(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	got := b.do("GET", "/docs", "", "Authorization")
	if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Fatalf("answered %d under %q", got.status, got.header.Get("Content-Security-Policy"))
	}
	contract := apitest.Contract(t)
	for path, item := range contract.Paths.Map() {
		for method, op := range item.Operations() {
			for _, want := range []string{`id="` + op.OperationID + `"`, `<span class="method ` + method + `">`, ">" + path + "</span>", ">" + html.EscapeString(op.Summary) + "<"} {
				if !strings.Contains(got.body, want) {
					t.Errorf("%s %s: the page lacks %s", method, path, want)
				}
			}
		}
	}
	for name, schema := range contract.Components.Schemas {
		if !strings.Contains(got.body, `id="schema-`+name+`"`) {
			t.Errorf("the page lacks the schema %s", name)
		}
		for member := range schema.Value.Properties {
			if !strings.Contains(got.body, "<code>"+member+"</code>") {
				t.Errorf("the page lacks %s.%s", name, member)
			}
		}
	}
	for _, foreign := range []string{"http://", "https://", "<script", "<no value>", "%!", `style="`, "ZgotmplZ"} {
		text := strings.NewReplacer("`https:`", "", "https: link", "", "https://search.example/mcp", "").Replace(got.body)
		if strings.Contains(text, foreign) {
			t.Errorf("the page holds %q", foreign)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"one\ntwo":                  "<p>one\ntwo</p>",
		"a `b<c` **d** & e":         "<p>a <code>b&lt;c</code> <strong>d</strong> &amp; e</p>",
		"first\n\n* a\n  b\n* c\n":  "<p>first</p><ul><li>a\n  b</li><li>c</li></ul>",
		"<script>alert(1)</script>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
	} {
		if got := string(prose(in)); got != want {
			t.Errorf("prose(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestABrokenContractIsAnInternalError(t *testing.T) {
	t.Parallel()
	for _, contract := range []string{"", "a: [", "\t"} {
		b := start(t, func(o *Options) { o.Contract = []byte(contract) })
		b.do("GET", "/docs", "").problem(t, 500)
	}
}
