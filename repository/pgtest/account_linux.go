package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dirPrefix = "assent-pgtest-"
	// A folder this young may not have been locked yet.
	sweepAge = time.Minute
)

// account is who runs the server: PostgreSQL refuses to run as root.
type account struct {
	other    bool // not the user of this process
	uid, gid uint32
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return account{true, uint32(uid), uint32(gid)}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func (a account) attributes() *syscall.SysProcAttr {
	// Of all signals this one makes PostgreSQL take its children with it.
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if a.other {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

func (a account) own(dir string) error {
	if !a.other {
		return nil
	}
	if err := os.Chown(dir, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give PostgreSQL its folder: %w", err)
	}
	return nil
}

// reaches reports whether the account can enter dir. One that is not there is
// for others to complain about.
func (a account) reaches(dir string) bool {
	if _, err := os.Stat(dir); err != nil || !a.other {
		return true
	}
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}

// lockDir marks dir as in use until the file is closed or this process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock PostgreSQL's folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock PostgreSQL's folder: %w", err), f.Close())
	}
	return f, nil
}

// sweep removes what test binaries that were killed have left in dir. What
// cannot be removed is left to the next.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		old := filepath.Join(dir, e.Name())
		if lock, err := lockDir(old); err == nil {
			_ = os.RemoveAll(old)
			_ = lock.Close()
		}
	}
}
