//go:build unix

package repository

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes flock on f, which belongs to the open file: also two stores of
// one process keep each other out.
func lock(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}
