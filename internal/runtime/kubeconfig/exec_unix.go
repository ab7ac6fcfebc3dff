//go:build unix

package kubeconfig

import (
	"os/exec"
	"sync"
	"syscall"
)

// killGroup has the end of cmd's context kill the processes that cmd started too: many plugins are shell scripts.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// groups are the process groups of the plugins that run now. It is of the process, as they are: any client may have
// started one, and the end of the process ends them all.
var groups struct {
	mu      sync.Mutex // guards the rest; held while a plugin starts, so that EndPlugins sees it
	running map[int]bool
}

// runGroup starts cmd and waits for its end.
func runGroup(cmd *exec.Cmd) error {
	if err := startGroup(cmd); err != nil {
		return err
	}
	defer func() {
		groups.mu.Lock()
		defer groups.mu.Unlock()
		delete(groups.running, cmd.Process.Pid)
	}()
	return cmd.Wait()
}

func startGroup(cmd *exec.Cmd) error {
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

// EndPlugins kills the credential plugins that still run, with the processes that they have started: none outlives
// skiff. A program calls it before it exits.
func EndPlugins() {
	groups.mu.Lock()
	defer groups.mu.Unlock()
	for pid := range groups.running {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended just now
	}
}

// endGroup kills what cmd has left running in its process group when it has ended: it would outlive skiff. A daemon
// that is meant to stay has its own session.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is none, most of the time
	}
}
