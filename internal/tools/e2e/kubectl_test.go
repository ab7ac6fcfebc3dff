package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// kubectlLine is something that a user types, without the namespace.
type kubectlLine struct{ args, stdin string }

// kubectlLines are the lines of an archive: the names of its sections, but for those that begin with #.
func kubectlLines(t *testing.T, file string, vars Vars) (lines []kubectlLine) {
	t.Helper()
	_, sections, _ := testdata(t, file, nil)
	for _, f := range sections {
		if !strings.HasPrefix(f.Name, "#") {
			lines = append(lines, kubectlLine{vars.expand(f.Name), string(f.Data)})
		}
	}
	return lines
}

// kubectl prints the same of skiff-dev as of a real cluster.
//
// Rules: FD-11, FD-12, FD-13, FD-14, FD-15, FD-16, FD-17, FD-18, FD-21
func TestKubectlSaysTheSameOfSkiffDevAndOfARealCluster(t *testing.T) {
	sameOnBoth(t, kubectlLines(t, "kubectl/basics.txtar", nil))
}

// Rules: FD-20
func TestKubectlAppliesFilesToSkiffDevAsToARealCluster(t *testing.T) {
	dir := t.TempDir()
	files := must(txtar.ParseFile(filepath.Join("testdata", "kubectl", "dir.txtar")))(t)
	content, err := txtar.FS(files)
	if err == nil {
		err = os.CopyFS(dir, content)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECTL_APPLYSET", "true")
	sameOnBoth(t, kubectlLines(t, "kubectl/files.txtar", Vars{"dir": dir}))
}

// Rules: FD-15
func TestKubectlSeesTheSameWorkloadsOnSkiffDev(t *testing.T) {
	c := must(sharedCluster())(t)
	kubeconfig := must(c.Kubeconfig(controllerManager))(t)
	// The other tests have Jobs that no controller may run.
	jobs, err := c.Start("kube-controller-manager-of-jobs", nil, c.bins.controllerManager, "--kubeconfig", kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--controllers", "job-controller,cronjob-controller,"+
			"endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,disruption-controller,"+
			"persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,"+
			"persistentvolume-protection-controller,resourcequota-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if inTime, err := jobs.Stop(limit); err != nil || !inTime {
			t.Errorf("the controller manager does not end: %v", err)
		}
	})
	sameOnBoth(t, kubectlLines(t, "kubectl/workloads.txtar", nil))
}

// sameOnBoth compares what kubectl prints of a real cluster with what it prints of skiff-dev.
func sameOnBoth(t *testing.T, lines []kubectlLine) {
	t.Helper()
	s := newScope(t)
	binary := must(skiffDevBinary())(t)
	kubeconfig := s.c.path("dev.kubeconfig")
	dev := must(s.c.Start("dev", nil, binary, "--kubeconfig-out", kubeconfig))(t)
	t.Cleanup(func() {
		if inTime, err := dev.Stop(limit); err != nil || !inTime {
			t.Errorf("skiff-dev does not end: %v", err)
		}
	})
	embedded := Kubectl{path: s.kubectl.path, kubeconfig: kubeconfig, cacheDir: t.TempDir()}
	Eventually(t, limit, "skiff-dev has its CRDs", func() (bool, string) {
		if _, err := os.Stat(kubeconfig); err != nil {
			return false, err.Error()
		}
		r, err := embedded.Run(t.Context(), "", "get", "webservers")
		return err == nil && r.Code == 0, r.String()
	})
	embedded.Must(t, "", "create", "namespace", s.NS)
	for _, line := range lines {
		var printed [2]string
		var both sync.WaitGroup
		for i, k := range []Kubectl{s.kubectl, embedded} {
			both.Go(func() { printed[i] = line.run(t, k, s.NS) })
		}
		both.Wait()
		if printed[0] != printed[1] {
			t.Errorf("kubectl %s\nreal:     %s\nembedded: %s", line.args, printed[0], printed[1])
		}
	}
}

// passing is what differs from run to run. The width of a column of ages is that of the longest one.
var passing = regexp.MustCompile(`\b(\d+[smhdy])+\b *|AGE +|/tmp/[^ "]+|pid=\d+`)

// run returns what kubectl printed, without what passes: ages and names of files.
func (l kubectlLine) run(t *testing.T, k Kubectl, namespace string) string {
	t.Helper()
	began := time.Now()
	argv := k.argv(append([]string{"-n", namespace}, strings.Fields(l.args)...))
	env := k.env()
	if strings.HasPrefix(l.args, "edit ") { // its text is the editor
		env = append(env, "KUBE_EDITOR="+strings.TrimSpace(l.stdin))
	}
	r, err := runCommand(t.Context(), env, l.stdin, argv...)
	if err != nil {
		t.Errorf("kubectl %s: %v", l.args, err)
	}
	if took := time.Since(began); took > limit {
		t.Errorf("kubectl %s took %v", l.args, took)
	}
	out := strings.TrimSpace(r.Stdout)
	if strings.HasPrefix(l.args, "rollout status") { // before its last line it says what it waits for
		out = out[strings.LastIndexByte(out, '\n')+1:]
	}
	r.Stdout = out
	return passing.ReplaceAllString(r.String(), "~")
}
