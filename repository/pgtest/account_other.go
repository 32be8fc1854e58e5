//go:build !linux

package pgtest

import (
	"os"
	"syscall"
)

const dirPrefix = "assent-pgtest-"

// account is who runs the server: here always the user of this process.
type account struct{}

func serverAccount() (account, error) { return account{}, nil }

func (account) attributes() *syscall.SysProcAttr { return nil }

func (account) own(string) error { return nil }

func (account) reaches(string) bool { return true }

func lockDir(string) (*os.File, error) { return nil, nil }

func sweep(string) {}
