package repository

import (
	"errors"
	"fmt"
	"os"
)

// lockFile is a file that one process at a time can hold. The system lets go
// of it when the process ends, however it ends; the file stays.
type lockFile struct{ *os.File }

var errLocked = errors.New("locked by another process")

// tryLockFile takes the lock, or fails at once.
func tryLockFile(path string) (*lockFile, error) {
	f, err := openLockFile(path)
	if err != nil {
		return nil, err
	}
	if err := lock(f.File, false); err != nil {
		_ = f.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("another server uses this database (%s is locked); stop it first", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// waitLockFile takes the lock as soon as it is free.
func waitLockFile(path string) (*lockFile, error) {
	f, err := openLockFile(path)
	if err != nil {
		return nil, err
	}
	if err := lock(f.File, true); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

func openLockFile(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return &lockFile{f}, nil
}
