package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

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
	want := "skiff: " + file + ":1: Pod is skipped: only controllers are read\n" +
		file + ":11: spec.generateselector: is no field of this object: the field is called generateSelector\n" +
		file + ":28: spec.x: is no field of this object\n"
	if r.Code != ExitUsage || r.Stdout != "" || r.Stderr != want {
		t.Errorf("%+v\nwant %s", r, want)
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
		"Role n/skiff-hooks-credentials", "RoleBinding n/skiff-hooks-credentials")
	wantGrants(t, have["ClusterRole /skiff-hooks"], rights)
	credentials := have["Role n/skiff-hooks-credentials"]["rules"].([]any)
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
		"Role n/on-credentials", "RoleBinding n/on-credentials")
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
		"RoleBinding skiff/skiff-hooks-leader-election", "Role n/skiff-hooks-credentials",
		"RoleBinding n/skiff-hooks-credentials", "Deployment skiff/skiff-hooks",
		"PodDisruptionBudget skiff/skiff-hooks")
	wantGrants(t, have["ClusterRole /skiff-hooks"], spec.Rights(controllers[0]))

	have = printedObjects(t, append(args, "--namespaced", "shop", "--name", "x", "--directory", "/c")...)
	wantInstalled(t, have, "ServiceAccount shop/x", "Role shop/x", "RoleBinding shop/x", "Role shop/x-leader-election",
		"RoleBinding shop/x-leader-election", "Role n/x-credentials", "RoleBinding n/x-credentials",
		"Deployment shop/x", "PodDisruptionBudget shop/x")
	pod := lookup(have["Deployment shop/x"], "spec", "template", "spec").(object)
	container := pod["containers"].([]any)[0].(object)
	want := "[hooks run -f /c --watch-namespaces=shop --leader-elect --log-format=json " +
		"--health-probe-bind-address=:8081 --metrics-bind-address=:8080 --leader-election-id=x]"
	if got := fmt.Sprint(container["args"]); got != want || pod["serviceAccountName"] != "x" ||
		container["image"] != "webshop:v1" {
		t.Errorf("%s\nwant %s\nin %v", got, want, pod)
	}
}
