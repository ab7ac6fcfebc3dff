//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// detach gives a program a session of its own, so that Ctrl-C in the terminal and its end do not reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// terminate asks a process to end.
func terminate(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGTERM)
}
