package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// recipePath is PATH with the programs that the recipes in examples/testing name.
func recipePath(t *testing.T) (env []string) {
	t.Helper()
	dir := t.TempDir()
	bins := must(binaries())(t)
	for name, path := range map[string]string{
		"skiff-dev": must(skiffDevBinary())(t), "kubectl": must(kubectlPath())(t),
		"kube-controller-manager": bins.controllerManager, "kube-scheduler": bins.scheduler, "kwok": bins.kwok} {
		noError(t, os.Symlink(must(filepath.Abs(path))(t), filepath.Join(dir, name)))
	}
	return []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "KWOK_STAGES=" + bins.kwokStages}
}

// recipe runs a command in a shell and returns what it printed.
func recipe(t *testing.T, env []string, dir, command string) string {
	t.Helper()
	r := must(runCommand(t.Context(), env, "", "sh", "-c", "cd "+dir+" && "+command))(t)
	if r.Code != 0 {
		t.Fatalf("%s: %s", command, r)
	}
	return r.Stdout
}

func TestTheRealControllersWorkOnSkiffDev(t *testing.T) {
	t.Parallel()
	out := recipe(t, recipePath(t), filepath.Join(repository, "examples", "testing"),
		"skiff-dev --bare -- sh controlplane.sh")
	for _, want := range []string{"deployment.apps/web condition met", "3/3", `deployment.apps "web" deleted`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// Each package of tests gets a server of its own, so that both can create the same object, and the commands of the
// workflows are those of the documentation.
func TestPackagesOfTestsHaveAServerEach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module operator\n\ngo 1.24\n")
	write("config/crd/web.yaml", string(must(os.ReadFile(filepath.Join(repository, "crds", "webserver.yaml")))(t)))
	for _, name := range []string{"a", "b"} {
		write(name+"/x_test.go", "package "+name+`

import (
	"os"
	"os/exec"
	"testing"
)

func TestObject(t *testing.T) {
	for _, args := range [][]string{{"create", "configmap", "same"}, {"get", "webservers"}, {"version"}} {
		out, err := exec.Command("kubectl", args...).CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		if _, err := os.Stdout.Write(out); err != nil {
			t.Fatal(err)
		}
	}
}
`)
	}
	var github struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	var gitlab struct{ Test struct{ Script []string } }
	for name, into := range map[string]any{"github-test.yaml": &github, "gitlab-test.yaml": &gitlab} {
		noError(t, yaml.Unmarshal(must(os.ReadFile(filepath.Join(repository, "examples", "ci", name)))(t), into))
	}
	steps := github.Jobs["test"].Steps
	command := steps[len(steps)-1].Run
	if len(gitlab.Test.Script) != 1 || gitlab.Test.Script[0] != command {
		t.Errorf("GitHub runs %q, GitLab %q", command, gitlab.Test.Script)
	}
	env := append(recipePath(t), "KUBERNETES=1.33", "GOFLAGS=-v -count=1")
	if out := recipe(t, env, dir, command); strings.Count(out, "configmap/same created") != 2 ||
		strings.Count(out, "Server Version: v1.33.") != 2 {
		t.Error(fmt.Sprint("both packages create the object on a server of 1.33: ", out))
	}
}
