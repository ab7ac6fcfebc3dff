package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nextVersion builds a skiff that declares one field more than this one, and returns its path.
func nextVersion(t *testing.T) string {
	t.Helper()
	const declared = `map[string]any{"containers": []any{c}}`
	source := filepath.Join(repository, "internal", "operators", "webserver", "desired.go")
	text := string(must(os.ReadFile(source))(t))
	if strings.Count(text, declared) != 1 {
		t.Fatalf("%s does not declare pods as %s any more: change this test", source, declared)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "desired.go")
	noError(t, os.WriteFile(changed, []byte(strings.Replace(text, declared,
		`map[string]any{"containers": []any{c}, "terminationGracePeriodSeconds": int64(5)}`, 1)), 0o600))
	overlay := must(json.Marshal(map[string]any{"Replace": map[string]string{
		must(filepath.Abs(source))(t): changed}}))(t)
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "skiff")
	noError(t, os.WriteFile(file, overlay, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, "-o", program, "./cmd/skiff")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// What an upgrade changes is what the new version's plan says of it, and the plan of the version that runs has nothing
// to do.
//
// Rules: PL-01, PL-12, PL-22
func TestThePlanOfANewVersionSaysWhatTheUpgradeWillDo(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2"))
	s.waitChildren("web", "nginx:1.23.1", 2)
	noError(t, sk.Terminate())
	s.wantPlan(s.plan(admin), 0, "No changes: 1 object of 2 controllers is as declared.\n")

	program := nextVersion(t)
	plan := func() Result {
		t.Helper()
		return must(runCommand(t.Context(), []string{"KUBECONFIG=", "HOME=" + s.c.Dir}, "", program, "plan",
			"--kubeconfig", must(s.c.Kubeconfig(admin))(t), "--controllers", "webserver", "--watch-namespaces",
			s.NS))(t)
	}
	const change = "  ~ Deployment web: rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)\n" +
		"      spec.template.spec.terminationGracePeriodSeconds: 30 -> 5\n" +
		"Plan: 0 to create, 1 to change, 0 to delete, 0 blocked. 2 pods roll.\n"
	s.wantPlan(plan(), 3, "WebServer "+s.NS+"/web\n"+change)

	upgraded := must(s.c.StartSkiffCommand(program, "skiff-next-"+s.NS, must(s.c.Kubeconfig(operator))(t), "run",
		"--controllers", "webserver", "--watch-namespaces", s.NS, "--metrics-bind-address=0"))(t)
	t.Cleanup(func() {
		if !upgraded.Exited() {
			noError(t, upgraded.Terminate())
		}
	})
	Eventually(t, limit, "the new version has rolled the pods", func() (bool, string) {
		d := s.Deployment("web")
		return d.Int("spec", "template", "spec", "terminationGracePeriodSeconds") == 5, d.String()
	})
	s.waitChildren("web", "nginx:1.23.1", 2)
	noError(t, upgraded.Terminate())
	s.wantPlan(plan(), 0, "No changes: 1 object of 1 controller is as declared.\n")
}
