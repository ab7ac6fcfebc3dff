package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"skiff/internal/cli"
)

// commandGrace is how long a command may take to exit after SIGTERM before it is killed.
const commandGrace = 10 * time.Second

// The exit codes of a shell for a command that cannot be executed, and for one that does not exist.
const (
	exitNoProgram = 126
	exitNotFound  = 127
)

// ofTerminal reports whether a context was ended by Ctrl-C in the terminal, which tells all programs there.
func ofTerminal(ctx context.Context) bool {
	var by cli.Interrupted
	if !errors.As(context.Cause(ctx), &by) || by.Signal != os.Interrupt {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is none
	}
	tty.Close() // was only read
	return true
}

// runCommand runs a command with KUBECONFIG set to a file, until it exits or ctx is done; then it gets SIGTERM, unless
// the terminal has told it already. An exit code other than 0 is returned as a cli.ExitCode.
func runCommand(ctx context.Context, args []string, kubeconfig string, in io.Reader, out, errOut io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	// USE_EXISTING_CLUSTER makes envtest use KUBECONFIG instead of starting a server of its own.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "USE_EXISTING_CLUSTER=true")
	cmd.Cancel = func() error {
		if ofTerminal(ctx) {
			return nil
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = commandGrace
	runtime.LockOSThread() // the thread that started the command is its parent
	defer runtime.UnlockOSThread()
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(errOut, "skiff-dev: run %s: %v\n", args[0], err)
		if errors.Is(err, os.ErrPermission) {
			return cli.ExitCode(exitNoProgram)
		}
		return cli.ExitCode(exitNotFound)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return cli.ExitCode(commandCode(exit))
	case errors.Is(err, context.Canceled): // it exited with 0 after SIGTERM
		return nil
	}
	return fmt.Errorf("run %s: %w", args[0], err)
}

// commandCode returns the exit code of a command, for one that a signal ended 128 and the signal, as in a shell.
func commandCode(exit *exec.ExitError) int {
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return exit.ExitCode()
}
