package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gopkg.in/yaml.v3"

	"skiff/internal/cli/clitest"
	"skiff/internal/testcluster/apiserver"
)

// callFiles is a directory with a controller whose sync hook prints answer, and a parent App web.
type callFiles struct {
	t   *testing.T
	dir string
}

const callController = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wolves.example.com}
spec:
  {group: example.com, scope: Namespaced, names: {kind: Wolf, plural: wolves}}
---
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: apps}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: apps}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: services, updateStrategy: {method: Recreate}}
  - {apiVersion: example.com/v1, resource: wolves}
  - {apiVersion: example.com/v1, resource: catsets}
  hooks:
    sync: {exec: {command: [sh, ./hook.sh], mode: oneshot}}
`

func newCallFiles(t *testing.T, script string) *callFiles {
	f := &callFiles{t, t.TempDir()}
	f.write("c.yaml", callController)
	f.write("hook.sh", script)
	f.write("p.yaml", "{apiVersion: example.com/v1, kind: App, metadata: {name: web}, spec: {replicas: 2}}")
	return f
}

func (f *callFiles) path(name string) string { return filepath.Join(f.dir, name) }

func (f *callFiles) write(name, text string) {
	f.t.Helper()
	noError(f.t, os.WriteFile(f.path(name), []byte(text+"\n"), 0o600))
}

// call runs the command with more arguments.
func (f *callFiles) call(args ...string) clitest.Result {
	f.t.Helper()
	args = append([]string{"hooks", "call", "-f", f.path("c.yaml"), "--parent", f.path("p.yaml")}, args...)
	return skiff(f.t, args...)
}

const callAnswer = `{"status":{"n":1},"resyncAfterSeconds":1.5,"children":[
  {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","uid":"x"},"spec":{"replicas":2}},
  {"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"type":"NodePort"}},
  {"apiVersion":"example.com/v1","kind":"CatSet","metadata":{"name":"cats"}}]}`

// Rules: HK-112, HK-34, HK-35
func TestAHookIsCalledWithObjectsFromFiles(t *testing.T) {
	f := newCallFiles(t, "cat > request; cat <<'E'\n"+callAnswer+"\nE")
	f.write("d.yaml", `{apiVersion: v1, kind: List, items: [
		{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, managedFields: []}},
		{apiVersion: v1, kind: Pod, metadata: {name: other}}]}`)
	r := f.call("--children", f.path("d.yaml"), "-o", "json", "--show-request")
	if r.Code != ExitDone || !strings.HasPrefix(r.Stderr, "skiff: --children: Pod default/other is left out") {
		t.Fatalf("%+v", r)
	}
	var request struct {
		Parent   map[string]any
		Children map[string]map[string]any
	}
	text, err := os.ReadFile(f.path("request"))
	noError(t, err)
	noError(t, json.Unmarshal(text, &request))
	for kind, n := range map[string]int{"Deployment.apps/v1": 1, "Service.v1": 0, "Wolf.example.com/v1": 0,
		"Catset.example.com/v1": 0} { // of which no file says how it is written
		if got, ok := request.Children[kind]; !ok || len(got) != n {
			t.Errorf("%s: %v in %s", kind, got, text)
		}
	}
	if meta := request.Parent["metadata"].(object); meta["namespace"] != "default" || meta["uid"] == nil {
		t.Errorf("parent %v", request.Parent)
	}
	if strings.Contains(string(text), "managedFields") || !strings.Contains(r.Stderr, `"finalizing": false`) {
		t.Errorf("request %s\nstderr %s", text, r.Stderr)
	}
	var answer struct {
		Children           []map[string]any
		ResyncAfterSeconds float64
	}
	noError(t, json.Unmarshal([]byte(r.Stdout), &answer))
	meta := answer.Children[0]["metadata"].(object)
	if len(answer.Children) != 3 || answer.ResyncAfterSeconds != 1.5 || meta["namespace"] != "default" ||
		meta["uid"] != nil || len(meta["ownerReferences"].([]any)) != 1 {
		t.Errorf("answer %s", r.Stdout)
	}
	r = f.call()
	if r.Code != ExitDone || !strings.Contains(r.Stdout, "  - apiVersion: apps/v1\n    kind: Deployment\n") {
		t.Errorf("%+v", r)
	}
}

// Rules: HK-112
func TestADiffSaysWhatAnAnswerWouldChange(t *testing.T) {
	f := newCallFiles(t, "cat <<'E'\n"+callAnswer+"\nE")
	label := "labels: {controller-uid: 00000000-0000-4000-8000-000000000001}"
	f.write("d.yaml", `{apiVersion: v1, kind: List, items: [
		{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, `+label+`}, spec: {replicas: 1}},
		{apiVersion: v1, kind: Service, metadata: {name: web, `+label+`}, spec: {type: ClusterIP}},
		{apiVersion: example.com/v1, kind: Wolf, metadata: {name: old}}]}`)
	r := f.call("--children", f.path("d.yaml"), "-o", "diff")
	want := `change Deployment default/web: spec.replicas (InPlace)
recreate Service default/web: spec.type (Recreate)
create CatSet default/cats
delete Wolf default/old
change App default/web: status
`
	if r.Code != ExitDiffer || r.Stdout != want {
		t.Errorf("%+v\nwant %s", r, want)
	}
	f.write("hook.sh", `echo '{"status":{"n":1},"children":[]}'`)
	f.write("p.yaml", "{apiVersion: example.com/v1, kind: App, metadata: {name: web, generation: 3}, "+
		"status: {n: 1, observedGeneration: 3}}")
	if r := f.call("-o", "diff"); r.Code != ExitDone || r.Stdout != "" {
		t.Errorf("%+v", r)
	}
}

// Rules: HK-112, HK-101
func TestTheExitCodeOfACallSaysWhatCameOfIt(t *testing.T) {
	for _, test := range []struct {
		script, want string
		code         int
	}{
		{`echo "no disk" >&2; exit 5`, "skiff: hook sync (sh): exit status 5: no disk\n", ExitFailed},
		{`echo 7 >&2; exit 75`, "skiff: the hook asks to be called again in 7s\n", 75},
		{`echo '{"children":[{"apiVersion":"v1","kind":"Service"}]}'`,
			"skiff: answer of the sync hook: children[0].metadata.name: is missing\n", 4},
		{`echo null`, "skiff: answer of the sync hook: it is null: want a JSON object\n", 4},
		{`echo '{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}'`,
			`children[0].kind: "Pod" of "v1" is not among the kinds that the controller declares`, 4},
	} {
		r := newCallFiles(t, test.script).call()
		if r.Code != test.code || !strings.Contains(r.Stderr, test.want) || r.Stdout != "" {
			t.Errorf("%s: %+v, want %d, %s", test.script, r, test.code, test.want)
		}
	}
}

// Rules: HK-112
func TestACallThatMakesNoSenseIsWrongUsage(t *testing.T) {
	f := newCallFiles(t, `echo '{}'`)
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}}"
	f.write("two.yaml", pod+"\n---\n"+pod)
	f.write("pod.yaml", pod)
	for want, args := range map[string][]string{
		`--hook "x": want sync, finalize or customize`:               {"--hook", "x"},
		"--hook finalize: CompositeController apps has no such hook": {"--hook", "finalize"},
		`-o "x": want yaml, json or diff`:                            {"-o", "x"},
		`--controller "x": -f has apps`:                              {"--controller", "x"},
		`--controller "app": did you mean apps?`:                     {"--controller", "app"},
		"has 2 objects, want one":                                    {"--parent", f.path("two.yaml")},
		"Pod of v1 is no parent of CompositeController apps, which has apps of example.com/v1": {"--parent",
			f.path("pod.yaml")},
		"--children: ":    {"--children", f.path("none.yaml")},
		"--max-answer 0:": {"--max-answer", "0"},
	} {
		if r := f.call(args...); r.Code != ExitUsage || !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: %+v, want %s", args, r, want)
		}
	}
	if r := skiff(t, "hooks", "call", "-f", f.path("c.yaml")); r.Code != ExitUsage {
		t.Errorf("%+v", r)
	}
	f.write("c.yaml", strings.Replace(callController, "generateSelector: true", "generateSelector: false", 1))
	if r := f.call(); r.Code != ExitFailed || !strings.Contains(r.Stderr, "spec.selector: is missing") {
		t.Errorf("%+v", r)
	}
}

// Rules: HK-64, HK-65, HK-112
func TestCustomizeChoosesTheRelatedObjects(t *testing.T) {
	f := newCallFiles(t, `case $SKIFF_HOOK in
	customize) echo '{"relatedResources":[{"apiVersion":"v1","resource":"secrets","names":["a"]},
		{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":{"x":"y"}}}]}';;
	*) cat > request; echo '{"attachments":[],"labels":{"new":"1","old":null}}';;
esac`)
	const decorator = `{apiVersion: metacontroller.k8s.io/v1alpha1, kind: DecoratorController, metadata: {name: d},
spec: {
  resources: [{apiVersion: v1, resource: namespaces}], attachments: [{apiVersion: v1, resource: configmaps}],
  hooks: {sync: {version: v2, exec: {command: [sh, ./hook.sh], mode: oneshot}},
    customize: {version: v2, exec: {command: [sh, ./hook.sh], mode: oneshot}}}}}`
	f.write("c.yaml", decorator)
	f.write("p.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {old: x}}}")
	f.write("r.yaml", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}},
		{apiVersion: v1, kind: Secret, metadata: {name: b, namespace: n, labels: {x: y}}},
		{apiVersion: v1, kind: Secret, metadata: {name: c}}]}`)
	r := f.call("--related", f.path("r.yaml"), "-o", "diff")
	want := "change Namespace shop: metadata.labels.new\nchange Namespace shop: metadata.labels.old\n"
	if r.Code != ExitDiffer || r.Stdout != want {
		t.Errorf("%+v", r)
	}
	var request struct {
		Object  map[string]any
		Related map[string]map[string]any
	}
	text, err := os.ReadFile(f.path("request"))
	noError(t, err)
	noError(t, json.Unmarshal(text, &request))
	secrets := request.Related["Secret.v1"]
	if len(secrets) != 2 || secrets["default/a"] == nil || secrets["n/b"] == nil ||
		request.Object["kind"] != "Namespace" {
		t.Errorf("request %s", text)
	}
	f.write("den.yaml", "{apiVersion: example.com/v1, kind: Den, metadata: {name: one}}")
	f.write("c.yaml", strings.NewReplacer("Namespaced", "Cluster", "wolves", "dens", "Wolf", "Den").Replace(
		strings.Split(callController, "---")[0])+"---\n"+
		strings.Replace(decorator, "v1, resource: namespaces", "example.com/v1, resource: dens", 1))
	if r := f.call("--parent", f.path("den.yaml"), "-o", "diff"); !strings.HasPrefix(r.Stdout, "change Den one: ") {
		t.Errorf("%+v", r)
	}
	r = f.call("--parent", f.path("den.yaml"), "--hook", "customize", "-o", "json")
	if r.Code != ExitDone || !strings.Contains(r.Stdout, `"labels": "x=y"`) ||
		!strings.Contains(r.Stdout, `"names": "a"`) {
		t.Errorf("%+v", r)
	}
}

// Rules: HK-47
func TestWhatAHookAnswersActsOnNoTerminal(t *testing.T) {
	f := newCallFiles(t, "cat <<'E'\n"+`{"children":[],"status":{"a\u202e":"\u001b]0;x\u0007 \u009b31m \u200b"}}`+"\nE")
	for _, output := range []string{"yaml", "json", "diff"} {
		r := f.call("-o", output, "--show-request")
		for _, c := range r.Stdout + r.Stderr {
			if c != '\n' && !unicode.IsGraphic(c) {
				t.Errorf("-o %s prints %U: %q", output, c, r.Stdout)
			}
		}
		if want := `\u202e`; output == "json" && !strings.Contains(strings.ToLower(r.Stdout), want) {
			t.Errorf("-o %s does not show %s: %s", output, want, r.Stdout)
		}
	}
	var back map[string]any
	if err := yaml.Unmarshal([]byte(f.call("-o", "yaml").Stdout), &back); err != nil {
		t.Fatal(err)
	}
	status, _ := back["status"].(map[string]any)
	if got := status["a\u202e"]; got != "\x1b]0;x\a \u009b31m \u200b" {
		t.Errorf("the YAML reads as %q", got)
	}
}

// Rules: HK-112
func TestAChildOfTheWrongTypeIsRefusedByItsDefinition(t *testing.T) {
	f := newCallFiles(t, `echo '{"children":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}},
		{"apiVersion":"example.com/v1","kind":"Wolf","metadata":{"name":"a"},"spec":{"teeth":"two"}}]}'`)
	f.write("c.yaml", strings.Replace(callController, "names: {kind: Wolf, plural: wolves}}",
		`names: {kind: Wolf, plural: wolves}, versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties:
  {spec: {type: object, required: [teeth, tail], properties:
    {teeth: {type: integer}, tail: {type: string, default: long}}}}}}}]}`, 1))
	f.call().Want(t, 4, "sync hook: Wolf default/a: children[1].spec.teeth: the definition wants integer, the answer "+
		"has the string")
	f.write("hook.sh", `echo '{"children":[{"apiVersion":"example.com/v1","kind":"Wolf","metadata":{"name":"a"},
		"spec":{"teeth":2}}]}'`)
	f.call().Want(t, ExitDone) // the server fills in the tail
}

// Rules: HK-112
func TestAChildOfTheWrongTypeIsRefusedByTheCluster(t *testing.T) {
	const child = `echo '{"children":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},
		"spec":{"replicas":%s,"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":1}},
		"ports":[{"containerPort":80,"protocol":null}],"livenessProbe":{"httpGet":{"port":"http"}}}]}}}}]}'`
	c := newCluster(t, apiserver.Options{})
	f := newCallFiles(t, fmt.Sprintf(child, `"two"`))
	controller := strings.Replace(callController, "  - {apiVersion: example.com/v1, resource: catsets}\n", "", 1)
	f.write("c.yaml", controller)
	r := f.call()
	r.Want(t, ExitDone, "skiff: the fields of Deployment are not checked: no cluster", "--kubeconfig")
	if strings.Count(r.Stderr, "\n") != 1 {
		t.Errorf("want one line: %s", r.Stderr)
	}
	f.call("--server", c.url()).Want(t, 4, "skiff: answer of the sync hook: Deployment default/a: "+
		"children[0].spec.replicas: the cluster wants integer, the answer has the string \"two\"\n")
	f.write("hook.sh", fmt.Sprintf(child, "2"))
	if r := f.call("--server", c.url()); r.Code != ExitDone || r.Stderr != "" {
		t.Errorf("%+v", r)
	}
	f.call("--server", "http://127.0.0.1:1").Want(t, ExitFailed, "read the schemas of children: ")

	f.write("c.yaml", strings.Replace(controller, "resource: services", "resource: secrets", 1))
	f.write("hook.sh", `echo '{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},
		"data":{"a":4711},"type":["hush"]}]}'`)
	r = f.call("--server", c.url())
	r.Want(t, 4, "Secret default/a: children[0].data.a: the cluster wants string, the answer has a number")
	if strings.Contains(r.Stderr, "4711") {
		t.Errorf("a value of a Secret is shown: %s", r.Stderr)
	}
}

func TestTheErrorOfADeadWebhookNamesWhereItsURLStands(t *testing.T) {
	f := newCallFiles(t, "exit 1")
	f.write("c.yaml", strings.Replace(callController, "{exec: {command: [sh, ./hook.sh], mode: oneshot}}",
		"\n      webhook:\n        timeout: 3s\n        url: http://127.0.0.1:1/sync", 1))
	r := f.call()
	r.Want(t, ExitFailed, "skiff: "+f.path("c.yaml")+":22: hook sync at http://127.0.0.1:1/sync: ",
		"; start it, or correct the url\n")
	if strings.Contains(r.Stderr, "--server") {
		t.Errorf("the cluster is at fault: %s", r.Stderr)
	}
	r = f.call("--hook-url", "apps=http://127.0.0.1:1")
	r.Want(t, ExitFailed, "skiff: hook sync at ", "; start it, or correct --hook-url\n")
}

// A controller that is moved from metacontroller names a Service.
func TestAWebhookIsCalledWhereHookURLSays(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		_, _ = io.WriteString(w, `{"status":{"answered":true},"children":[]}`)
	}))
	defer s.Close()
	f := newCallFiles(t, "exit 1")
	f.write("c.yaml", strings.Replace(callController, "{exec: {command: [sh, ./hook.sh], mode: oneshot}}",
		"{webhook: {service: {name: hooks, namespace: shop}, path: '/sync?a=b'}}", 1))
	for base, want := range map[string]string{"": "/sync?a=b", "/": "/sync?a=b", "/base/": "/base/sync?a=b"} {
		asked = nil
		f.call("--hook-url", "apps="+s.URL+base).Want(t, ExitDone, "")
		if !slices.Equal(asked, []string{want}) {
			t.Errorf("--hook-url %q: asked for %q, want %s", base, asked, want)
		}
	}
	f.call("--hook-url", "aps="+s.URL).Want(t, ExitUsage, "did you mean apps?")
	f.call("--hook-url", "apps="+s.URL, "--hook-url", "apps="+s.URL).Want(t, ExitUsage, "given before")
	r := f.call("--hook-url", "apps=http://me:hush@host")
	if r.Want(t, ExitUsage, "without a user name"); strings.Contains(r.Stderr, "hush") {
		t.Errorf("the password is shown: %s", r.Stderr)
	}
}
