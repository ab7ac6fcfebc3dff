//go:build unix && !solaris && !aix

package cli

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open file, alone or with others.
func tryLock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
