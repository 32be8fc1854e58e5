package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkStart measures the time from starting the program to the first
// byte that it serves, on an empty data folder and on one that was used
// before, beside a bare net/http and SQLite program started in turns with it.
// Ratios are of medians; one operation is 20 starts of each.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	assent, bare := filepath.Join(dir, "assent"), filepath.Join(dir, "bare")
	for exe, pkg := range map[string]string{assent: ".", bare: "./testdata/bare"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v\n%s", pkg, err, out)
		}
	}
	info, err := os.Stat(assent)
	if err != nil {
		b.Fatal(err)
	}
	used := filepath.Join(dir, "used")
	startOnce(b, exec.Command(assent, "serve", "-addr", "127.0.0.1:0", "-data-dir", used, "-log", "error"))
	for b.Loop() {
		var fresh, again, floor []time.Duration
		var rss int
		for range 20 {
			d, err := os.MkdirTemp(dir, "fresh")
			if err != nil {
				b.Fatal(err)
			}
			t, kib := startOnce(b, exec.Command(assent, "serve", "-addr", "127.0.0.1:0", "-data-dir", d, "-log", "error"))
			fresh, rss = append(fresh, t), kib
			t, _ = startOnce(b, exec.Command(assent, "serve", "-addr", "127.0.0.1:0", "-data-dir", used, "-log", "error"))
			again = append(again, t)
			t, _ = startOnce(b, exec.Command(bare, filepath.Join(d, "bare.db")))
			floor = append(floor, t)
		}
		b.ReportMetric(median(fresh)/median(floor), "first-start/bare")
		b.ReportMetric(median(again)/median(floor), "start/bare")
		b.ReportMetric(float64(rss)/1024, "MiB-RSS-idle")
		b.ReportMetric(float64(info.Size())/1e6, "MB-stripped")
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// startOnce starts a server, asks it once, and kills it. It returns the time
// to the first byte, and the memory that the process held then, in KiB.
func startOnce(b *testing.B, cmd *exec.Cmd) (time.Duration, int) {
	b.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		_, base, ok := strings.Cut(lines.Text(), "is ready on ")
		if !ok {
			continue
		}
		resp, err := http.Get(base + "/healthz")
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(begin)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return took, rss(b, cmd.Process.Pid)
	}
	b.Fatal("the server did not start")
	return 0, 0
}

func rss(b *testing.B, pid int) int {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0 // not on Linux
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return n
}
