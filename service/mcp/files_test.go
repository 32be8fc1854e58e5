package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

func TestFilesAreWrittenReadListedAndDeleted(t *testing.T) {
	b := newBench(t)
	text := "héllo\r\n\u2028<b>&\u0001"
	if diff := cmp.Diff(in{"path": "a/b/notes.txt", "bytes": float64(len(text)), "created": true},
		b.must(t, "write_file", in{"path": "./a//b/notes.txt", "content": text})); diff != "" {
		t.Errorf("write (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(in{"path": "a/b/notes.txt", "bytes": float64(len(text)), "content": text, "truncated": false},
		b.must(t, "read_file", in{"path": "a/b/notes.txt"})); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if got := b.must(t, "write_file", in{"path": "a/b/notes.txt", "content": ""}); got["created"] != false {
		t.Errorf("the second write gave %v", got)
	}
	if got := b.must(t, "read_file", in{"path": "a/b/notes.txt"}); got["content"] != "" {
		t.Errorf("an empty file reads as %v", got)
	}
	b.must(t, "write_file", in{"path": "a/z.txt", "content": "z"})
	link(t, "z.txt", filepath.Join(b.dir, "a", "link"))
	want := in{"path": "a", "truncated": false, "entries": []any{
		in{"name": "b", "type": "folder"}, in{"name": "link", "type": "link"}, in{"name": "z.txt", "type": "file", "bytes": 1.0},
	}}
	if diff := cmp.Diff(want, b.must(t, "list_files", in{"path": "a/"})); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if got := b.must(t, "read_file", in{"path": "a/link"}); got["content"] != "z" {
		t.Errorf("a link inside the workspace reads as %v", got)
	}
	if diff := cmp.Diff(in{"path": "a/link", "deleted": true}, b.must(t, "delete_file", in{"path": "a/link"})); diff != "" {
		t.Errorf("delete (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(in{"path": ".", "truncated": false, "entries": []any{in{"name": "a", "type": "folder"}}}, b.must(t, "list_files", in{})); diff != "" {
		t.Errorf("list of all (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "a", "z.txt")); err != nil {
		t.Errorf("deleting a link took its target: %v", err)
	}
}

func TestFileBounds(t *testing.T) {
	b := newBench(t)
	t.Run("a long file is cut between characters, visibly", func(t *testing.T) {
		put(t, filepath.Join(b.dir, "long"), "x"+strings.Repeat("é", maxRead))
		got := b.must(t, "read_file", in{"path": "long"})
		content, _ := got["content"].(string)
		if len(content) != maxRead-1 || got["truncated"] != true || got["bytes"] != float64(2*maxRead+1) || !strings.Contains(got["note"].(string), "first") {
			t.Errorf("%d bytes of content, truncated %v, bytes %v, note %v", len(content), got["truncated"], got["bytes"], got["note"])
		}
	})
	t.Run("a file at the limit is whole", func(t *testing.T) {
		put(t, filepath.Join(b.dir, "limit"), strings.Repeat("x", maxRead))
		if got := b.must(t, "read_file", in{"path": "limit"}); got["truncated"] != false {
			t.Errorf("truncated %v", got["truncated"])
		}
	})
	for name, content := range map[string]string{"NUL": "a\x00b", "Latin-1": "caf\xe9", "a cut character": "caf\xc3"} {
		t.Run("binary: "+name, func(t *testing.T) {
			put(t, filepath.Join(b.dir, "binary"), content)
			got := b.must(t, "read_file", in{"path": "binary"})
			if _, has := got["content"]; has || got["binary"] != true || got["bytes"] != float64(len(content)) {
				t.Errorf("read as %v", got)
			}
		})
	}
	t.Run("content is limited by its bytes, not by its characters", func(t *testing.T) {
		r := b.call(t.Context(), "write_file", in{"path": "big", "content": strings.Repeat("é", maxWrite/2+1)})
		if r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, "Nothing was written") {
			t.Errorf("%s: %s", r.Outcome, r.ErrorText)
		}
		b.must(t, "write_file", in{"path": "big", "content": strings.Repeat("x", maxWrite)})
	})
	t.Run("a list is cut visibly", func(t *testing.T) {
		for i := range maxEntries + 1 {
			put(t, filepath.Join(b.dir, "many", fmt.Sprintf("%05d", i)), "")
		}
		got := b.must(t, "list_files", in{"path": "many"})
		entries := got["entries"].([]any)
		if len(entries) != maxEntries || got["truncated"] != true || entries[0].(in)["name"] != "00000" {
			t.Errorf("%d entries, truncated %v", len(entries), got["truncated"])
		}
	})
	t.Run("a name that is not UTF-8 does not break the list", func(t *testing.T) {
		put(t, filepath.Join(b.dir, "names", "a\xff"), "")
		want := []any{in{"name": "a\uFFFD", "type": "file", "bytes": 0.0}}
		if diff := cmp.Diff(want, b.must(t, "list_files", in{"path": "names"})["entries"]); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

func TestNothingLeadsOutOfTheWorkspace(t *testing.T) {
	b := newBench(t)
	secret := filepath.Join(b.outside, "secret.txt")
	link(t, secret, filepath.Join(b.dir, "absolute"))
	link(t, "../outside/secret.txt", filepath.Join(b.dir, "relative"))
	link(t, "../outside", filepath.Join(b.dir, "folder"))
	for _, p := range []string{secret, "../outside/secret.txt", "a/../../outside/secret.txt", "./../outside/secret.txt", "folder/secret.txt", "absolute", "relative"} {
		for _, tool := range []string{"read_file", "write_file", "delete_file"} {
			if tool == "delete_file" && (p == "absolute" || p == "relative") {
				continue // takes the link, see below
			}
			input := in{"path": p}
			if tool == "write_file" {
				input["content"] = "overwritten"
			}
			r := b.call(t.Context(), tool, input)
			if r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, "workspace") && !strings.Contains(r.ErrorText, "symbolic link") {
				t.Errorf("%s %s: %s: %s%s", tool, p, r.Outcome, r.ErrorText, r.Output)
			}
		}
	}
	for _, p := range []string{b.outside, "..", "../outside", "folder"} {
		if r := b.call(t.Context(), "list_files", in{"path": p}); r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, "workspace") {
			t.Errorf("list_files %s: %s: %s%s", p, r.Outcome, r.ErrorText, r.Output)
		}
	}
	if r := b.call(t.Context(), "write_file", in{"path": "folder/new/file", "content": ""}); r.Outcome != chat.OutcomeFailed {
		t.Errorf("a folder was made outside: %s", r.Output)
	}
	b.must(t, "delete_file", in{"path": "relative"})
	checkOutside(t, b)
}

func checkOutside(t interface{ Fatalf(string, ...any) }, b *bench) {
	names, err := os.ReadDir(b.outside)
	if err != nil || len(names) != 1 {
		t.Fatalf("the folder outside holds %v (%v)", names, err)
	}
	if got, err := os.ReadFile(filepath.Join(b.outside, "secret.txt")); err != nil || string(got) != "secret" {
		t.Fatalf("the file outside is %q (%v)", got, err)
	}
}

func TestWhatIsWrittenIsReadUnderAnyPath(t *testing.T) {
	b := newBench(t)
	link(t, "../outside", filepath.Join(b.dir, "out"))
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.OneOf(rapid.SampledFrom([]string{"..", ".", "", "a", "b", "out", "secret.txt", "/", "..."}), rapid.StringN(0, 8, 20))
		p := strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(rt, "path"), "/")
		content := rapid.String().Draw(rt, "content")
		w := b.call(t.Context(), "write_file", in{"path": p, "content": content})
		r := b.call(t.Context(), "read_file", in{"path": p})
		switch w.Outcome {
		case chat.OutcomeOK:
			var out struct{ Content string }
			if r.Outcome == chat.OutcomeOK && strings.Contains(content, "\x00") {
				return // answered as binary
			}
			if err := json.Unmarshal(r.Output, &out); err != nil || out.Content != content {
				rt.Fatalf("wrote %q to %q, read %s %s", content, p, r.Output, r.ErrorText)
			}
		case chat.OutcomeFailed, chat.OutcomeInvalid:
			if w.ErrorText == "" {
				rt.Fatalf("writing %q failed without a word", p)
			}
		default:
			rt.Fatalf("writing %q: %s %s", p, w.Outcome, w.ErrorText)
		}
		checkOutside(rt, b)
	})
}

func TestClearFailures(t *testing.T) {
	b := newBench(t)
	put(t, filepath.Join(b.dir, "file"), "x")
	put(t, filepath.Join(b.dir, "folder", "file"), "x")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "protected"), []byte("x"), 0o444); err != nil {
		t.Fatal(err)
	}
	link(t, "nowhere", filepath.Join(b.dir, "dangling"))
	link(t, "loop", filepath.Join(b.dir, "loop"))
	tests := []struct {
		name, tool, path, want string
	}{
		{"read nothing", "read_file", "none", `There is no "none"`},
		{"read a folder", "read_file", "folder", "is a folder"},
		{"read the workspace", "read_file", ".", "names a folder"},
		{"read with a slash at the end", "read_file", "file/", "names a folder"},
		{"read below a file", "read_file", "file/x", "is a file, not a folder"},
		{"read a pipe does not wait", "read_file", "pipe", "not a regular file"},
		{"read a dangling link", "read_file", "dangling", "There is no"},
		{"read an endless link", "read_file", "loop", "Cannot read"},
		{"read a name that is too long", "read_file", strings.Repeat("x", 300), "Cannot read"},
		{"read a path with NUL", "read_file", "a\x00b", "characters"},
		{"write a path with a newline", "write_file", "a\nb", "characters"},
		{"write over a folder", "write_file", "folder", "is a folder"},
		{"write over a pipe", "write_file", "pipe", "not a regular file"},
		{"write over a link", "write_file", "dangling", "symbolic link"},
		{"write over a protected file", "write_file", "protected", "write-protected"},
		{"write below a file", "write_file", "file/x", "is a file, not a folder"},
		{"write below folders below a file", "write_file", "file/x/y", "is a file, not a folder"},
		{"delete nothing", "delete_file", "none", "There is no"},
		{"delete a folder", "delete_file", "folder", "is a folder"},
		{"list nothing", "list_files", "none", "There is no"},
		{"list a file", "list_files", "file", "is not a folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			input := in{"path": tt.path}
			if tt.tool == "write_file" {
				input["content"] = "new"
			}
			r := b.call(t.Context(), tt.tool, input)
			if r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, tt.want) {
				t.Errorf("%s: %q%s, want failed: %q", r.Outcome, r.ErrorText, r.Output, tt.want)
			}
			if strings.Contains(r.ErrorText, b.dir) {
				t.Errorf("the text tells where the workspace is: %q", r.ErrorText)
			}
		})
	}
}

func TestWriteReplacesWholeFiles(t *testing.T) {
	t.Run("keeps the mode of the file it replaces and leaves nothing behind", func(t *testing.T) {
		b := newBench(t)
		name := filepath.Join(b.dir, "script")
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o777); err != nil { // wider than the umask allows
			t.Fatal(err)
		}
		b.must(t, "write_file", in{"path": "script", "content": "new"})
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("mode %v (%v), want 0777", info.Mode(), err)
		}
		if names, err := os.ReadDir(b.dir); err != nil || len(names) != 1 {
			t.Errorf("the folder holds %v (%v)", names, err)
		}
	})
	t.Run("one of several writers created the file, and readers see whole contents", func(t *testing.T) {
		b := newBench(t)
		size := 100_000
		var mu sync.Mutex
		created := 0
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				content := strings.Repeat(string(rune('a'+i)), size)
				var out struct{ Created bool }
				if r := b.call(t.Context(), "write_file", in{"path": "shared", "content": content}); json.Unmarshal(r.Output, &out) != nil {
					t.Errorf("write: %+v", r)
				}
				mu.Lock()
				defer mu.Unlock()
				if out.Created {
					created++
				}
			})
			wg.Go(func() {
				r := b.call(t.Context(), "read_file", in{"path": "shared"})
				var out struct{ Content string }
				if r.Outcome == chat.OutcomeOK && (json.Unmarshal(r.Output, &out) != nil || len(out.Content) != size || strings.Trim(out.Content, out.Content[:1]) != "") {
					t.Errorf("read %d bytes, a mixture or a half", len(out.Content))
				}
			})
		}
		wg.Wait()
		if created != 1 {
			t.Errorf("%d calls say that they created the file, want 1", created)
		}
	})
}
