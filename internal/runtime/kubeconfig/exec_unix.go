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

// endGroup kills what cmd has left running in its process group when it has ended: it would outlive skiff. A daemon
// that is meant to stay has a session of its own.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is none, most of the time
	}
}
