package e2e

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var specs = flag.String("specs", "", "run the specs of Kubernetes' own e2e suite whose names match the `expression`, "+
	"on the real control plane and on skiff-dev")

// The specs of Kubernetes' own e2e suite pass on the real control plane, whose nodes kwok plays, and on skiff-dev, but
// for those that testdata/kubernetes-specs.txt names.
func TestKubernetesOwnSpecs(t *testing.T) {
	if *specs == "" {
		t.Skip("builds and runs Kubernetes' own e2e suite: make kubernetes")
	}
	bins := must(binaries())(t)
	ginkgo, suite, err := bins.kubernetesSuite(t.Context(), ".")
	noError(t, err)
	// The specs wait most of the time: six at a time keep two processors half busy.
	command := []string{ginkgo, "--procs=6", "--no-color", "--silence-skips", "--timeout=3h", "--focus=" + *specs,
		"--json-report=report.json"}
	notReal, notSkiffDev := readSpecs(t, "real"), readSpecs(t, "skiff-dev")
	t.Run("real", func(t *testing.T) {
		c := must(StartControlPlane(t.Context(), bins))(t)
		t.Cleanup(func() { c.Close(t.Failed()) })
		c.loops = []string{"*"}
		noError(t, c.startControllers(t.Context()))
		env := []string{"env", "KUBECONFIG=" + must(c.Kubeconfig(admin))(t)}
		runSpecs(t, append(env, command...), suite, notReal)
	})
	t.Run("skiff-dev", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "skiff-dev")
		must(goTool(t.Context(), filepath.Join(repository, "internal", "testcluster", "cel"), []string{
			"CGO_ENABLED=0"}, "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./skiff-dev"))(t)
		maps.Copy(notSkiffDev, notReal)
		runSpecs(t, append([]string{program, "--controllers", "none", "--"}, command...), suite, notSkiffDev)
	})
}

// readSpecs reads the specs that testdata/kubernetes-specs.txt leaves out on a server: "SERVER: NAME | REASON" in each
// line. What fails on the real one is left out on both.
func readSpecs(t *testing.T, server string) map[string]string {
	t.Helper()
	names := map[string]string{}
	text := must(os.ReadFile(filepath.Join("testdata", "kubernetes-specs.txt")))(t)
	for line := range strings.Lines(string(text)) {
		spec, reason, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		if name, of := strings.CutPrefix(spec, server+": "); of {
			names[name] = reason
		} else if !ok && !strings.HasPrefix(line, "#") {
			t.Fatalf("testdata/kubernetes-specs.txt: %q has no reason", line)
		}
	}
	return names
}

// runSpecs runs a suite with a command of ginkgo. The specs that are left out have to exist.
func runSpecs(t *testing.T, command []string, suite string, without map[string]string) {
	t.Helper()
	var names []string
	for name := range without {
		names = append(names, regexp.QuoteMeta(name))
	}
	if len(names) > 0 {
		command = append(command, "--skip="+strings.Join(names, "|"))
	}
	dir := must(os.MkdirTemp("", "skiff-e2e-specs-"))(t)
	log := must(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	command = append(command, "--output-dir="+dir, suite, "--", "--provider=skeleton",
		"--kubectl-path="+must(kubectlPath())(t), "--e2e-output-dir="+dir)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	err := cmd.Run()
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			Failure                           struct{ Message string }
		}
	}
	noError(t, json.Unmarshal(must(os.ReadFile(filepath.Join(dir, "report.json")))(t), &reports))
	passed := 0
	for _, r := range reports {
		for _, s := range r.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			delete(without, name)
			switch {
			case s.State == "passed" && s.LeafNodeType == "It":
				passed++
			case s.State != "passed" && s.State != "skipped" && s.State != "pending":
				t.Errorf("%s %s: %s", s.LeafNodeType, name, s.Failure.Message)
			}
		}
	}
	for name := range without {
		t.Errorf("testdata/kubernetes-specs.txt: the suite has no spec %q", name)
	}
	if err != nil || passed == 0 {
		t.Errorf("%v: see %s", err, log.Name())
	}
	t.Logf("%d passed", passed)
	if !t.Failed() {
		noError(t, os.RemoveAll(dir))
	}
}
