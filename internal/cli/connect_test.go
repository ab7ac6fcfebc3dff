package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutAClusterTheNextStepIsSaid(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	absent := filepath.Join(t.TempDir(), "absent")
	for _, of := range []struct {
		args []string
		want string
	}{
		{nil, "there is no ~/.kube/config and KUBECONFIG is not set. Start one here: skiff-dev"},
		{[]string{"--kubeconfig", absent}, absent + ": no such file or directory; check " +
			"--kubeconfig, or start a cluster here: skiff-dev"},
	} {
		r := skiff(t, append([]string{"run"}, of.args...)...)
		r.Want(t, ExitFailed)
		if !strings.Contains(r.Stderr, of.want) {
			t.Errorf("run %q: %q, want %q", of.args, r.Stderr, of.want)
		}
	}
}
