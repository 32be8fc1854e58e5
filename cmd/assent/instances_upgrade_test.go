package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTwoInstancesGoOnWhereAnOlderReleaseFell(t *testing.T) {
	t.Parallel()
	kept, err := filepath.Glob(filepath.Join("testdata", "releases", "*", "postgres"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("there are no releases: %v", err)
	}
	for _, dir := range kept {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				r := w.restore(dir)
				key, err := os.ReadFile(filepath.Join(w.dir, "data", "secret.key"))
				if err != nil {
					t.Fatal(err)
				}
				w.share(key)
				w.goOn(r)
			}, "instances")
		})
	}
}
