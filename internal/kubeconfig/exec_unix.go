//go:build unix

package kubeconfig

import (
	"os/exec"
	"syscall"
)

// killGroup has the end of cmd's context kill the processes that cmd started too: many plugins are shell scripts.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
