package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Group is a process group that cannot outlive this process, however this process ends: returning, a panic, go test's
// timeout, an interrupt or a kill -9. Its leader is a shell that reads from a pipe which only we hold open; when we
// are gone the read ends and the shell kills its whole group, itself included.
type Group struct {
	leader *exec.Cmd
	leash  io.Closer
}

// NewGroup starts an empty group.
func NewGroup() (*Group, error) {
	cmd := exec.Command("/bin/sh", "-c", "read _; kill -9 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the leash: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the group leader: %w", err)
	}
	return &Group{leader: cmd, leash: leash}, nil
}

// Close kills what is left of the group and returns when its leader is gone.
func (g *Group) Close() {
	g.leash.Close()
	// The leader dies by its own kill -9, so its error says nothing.
	g.leader.Wait()
}

// Process is one program of a Group. Its stdout and stderr are appended to LogPath.
type Process struct {
	Name    string
	LogPath string

	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and was waited for
}

// Start runs argv in the group, with env added to our environment; output goes to dir/name.log.
func (g *Group) Start(dir, name string, env []string, argv ...string) (*Process, error) {
	p := &Process{Name: name, LogPath: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		// The exit code is read from ProcessState; a non-zero one is not an error of the harness.
		p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the program has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode is the program's exit code, or -1 if a signal ended it. Valid once Done is closed.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends sig; a program that has ended already is no error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !p.Exited() {
		return fmt.Errorf("signal %s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Kill is kill -9, and returns when the program is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks with SIGTERM, waits for grace, then kills. It reports whether asking was enough.
func (p *Process) Stop(grace time.Duration) (inTime bool, err error) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	select {
	case <-p.done:
		return true, nil
	case <-time.After(grace):
		return false, p.Kill()
	}
}

// Log is everything the program printed so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(text)
}

// Tail is the path of the log and its last n lines.
func (p *Process) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return fmt.Sprintf("--- %s: last lines of %s\n%s\n", p.Name, p.LogPath,
		strings.Join(lines[max(0, len(lines)-n):], "\n"))
}
