package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kubeconfig"
)

// errLocked says that another process has a lock.
var errLocked = errors.New("it is locked by another process")

// lockPatience is how long a lock is waited for: one who looks whether it is taken has it for a moment.
const lockPatience = 500 * time.Millisecond

// takeLock locks a file until it is closed. The kernel ends the lock with the process, however that ends.
func takeLock(f *os.File, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		if err := tryLock(f, true); !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return err
		}
	}
}

// locked reports whether a process has a directory. It is asked of the kernel: the process ID in the file may be of
// a process that has ended, and of another one since.
func locked(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(tryLock(f, false), errLocked)
}

// lockedBy returns the process that has locked a directory; 0: it is not known yet.
func lockedBy(dir string) int {
	text, err := kubeconfig.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}
