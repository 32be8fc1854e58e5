//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// files is a folder that the published filesystem server works in.
type files struct {
	*world
	root string
	down string // while this file exists the server cannot be started
	pid  string // the file that names the server's process
}

// filesystem gives a world on SQLite, whose database plays no part in this,
// the published filesystem server beside the built-in tools.
func filesystem(t *testing.T) *files {
	t.Parallel()
	program, err := filepath.Abs("../../service/mcp/testdata/servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the published tool servers are not installed; run: .ci/install servers (%v)", err)
	}
	root := t.TempDir()
	f := &files{world: &world{t: t, dir: t.TempDir()}, root: filepath.Join(root, "files"), down: filepath.Join(root, "down"), pid: filepath.Join(root, "pid")}
	if err := os.Mkdir(f.root, 0o700); err != nil {
		t.Fatal(err)
	}
	if f.probe, err = newProbe(filepath.Join(f.dir, "probe")); err != nil {
		t.Fatal(err)
	}
	script := `test ! -e "$0" || { echo "refused for $KEY" >&2; exit 1; }; echo $$ > "$1"; exec node "$2" "$3"`
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"filesystem": map[string]any{
		"command": "sh", "args": []string{"-c", script, f.down, f.pid, program, f.root}, "env": map[string]string{"KEY": "s3cret-key"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "mcp.json")
	f.write(path, string(config))
	f.flags = []string{"-mcp-config", path}
	return f
}

// begin starts the server, with a model that answers so.
func (f *files) begin(turns ...llmtest.Turn) {
	f.t.Helper()
	f.says(turns...)
	f.start()
	f.phase(chat.ServerReady)
}

func (f *files) write(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// holds says what is in a file of the server's folder, "" if there is none.
func (f *files) holds(name string) string {
	f.t.Helper()
	raw, err := os.ReadFile(filepath.Join(f.root, name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return string(raw)
}

func (f *files) server() (chat.ServerInfo, string) {
	f.t.Helper()
	var list struct {
		Servers []chat.ServerInfo `json:"servers"`
	}
	r := f.want(200, "GET", "/mcp-servers", nil)
	r.into(f.t, &list)
	if len(list.Servers) != 2 || list.Servers[0].ID != "workspace" || list.Servers[1].ID != "filesystem" {
		f.t.Fatalf("the servers are %s", r.body)
	}
	return list.Servers[1], string(r.body)
}

// phase waits until the server's connection stands so.
func (f *files) phase(want chat.ServerPhase) chat.ServerInfo {
	f.t.Helper()
	var last chat.ServerInfo
	f.eventually(func() bool {
		last, _ = f.server()
		return last.State.Phase == want
	}, func() string { return fmt.Sprintf("the server is %+v, want %s", last.State, want) })
	return last
}

// end ends the tool server for good.
func (f *files) end() {
	f.t.Helper()
	f.write(f.down, "")
	raw, err := os.ReadFile(f.pid)
	if err != nil {
		f.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	f.phase(chat.ServerFailed)
}

// call is a call of one of the server's tools, on a file in its folder.
func (f *files) call(id, tool, name string, more map[string]any) llmtest.Call {
	f.t.Helper()
	input := map[string]any{"path": filepath.Join(f.root, name)}
	maps.Copy(input, more)
	raw, err := json.Marshal(input)
	if err != nil {
		f.t.Fatal(err)
	}
	return llmtest.Call{ID: id, Name: "filesystem__" + tool, Args: string(raw)}
}

// heard is what the model was last told of its calls, the newest last.
func (f *files) heard() []string {
	requests := f.model.Requests()
	var said []string
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == "tool" {
			said = append(said, m.Text())
		}
	}
	return said
}

// answer decides the one waiting card.
func (f *files) answer(topic string, body map[string]any) {
	f.t.Helper()
	cards := f.pending(topic)
	if len(cards) != 1 || cards[0].Server != "filesystem" {
		f.t.Fatalf("the cards are %+v", cards)
	}
	body["approvalId"] = cards[0].ApprovalID
	f.want(200, "POST", "/topics/"+topic+"/approvals", body)
}

// asked is a topic whose one call waits.
func (f *files) asked() string {
	f.t.Helper()
	topic := f.topic()
	f.send(topic, "go")
	f.until(topic, chat.TopicAwaitingApproval)
	return topic
}

func TestAServersToolsAskAndRunAsDecided(t *testing.T) {
	t.Run("an approved call writes the file", func(t *testing.T) {
		f := filesystem(t)
		f.begin(llmtest.Calls(f.call("c", "write_file", "a.txt", map[string]any{"content": "hello"})), llmtest.Text("ok"))
		topic := f.asked()
		if f.holds("a.txt") != "" {
			t.Error("the call ran before it was approved")
		}
		f.answer(topic, map[string]any{"approved": true})
		f.until(topic, chat.TopicDone)
		if c := f.calls(topic)[0]; f.holds("a.txt") != "hello" || c.ToolMetadata.Outcome != chat.OutcomeOK || c.ToolMetadata.ServerID != "filesystem" {
			t.Errorf("the file holds %q, the call is %+v", f.holds("a.txt"), c)
		}
	})
	t.Run("a denied one does not", func(t *testing.T) {
		f := filesystem(t)
		f.begin(llmtest.Calls(f.call("c", "write_file", "a.txt", map[string]any{"content": "hello"})), llmtest.Text("ok"))
		topic := f.asked()
		f.answer(topic, map[string]any{"approved": false, "reason": "not this file"})
		f.until(topic, chat.TopicDone)
		if got := f.heard(); f.holds("a.txt") != "" || len(got) != 1 || !strings.Contains(got[0], "not this file") {
			t.Errorf("the file holds %q, the model heard %q", f.holds("a.txt"), got)
		}
	})
	t.Run("an edited one runs as it was edited", func(t *testing.T) {
		f := filesystem(t)
		edit := func(to string) map[string]any {
			return map[string]any{"path": filepath.Join(f.root, "a.txt"), "edits": []any{map[string]any{"oldText": "one", "newText": to}}}
		}
		f.write(filepath.Join(f.root, "a.txt"), "one two")
		f.begin(llmtest.Calls(f.call("c", "edit_file", "a.txt", edit("1"))), llmtest.Text("ok"))
		topic := f.asked()
		card := f.pending(topic)[0]
		f.want(422, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": card.ApprovalID, "approved": true, "updatedInput": map[string]any{"edits": 1}})
		f.answer(topic, map[string]any{"approved": true, "updatedInput": edit("uno")})
		f.until(topic, chat.TopicDone)
		c := f.calls(topic)[0]
		if f.holds("a.txt") != "uno two" || !bytes.Contains(c.Input, []byte("uno")) || !bytes.Contains(c.Approval.OriginalInput, []byte(`"1"`)) {
			t.Errorf("the file holds %q, the call is %s, it was %s", f.holds("a.txt"), c.Input, c.Approval.OriginalInput)
		}
	})
}

func TestAServerThatIsDownLocksNoTopic(t *testing.T) {
	for _, approved := range []bool{false, true} {
		t.Run(fmt.Sprintf("approved %t", approved), func(t *testing.T) {
			f := filesystem(t)
			f.begin(llmtest.Calls(f.call("c", "write_file", "a.txt", map[string]any{"content": "hello"})), llmtest.Text("ok"), llmtest.Text("still here"))
			topic := f.asked()
			f.end()
			f.answer(topic, map[string]any{"approved": approved, "reason": "because"})
			f.until(topic, chat.TopicDone)
			c, heard := f.calls(topic)[0], f.heard()
			if len(heard) != 1 {
				t.Fatalf("the model heard %q", heard)
			}
			if approved && (c.State != chat.CallOutputError || c.ToolMetadata.Outcome != chat.OutcomeUnavailable || !strings.Contains(heard[0], "not run")) {
				t.Errorf("the call is %+v, the model heard %q", c, heard)
			}
			if !approved && (c.State != chat.CallOutputDenied || !strings.Contains(heard[0], "because")) {
				t.Errorf("the call is %+v, the model heard %q", c, heard)
			}
			f.send(topic, "and now?")
			f.eventually(func() bool { return len(f.history(topic).Messages) == 4 && f.status(topic).Status == chat.TopicDone }, func() string {
				return "the topic takes no message"
			})
			if f.holds("a.txt") != "" {
				t.Error("the call ran")
			}
			f.eventually(func() bool { // when it has been tried again
				info, text := f.server()
				if len(info.Tools) != 0 || strings.Contains(text, "s3cret-key") {
					t.Errorf("the server is shown as %s", text)
				}
				return strings.Contains(text, "refused for •••")
			}, func() string { return "what its process wrote is not shown" })
		})
	}
}

func TestHowAServerIsDoingIsToldLive(t *testing.T) {
	f := filesystem(t)
	f.begin()
	tab := f.open("", nil, f.topic())
	told := func() int {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		return tab.client.Settings[chat.SettingsServers]
	}
	f.eventually(func() bool { return tab.lastID() != "" }, func() string { return "the tab has no place" })
	before := told()
	f.end()
	f.eventually(func() bool { return told() > before }, func() string { return "nobody was told that the server is down" })
	if err := os.Remove(f.down); err != nil {
		t.Fatal(err)
	}
	before = told()
	f.want(200, "POST", serverPath("filesystem")+"/restart", nil)
	f.phase(chat.ServerReady)
	f.eventually(func() bool { return told() > before }, func() string { return "nobody was told that the server is back" })
}

func TestARuleLetsOneToolOfAServerRun(t *testing.T) {
	f := filesystem(t)
	f.write(filepath.Join(f.root, "a.txt"), "hello")
	read := f.call("c", "read_text_file", "a.txt", nil)
	f.begin(llmtest.Calls(read), llmtest.Text("ok"), llmtest.Calls(read), llmtest.Text("ok"), llmtest.Calls(read))
	info, _ := f.server()
	if len(info.Tools) == 0 || info.State.ServerName == "" {
		t.Fatalf("the server is shown as %+v", info)
	}
	for _, tool := range info.Tools {
		if tool.Policy != "ask" || tool.ToolName != "filesystem__"+tool.Name {
			t.Errorf("the tool is shown as %+v", tool)
		}
	}

	topic := f.asked() // nothing is known yet, though it says that it only reads
	f.answer(topic, map[string]any{"approved": true})
	f.until(topic, chat.TopicDone)

	rule := f.rule(chat.VerdictAllow, `server == "filesystem" && tool == "read_text_file"`)
	topic = f.topic()
	f.send(topic, "go")
	f.until(topic, chat.TopicDone)
	c := f.calls(topic)[0]
	if c.State != chat.CallOutputAvailable || c.Approval != nil || !bytes.Contains(c.Output, []byte("hello")) {
		t.Errorf("the call is %+v", c)
	}
	if e := f.explain("topicId=" + topic + "&toolCallId=c"); e.Verdict != chat.VerdictAllow || e.Rule != rule.Name || e.RuleVersion == nil || e.RuleVersion.After.Expression != rule.Expression {
		t.Errorf("explained as %+v", e)
	}

	failing := f.rule(chat.VerdictDeny, `input.head > 3`) // there is no such member
	topic = f.asked()
	if e := f.explain("topicId=" + topic + "&toolCallId=c"); e.Verdict != chat.VerdictAsk || e.RuleVersion == nil || e.RuleVersion.RuleID != failing.ID {
		t.Errorf("explained as %+v", e)
	}
}
