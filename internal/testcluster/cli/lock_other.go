//go:build !unix || solaris || aix

package cli

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock two processes could write one cluster.
func tryLock(*os.File, bool) error { return errors.New("this system has no flock, which --data needs") }
