//go:build unix

package process

import (
	"os/exec"
	"sync"
	"syscall"
)

// OwnGroup gives the processes that cmd will start a group of their own, and has the end of cmd's context kill them
// all: many programs are shell scripts.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Terminate asks a command that runs, and what it has started, to end.
func Terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// groups are the process groups that run now. It is of the process, as they are: the end of the process ends them all.
var groups struct {
	mu      sync.Mutex // guards the rest; held while a program starts, so that EndAll sees it
	running map[int]bool
}

// Start starts a command with a group of its own. Wait has to follow.
func Start(cmd *exec.Cmd) error {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if groups.running == nil {
		groups.running = map[int]bool{}
	}
	groups.running[cmd.Process.Pid] = true
	return nil
}

// Wait waits for the end of a command that Start has started, and kills what it has left running in its group: it
// would outlive skiff. A daemon that is meant to stay has its own session.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	groups.mu.Lock()
	defer groups.mu.Unlock()
	delete(groups.running, cmd.Process.Pid)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is none, most of the time
	return err
}

// EndAll kills the programs that still run, with the processes that they have started: none outlives skiff. A program
// calls it before it exits.
func EndAll() {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	for pid := range groups.running {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended just now
	}
}
