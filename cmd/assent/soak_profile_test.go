//go:build soak

package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
)

// profilesEnv names a folder for profiles of the servers' heaps: what there is
// after the warm-up and at the end, to be told apart with "go tool pprof
// -diff_base".
const profilesEnv = "ASSENT_SOAK_PROFILES"

// A server of the soak writes such a profile at every SIGUSR1.
func init() {
	dir := os.Getenv(profilesEnv)
	if dir == "" || os.Getenv(childEnv) == "" {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for n := 1; ; n++ {
			<-asked
			if err := writeHeap(filepath.Join(dir, fmt.Sprintf("heap-%d-%d.pprof", os.Getpid(), n))); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
}

func writeHeap(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	if err := pprof.WriteHeapProfile(f); err != nil {
		return err
	}
	return f.Close()
}

// profile has the servers write their heaps, if somebody wants to see them.
func (s *soak) profile() {
	if os.Getenv(profilesEnv) == "" {
		return
	}
	for _, p := range s.procs {
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			s.t.Error(err)
		}
	}
}
