package internal_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/cli"
	"skiff/internal/hooks/scaffold"
)

// hooksTools are what hooks are run with in the examples, and in the controllers of `skiff hooks init`.
var hooksTools = map[string]string{"shell": "jq", "python": "python3", "node": "node", "go": "go"}

// newHooksShell is a shell that finds skiff in its PATH.
func newHooksShell(t *testing.T) *shell {
	t.Helper()
	for _, tool := range hooksTools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s on this machine", tool)
		}
	}
	s := newShell(t)
	s.cluster("bin/skiff-dev --controllers none")
	s.env = append(s.env, "PATH="+filepath.Join(s.dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	s.run("python3 -c pass && node -e 0") // read from a cold disk here, and not within the timeout of a hook
	return s
}

// Rules: HK-100, HK-112, HK-113
func TestTheCommandsOfTheReadmeOfHooksRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	t.Parallel()
	s := newHooksShell(t)
	n := 0
	for line := range strings.Lines(read(t, "examples/hooks/README.md")) {
		command, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		n++
		if command = strings.TrimSpace(command); strings.HasPrefix(command, "skiff hooks run ") {
			s.start(command)
		} else {
			s.run(command)
		}
	}
	if n < 20 {
		t.Fatalf("%d commands were found: this test no longer understands examples/hooks/README.md", n)
	}
}

// Rules: HK-112
func TestTheTestOfEachNewControllerPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	t.Parallel()
	s := newHooksShell(t)
	for _, lang := range scaffold.Languages() {
		s.run("skiff hooks init shop-" + lang + " --lang " + lang)
		if out := s.run("shop-" + lang + "/test.sh"); !strings.HasSuffix(out, "answers as in test/want.yaml\n") {
			t.Errorf("%s: %s", lang, out)
		}
	}
	s.run("echo other: true >>shop-python/test/want.yaml && ! shop-python/test.sh")
	s.run("shop-python/test.sh --accept && shop-python/test.sh")
}

// siteController declares what the hook of README.md decides about.
const siteController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: site}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: sites}
  childResources: [{apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}]
  hooks: {sync: {version: v2, exec: {command: [python3, hook.py], mode: oneshot}}}
`

// Rules: HK-100
func TestTheHookOfTheReadmeAnswers(t *testing.T) {
	_, hook, found := strings.Cut(read(t, "README.md"), "```python\n")
	hook, _, closed := strings.Cut(hook, "```\n")
	if !found || !closed || strings.Count(hook, "\n") > 16 {
		t.Fatalf("README.md has no short hook in Python:\n%s", hook)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 on this machine")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"hook.py": hook, "controller.yaml": siteController,
		"site.yaml": "apiVersion: example.com/v1\nkind: Site\nmetadata: {name: a, namespace: b}\n" +
			"spec: {image: nginx, replicas: 2}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{"hooks", "call", "-f", filepath.Join(dir, "controller.yaml"), "--parent",
		filepath.Join(dir, "site.yaml"), "-o", "yaml"}, &out, &stderr)
	for _, want := range []string{"readyReplicas: 0", "kind: Deployment", "image: nginx", "replicas: 2"} {
		if code != cli.ExitDone || !strings.Contains(out.String(), want) {
			t.Fatalf("exit code %d, no %q in\n%s%s", code, want, &out, &stderr)
		}
	}
}
