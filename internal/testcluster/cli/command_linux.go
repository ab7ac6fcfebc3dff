package cli

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel send SIGTERM to a command when skiff is killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
