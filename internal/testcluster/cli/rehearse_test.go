package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
)

const webServerYAML = `apiVersion: skiff.dev/v1alpha1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1.23.1", replicas: 2}
`

const secretYAML = `---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: default}
stringData: {key: canary}
`

// A hook controller with a CRD of its own, and with Secrets and ConfigMaps among its children.
const (
	hookYAML = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: apps}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: apps}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: secrets}
  hooks: {sync: {exec: {command: [sh, ./hook.sh]}}}
`
	appsYAML = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: apps, singular: app, kind: App, listKind: AppList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: App
metadata: {name: web, namespace: default}
`
)

// Rules: PL-23
func TestHookControllersRehearseWithTheSecretsThatTheyDeclare(t *testing.T) {
	dir := writeFiles(t, map[string]string{"hook.yaml": hookYAML, "hook.sh": `cat > /dev/null; echo '{"children":[' \
		'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made"},"data":{"k":"v"}}]}'`})
	controller, file := filepath.Join(dir, "hook.yaml"), filepath.Join(dir, "state")
	declared := "---\n" + strings.Replace(hookYAML, "./hook.sh", filepath.Join(dir, "hook.sh"), 1)
	invalid := strings.Replace(strings.Replace(declared, "name: apps", "name: invalid", 1), "[sh, ", `["", `, 1)
	declared += invalid
	for _, name := range []string{"compositecontrollers", "decoratorcontrollers"} {
		text, err := os.ReadFile("../../../crds/hooks/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		declared += "---\n" + string(text)
	}
	from := startDev(t, "--bare", "--load", writeFile(t, appsYAML+secretYAML+declared))
	r := from.rehearse("-f", controller, "--by-owner")
	if r.Code != cli.ExitDiffer || !strings.HasPrefix(r.Stdout, "App default/web + ConfigMap made\nRehearsal: 1 ") {
		t.Errorf("%+v", r)
	}
	want := r.Stdout
	from.rehearse("-f", controller, "--save", file, "--plain").Want(t, cli.ExitDone)
	r = from.rehearse("--from-cluster")
	if r.Code != cli.ExitFailed || !strings.Contains(r.Stderr, "--allow-exec=compositecontroller/apps") {
		t.Errorf("no controller may run: %+v", r)
	}
	r = from.rehearse("--from-cluster", "--allow-exec", "compositecontroller/apps", "--by-owner")
	if r.Code != 4 || r.Stdout != want || !strings.Contains(r.Stderr, "skiff-dev: --from-cluster: "+
		"CompositeController invalid: spec.hooks.sync.exec.command[0]") {
		t.Errorf("%+v, want %s", r, want)
	}
	from.Stop()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"kind":"Secret"`) {
		t.Errorf("the file has no Secret (%v)", err)
	}
	if again := skiffDev(t, "rehearse", "-f", controller, "--by-owner", "--from", file); again.Stdout != r.Stdout {
		t.Errorf("%+v, want %s", again, r.Stdout)
	}
}

// rehearse rehearses on the cluster of a skiff-dev.
func (r devRun) rehearse(args ...string) clitest.Result {
	r.T.Helper()
	kubeconfig := filepath.Join(filepath.Dir(r.ready), "kubeconfig")
	return skiffDev(r.T, append([]string{"rehearse", "--kubeconfig", kubeconfig}, args...)...)
}

// waitReady waits until a pod of the WebServer is ready.
func (r devRun) waitPods(want int) {
	r.T.Helper()
	deployment := kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	for deadline := time.Now().Add(clitest.Patience); ; <-time.After(20 * time.Millisecond) {
		var d struct {
			kube.Meta `json:"metadata"`
			Status    struct {
				ReadyReplicas int `json:"readyReplicas"`
			} `json:"status"`
		}
		err := r.client.Get(r.T.Context(), deployment, kube.Key{Namespace: "default", Name: "web"}, &d)
		if err == nil && d.Status.ReadyReplicas == want {
			return
		}
		if time.Now().After(deadline) {
			r.T.Fatalf("the Deployment has %d ready pods (%v), want %d", d.Status.ReadyReplicas, err, want)
		}
	}
}

// Rules: RR-01, RR-03, PL-27
func TestACopyIsAFileForRehearseAndForLoad(t *testing.T) {
	from := startDev(t, "--controllers", "webserver", "--load", writeFile(t, webServerYAML+secretYAML))
	from.waitPods(2)
	file := filepath.Join(t.TempDir(), "cluster.state")
	r := from.rehearse("--save", file)
	if r.Code != cli.ExitDone || !strings.HasPrefix(r.Stdout, file+": ") ||
		!strings.HasSuffix(r.Stdout, " KiB; values that may be secret are replaced\n") {
		t.Fatalf("%+v", r)
	}
	from.rehearse("--save", file).Want(t, cli.ExitFailed, "--save: open "+file+": file exists: choose a new file")
	from.Stop()

	if r := skiffDev(t, "rehearse", "--from", file); r.Code != cli.ExitDone ||
		!strings.HasPrefix(r.Stdout, "No writes: the ") {
		t.Errorf("%+v", r)
	}
	to := startDev(t, "--controllers", "webserver", "--load", file)
	to.waitPods(2)
	uid := func(in devRun, r kube.Resource, name string) string {
		var o struct {
			kube.Meta `json:"metadata"`
		}
		if err := in.client.Get(t.Context(), r, kube.Key{Namespace: "default", Name: name}, &o); err != nil {
			t.Fatal(err)
		}
		return o.UID
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"kind":"Secret"`) || strings.Contains(string(text), `"kind":"ConfigMap"`) {
		t.Error("the file has a Secret or a ConfigMap, which no controller reads")
	}
	services := kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
	if id := uid(to, services, "web-service"); id == "" || !strings.Contains(string(text), id) {
		t.Errorf("the uid of the Service, %q, is not that of the file", id)
	}
	to.Stop()
	skiffDev(t, "--load", file, "--load", file).Want(t, cli.ExitFailed, "it is the second copy of a cluster")
}

func TestRehearseNamesWhatIsWrong(t *testing.T) {
	words := writeFile(t, "hush hush")
	hook := writeFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: a.b/v1, resource: cs}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {exec: {command: [cat]}}}
`)
	for args, want := range map[string]string{
		"--save x --from y":       "--save and --from: give one of them",
		"--plain":                 "--plain: it is for --save",
		"--from x --from-cluster": "--from and --from-cluster: a file has no hook controllers, name them with -f",
		"--timeout 0s":            "--timeout 0s: must be positive",
		"--controllers moon":      `--controllers: unknown controller "moon"`,
		"--template-policy x":     `--template-policy "x": want any, baseline or restricted`,
		"--min-debounce -1s":      "--min-debounce -1s: must not be negative",
		"--watch-namespaces A":    `--watch-namespaces: "A" is not a valid namespace name`,
		"--save x -f " + hook:     "add --plain to keep all values, Secrets included",
		"--verbosity -1":          "--verbosity -1: must not be negative",
		"--from x --log-format y": `--log-format "y": want auto, console, text or json`,
	} {
		skiffDev(t, append([]string{"rehearse"}, strings.Fields(args)...)...).Want(t, cli.ExitUsage, want)
	}
	skiffDev(t, "rehearse", "--from", words).Want(t, cli.ExitFailed,
		"--from: read "+words+": it is no copy of a cluster")
	skiffDev(t, "rehearse", "--from", "/nowhere").Want(t, cli.ExitFailed, "--from: open /nowhere: no such file")
	bare := startDev(t, "--bare")
	bare.rehearse().Want(t, cli.ExitFailed, "there is nothing to copy: the cluster has none of the custom resource "+
		"definitions of the controllers; see skiff crds install")
	bare.Stop()
}
