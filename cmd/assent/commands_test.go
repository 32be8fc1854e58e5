package main

import (
	"bytes"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// build makes the program as a user gets it.
func build(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "assent")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

func TestDemoPlaysTheMainJob(t *testing.T) {
	t.Parallel()
	exe := build(t)
	for _, tt := range []struct {
		name, stdin string
		args        []string
		says        []string
	}{
		{"Yes", "", []string{"demo", "--yes"}, []string{"report.txt was approved: it ran once", "secrets.txt was denied: it never ran", "one continuation"}},
		{"AReaderDecides", "what\nd\ny\n", []string{"demo"}, []string{"report.txt was denied: it never ran", "secrets.txt was approved: it ran once"}},
		{"NobodyThere", "", []string{"demo"}, []string{"nobody answers, so the demo does", "report.txt was approved: it ran once", "secrets.txt was denied: it never ran"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(exe, tt.args...)
			cmd.Stdin = strings.NewReader(tt.stdin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, s := range append(tt.says, "killed (SIGKILL)") {
				if !strings.Contains(string(out), s) {
					t.Errorf("it does not say %q:\n%s", s, out)
				}
			}
			if strings.Contains(string(out), "FAIL") {
				t.Errorf("it failed:\n%s", out)
			}
		})
	}
}

func TestTokensLoginLinksAndSessions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a")), llmtest.Text("ok"))
		w.spawn()
		c, _, err := loadConfig("token", w.args(), environment(), os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(tokenFile(c)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token's file: %v %v", info, err)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"token"}, w.args()...), environment(), nil, &out, &errs); code != 0 || strings.TrimSpace(out.String()) != w.token {
			t.Errorf("assent token: %d %s %s", code, out.String(), errs.String())
		}

		// Another principal decides while the server runs, and is named.
		ada := w.principal("ada")
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		owners := w.token
		w.token = ada
		w.approve(topic, "a")
		w.until(topic, chat.TopicDone)
		if e := w.audit(topic)[0]; e.DecidedBy != "ada" || e.Via != chat.ViaAPI {
			t.Errorf("the audit says %+v", e)
		}
		w.token = "wrong"
		w.want(401, "GET", "/topics", nil)
		w.token = owners

		// The login link of the server's output works once.
		w.eventually(func() bool { return w.printed.link() != "" }, func() string { return "no login link was printed" })
		link := w.printed.link()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{Jar: jar}
		get := func(c *http.Client, url string) int {
			t.Helper()
			resp, err := c.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}
		if code := get(browser, link); code != 200 {
			t.Errorf("the login link: %d", code)
		}
		if code := get(browser, w.base+"/session"); code != 200 {
			t.Errorf("the session: %d", code)
		}
		if code := get(http.DefaultClient, link); code < 400 {
			t.Errorf("the login link worked twice: %d", code)
		}
		// A session outlives the server.
		w.kill()
		w.spawn() // on another port; cookies do not know ports
		if code := get(browser, w.base+"/topics"); code != 200 {
			t.Errorf("the session after a restart: %d", code)
		}
	})
}

func TestASecondServerOnOneSQLiteFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := newProbe(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, probe: p}
	w.start()
	var out bytes.Buffer
	code := run(t.Context(), append(append([]string{"serve"}, w.args()...), "-model", "demo/guide"), environment(), nil, &out, &out)
	if code != 1 || !strings.Contains(out.String(), "another") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
