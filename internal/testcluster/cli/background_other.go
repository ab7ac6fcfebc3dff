//go:build !unix

package cli

import (
	"errors"
	"os/exec"
)

// detach does nothing: --data needs flock, which only Unix has.
func detach(*exec.Cmd) {}

func terminate(int) error { return errors.New("this system has no SIGTERM") }
