package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"skiff/internal/cli/clitest"
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
	mounted := mountConfigMap(t, have["ConfigMap skiff/skiff-hooks-files"])
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

// mountConfigMap writes the files of a ConfigMap as the kubelet mounts them: as links into a directory whose name
// begins with two dots.
func mountConfigMap(t *testing.T, configMap object) (dir string) {
	t.Helper()
	dir = t.TempDir()
	noError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o700))
	noError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	for name, text := range configMap["data"].(object) {
		noError(t, os.WriteFile(filepath.Join(dir, "..2026", name), []byte(text.(string)), 0o500))
		noError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	return dir
}

// With --runtime, the pod has the files of the directory as they are, and runs the hooks with a copy of skiff.
func TestManifestsRunHooksInAnImageOfAnother(t *testing.T) {
	dir := t.TempDir()
	script := "\techo $(cat names.json)  \r\n\n#\u2028 \u00e4"
	controller := strings.Replace(callController, "[sh, ./hook.sh]", "[./hook]", 1)
	for name, text := range map[string]string{"thing.yaml": controller, "hook": script, "names.json": `["a"]`,
		".hidden": "a", "empty": "", "odd name": "a"} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	noError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600)) // nobody writes to it
	noError(t, os.Mkdir(filepath.Join(dir, "modules"), 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, "modules", "a"), nil, 0o600))
	args := []string{"hooks", "manifests", "-f", dir, "--image", "skiff:v1", "--runtime", "python:3"}
	have := printedObjects(t, args...)
	pod := lookup(have["Deployment skiff/skiff-hooks"], "spec", "template", "spec").(object)
	first, main := pod["initContainers"].([]any)[0].(object), pod["containers"].([]any)[0].(object)
	if first["image"] != "skiff:v1" || main["image"] != "python:3" || len(pod["containers"].([]any)) != 1 {
		t.Errorf("the pod has %v", pod)
	}
	var program, files string
	for _, m := range main["volumeMounts"].([]any) {
		if m := m.(object); m["name"] == "program" {
			program = m["mountPath"].(string)
		} else if m["name"] == "files" {
			files = m["mountPath"].(string)
		}
	}
	if to := first["args"].([]any)[1]; main["command"].([]any)[0] != to || filepath.Dir(to.(string)) != program {
		t.Errorf("it copies skiff to %v, mounts it at %s, and runs %v", to, program, main["command"])
	}
	data := have["ConfigMap skiff/skiff-hooks-files"]["data"].(object)
	names := slices.Sorted(maps.Keys(data))
	if !slices.Equal(names, []string{"compositecontroller-apps.json", "empty", "hook", "names.json"}) ||
		data["hook"] != script {
		t.Errorf("the files are %q, the script %q", names, data["hook"])
	}
	mounted := mountConfigMap(t, have["ConfigMap skiff/skiff-hooks-files"])
	given := ""
	for i, arg := range main["args"].([]any) {
		if arg == "-f" {
			given = filepath.Join(mounted, strings.TrimPrefix(main["args"].([]any)[i+1].(string), files))
		}
	}
	controllers, _, err := spec.ReadFiles([]string{given})
	noError(t, err)
	if len(controllers) != 1 || controllers[0].Hooks()[0].Exec.Dir != mounted {
		t.Errorf("of %s, skiff reads %v", given, controllers)
	}
}

func TestManifestsSayWhatARuntimeCannotTake(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "wolves.yaml")
	noError(t, os.WriteFile(file, []byte(callController), 0o600))
	print := func(args ...string) clitest.Result {
		return skiff(t, append([]string{"hooks", "manifests", "--image", "a", "--runtime", "b", "-f"}, args...)...)
	}
	noError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("\x7fELF\xff"), 0o700))
	print(file).Want(t, ExitUsage, "--runtime: ", "program is no text")
	noError(t, os.WriteFile(filepath.Join(dir, "program"), make([]byte, 1<<20), 0o700))
	print(file).Want(t, ExitUsage, "--runtime: ", "more than 480 KiB")
	noError(t, os.Remove(filepath.Join(dir, "program")))
	other := hookFile(t, strings.Replace(callController, "name: apps", "name: more", 1))
	print(file, "-f", other).Want(t, ExitUsage, "--runtime: ", " a ConfigMap is one directory")
	print(file, "--sidecar", "c").Want(t, ExitUsage, "--sidecar and --runtime: give one of them")
	skiff(t, "hooks", "manifests", "--from-cluster", "--image", "a", "--runtime", "b", "--server",
		"https://127.0.0.1:1").Want(t, ExitUsage, "--runtime: it is for the controllers of files (-f)")
	webhook := hookFile(t, strings.Replace(callController, "exec: {command: [sh, ./hook.sh], mode: oneshot}",
		"webhook: {url: \"http://a.b/\"}", 1))
	print(webhook).Want(t, ExitUsage, "--runtime: no hook runs a program")
}

func TestCopyMakesAProgramThatRuns(t *testing.T) {
	to := filepath.Join(t.TempDir(), "skiff")
	for range 2 { // a container may start again
		skiff(t, "copy", to).Want(t, ExitDone)
	}
	info, err := os.Stat(to)
	noError(t, err)
	if own := must(os.Stat(must(os.Executable())(t)))(t); info.Size() != own.Size() || info.Mode() != 0o755 {
		t.Errorf("the copy has %d bytes and %v, want %d", info.Size(), info.Mode(), own.Size())
	}
	if left := must(os.ReadDir(filepath.Dir(to)))(t); len(left) != 1 {
		t.Errorf("it left %v", left)
	}
	skiff(t, "copy", filepath.Join(t.TempDir(), "none", "skiff")).Want(t, ExitFailed, "copy this program: ")
}
