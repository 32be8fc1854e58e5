package pgtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// envChild makes this test binary the child of the test below.
const envChild = "ASSENT_PGTEST_CHILD"

// child starts a server in the folder that the environment names, tells its
// process id and folder, and waits to be killed.
func child() {
	s, err := Start(os.Getenv(envChild))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.proc.cmd.Process.Pid, s.dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestTheServerDiesWithAKilledTestBinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envChild+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var pid, fd int
	var dir string
	if err == nil {
		_, err = fmt.Sscan(line, &pid, &dir)
	}
	if err == nil {
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if killErr := cmd.Process.Kill(); killErr != nil {
		t.Error(killErr)
	}
	_ = cmd.Wait() // "signal: killed"
	if err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	defer unix.Close(fd)
	defer os.RemoveAll(dir) // a sweep would, some day
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(stopTimeout.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Errorf("the server %d lives on (%v)", pid, err)
		}
		return
	}
}

func TestSweepRemovesOnlyWhatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{dirPrefix + "stale", dirPrefix + "used", dirPrefix + "young", "other"} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if name == dirPrefix+"used" {
			lock, err := lockDir(sub)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
		}
		if name == dirPrefix+"young" {
			continue
		}
		if err := os.Chtimes(sub, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir)
	sweep(filepath.Join(dir, "none"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{dirPrefix + "used", dirPrefix + "young", "other"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestAnAccountReachesOnlyWhatIsOpenAllTheWay(t *testing.T) {
	base := t.TempDir()
	for dir := base; dir != filepath.Dir(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	closed, below := filepath.Join(base, "closed"), filepath.Join(base, "closed", "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	other := account{other: true, uid: 1, gid: 1}
	tests := []struct {
		name string
		who  account
		dir  string
		want bool
	}{
		{"open", other, base, true},
		{"closed", other, closed, false},
		{"below a closed one", other, below, false},
		{"closed to others only", account{}, below, true},
		{"not there", other, filepath.Join(base, "none"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.who.reaches(tt.dir); got != tt.want {
				t.Errorf("reaches %s: %v, want %v", tt.dir, got, tt.want)
			}
		})
	}
}

func TestLockDirIsExclusive(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if second, err := lockDir(dir); err == nil {
		second.Close()
		t.Error("the folder was locked twice")
	}
	if _, err := lockDir(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there was locked")
	}
}
