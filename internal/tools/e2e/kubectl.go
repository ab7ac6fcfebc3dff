package e2e

import (
	"context"
	"strings"
	"testing"
)

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
