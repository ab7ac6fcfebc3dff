package cli

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// writeFiles writes files below a new directory and returns it.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDevLoadsDefinitionsAndObjectsBeforeItIsReady(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"crds/widget.yaml": widgetCRD,
		"crds/README.md":   "not a manifest",
		"crds/other.yaml":  "{apiVersion: example.com/v1, kind: Widget, metadata: {name: left-out}}",
		"objects/1.yaml": `
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: shop}
spec: {since: 2026-01-02}
---
# an empty document
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}
- apiVersion: v1
  kind: ConfigMapList
  items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: shop}}]
`,
		"objects/2.json":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"named-"}}`,
		"objects/sub/3.yaml": "below a subdirectory: is not read",
		"one.yml":            `{apiVersion: v1, kind: ConfigMap, metadata: {name: third}}`,
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	r := startDev(t, "--bare", "--crds", at("crds"), "--load", at("objects"), "--load", at("one.yml"))
	for namespace, name := range map[string]string{"default": "first", "shop": "second"} {
		if !r.exists(configMaps, namespace, name) {
			t.Errorf("the ConfigMap %s/%s was not loaded", namespace, name)
		}
	}
	widgets := kube.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget"}
	var widget struct {
		kube.Meta `json:"metadata"`
		Spec      struct {
			Since string `json:"since"`
		} `json:"spec"`
	}
	if err := r.client.Get(t.Context(), widgets, kube.Key{Namespace: "shop", Name: "a"}, &widget); err != nil {
		t.Fatal(err)
	}
	if widget.Spec.Since != "2026-01-02" {
		t.Errorf("a date without quotes became %q", widget.Spec.Since)
	}
	type meta struct {
		kube.Meta `json:"metadata"`
	}
	list, err := kube.List[*meta](t.Context(), r.client, kube.Query{Resource: configMaps, Namespace: "default"},
		kube.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%d ConfigMaps in default, want first, third and one with a generated name; %v", len(list.Items), err)
	}
	if err := r.client.Delete(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "first"},
		kube.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Raw(t.Context(), "POST", "/skiff/reset", nil); err != nil {
		t.Fatal(err)
	}
	if !r.exists(configMaps, "default", "first") {
		t.Error("a reset did not bring back what was loaded")
	}
	if code := r.Stop(); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, r.Stderr)
	}
}

func TestDevNamesTheFileThatItCannotLoad(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"empty/x.txt": "",
		"broken.yaml": "a: [",
		"text.yaml":   "# a note\nonly text\n",
		"list.yaml":   "- a\n- b\n",
		"twice.yaml":  "# a\napiVersion: v1\nkind: ConfigMap\nkind: Secret\n",
		"README.md":   "# A title\n\nkey: words: that are no YAML\n",
		"field.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndat: {x: y}\n",
		"kind.yaml":   "apiVersion: v1\nkind: ConfgMap\nmetadata: {name: a}\n",
		"number.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 80\n" +
			"  - name: admin\n    port: high\n",
		"kindless.yml": "---\n---\nmetadata: {name: a}",
		"widget.yaml":  "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}",
		"map.yaml":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"typo.yaml":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: A_B}}",
		"item.yaml":    "{apiVersion: v1, kind: List, items: [1]}",
		"comment.yaml": "# to be written",

		"others/map.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
	})
	for _, tt := range []struct{ flag, file, say string }{
		{"--load", "missing", "no such file"},
		{"--load", "empty", "the directory has no .yaml, .yml or .json file"},
		{"--load", "broken.yaml", "broken.yaml"},
		{"--load", "text.yaml", "text.yaml:2: is no Kubernetes object: want apiVersion, kind and metadata"},
		{"--load", "list.yaml", "list.yaml:1: is no Kubernetes object: want apiVersion, kind and metadata"},
		{"--crds", "text.yaml", "text.yaml:2: is no Kubernetes object: want apiVersion, kind and metadata"},
		{"--load", "twice.yaml", `twice.yaml:4: is not YAML: mapping key "kind" already defined at line 3`},
		{"--crds", "README.md", "README.md:3: is not YAML"},
		{"--load", "field.yaml", "field.yaml:4: dat: unknown field, did you mean data?"},
		{"--load", "kind.yaml", "kind.yaml:2: v1 has no kind ConfgMap: did you mean ConfigMap?"},
		{"--load", "number.yaml", `number.yaml:8: spec.ports[admin].port: want a number, got "high"`},
		{"--load", "kindless.yml", "kindless.yml:3: is no Kubernetes object: want apiVersion, kind and metadata"},
		{"--load", "widget.yaml", "the server has no kind Widget in example.com/v1"},
		{"--load", "typo.yaml", "ConfigMap A_B"},
		{"--load", "item.yaml", "items[0] is not an object"},
		{"--load", "comment.yaml", "comment.yaml: there is no object in it"},
		{"--crds", "comment.yaml", "comment.yaml: there is no object in it"},
		{"--crds", "others", "others: there is no custom resource definition in it"},
		{"--crds", "map.yaml", "ConfigMap a is not a custom resource definition: pass it with --load"},
	} {
		skiffDev(t, "--bare", tt.flag, filepath.Join(dir, tt.file), "--", "sh", "-c", "exit 3").Want(t, cli.ExitFailed,
			tt.say)
	}
}

func TestDevStartsWithTheFaultsOfAFile(t *testing.T) {
	file := writeFile(t, `{"limits":{"http1":true,"forget":"1h"},
		"faults":[{"verb":"get","resource":"namespaces","reply":{"code":503,"message":"out of order"}}]}`)
	r := startDev(t, "--bare", "--faults", file)
	var o struct{ kube.Meta }
	if err := r.client.Get(t.Context(), namespaces, kube.Key{Name: "default"}, &o); err == nil ||
		!strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v, want that of the fault", err)
	}
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(r.config.Server + "/version")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.Proto != "HTTP/1.1" {
		t.Errorf("a server without HTTP/2 speaks %s", resp.Proto)
	}
	file = writeFile(t, `{"faults":[{"cut":"half"}]}`)
	skiffDev(t, "--bare", "--faults", file).Want(t, cli.ExitFailed, "--faults: "+file+": faults[0].cut")
	skiffDev(t, "--bare", "--faults", "/nowhere").Want(t, cli.ExitFailed, "--faults: /nowhere")
}

// Rules: FI-07
func TestDevSeemsToBeSeveralServers(t *testing.T) {
	file := writeFile(t, `{"faults":[{"replica":2,"lag":"1m"}]}`)
	r := startDev(t, "--bare", "--replicas", "2", "--faults", file)
	namespace := map[string]any{"metadata": map[string]any{"name": "new"}}
	if err := r.client.Create(t.Context(), namespaces, "", namespace, nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(r.replicas) != 2 {
		t.Fatalf("the ready file has the replicas %q", r.replicas)
	}
	for i, address := range r.replicas {
		config := r.config
		config.Server = address
		client, err := kube.New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		list, err := client.Raw(t.Context(), "GET", "/api/v1/namespaces", url.Values{"resourceVersion": {"0"}})
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(string(list), `"new"`); found != (i == 0) {
			t.Errorf("replica %d lists %s", i+1, list)
		}
	}
}

func TestAFileWithoutAnEndIsRefused(t *testing.T) {
	const endless = "/dev/zero"
	empty := writeFile(t, "")
	_, faults := readFaults(endless)
	_, pool := apiServerOptions(programFlags{"client-ca-file": {endless}}, "")
	_, key := apiServerOptions(programFlags{"service-account-signing-key-file": {endless}}, "")
	_, _, cert := devOptions{certFile: endless, keyFile: endless}.certificate()
	_, _, certKey := devOptions{certFile: empty, keyFile: endless}.certificate()
	for name, err := range map[string]error{"faults": faults, "authorities": pool,
		"signing key": key, "certificate": cert, "key of the certificate": certKey} {
		if err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDevHasAStorageClassUnlessOneIsLoadedAndNodesOfTheServersVersion(t *testing.T) {
	own := writeFile(t, "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: standard}, "+
		"provisioner: a.b/c}")
	for want, args := range map[string][]string{
		"standard simulate.skiff.dev/volumes": {"--controllers", "none", "--kubernetes-version", "1.35"},
		"standard a.b/c":                      {"--controllers", "none", "--load", own},
		"":                                    {"--bare"},
	} {
		r := startDev(t, args...)
		var classes, nodes struct {
			Items []struct {
				kube.Meta   `json:"metadata"`
				Provisioner string `json:"provisioner"`
				Status      struct {
					NodeInfo struct {
						KubeletVersion string `json:"kubeletVersion"`
					} `json:"nodeInfo"`
				} `json:"status"`
			} `json:"items"`
		}
		for path, into := range map[string]any{"/apis/storage.k8s.io/v1/storageclasses": &classes,
			"/api/v1/nodes": &nodes} {
			body, err := r.client.Raw(t.Context(), "GET", path, nil)
			if err == nil {
				err = json.Unmarshal(body, into)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		have := ""
		for _, c := range classes.Items {
			have += c.Name + " " + c.Provisioner
		}
		if have != want {
			t.Errorf("%v: classes %q, want %q", args, have, want)
		}
		for _, n := range nodes.Items {
			if version := n.Status.NodeInfo.KubeletVersion; !strings.HasPrefix(version, "v1.3") {
				t.Errorf("%v: node %s says %s", args, n.Name, version)
			}
		}
		r.Stop()
	}
}
