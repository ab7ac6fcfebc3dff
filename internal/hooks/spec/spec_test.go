package spec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// write makes files in a new directory.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads one file with controllers, which have to be valid.
func read(t *testing.T, text string) []*Controller {
	t.Helper()
	found, _, err := ReadFiles([]string{filepath.Join(write(t, map[string]string{"c.yaml": text}), "c.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// problemsOf are the lines of the error of a file, without the name of the directory.
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	dir := write(t, map[string]string{"c.yaml": text})
	_, _, err := ReadFiles([]string{dir})
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
}

const head = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
`

const hooks = "  hooks: {sync: {webhook: {url: 'http://x/sync'}}}\n"

const decorator = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: DecoratorController
metadata: {name: d}
spec:
`

// Rules: HK-01, HK-02, HK-04, HK-05, HK-09, HK-20, HK-22, HK-25, HK-114
func TestACompositeControllerIsReadWhole(t *testing.T) {
	c := read(t, `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata:
  name: catset-controller
  labels: {team: a}
  annotations: {skiff.dev/paused: "true"}
spec:
  parentResource:
    apiVersion: ctl.enisoc.com/v1
    resource: catsets
    labelSelector:
      matchLabels: {b: c}
      matchExpressions: [{key: a, operator: Exists}]
    ignoreStatusChanges: true
    revisionHistory:
      fieldPaths: [spec.template]
  childResources:
  - apiVersion: v1
    resource: pods
    updateStrategy:
      method: RollingRecreate
      statusChecks: {conditions: [{type: Ready, status: "True"}, {type: X, reason: R}]}
  - apiVersion: v1
    resource: persistentvolumeclaims
  resyncPeriodSeconds: 90
  generateSelector: true
  hooks:
    sync:
      webhook: {url: http://catset.metacontroller/sync, timeout: 3s}
    finalize:
      version: v2
      webhook:
        service: {name: catset, namespace: metacontroller, port: 8443, protocol: https}
        path: /finalize
        responseUnMarshallMode: loose
        etag: {enabled: true, cacheTimeoutSeconds: 60, cacheCleanupSeconds: 9}
`)[0]
	if !strings.HasSuffix(c.Source, "c.yaml:2") {
		t.Errorf("source %s", c.Source)
	}
	if place := c.Places["finalize"]; !strings.HasSuffix(place, "c.yaml:34") {
		t.Errorf("place %s", place)
	}
	c.Object, c.Source, c.Places = nil, "", nil
	want := &Controller{Kind: Composite, Name: "catset-controller", Labels: kube.Labels{{Key: "team", Value: "a"}},
		Parents: []Parent{{Type: Type{"ctl.enisoc.com/v1", "catsets"}, IgnoreStatusChanges: true,
			Labels: labels.Requirements{{Key: "b", Operator: "In", Values: []string{"c"}},
				{Key: "a", Operator: "Exists"}}, FieldPaths: []string{"spec.template"}}},
		Children: []Child{{Type: Type{"v1", "pods"}, Method: RollingRecreate,
			Checks: []StatusCheck{{"Ready", "True", ""}, {"X", "", "R"}}},
			{Type: Type{"v1", "persistentvolumeclaims"}, Method: OnDelete}},
		GenerateSelector: true, Resync: 90 * time.Second, Paused: true,
		Sync: &Hook{Version: 1, Timeout: 3 * time.Second, Webhook: &Webhook{URL: "http://catset.metacontroller/sync"}},
		Finalize: &Hook{Version: 2, Timeout: 10 * time.Second, Webhook: &Webhook{
			URL: "https://catset.metacontroller:8443/finalize", ETag: &ETag{Timeout: time.Minute}}}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// Rules: HK-03, HK-09, HK-17
func TestADecoratorControllerIsReadWhole(t *testing.T) {
	c := read(t, decorator+`  resources:
  - apiVersion: apps/v1
    resource: statefulsets
    annotationSelector:
      matchAnnotations: {service-per-pod-ports: "80:8080, 443:8443"}
      matchExpressions: [{key: example.com/label, operator: In, values: ["a b", ""]}]
  - {apiVersion: v1, resource: namespaces, labelSelector: {}, ignoreStatusChanges: true}
  attachments:
  - {apiVersion: v1, resource: services, updateStrategy: {method: RollingInPlace}}
  hooks: {sync: {version: v2, webhook: {url: 'http://x'}}, customize: {webhook: {url: 'http://x', timeout: "-1s"}}}
`)[0]
	c.Object, c.Source, c.Places = nil, "", nil
	want := &Controller{Kind: Decorator, Name: "d", Parents: []Parent{
		{Type: Type{"apps/v1", "statefulsets"}, Annotations: labels.Requirements{
			{Key: "service-per-pod-ports", Operator: "In", Values: []string{"80:8080, 443:8443"}},
			{Key: "example.com/label", Operator: "In", Values: []string{"a b", ""}}}},
		{Type: Type{"v1", "namespaces"}, Labels: labels.Requirements{}, IgnoreStatusChanges: true}},
		Children:  []Child{{Type: Type{"v1", "services"}, Method: InPlace}},
		Sync:      &Hook{Version: 2, Timeout: 10 * time.Second, Strict: true, Webhook: &Webhook{URL: "http://x"}},
		Customize: &Hook{Version: 1, Timeout: 10 * time.Second, Webhook: &Webhook{URL: "http://x"}}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// Rules: HK-34
func TestTheObjectForHooksHasTheDefaultsAndAnEmptyStatus(t *testing.T) {
	c := read(t, head+`  hooks:
    sync:
      webhook:
        url: https://x
        authorization: {secretRef: {name: s, namespace: n, key: token}}
        caBundle: {configMapRef: {name: s, namespace: n}}
        clientTLS: {secretRef: {name: s, namespace: n}}
    finalize: {version: v2, exec: {command: [x], env: {A: "1", B: ~}}}
    customize:
      webhook: {url: 'https://x', basicAuth: {passwordKey: p, secretRef: {name: s, namespace: n}}}
status: {anything: 1}
`)[0]
	const want = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":{"name":"c"},
	"spec":{"parentResource":{"apiVersion":"example.com/v1","resource":"things"},"hooks":{
	"sync":{"webhook":{"url":"https://x","authorization":{"secretRef":{"name":"s","namespace":"n","key":"token"},
		"type":"Bearer"},"caBundle":{"configMapRef":{"name":"s","namespace":"n","key":"ca.crt"}},
		"clientTLS":{"secretRef":{"name":"s","namespace":"n"},"certKey":"tls.crt","privateKeyKey":"tls.key"}},
		"version":"v1"},
	"finalize":{"version":"v2","exec":{"command":["x"],"env":{"A":"1"},"mode":"oneshot"}},
	"customize":{"webhook":{"url":"https://x","basicAuth":{"passwordKey":"p","secretRef":{"name":"s","namespace":"n"},
		"usernameKey":"username"}},"version":"v1"}}},"status":{}}`
	if !sameJSON(t, c.Object, want) {
		t.Errorf("got %s", c.Object)
	}
	got := c.References()
	if want := []Reference{{ConfigMap: true, Namespace: "n", Name: "s", Key: "ca.crt"},
		{Namespace: "n", Name: "s", Key: "token"}, {Namespace: "n", Name: "s", Key: "tls.crt"},
		{Namespace: "n", Name: "s", Key: "tls.key"}, {Namespace: "n", Name: "s", Key: "username"},
		{Namespace: "n", Name: "s", Key: "p"}}; !slices.Equal(got, want) {
		t.Errorf("references %+v", got)
	}
}

func sameJSON(t *testing.T, got kube.Raw, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

// Rules: HK-34, HK-92
func TestAnObjectOfAClusterIsAsKubectlShowsIt(t *testing.T) {
	const rest = `"kind":"CompositeController","metadata":{"name":"c","uid":"u-1","generation":9007199254740993` +
		`%},"spec":{"parentResource":{"apiVersion":"v1","resource":"pods"},"hooks":{"sync":{"version":"v1",` +
		`"webhook":{"url":"http://x"}}}},"status":{}}`
	plain := `{"apiVersion":"metacontroller.k8s.io/v1alpha1",` + strings.ReplaceAll(rest, "%", "")
	c, err := FromObject([]byte(`{"apiVersion":"metacontroller.k8s.io/v1alpha1",` +
		strings.ReplaceAll(rest, "%", `,"managedFields":[{"manager":"x"}]`)))
	if err != nil || string(c.Object) != plain || c.UID != "u-1" || c.Source != "" {
		t.Errorf("%+v\n%v", c, err)
	}
	_, err = FromObject([]byte(`{"kind":"CompositeController","metadata":{"name":"a b"},"spec":{"x":[1]}}`))
	const want = `metadata.name: must be the name of an object (small letters, digits, '-' and '.'), is "a b"
spec.x: is no field of this object
spec.parentResource: is missing
spec.hooks: is missing: a controller without a sync hook decides nothing
apiVersion: must be metacontroller.k8s.io/v1alpha1`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	for text, want := range map[string]string{
		`[]`: "must be an object, is a list", `{}`: "kind: is missing", `{"kind":"Pod"}`: "kind: must be Composite",
		`{"kind":"CompositeController"`: "is not JSON", `{}{}`: "more behind", `{"a":1,"a":2}`: "a: is there twice",
		strings.Repeat("[", 200): "nested more than 100 deep", `{"a":{"b":[1,]}}`: "is not JSON",
		`[` + strings.Repeat("1,", 200_000) + `1]`: "more than 100000 values",
	} {
		if _, err := FromObject([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want %q", text, err, want)
		}
	}
}

// Rules: HK-11, HK-110
func TestAllProblemsOfAllFilesAreNamedAtOnceWithTheirLines(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yaml": "kind: ConfigMap\nmetadata: {name: not-ours}\n---\n" + head + "  childResource: []\n" + hooks,
		"b.json": `{"apiVersion": "metacontroller.k8s.io/v1beta1", "kind": "DecoratorController",
"metadata": {},
"spec": {"resources": [{"apiVersion": "apps/v1", "resource": "Deployments"}, 7],
"attachments": [{"apiVersion": "apps/v1", "resource": "deployments/status",
"updateStrategy": {"method": "inplace"}}],
"resyncPeriodSeconds": "10",
"hooks": {"Sync": {}}}}`,
		"c.yml":    "a: [",
		"x.txt":    "not read",
		".hidden":  "not read",
		".h.yaml":  "a: [",
		"e.yaml":   "# only a comment\n---\n---\n",
		"bad.json": "{",
	})
	_, warnings, err := ReadFiles([]string{dir})
	const want = `a.yaml:9: spec.childResource: is no field of this object, did you mean childResources?
b.json:1: apiVersion: must be metacontroller.k8s.io/v1alpha1, is "metacontroller.k8s.io/v1beta1"
b.json:2: metadata.name: is missing
b.json:3: spec.resources[0].resource: must be the plural of a resource, in small letters, as in ` +
		"`kubectl api-resources`" + `, is "Deployments"
b.json:3: spec.resources[1]: must be an object, is a number
b.json:4: spec.attachments[0].resource: must be the plural of a resource, in small letters, as in ` +
		"`kubectl api-resources`" + `, is "deployments/status"
b.json:5: spec.attachments[0].updateStrategy.method: must be OnDelete, Recreate, InPlace, RollingRecreate or ` +
		`RollingInPlace, is "inplace"
b.json:6: spec.resyncPeriodSeconds: must be a number, is a string
b.json:7: spec.hooks.Sync: is no field of this object, did you mean sync?
b.json:7: spec.hooks.sync: is missing: it decides the children of each parent
bad.json:1: is not YAML: did not find expected node content
c.yml:1: is not YAML: did not find expected node content`
	if got := strings.ReplaceAll(err.Error(), dir+"/", ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(warnings) != 1 || !strings.HasSuffix(warnings[0], "a.yaml:1: ConfigMap not-ours is skipped: only "+
		"controllers are read") {
		t.Errorf("warnings %q", warnings)
	}
}

// Rules: HK-11
func TestFilesDirectoriesAndListsAreReadInOrderAndOnce(t *testing.T) {
	body := func(name string) string { return strings.Replace(head, "{name: c}", "{name: "+name+"}", 1) + hooks }
	same := decorator + "  resources: [{apiVersion: v1, resource: pods}]\n" + hooks // the name d, of another kind
	dir := write(t, map[string]string{"d.yaml": body("d") + "---\n" + same,
		"b.yaml": body("b1") + "---\n" + body("b2"), "a.yaml": body("a"),
		"list.yaml": "apiVersion: v1\nkind: List\nitems:\n- " +
			strings.ReplaceAll(strings.TrimSpace(body("l")), "\n", "\n  ")})
	found, warnings, err := ReadFiles([]string{filepath.Join(dir, "b.yaml"), dir})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	var names []string
	for _, c := range found {
		names = append(names, c.Name)
	}
	if want := []string{"b1", "b2", "a", "d", "d", "l"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	for name, want := range map[string]string{"absent": "no such file",
		"empty.yaml": "there is no CompositeController or"} {
		file := filepath.Join(dir, name)
		if strings.HasPrefix(name, "empty") {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := ReadFiles([]string{file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Rules: HK-05, HK-06, HK-07, HK-10, HK-12, HK-16, HK-17, HK-47, HK-50, HK-100
func TestWhatIsWrongWithAControllerIsNamed(t *testing.T) {
	sync := func(hook string) string { return head + "  hooks:\n    sync: " + hook + "\n" }
	webhook := func(fields string) string { return sync("{webhook: {" + fields + "}}") }
	exec := func(fields string) string { return sync("{exec: {" + fields + "}}") }
	rules := func(rules string) string { return decorator + "  resources: " + rules + "\n" + hooks }
	long := strings.Replace(head, "{name: c}", "{name: "+strings.Repeat("n", 44)+"}", 1) +
		"  hooks: {sync: {exec: {command: [x]}}, finalize: {exec: {command: [x]}}}\n"
	const secret = "secretRef: {name: s, namespace: n}"
	for _, tt := range []struct{ text, want string }{
		{head, "spec.hooks: is missing"},
		{head + "  hooks: {finalize: {exec: {command: [x]}}}", "spec.hooks.sync: is missing"},
		{sync("{}"), "must have exactly one of webhook and exec: write exec: {command: [python3, hook.py]}"},
		{sync("{webhook: {url: 'http://x'}, exec: {command: [x]}}"),
			"must have exactly one of webhook and exec: keep one of them"},
		{sync("{version: v3, exec: {command: [x]}}"), `version: must be v1 or v2, is "v3"`},
		{head + "  hooks: {sync: {exec: {command: [x]}}, preUpdateChild: {}}",
			"preUpdateChild: this hook is never called"},
		{head + "  hooks: {sync: {exec: {command: [x]}}, postUpdateChild: {x: 1}}",
			"postUpdateChild: this hook is never"},
		{long, "metadata.name: must have at most 43 characters"},

		{webhook(""), "must have a url, or a service and a path"},
		{webhook("url: ''"), "url: is missing"},
		{webhook("url: x/y"), `url: must be http://HOST/PATH`},
		{webhook("url: 'http://u:pa55word@x/'"), "without user name and password"},
		{webhook("url: 'http://x:99999/'"), `url: must be http://HOST/PATH`},
		{webhook("url: 'file:///etc/passwd'"), `url: must be http://HOST/PATH`},
		{webhook("service: {name: a, namespace: b}"), "path: is missing: a service needs one"},
		{webhook("service: {name: a.b, namespace: b}, path: /"), `service.name: must be the name of a Service`},
		{webhook("service: {name: a}, path: /"), "service.namespace: is missing"},
		{webhook("service: {name: a, namespace: b}, path: x@y/"), `path: must be a path such as /sync, is "x@y/"`},
		{webhook("service: {name: a, namespace: b, port: 0}, path: /"),
			"service.port: must be a whole number from 1 to 65535"},
		{webhook("service: {name: a, namespace: b, protocol: tcp}, path: /"),
			"service.protocol: must be http or https"},
		{webhook("url: 'http://x', timeout: 10"), "timeout: must be a string, is a number: put it in quotes"},
		{webhook("url: 'http://x', timeout: 10x"), `timeout: must be a duration such as 10s or 1m30s, is "10x"`},
		{webhook("url: 'http://x', responseUnMarshallMode: lax"), "responseUnMarshallMode: must be loose or strict"},
		{webhook("url: 'http://x', responseUnmarshallMode: loose"), "did you mean responseUnMarshallMode?"},
		{webhook("url: 'http://x', timout: 3s"), "webhook.timout: is no field of this object, did you mean timeout?"},
		{webhook("url: 'http://x', etag: {enabled: 1}"), "etag.enabled: must be a boolean, is a number"},
		{webhook("url: 'http://x', etag: {cacheTimeoutSeconds: -1}"),
			"must be a whole number from 0 to 2147483647, is -1"},

		{webhook("url: 'https://x', caBundle: {}"), "caBundle: must have exactly one of inline"},
		{webhook("url: 'https://x', caBundle: {inline: x}"), "caBundle.inline: has no certificate"},
		{webhook("url: 'https://x', caBundle: {inline: x, " + secret + "}"),
			"caBundle: must have exactly one of inline"},
		{webhook("url: 'https://x', clientTLS: {}"), "clientTLS.secretRef: is missing"},
		{webhook("url: 'https://x', basicAuth: {usernameKey: a/b, " + secret + "}"),
			"basicAuth.usernameKey: must be a key"},
		{webhook("url: 'https://x', authorization: {type: bAsIc, " + secret + "}"),
			"type: Basic is not sent this way: use basicAuth"},
		{webhook("url: 'https://x', authorization: {" + secret + "}"), "authorization.secretRef.key: is missing"},
		{webhook("url: 'https://x', authorization: {type: 'a b', " + secret + "}"),
			"type: must be a scheme such as Bearer"},
		{webhook("url: 'https://x', basicAuth: {" + secret + "}, " +
			"authorization: {secretRef: {name: a, namespace: b, key: c}}"),
			"has authorization and basicAuth"},
		{webhook("url: 'http://x'") + "  endpointConfigs: [{host: 'http://x'}]",
			"endpointConfigs[0].host: must be HOST or HOST:PORT"},
		{webhook("url: 'http://x'") + "  endpointConfigs: [{}]", "endpointConfigs[0].host: is missing"},

		{exec(""), "command: is missing"},
		{exec("command: []"), "command: is empty"},
		{exec("command: x"), "command: must be a list, is a string"},
		{exec("command: ['']"), "command[0]: is missing"},
		{exec(`command: ["a\0"]`), "command[0]: must be without NUL"},
		{exec("command: [x], dir: ''"), "exec.dir: is missing"},
		{exec("command: [x], mode: once"), `mode: must be oneshot or lines, is "once"`},
		{exec("command: [x], env: {A-B: x}"), "env.A-B: is no name for a variable"},
		{exec("command: [x], env: {SKIFF_HOOK: x}"), "env.SKIFF_HOOK: is no name for a variable"},
		{exec("command: [x], env: {A: 1}"), "env.A: must be a string, is a number: put it in quotes"},

		{rules("[]"), "spec.resources: is empty"},
		{decorator + hooks, "spec.resources: is missing"},
		{rules("[{apiVersion: apps/v1, resource: a}, {apiVersion: apps/v2, resource: a}]"),
			"spec.resources[1]: names a.apps a second time"},
		{rules("[{apiVersion: /v1, resource: a}]"), "apiVersion: must be GROUP/VERSION, or v1"},
		{rules("[{apiVersion: a/b/v1, resource: a}]"), "apiVersion: must be GROUP/VERSION, or v1"},
		{rules("[{apiVersion: v1, resource: ..}]"), "resource: must be the plural of a resource"},
		{rules("[{apiVersion: v1, resource: a, labelSelector: {matchLabels: {a: 'b c'}}}]"),
			`labelSelector: a: "b c" is not the value of a label`},
		{rules("[{apiVersion: v1, resource: a, labelSelector: {matchLabels: {a: true}}}]"),
			"matchLabels.a: must be a string, is a boolean"},
		{rules("[{apiVersion: v1, resource: a, annotationSelector: {matchAnnotations: {'a b': c}}}]"),
			`"a b" is not the key of a label`},
		{rules("[{apiVersion: v1, resource: a, annotationSelector: {matchExpressions: [{key: a, operator: in}]}}]"),
			"operator: must be In, NotIn, Exists or DoesNotExist"},
		{rules("[{apiVersion: v1, resource: a, revisionHistory: {}}]"),
			"revisionHistory: is no field of this object"},

		{head + "  childResources: [{apiVersion: v1, resource: a}, {apiVersion: v2, resource: a}]\n" + hooks,
			"names a in a second version: keep one of v1 and v2"},
		{strings.Replace(head, "resource: things", "resource: t, revisionHistory: {fieldPaths: ['a..b']}", 1) + hooks,
			"fieldPaths[0]: must be a path such as spec.template"},
		{strings.Replace(head, "resource: things", "resource: t, revisionHistory: {fieldPaths: ['']}", 1) + hooks,
			"fieldPaths[0]: must be a path such as spec.template"},
		{exec("command: [" + strings.Repeat("x, ", maxItems) + "x]"), "command: has 101 items"},
		{strings.Replace(head, "{name: c}", "{name: ../x}", 1) + hooks,
			"metadata.name: must be the name of an object"},
		{head + hooks + "---\n" + head + hooks,
			"c.yaml:10: metadata.name: there is a CompositeController c already, in c.yaml:1"},
		{head + hooks + "  generateSelector: yes\n", "generateSelector: must be a boolean, is a string"},
		{head + hooks + "  generateSelector: true\n  generateSelector: true\n",
			"spec.generateSelector: is there twice"},
		{head + hooks + "  <<: {a: b}\n", "has a merge key"},
		{head + hooks + "  ? [a]\n  : b\n", "has a key that is not a string"},
		{head + hooks + "  resyncPeriodSeconds: .inf", "resyncPeriodSeconds: must be a number that JSON has"},
		{head + hooks + "  resyncPeriodSeconds: !x 1", `has the tag "!x"`},
	} {
		got := problemsOf(t, tt.text)
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, tt.want) }) {
			t.Errorf("%s\n got %q\nwant %q", tt.text, got, tt.want)
		}
		if slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "pa55word") }) {
			t.Errorf("a password is shown: %q", got)
		}
	}
}

// Rules: HK-09
func TestOfTwoRulesForOneKindOfChildrenTheLastMethodCounts(t *testing.T) {
	const rule = "{apiVersion: v1, resource: pods, updateStrategy: {method: "
	for rules, want := range map[string]Method{
		rule + "InPlace}}, " + rule + "Recreate}}": Recreate,
		rule + "InPlace}}, " + rule + "OnDelete}}": InPlace,
	} {
		c := read(t, head+"  childResources: ["+rules+"]\n"+hooks)[0]
		if len(c.Children) != 1 || c.Children[0].Method != want {
			t.Errorf("%+v", c.Children)
		}
	}
}

func TestCharactersThatJSONWritesAsTwoEscapesAreRead(t *testing.T) {
	found := read(t, `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController",
		"metadata":{"name":"c"},"spec":{"parentResource":{"apiVersion":"v1","resource":"things"},
		"hooks":{"sync":{"exec":{"command":["echo","\ud83d\ude00 \u00e9 \\ud83d"]}}}}}`)
	if got := found[0].Sync.Exec.Command[1]; got != "\U0001F600 \u00e9 \\ud83d" {
		t.Errorf("it is %q", got)
	}
}

// Rules: HK-25
func TestAResyncPeriodIsAtLeastASecond(t *testing.T) {
	for seconds, want := range map[string]time.Duration{"0": time.Second, "-5": time.Second, "7": 7 * time.Second} {
		if got := read(t, head+hooks+"  resyncPeriodSeconds: "+seconds)[0].Resync; got != want {
			t.Errorf("%s: %s", seconds, got)
		}
	}
	if got := read(t, head+hooks)[0].Resync; got != 0 {
		t.Errorf("without one: %s", got)
	}
}

// Rules: HK-05, HK-43
func TestAnswersAreReadStrictlyInVersion2UnlessTheSpecSaysOtherwise(t *testing.T) {
	for fields, want := range map[string]bool{
		"webhook: {url: 'http://x'}": false, "version: v2, webhook: {url: 'http://x'}": true,
		"webhook: {url: 'http://x', responseUnMarshallMode: strict}":             true,
		"version: v2, webhook: {url: 'http://x', responseUnMarshallMode: loose}": false,
		"version: v2, exec: {command: [x]}":                                      true, "exec: {command: [x]}": false,
	} {
		if h := read(t, head+"  hooks: {sync: {"+fields+"}}")[0].Sync; h.Strict != want {
			t.Errorf("%s: %v", fields, h.Strict)
		}
	}
}

// Rules: HK-06, HK-07
func TestAnEndpointConfigCountsForItsHostWhereTheWebhookHasNoneOfItsFields(t *testing.T) {
	const basic = ", basicAuth: {secretRef: {namespace: n, name: s}}"
	for _, tt := range []struct{ url, host, own, want string }{
		{"https://a.b/x", "a.b", "", "s"},
		{"https://a.b/x", "A.B:443", "", "s"},
		{"https://a.b:443/x", "a.b", "", "s"},
		{"http://a.b/x", "a.b:80", "", "s"},
		{"http://a.b:8080/x", "a.b:8080", "", "s"},
		{"http://a.b:8080/x", "a.b", "", ""},
		{"https://a.b/x", "a.b:80", "", ""},
		{"https://[::1]/x", "[::1]:443", "", "s"},
		{"https://a.b/x", "a.b", ", clientTLS: {secretRef: {namespace: n, name: own}}", ""},
		{"https://a.b/x", "other", "", ""},
	} {
		c := read(t, head+"  hooks: {sync: {webhook: {url: '"+tt.url+"'"+tt.own+"}}}\n"+
			"  endpointConfigs: [{host: nowhere}, {host: '"+tt.host+"'"+basic+"}, {host: '"+tt.host+"'}]\n")[0]
		got := ""
		if b := c.Sync.Webhook.Access.Basic; b != nil {
			got = b.Name
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// Rules: HK-100
func TestAProgramIsFoundFromTheDirectoryOfItsFile(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": head + `  hooks:
    sync: {exec: {command: [./hook.sh, ./x], env: {A: b}, timeout: 1s}}
    finalize: {exec: {command: [python3, hook.py], dir: sub, mode: lines}}
    customize: {exec: {command: [bin/x], dir: /abs}}
`})
	t.Chdir(dir)
	found, _, err := ReadFiles([]string{"c.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	var got []Hook
	for _, h := range found[0].Hooks() {
		got = append(got, *h.Hook)
	}
	want := []Hook{{Version: 1, Timeout: time.Second, Exec: &Exec{Command: []string{dir + "/hook.sh", "./x"}, Dir: dir,
		Mode: Oneshot, Env: map[string]string{"A": "b"}}},
		{Version: 1, Timeout: 10 * time.Second, Exec: &Exec{Command: []string{"python3", "hook.py"},
			Dir: dir + "/sub", Mode: Lines, Env: map[string]string{}}},
		{Version: 1, Timeout: 10 * time.Second, Exec: &Exec{Command: []string{"/abs/bin/x"}, Dir: "/abs",
			Mode: Oneshot, Env: map[string]string{}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	object := func(exec string) []byte {
		return []byte(`{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":` +
			`{"name":"c"},"spec":{"parentResource":{"apiVersion":"v1","resource":"pods"},"hooks":{"sync":{"exec":` +
			exec + `}}}}`)
	}
	if _, err := FromObject(object(`{"command":["./x"],"dir":"sub"}`)); err == nil ||
		!strings.Contains(err.Error(), "dir: must be absolute") {
		t.Errorf("a relative dir: %v", err)
	}
	if _, err := FromObject(object(`{"command":["./x"]}`)); err == nil ||
		!strings.Contains(err.Error(), "command[0]: must be absolute or a bare name") {
		t.Errorf("a relative command: %v", err)
	}
	if _, err := FromObject(object(`{"command":["x"]}`)); err != nil {
		t.Error(err)
	}
}

func TestAControllerWithAKeyThatIsThereTwiceIsLeftOut(t *testing.T) {
	other := strings.Replace(head, "{name: c}", "{name: other}", 1) + hooks
	file := filepath.Join(write(t, map[string]string{"c.yaml": head + hooks + hooks + "---\n" + other}), "c.yaml")
	valid, _, err := ReadValid([]string{file})
	if err == nil || len(valid) != 1 || valid[0].Name != "other" {
		t.Errorf("%+v, %v", valid, err)
	}
}

func TestANullLabelDoesNotSelectAll(t *testing.T) {
	c := read(t, strings.Replace(head, "things}", "things, labelSelector: {matchLabels: {a: ~}}}", 1)+hooks)[0]
	if got := c.Parents[0].Labels.String(); got != "a=" {
		t.Errorf("it selects %q", got)
	}
}

func TestADocumentThatGrowsWithItsAliasesIsRefused(t *testing.T) {
	bomb := head + hooks + "  a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		before := "*" + string(c-1)
		bomb += "  " + string(c) + ": &" + string(c) + " [" + strings.Repeat(before+",", 9) + before + "]\n"
	}
	for text, want := range map[string]string{
		bomb:                            "more than 100000 values",
		head + hooks + "  a: &a [*a]\n": "nested more than 100 deep",
		head + hooks + strings.Repeat("[", 50_000):                                     "is not YAML",
		head + hooks + "  a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "nested more than 100 deep",
		strings.Repeat("a", maxFile+1):                                                 "larger than 1 MiB",
	} {
		if got := strings.Join(problemsOf(t, text), "\n"); !strings.Contains(got, want) {
			t.Errorf("%.300q, want %q", got, want)
		}
	}
	many := head + hooks
	for range 150 {
		many += "  x" + strings.Repeat("y", 5) + string(rune('a'+len(many)%26)) + ": 1\n"
	}
	if got := problemsOf(t, many); len(got) != maxProblems+1 || got[maxProblems] != "and 50 more" {
		t.Errorf("%d problems, the last %q", len(got), got[len(got)-1])
	}
}

// The path of each of many values below long keys, written out, took 15 GiB.
func TestManyValuesBelowLongKeysTakeLittleMemory(t *testing.T) {
	text := strings.Replace(head, "{name: c}", "\n name: c\n deep:\n", 1)
	below := ""
	for i := range maxDepth - 10 {
		below += strings.Repeat(" ", i+2) + strings.Repeat("k", 900) + ":\n"
	}
	below += strings.Repeat(" ", maxDepth) + "[" + strings.Repeat("1,", maxValues-1000) + "1]\n"
	text = strings.Replace(text, " deep:\n", " deep:\n"+below, 1) + hooks
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read(t, text)
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 200 {
		t.Errorf("%d MiB were allocated for a file of %d KiB", got, len(text)>>10)
	}
}

// Rules: HK-108
func TestRightsAreThoseOfTheRulesAndNoOthers(t *testing.T) {
	show := func(c *Controller) (out []string) {
		for _, r := range Rights(c) {
			out = append(out, r.String()+": "+strings.Join(r.Verbs, " "))
		}
		return out
	}
	const recorder = "events.events.k8s.io: create patch"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a composite", head + hooks,
			[]string{"things.example.com: get list watch", "things.example.com: patch",
				"things.example.com/status: patch", recorder}},
		{"one that finalizes and rolls", head +
			"  hooks: {sync: {exec: {command: [x]}}, finalize: {exec: {command: [x]}}}\n" +
			"  childResources: [{apiVersion: v1, resource: pods, updateStrategy: {method: RollingInPlace}}]\n",
			[]string{"things.example.com: get list watch", "things.example.com: patch",
				"things.example.com/status: patch",
				"things.example.com/finalizers: update", "pods: get list watch create patch delete",
				"controllerrevisions.metacontroller.k8s.io: get list watch create patch delete", recorder}},
		{"a decorator", decorator + "  resources: [{apiVersion: v1, resource: pods}]\n" + hooks,
			[]string{"pods: get list watch", "pods: patch", "pods/status: patch", recorder}},
	} {
		if got := show(read(t, tt.text)[0]); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// Rules: HK-11
func FuzzReadFiles(f *testing.F) {
	f.Add([]byte(head + hooks))
	f.Add([]byte(decorator + "  resources: [{apiVersion: v1, resource: a, labelSelector: {matchLabels: {a: b}}}]\n" +
		hooks))
	f.Add([]byte(head + "  hooks: {sync: {exec: {command: [./x], env: {A: b}}}}\n  endpointConfigs: [{host: x}]\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"a":&a [1],"b":*a}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if c, err := FromObject(content); err == nil && (!json.Valid(c.Object) || c.Sync == nil) {
			t.Errorf("an object: %+v", c)
		}
		var r reader
		r.found.begin("f")
		r.documents(origin{file: "f", dir: "/dir"}, content)
		if r.found.err() != nil {
			if text := r.found.Error(); strings.ContainsAny(strings.ReplaceAll(text, "\n", ""), "\x00\x1b") {
				t.Errorf("the error is not printable: %q", text)
			}
			return
		}
		for _, c := range r.controllers {
			if !json.Valid(c.Object) || c.Sync == nil || len(c.Parents) == 0 {
				t.Errorf("%+v", c)
			}
			again, err := FromObject(c.Object)
			if err == nil && (again.Name != c.Name || !reflect.DeepEqual(again.Parents, c.Parents)) {
				t.Errorf("read again: %+v, was %+v", again, c)
			}
		}
	})
}
