package main

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

// TestUpgrade opens the database of each older release, as it fell when that
// release was killed, and goes on with every topic in it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	releases, err := os.ReadDir(filepath.Join("testdata", "releases"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, release := range releases {
		if !release.IsDir() {
			continue
		}
		found++
		t.Run(release.Name(), func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, w *world) {
				w.goOn(w.restore(filepath.Join("testdata", "releases", release.Name(), filepath.Base(t.Name()))))
			})
		})
	}
	if found < 2 {
		t.Errorf("there are %d releases", found)
	}
}

// TestThreeStartAtOnceOnAnOldDatabase starts three processes of the newest
// binary together on the database of the first release.
func TestThreeStartAtOnceOnAnOldDatabase(t *testing.T) {
	several(t, func(t *testing.T, here, there *world) {
		r := here.restore(filepath.Join("testdata", "releases", "schema1", "postgres"))
		here.answers(sceneModel(false))
		third := &world{t: t, dir: t.TempDir(), databaseURL: here.databaseURL, probe: here.probe, flags: here.flags}
		var starts sync.WaitGroup
		worlds := []*world{here, there, third}
		processes, errs := make([]*process, len(worlds)), make([]error, len(worlds))
		for i, w := range worlds {
			w.model = here.model
			starts.Go(func() { processes[i], errs[i] = w.launch() })
		}
		starts.Wait()
		for i, w := range worlds {
			if errs[i] != nil {
				t.Errorf("start %d: %v", i, errs[i])
				continue
			}
			t.Cleanup(processes[i].kill)
			w.ready(processes[i].base)
			w.token = r.Ada
		}
		if t.Failed() {
			return
		}
		topic := r.Topics["two"]
		there.approve(topic, longText)
		third.deny(topic, "two-b", "no")
		here.until(topic, chat.TopicDone)
		here.ran(map[string]int{longText: 1, "two-b": 0})
		for _, scene := range []string{"started", "granted", "writing"} {
			here.until(r.Topics[scene], chat.TopicDone)
		}
		here.ran(map[string]int{"started-a": 0, "granted-slow": 0, "granted-a": 1})
	})
}

// goOn starts the newest binary on a database that make left.
func (w *world) goOn(r record) {
	w.t.Helper()
	t := w.t
	w.answers(sceneModel(false))
	w.probe.forget(t)
	w.prepare()
	w.start()
	if w.token != r.Token {
		t.Error("the owner has another token")
	}
	w.token = r.Ada
	tab := w.open("", nil, r.Topics["two"])
	for path, was := range r.Said {
		now := w.want(200, "GET", path, nil).body
		if err := holds(was, now); err != nil {
			t.Errorf("GET %s says otherwise than the old release: %v", path, err)
		}
	}
	for _, s := range scenes {
		topic, made := r.Topics[s.name]
		if !made {
			continue // the release could not do it
		}
		t.Run(s.name, func(t *testing.T) {
			w.t = t
			defer func(outer *testing.T) { w.t = outer }(t)
			s.goesOn(w, topic)
		})
		w.t = t
	}
	tab.converge(r.Topics["two"])
	if list := w.model.Violations(); len(list) > 0 {
		t.Errorf("the model was asked what no provider takes: %v", list)
	}
}

// forget empties the probe's log: what the newest binary starts is counted
// from here.
func (p *probe) forget(t *testing.T) {
	t.Helper()
	if err := os.Remove(p.path("log")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// restore puts a kept database in the world's place, and its secrets beside it.
func (w *world) restore(dir string) record {
	w.t.Helper()
	var r record
	if err := json.Unmarshal(unpack(w.t, filepath.Join(dir, "record.json.gz")), &r); err != nil {
		w.t.Fatal(err)
	}
	data := filepath.Join(w.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		w.t.Fatal(err)
	}
	files := map[string][]byte{"token": []byte(r.Token + "\n")}
	if r.Key != "" {
		files["secret.key"] = []byte(r.Key + "\n")
	}
	if w.databaseURL == "" {
		files["assent.db"] = unpack(w.t, filepath.Join(dir, "assent.db.gz"))
	} else {
		db, err := sql.Open("postgres", w.databaseURL)
		if err != nil {
			w.t.Fatal(err)
		}
		defer db.Close()
		// One connection: the dump sets its search path. Nothing is left of it.
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(w.t.Context(), string(unpack(w.t, filepath.Join(dir, "dump.sql.gz")))); err != nil {
			w.t.Fatalf("load the dump: %v", err)
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(data, name), content, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return r
}

func unpack(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return raw
}

// holds reports whether an answer holds all that the older one did: it may
// have more members, and nothing else may differ.
func holds(was, now []byte) error {
	var a, b any
	for raw, into := range map[*[]byte]*any{&was: &a, &now: &b} {
		d := json.NewDecoder(bytes.NewReader(*raw))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			return err
		}
	}
	return within("", a, b)
}

func within(path string, was, now any) error {
	switch was := was.(type) {
	case map[string]any:
		now, ok := now.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no object", path)
		}
		for key, value := range was {
			if err := within(path+"/"+key, value, now[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		now, ok := now.([]any)
		if !ok || len(now) != len(was) {
			return fmt.Errorf("%s had %d items: %v", path, len(was), now)
		}
		for i := range was {
			if err := within(fmt.Sprintf("%s/%d", path, i), was[i], now[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if was != now {
		return fmt.Errorf("%s was %.200v and is %.200v", path, was, now)
	}
	return nil
}

func TestWhatAnAnswerHolds(t *testing.T) {
	t.Parallel()
	const was = `{"a":[1,{"b":"x"}],"n":9007199254740993}`
	for now, ok := range map[string]bool{
		was: true,
		`{"a":[1,{"b":"x","c":2}],"n":9007199254740993,"more":null}`: true,
		`{"a":[1,{"b":"y"}],"n":9007199254740993}`:                   false,
		`{"a":[1],"n":9007199254740993}`:                             false,
		`{"a":[1,{"b":"x"}],"n":9007199254740992}`:                   false,
		`{"a":[1,{"b":"x"}]}`:                                        false,
		`{"a":{},"n":9007199254740993}`:                              false,
		`[]`:                                                         false,
	} {
		if err := holds([]byte(was), []byte(now)); (err == nil) != ok {
			t.Errorf("%s: %v", now, err)
		}
	}
}
