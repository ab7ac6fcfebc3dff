package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const (
	sysCloseRange     = 436 // on all architectures
	closeRangeCloexec = 1 << 2
	firstInherited    = 3
)

// Protect keeps programs that skiff runs from what is skiff's: no descriptor that it was started with is inherited
// (those that Go opens are not, anyway), and processes of the same user cannot read its memory and environment in
// /proc, or trace it. Root can.
func Protect() error {
	if _, _, errno := syscall.RawSyscall(sysCloseRange, firstInherited, ^uintptr(0), closeRangeCloexec); errno != 0 {
		closeOnExec() // before Linux 5.11
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl PR_SET_DUMPABLE", errno)
	}
	return nil
}

func closeOnExec() {
	entries, _ := os.ReadDir("/proc/self/fd") // without /proc there is nothing more to do
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= firstInherited {
			syscall.CloseOnExec(fd)
		}
	}
}

// runAs has a command run as another user, without supplementary groups.
func runAs(cmd *exec.Cmd, id ID) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id.UID, Gid: id.GID}
}

// Capabilities that it takes: to kill a program of another user, and to become one.
const needed = 1<<5 | 1<<6 | 1<<7

// mayRunAs says whether this process may run and end programs of other users.
func mayRunAs() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true // the start of the program says so
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	have, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err != nil || have&needed == needed
}
