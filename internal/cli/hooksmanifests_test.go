package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/hooks/spec"
)

// Rules: HK-108
func TestManifestsRunAWebhookAsASidecarWithoutACredential(t *testing.T) {
	const local = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: web, annotations: {note: "a: |b\u2028\u0085 c", face: "\U0001F600"}}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "http://127.0.0.1:9000/sync"}}}
`
	file := hookFile(t, local)
	args := []string{"hooks", "manifests", "-f", file, "--image", "skiff:v1"}
	have := printedObjects(t, append(args, "--sidecar", "hook:v1")...)
	pod := lookup(have["Deployment skiff/skiff-hooks"], "spec", "template", "spec").(object)
	containers := pod["containers"].([]any)
	if len(containers) != 2 || containers[0].(object)["image"] != "skiff:v1" ||
		containers[1].(object)["image"] != "hook:v1" || pod["automountServiceAccountToken"] != false ||
		containers[1].(object)["volumeMounts"] != nil {
		t.Errorf("the pod has %v", pod)
	}
	// The kubelet mounts a ConfigMap as links into a directory whose name begins with two dots.
	mounted := t.TempDir()
	noError(t, os.Mkdir(filepath.Join(mounted, "..2026"), 0o700))
	noError(t, os.Symlink("..2026", filepath.Join(mounted, "..data")))
	for name, text := range have["ConfigMap skiff/skiff-hooks-files"]["data"].(object) {
		noError(t, os.WriteFile(filepath.Join(mounted, "..2026", name), []byte(text.(string)), 0o600))
		noError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(mounted, name)))
	}
	from, warnings, err := spec.ReadFiles([]string{mounted})
	noError(t, err)
	controllers, _, err := spec.ReadFiles([]string{file})
	noError(t, err)
	if len(from) != 1 || len(warnings) != 0 || string(from[0].Object) != string(controllers[0].Object) {
		t.Fatalf("skiff would read %v %q\nwant %s", from, warnings, controllers[0].Object)
	}
	const hook = `{webhook: {url: "http://127.0.0.1:9000/sync"}}`
	for _, tt := range []struct{ hook, sidecar, want string }{
		{hook, "", "nothing in the pod serves http://127.0.0.1:9000/sync"},
		{`{webhook: {url: "http://[::1]:8080/sync"}}`, "hook:v1", "port 8080"},
		{`{webhook: {url: "http://web.shop/sync"}}`, "hook:v1", "no hook has a webhook on localhost"},
		{`{exec: {command: [sh]}}`, "hook:v1", "exec hook"},
		{hook, "a b", "--sidecar"},
	} {
		args := []string{"hooks", "manifests", "--image", "skiff:v1", "--sidecar=" + tt.sidecar, "-f",
			hookFile(t, strings.Replace(local, hook, tt.hook, 1))}
		if r := skiff(t, args...); r.Code != ExitUsage || !strings.Contains(r.Stderr, tt.want) {
			t.Errorf("%+v\nwant %q", r, tt.want)
		}
	}
}

func TestManifestsBeginWithTheDefinitionsThatAreAskedFor(t *testing.T) {
	file := hookFile(t, callController)
	args := []string{"hooks", "manifests", "-f", file, "--image", "webshop:v1"}
	have := printedObjects(t, append(args, "--crds")...)
	names := lookup(have["CustomResourceDefinition /wolves.example.com"], "spec", "names")
	if names == nil || have["Deployment skiff/skiff-hooks"] == nil {
		t.Errorf("printed %v", slices.Sorted(maps.Keys(have)))
	}
	if n := len(printedObjects(t, args...)); n != len(have)-1 {
		t.Errorf("%d objects without --crds, %d with it", n, len(have))
	}
	none := hookFile(t, callController[strings.Index(callController, "---"):])
	skiff(t, "hooks", "manifests", "-f", none, "--image", "a", "--crds").Want(t, ExitUsage,
		"--crds: there is no CustomResourceDefinition in "+none)
	skiff(t, "hooks", "manifests", "--from-cluster", "--image", "a", "--crds", "--server", "https://127.0.0.1:1").
		Want(t, ExitUsage, "--crds: it is for the controllers of files")
}
