package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Result is what a command that ran to its end left behind.
type Result struct {
	Stdout, Stderr string
	Code           int // exit code; -1 if a signal ended it
}

// String is the whole result, for messages.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
}

// commandLimit bounds a command that should end. kubectl's own waits are given shorter limits by the tests.
const commandLimit = 6 * time.Minute

// runCommand runs argv to its end. An exit code is a result, not an error; an error is that it could not run or did
// not end.
func runCommand(ctx context.Context, env []string, stdin string, argv ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &exit)) {
		return Result{}, fmt.Errorf("run %s: %w\n%s", strings.Join(argv, " "), errors.Join(err, ctx.Err()),
			stderr.String())
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, nil
}

// Kubectl runs the real kubectl as one user.
type Kubectl struct {
	path       string
	kubeconfig string
	cacheDir   string // of discovery; not the one in the developer's home
}

// Kubectl returns a kubectl at path for the user.
func (c *Cluster) Kubectl(path string, u User) (Kubectl, error) {
	kubeconfig, err := c.Kubeconfig(u)
	return Kubectl{path: path, kubeconfig: kubeconfig, cacheDir: c.path("kubectl-cache")}, err
}

// Run runs kubectl to its end, with stdin for `-f -`.
func (k Kubectl) Run(ctx context.Context, stdin string, args ...string) (Result, error) {
	return runCommand(ctx, k.env(), stdin, k.argv(args)...)
}

func (k Kubectl) argv(args []string) []string {
	return append([]string{k.path, "--kubeconfig", k.kubeconfig}, args...)
}

func (k Kubectl) env() []string { return []string{"KUBECACHEDIR=" + k.cacheDir} }

// Must runs kubectl, which has to succeed, and returns what it printed. It goes on when the test's context has ended.
func (k Kubectl) Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	r, err := k.Run(noContext, stdin, args...)
	if err != nil || r.Code != 0 {
		t.Errorf("kubectl %s: %v %v", strings.Join(args, " "), err, r)
	}
	return r.Stdout
}
