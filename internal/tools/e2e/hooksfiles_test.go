package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
)

// The definitions of hook controllers are valid, and the server fills in the same defaults as skiff does for files.
// Rules: HK-01, HK-34
func TestTheServerReadsAHookControllerAsSkiffReadsItsFile(t *testing.T) {
	s := newScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	if r := runSkiff(t, s, "crds", "install", "--hooks", "--kubeconfig", kubeconfig); r.Code != 0 {
		t.Fatal(r)
	}
	if r := runSkiff(t, s, "crds", "diff", "--hooks", "--kubeconfig", kubeconfig); r.Code != 0 || r.Stdout != "" {
		t.Errorf("after the installation: %v", r)
	}
	file := filepath.Join(repository, "internal", "cli", "testdata", "hooks.yaml")
	s.kubectl.Must(t, "", "apply", "--validate=strict", "-f", file)
	defer s.Kubectl("delete", "-f", file)
	live, err := spec.FromObject([]byte(s.Kubectl("get", "cc", "c", "-o", "json")))
	noError(t, err)
	files, _, err := spec.ReadFiles([]string{file})
	noError(t, err)
	var fromServer, fromFile struct{ Spec map[string]any }
	noError(t, json.Unmarshal(live.Object, &fromServer))
	noError(t, json.Unmarshal(files[0].Object, &fromFile))
	if !reflect.DeepEqual(fromServer, fromFile) || live.UID == "" {
		t.Errorf("the server has\n%s\nthe file\n%s", live.Object, files[0].Object)
	}
	invalid := strings.Replace(readFile(t, file), "{statusChecks:", "{method: Never, statusChecks:", 1)
	r, err := s.kubectl.Run(t.Context(), invalid, "apply", "--dry-run=server", "-f", "-")
	if err != nil || r.Code == 0 || !strings.Contains(r.Stderr, `Unsupported value: "Never"`) {
		t.Errorf("a method that does not exist: %v %v", err, r)
	}
}

// A new controller works in one namespace with the rights that skiff hooks role prints, and asks for nothing else.
// Rules: HK-100, HK-108, HK-113
func TestANewHookControllerWorksWithTheRightsOfItsRole(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("there is no jq on this machine")
	}
	s := newScope(t)
	dir := filepath.Join(t.TempDir(), "webshop")
	if r := runSkiff(t, s, "hooks", "init", dir, "--lang", "shell", "--group", s.NS+".example.com"); r.Code != 0 {
		t.Fatal(r)
	}
	s.Kubectl("apply", "-f", dir) // the definition alone: what needs it is in sub-directories
	defer s.Kubectl("delete", "-f", dir)
	s.Kubectl("create", "serviceaccount", "hooks")
	role := runSkiff(t, s, "hooks", "role", "-f", dir, "--namespaced", s.NS, "--service-account", s.NS+"/hooks")
	s.Apply(role.Stdout)
	kubeconfig := must(s.c.Kubeconfig(s.tokenUser(s.NS, "hooks")))(t)
	in := []string{"-f", dir, "--watch-namespaces", s.NS}
	check := runSkiff(t, s, append([]string{"hooks", "check", "--kubeconfig", kubeconfig}, in...)...)
	if check.Code != 0 {
		t.Errorf("skiff hooks check: %v", check)
	}
	sk := launchSkiffCommand(t, s, kubeconfig, append([]string{"hooks", "run"}, in...)...)
	waitReady(t, sk)
	example := readFile(t, filepath.Join(dir, "example", "hello.yaml"))
	s.Apply(strings.Replace(example, "namespace: default", "namespace: "+s.NS, 1))
	s.Kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "webshop/hello", "--timeout=4m")
	s.Kubectl("patch", "webshop/hello", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	s.Kubectl("wait", "--for=jsonpath={.spec.replicas}=1", "deployment/hello", "--timeout=4m")
	s.Kubectl("delete", "service/hello")
	s.Kubectl("wait", "--for=create", "service/hello", "--timeout=4m")
	noForbidden(s, sk.Log())
}

// The manifests of hook controllers are accepted, and their pods admitted where the policy for pods is restricted.
// Rules: HK-108
func TestManifestsOfHookControllersAreAdmitted(t *testing.T) {
	s := newScope(t)
	s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce=restricted")
	dir := filepath.Join(t.TempDir(), "webshop")
	if r := runSkiff(t, s, "hooks", "init", dir, "--lang", "shell", "--group", s.NS+".example.com"); r.Code != 0 {
		t.Fatal(r)
	}
	local := filepath.Join(t.TempDir(), "controller.yaml")
	noError(t, os.WriteFile(local, []byte(strings.ReplaceAll(numberedController, "URL", "http://localhost:9000/")),
		0o600))
	for name, args := range map[string][]string{
		"exec":    {"-f", dir, "--image", "webshop:v1"},
		"sidecar": {"-f", local, "--image", "skiff:v1", "--sidecar", "hook:v1"},
		"runtime": {"-f", dir, "--image", "skiff:v1", "--runtime", "alpine:3"},
	} {
		r := runSkiff(t, s, append([]string{"hooks", "manifests", "--namespaced", s.NS, "--name", name}, args...)...)
		if r.Code != 0 {
			t.Fatal(r)
		}
		applied, err := s.kubectl.Run(t.Context(), r.Stdout, "apply", "--dry-run=server", "--validate=strict", "-f",
			"-")
		if err != nil || applied.Code != 0 || strings.Contains(applied.Stderr, "Warning") {
			t.Errorf("%s: %v %v", name, err, applied)
		}
		s.Apply(r.Stdout)
		s.Kubectl("rollout", "status", "deployment/"+name, "--timeout=4m")
	}
	pods := s.get("/api/v1/namespaces/" + s.NS + "/pods?labelSelector=app.kubernetes.io/name%3Dsidecar").List("items")
	if len(pods) != 2 {
		t.Fatalf("%d pods with a sidecar, want 2", len(pods))
	}
	for _, c := range pods[0].List("spec", "containers") {
		token := strings.Contains(c.String(), "serviceaccount")
		if token != (c.Str("name") == "skiff") {
			t.Errorf("container %s has a token: %t", c.Str("name"), token)
		}
	}
}
