package cli

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// hookController is testdata/hooks.yaml.
//
//go:embed testdata/hooks.yaml
var hookController string

// hookFile writes a file with controllers.
func hookFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	noError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// Rules: HK-11, HK-110
func TestHooksNameAllThatIsWrongWithTheirFiles(t *testing.T) {
	file := hookFile(t, "kind: Pod\n---\n"+strings.Replace(hookController, "generateS", "generates", 1)+"  x: 1\n")
	r := skiff(t, "hooks", "role", "-f", file)
	want := file + ":12: spec.generateselector: is no field of this object, did you mean generateSelector?\n" +
		file + ":29: spec.x: is no field of this object\n"
	if r.Code != ExitUsage || r.Stdout != "" || r.Stderr != want {
		t.Errorf("%+v\nwant %s", r, want)
	}
}

func TestHooksInitEndsWithTheCommandThatTriesTheControllerOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "webshop")
	r := skiff(t, "hooks", "init", dir, "--lang", "shell")
	if lines := strings.Split(strings.TrimSpace(r.Stdout), "\n"); r.Code != ExitDone ||
		lines[len(lines)-1] != "  skiff-dev hooks "+dir {
		t.Errorf("%+v", r)
	}
}

// A directory as hooks init writes it has a definition beside the controller.
//
// Rules: HK-110
func TestHooksRunIsSilentAboutTheDefinitionInItsDirectoryAndNamesErrorsFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "webshop")
	skiff(t, "hooks", "init", dir, "--lang", "shell").Want(t, ExitDone)
	file := filepath.Join(dir, "hook", "controller.yaml")
	text := string(must(os.ReadFile(file))(t))
	noError(t, os.WriteFile(file, []byte(strings.Replace(text, "generateS", "generates", 1)), 0o600))
	wrong := file + ":15: spec.generateselector: is no field of this object, did you mean generateSelector?\n"
	if r := skiff(t, "hooks", "run", "-f", dir); r.Code != ExitUsage || r.Stderr != wrong {
		t.Errorf("%+v\nwant %s", r, wrong)
	}
	skipped := filepath.Join(dir, "crd.yaml") + ":2: CustomResourceDefinition webshops.example.com is skipped"
	if r := skiff(t, "hooks", "run", "-f", dir, "-v", "1"); r.Code != ExitUsage ||
		!strings.HasPrefix(r.Stderr, wrong) || !strings.Contains(r.Stderr, skipped) {
		t.Errorf("%+v\nwant %s and then %s", r, wrong, skipped)
	}
}

// Rules: HK-108, HK-113
func TestARoleOfHookControllersGrantsWhatTheyNeedAndNoMore(t *testing.T) {
	file := hookFile(t, hookController)
	controllers, _, err := spec.ReadFiles([]string{file})
	noError(t, err)
	rights := spec.Rights(controllers[0])

	have := printedObjects(t, "hooks", "role", "-f", file)
	wantInstalled(t, have, "ClusterRole /skiff-hooks", "ClusterRoleBinding /skiff-hooks",
		"Role keys/skiff-hooks-credentials", "RoleBinding keys/skiff-hooks-credentials")
	wantGrants(t, have["ClusterRole /skiff-hooks"], rights)
	credentials := have["Role keys/skiff-hooks-credentials"]["rules"].([]any)
	for i, kind := range []string{"secrets", "configmaps"} {
		rule := credentials[i].(object)
		if got := fmt.Sprint(rule["resources"], rule["resourceNames"], rule["verbs"]); got != "["+kind+"] [s] [get]" {
			t.Errorf("%v", rule)
		}
	}

	args := []string{"hooks", "role", "-f", file, "--namespaced", "shop,123", "--name", "on", "--related",
		"widgets.example.com,configmaps"}
	have = printedObjects(t, args...)
	wantInstalled(t, have, "Role 123/on", "RoleBinding 123/on", "Role shop/on", "RoleBinding shop/on",
		"Role keys/on-credentials", "RoleBinding keys/on-credentials")
	wantGrants(t, have["Role shop/on"], append(rights, spec.RelatedRights(kube.Resource{Plural: "configmaps"}),
		spec.RelatedRights(kube.Resource{Group: "example.com", Plural: "widgets"})))
	for name, body := range have {
		if subjects, ok := body["subjects"].([]any); ok {
			if s := subjects[0].(object); s["namespace"] != "123" || s["name"] != "on" {
				t.Errorf("%s is bound to %v", name, s)
			}
		}
	}
	if first := printed(t, args...); first != printed(t, args...) {
		t.Error("the order changes")
	}
}

// Rules: HK-108
func TestManifestsOfHookControllersRunThemWithTheirRights(t *testing.T) {
	file := hookFile(t, hookController)
	controllers, _, err := spec.ReadFiles([]string{file})
	noError(t, err)
	args := []string{"hooks", "manifests", "-f", file, "--image", "webshop:v1"}
	have := printedObjects(t, args...)
	wantInstalled(t, have, "Namespace /skiff", "ServiceAccount skiff/skiff-hooks", "ClusterRole /skiff-hooks",
		"ClusterRoleBinding /skiff-hooks", "Role skiff/skiff-hooks-leader-election",
		"RoleBinding skiff/skiff-hooks-leader-election", "Role keys/skiff-hooks-credentials",
		"RoleBinding keys/skiff-hooks-credentials", "Deployment skiff/skiff-hooks",
		"PodDisruptionBudget skiff/skiff-hooks")
	wantGrants(t, have["ClusterRole /skiff-hooks"], spec.Rights(controllers[0]))

	have = printedObjects(t, append(args, "--namespaced", "shop", "--name", "x", "--directory", "/c", "--",
		"--workers=2")...)
	wantInstalled(t, have, "ServiceAccount shop/x", "Role shop/x", "RoleBinding shop/x", "Role shop/x-leader-election",
		"RoleBinding shop/x-leader-election", "Role keys/x-credentials", "RoleBinding keys/x-credentials",
		"Deployment shop/x", "PodDisruptionBudget shop/x")
	pod := lookup(have["Deployment shop/x"], "spec", "template", "spec").(object)
	container := pod["containers"].([]any)[0].(object)
	want := "[hooks run -f /c --watch-namespaces=shop --leader-elect --log-format=json " +
		"--health-probe-bind-address=:8081 --metrics-bind-address=:8080 --leader-election-id=x --workers=2]"
	if got := fmt.Sprint(container["args"]); got != want || pod["serviceAccountName"] != "x" ||
		container["image"] != "webshop:v1" {
		t.Errorf("%s\nwant %s\nin %v", got, want, pod)
	}
}

// define installs the definition of things, with a status subresource or without, and waits until it is served.
func (c *cluster) define(subresources map[string]any) {
	c.t.Helper()
	c.defineKind("Thing", "things", subresources)
}

func (c *cluster) defineKind(kind, plural string, subresources map[string]any) {
	c.t.Helper()
	c.create(crdResource, "", map[string]any{"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"kind": kind, "plural": plural},
			"versions": versionsOfThings(subresources)}})
	served := time.NewTicker(time.Millisecond)
	defer served.Stop()
	for {
		_, err := c.client.Raw(c.t.Context(), http.MethodGet, "/apis/example.com/v1/"+plural, nil)
		if !kube.IsNotFound(err) {
			noError(c.t, err)
			return
		}
		<-served.C
	}
}

func versionsOfThings(subresources map[string]any) []any {
	return []any{map[string]any{"name": "v1", "served": true, "storage": true, "subresources": subresources,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}
}

// Rules: HK-13, HK-94, HK-110
func TestHooksCheckSaysWhatIsMissing(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	program := filepath.Join(t.TempDir(), "hook")
	text := `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: pods, updateStrategy: {method: RollingInPlace}}]
  hooks:
    sync: {webhook: {url: "http://` + l.Addr().String() + `/x", basicAuth: {secretRef: {namespace: n, name: s}}}}
    finalize: {webhook: {url: "http://127.0.0.1:1/"}}
    customize: {exec: {command: [` + program + `]}}
`
	args := []string{"hooks", "check", "-f", hookFile(t, text), "--server", c.url()}
	r := skiff(t, args...)
	r.Want(t, ExitDiffer)
	for _, want := range []string{
		"  composite   c\n",
		"! resource    things.example.com v1 is not served: apply its definition",
		"  resource    pods v1 is served\n",
		"! credential  Secret n/s does not exist\n",
		"  hook        sync: something listens at " + l.Addr().String() + "\n",
		"! hook        finalize: " + args[3] + ":9: nothing answers at 127.0.0.1:1, seen from here: ",
		"! hook        customize: the program cannot be run: stat " + program + ": no such file or directory\n",
		"! definition  controllerrevisions.metacontroller.k8s.io: not installed, run `skiff crds install --hooks`\n",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}

	c.define(map[string]any{})
	skiff(t, "crds", "install", "--hooks", "--server", c.url()).Want(t, ExitDone)
	noError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	c.create(namespaces, "", named("n", nil))
	secret := kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
	c.create(secret, "n", map[string]any{"metadata": map[string]any{"name": "s"},
		"stringData": map[string]any{"username": "u"}})
	r = skiff(t, args...)
	r.Want(t, ExitDiffer)
	for _, want := range []string{
		"! resource    things.example.com v1 has no status subresource: add",
		"  credential  Secret n/s has the key username\n",
		"! credential  Secret n/s has no key password\n",
		"  hook        customize: " + program + " is there\n",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}

	c.patch(secret, "n", "s", map[string]any{"stringData": map[string]any{"password": "p"}})
	c.patch(crdResource, "", "things.example.com", map[string]any{"spec": map[string]any{
		"versions": versionsOfThings(map[string]any{"status": map[string]any{}})}})
	file := hookFile(t, strings.ReplaceAll(text, "http://127.0.0.1:1/", "http://"+l.Addr().String()))
	r = skiff(t, "hooks", "check", "-f", file, "--server", c.url())
	if r.Code != ExitDone || !strings.HasSuffix(r.Stdout, "nothing is missing\n") || strings.Contains(r.Stdout, "! ") {
		t.Errorf("%+v", r)
	}

	script := filepath.Join(t.TempDir(), "gone.sh")
	gone := hookFile(t, strings.ReplaceAll(strings.ReplaceAll(text, "http://127.0.0.1:1/",
		"http://"+l.Addr().String()), "["+program+"]", "[sh, "+script+"]"))
	r = skiff(t, "hooks", "check", "-f", gone, "--server", c.url())
	if want := "! hook        customize: sh is there, its script is not: " + script + " does not exist\n"; r.Code !=
		ExitDiffer || !strings.Contains(r.Stdout, want) || strings.Contains(r.Stdout, "differs") {
		t.Errorf("%+v\nwant %s", r, want)
	}

	rival := hookFile(t, strings.ReplaceAll(strings.ReplaceAll(text, "http://127.0.0.1:1/",
		"http://"+l.Addr().String()), "{name: c}", "{name: rival}"))
	r = skiff(t, "hooks", "check", "-f", file, "-f", rival, "--server", c.url())
	r.Want(t, ExitDiffer)
	if strings.Count(r.Stdout, "! parents ") != 2 {
		t.Errorf("%+v", r)
	}
}

// administrator has the token t.
type administrator struct{}

func (administrator) Authorization(context.Context) (string, error) { return "Bearer t", nil }
func (administrator) Invalidate(time.Time)                          {}

// Rules: HK-108, HK-113
func TestTheRoleOfHookControllersIsWhatHooksCheckFindsMissing(t *testing.T) {
	c := guarded(t)
	c.define(map[string]any{"status": map[string]any{}})
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: pods}]
  hooks: {sync: {exec: {command: [sh]}}, finalize: {exec: {command: [sh]}}}
`)
	args := c.asAdministrator("hooks", "check", "-f", file, "--as", "system:serviceaccount:skiff:skiff-hooks")
	if r := skiff(t, args...); r.Code != ExitDiffer || !strings.Contains(r.Stdout, "all namespaces: 0 of 14 granted") {
		t.Errorf("without the role: %+v", r)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		r := kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: strings.ToLower(kind) + "s",
			Kind: kind, ClusterScoped: true}
		c.create(r, "", printedObjects(t, "hooks", "role", "-f", file)[kind+" /skiff-hooks"])
	}
	if r := skiff(t, args...); r.Code != ExitDone || !strings.Contains(r.Stdout, "all namespaces: 14 of 14 granted") {
		t.Errorf("with the role: %+v", r)
	}
}

// Rules: HK-57
func TestHooksRemoveTakesTheFinalizersOfAControllerOffAndNoOthers(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  hooks: {sync: {webhook: {url: "http://hook"}}, finalize: {webhook: {url: "http://hook"}}}
`)
	args := []string{"hooks", "remove", "-f", file, "--server", c.url()}
	r := skiff(t, args...)
	r.Want(t, ExitDone)
	if want := "things.example.com: the server does not have it, so that there are no parents\n"; r.Stdout != want {
		t.Errorf("without a definition: %q, want %q", r.Stdout, want)
	}
	c.define(map[string]any{"status": map[string]any{}})
	things := kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}
	const ours, other = "metacontroller.io/compositecontroller-c", "metacontroller.io/compositecontroller-d"
	for name, finalizers := range map[string][]string{"a": {ours, other}, "b": {other}} {
		c.create(things, "default", map[string]any{"metadata": map[string]any{"name": name,
			"finalizers": finalizers}})
	}
	for _, want := range []string{"Thing default/a: took off " + ours + "\n",
		"things.example.com: none of 2 has the finalizer " + ours + "\n"} {
		r := skiff(t, args...)
		r.Want(t, ExitDone)
		if left := lookup(c.api.Get(things, kube.Key{Namespace: "default", Name: "a"}), "metadata",
			"finalizers"); r.Stdout != want || fmt.Sprint(left) != "["+other+"]" {
			t.Errorf("%q, want %q; left are %v", r.Stdout, want, left)
		}
	}
	skiff(t, append(args, "d")...).Want(t, ExitUsage, "there is no controller \"d\" in "+file)
}
