package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

const (
	maxRead    = 256 << 10
	maxWrite   = 1 << 20
	maxEntries = 1000
)

// failure is a sentence that tells the person and the model what went wrong.
type failure string

func (f failure) Error() string { return string(f) }

func failed(format string, a ...any) error { return failure(fmt.Sprintf(format, a...)) }

type pathInput struct {
	Path string `json:"path"`
}

type entry struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // file, folder, link or other
	Bytes *int64 `json:"bytes,omitempty"`
}

type listOutput struct {
	Path      string  `json:"path"`
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated"`
	Note      string  `json:"note,omitempty"`
}

func (w *Workspace) listFiles(ctx context.Context, in pathInput, _ func(string)) (any, error) {
	name := "."
	if in.Path != "" {
		var err error
		if name, err = localPath(in.Path); err != nil {
			return nil, err
		}
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, explain("list", name, err)
	}
	if !info.IsDir() {
		return nil, failed("%q is not a folder.", name)
	}
	dir, err := w.root.Open(name)
	if err != nil {
		return nil, explain("list", name, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, explain("list", name, err)
	}
	slices.Sort(names)
	out := listOutput{Path: name, Entries: []entry{}}
	if len(names) > maxEntries {
		out.Truncated = true
		out.Note = fmt.Sprintf("Only the first %d of %d entries are shown.", maxEntries, len(names))
		names = names[:maxEntries]
	}
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := entry{Name: strings.ToValidUTF8(n, "\uFFFD"), Type: "other"}
		info, err := w.root.Lstat(path.Join(name, n))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // deleted meanwhile
		case err != nil:
		case info.Mode().IsRegular():
			size := info.Size()
			e.Type, e.Bytes = "file", &size
		case info.IsDir():
			e.Type = "folder"
		case info.Mode()&fs.ModeSymlink != 0:
			e.Type = "link"
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

type readOutput struct {
	Path      string  `json:"path"`
	Bytes     int64   `json:"bytes"` // of the whole file
	Content   *string `json:"content,omitempty"`
	Binary    bool    `json:"binary,omitempty"`
	Truncated bool    `json:"truncated"`
	Note      string  `json:"note,omitempty"`
}

func (w *Workspace) readFile(_ context.Context, in pathInput, _ func(string)) (any, error) {
	name, err := filePath(in.Path)
	if err != nil {
		return nil, err
	}
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, explain("read", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notAFile(name, info)
	}
	f, err := w.root.Open(name)
	if err != nil {
		return nil, explain("read", name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err != nil {
		return nil, explain("read", name, err)
	}
	out := readOutput{Path: name, Bytes: max(info.Size(), int64(len(content)))}
	if len(content) > maxRead {
		content = wholeRunes(content[:maxRead])
		out.Truncated = true
		out.Note = fmt.Sprintf("Only the first %d of %d bytes are shown.", len(content), out.Bytes)
	}
	if bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
		return readOutput{Path: name, Bytes: out.Bytes, Binary: true, Note: "This is not a text file in UTF-8; its content is not shown."}, nil
	}
	text := string(content)
	out.Content = &text
	return out, nil
}

// wholeRunes drops the start of a character that a cut left at the end of b.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-n]
			}
			return b
		}
	}
	return b
}

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type writeOutput struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created"`
}

func (w *Workspace) writeFile(_ context.Context, in writeInput, _ func(string)) (any, error) {
	name, err := filePath(in.Path)
	if err != nil {
		return nil, err
	}
	if len(in.Content) > maxWrite {
		return nil, failed("The content has %d bytes; at most %d can be written. Nothing was written.", len(in.Content), maxWrite)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	perm, created := fs.FileMode(0o644), false
	switch info, err := w.root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		created = true
	case err != nil:
		return nil, explain("write", name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, failed("%q is a symbolic link; only the file itself can be written. Nothing was written.", name)
	case !info.Mode().IsRegular():
		return nil, notAFile(name, info)
	case info.Mode().Perm()&0o200 == 0:
		return nil, failed("%q is write-protected. Nothing was written.", name)
	default:
		perm = info.Mode().Perm()
	}
	if err := w.makeFolder(path.Dir(name)); err != nil {
		return nil, err
	}
	if err := w.replace(name, in.Content, perm); err != nil {
		return nil, explain("write", name, err)
	}
	return writeOutput{name, len(in.Content), created}, nil
}

// makeFolder makes dir and the folders above it, durably.
func (w *Workspace) makeFolder(dir string) error {
	if info, err := w.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := w.root.MkdirAll(dir, 0o755); err != nil {
		return explain("make the folder", dir, err)
	}
	for dir != "." {
		dir = path.Dir(dir)
		if err := w.syncFolder(dir); err != nil {
			return explain("make the folder", dir, err)
		}
	}
	return nil
}

// replace puts content under name in one step: a reader, and a crash, find the
// old file or the new one, never half of it.
func (w *Workspace) replace(name, content string, perm fs.FileMode) error {
	temp := path.Join(path.Dir(name), ".assent-"+rand.Text()+".tmp")
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Chmod(perm) // whatever the umask is: a replaced file keeps its mode
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = w.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, w.root.Remove(temp))
	}
	if err := w.syncFolder(path.Dir(name)); err != nil {
		return fmt.Errorf("the new content is in place, but may be lost if the machine stops now: %w", err)
	}
	return nil
}

// syncFolder makes the entries of a folder durable, where that can be done.
func (w *Workspace) syncFolder(dir string) error {
	f, err := w.root.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // this file system has no such thing
	}
	return errors.Join(err, f.Close())
}

type deleteOutput struct {
	Path    string `json:"path"`
	Deleted bool   `json:"deleted"`
}

func (w *Workspace) deleteFile(_ context.Context, in pathInput, _ func(string)) (any, error) {
	name, err := filePath(in.Path)
	if err != nil {
		return nil, err
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	info, err := w.root.Lstat(name)
	if err != nil {
		return nil, explain("delete", name, err)
	}
	if info.IsDir() {
		return nil, failed("%q is a folder; only files can be deleted.", name)
	}
	// Of a symbolic link this removes the link, never what it points to.
	if err := w.root.Remove(name); err != nil {
		return nil, explain("delete", name, err)
	}
	if err := w.syncFolder(path.Dir(name)); err != nil {
		return nil, explain("delete", name, fmt.Errorf("it is deleted, but may come back if the machine stops now: %w", err))
	}
	return deleteOutput{name, true}, nil
}

// localPath returns a model's path in its shortest form, or says why it does
// not name a place in the workspace.
func localPath(p string) (string, error) {
	switch {
	case !utf8.ValidString(p), strings.ContainsFunc(p, unicode.IsControl):
		return "", failed("The path %q holds characters that no path here may have.", p)
	case path.IsAbs(p) || filepath.IsAbs(p):
		return "", failed("The path %q is absolute; paths are relative to the workspace.", p)
	}
	name := path.Clean(p)
	if !filepath.IsLocal(p) || !filepath.IsLocal(name) {
		return "", failed("The path %q leads out of the workspace.", p)
	}
	return name, nil
}

func filePath(p string) (string, error) {
	name, err := localPath(p)
	if err != nil {
		return "", err
	}
	if name == "." || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..") {
		return "", failed("The path %q names a folder, not a file.", p)
	}
	return name, nil
}

func notAFile(name string, info fs.FileInfo) error {
	if info.IsDir() {
		return failed("%q is a folder, not a file.", name)
	}
	return failed("%q is not a regular file.", name)
}

// explain turns what the file system said into a sentence.
func explain(verb, name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed("There is no %q in the workspace.", name)
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root exports no error for it
		return failed("The path %q leads out of the workspace.", name)
	case errors.Is(err, syscall.ENOTDIR):
		return failed("A part of the path %q is a file, not a folder.", name)
	case errors.Is(err, fs.ErrPermission):
		return failed("The server may not %s %q.", verb, name)
	}
	return failed("Cannot %s %q: %v.", verb, name, err)
}
