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

// kubectlLine is something that a user types, without the namespace. One that begins with "NAME := " is not compared:
// what it prints is ${NAME} in the lines after it, on each server its own.
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
	startMoreControllers(t, "job-controller", "cronjob-controller", "endpoints-controller",
		"endpointslice-controller", "endpointslice-mirroring-controller", "disruption-controller",
		"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
		"persistentvolume-protection-controller", "resourcequota-controller")
	sameOnBoth(t, kubectlLines(t, "kubectl/workloads.txtar", nil))
}

// Rules: FD-15
func TestKubectlSeesTheSameEndsOfObjectsOnSkiffDev(t *testing.T) {
	startMoreControllers(t, "replicationcontroller-controller", "node-lifecycle-controller",
		"taint-eviction-controller", "resourcequota-controller", "endpoints-controller", "endpointslice-controller")
	sameOnBoth(t, kubectlLines(t, "kubectl/controllers.txtar", nil))
}

// startMoreControllers starts those that the other tests do without: they have Jobs, for example, that no controller
// may run.
func startMoreControllers(t *testing.T, names ...string) {
	t.Helper()
	c := must(sharedCluster())(t)
	kubeconfig := must(c.Kubeconfig(controllerManager))(t)
	more, err := c.Start("kube-controller-manager-of-a-test", nil, c.bins.controllerManager, "--kubeconfig",
		kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers", strings.Join(names, ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if inTime, err := more.Stop(limit); err != nil || !inTime {
			t.Errorf("the controller manager does not end: %v", err)
		}
	})
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
	both := [2]Kubectl{s.kubectl, embedded}
	vars := [2]Vars{{"NS": s.NS}, {"NS": s.NS}}
	for _, line := range lines {
		if name, args, captured := strings.Cut(line.args, " := "); captured {
			for i, r := range runOnBoth(t, both, s.NS, kubectlLine{args, line.stdin}, vars) {
				vars[i][name] = r.Stdout
			}
			continue
		}
		printed := runOnBoth(t, both, s.NS, line, vars)
		for end := time.Now().Add(settles); line.reads() && differ(printed) && time.Now().Before(end); {
			printed = runOnBoth(t, both, s.NS, line, vars)
		}
		if differ(printed) {
			t.Errorf("kubectl %s\nreal:     %s\nembedded: %s", line.args, printed[0], printed[1])
		}
	}
}

// settles bounds how long a real controller may go on after what a line has waited for: a Deployment's conditions come
// in two writes, for example, with seconds between the two on a busy machine; a rate limit adds up to 16.
const settles = 2 * time.Minute

// reads tells that the line changes nothing, and may print what controllers are still at.
func (l kubectlLine) reads() bool {
	return strings.HasPrefix(l.args, "get ") || strings.HasPrefix(l.args, "describe ") ||
		strings.HasPrefix(l.args, "rollout history ")
}

// runOnBoth runs one line on both servers at once.
func runOnBoth(t *testing.T, on [2]Kubectl, namespace string, l kubectlLine, vars [2]Vars) (printed [2]Result) {
	t.Helper()
	var both sync.WaitGroup
	for i, k := range on {
		mine := kubectlLine{vars[i].expand(l.args), vars[i].expand(l.stdin)}
		both.Go(func() { printed[i] = mine.run(t, k, namespace) })
	}
	both.Wait()
	return printed
}

func differ(printed [2]Result) bool {
	return passing.ReplaceAllString(printed[0].String(), "~") != passing.ReplaceAllString(printed[1].String(), "~")
}

// passing is what differs from run to run. The width of a column of ages is that of the longest one.
var passing = regexp.MustCompile(`\b(\d+[smhdy])+\b *|AGE +|/tmp/[^ "]+|pid=\d+`)

// ownLog is a line of kubectl's own log. A watch that ends with kubectl's patience leads to one, or not.
var ownLog = regexp.MustCompile(`(?m)^[EWI]\d{4} \d\d:\d\d:.*\n?`)

// run returns what kubectl printed.
func (l kubectlLine) run(t *testing.T, k Kubectl, namespace string) Result {
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
	r.Stdout, r.Stderr = out, ownLog.ReplaceAllString(r.Stderr, "")
	return r
}
