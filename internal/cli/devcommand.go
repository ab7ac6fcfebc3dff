package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// commandGrace is how long a command may take to exit after SIGTERM before it is killed.
const commandGrace = 10 * time.Second

// exitCode makes Main return this code and print no error: that of a command that skiff ran.
type exitCode int

// Error describes the code for the case that it is joined with another error.
func (c exitCode) Error() string { return fmt.Sprintf("the command exited with %d", int(c)) }

// exitNotFound is a shell's exit code for a command that does not exist.
const exitNotFound = 127

// runCommand runs a command with KUBECONFIG set to a file, until it exits or ctx is done; then it gets SIGTERM. An
// exit code other than 0 is returned as an exitCode.
func runCommand(ctx context.Context, args []string, kubeconfig string, in io.Reader, out, errOut io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	// USE_EXISTING_CLUSTER makes envtest use KUBECONFIG instead of starting a server of its own.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "USE_EXISTING_CLUSTER=true")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(errOut, "skiff: run %s: %v\n", args[0], err)
		return exitCode(exitNotFound)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return exitCode(commandCode(exit))
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
