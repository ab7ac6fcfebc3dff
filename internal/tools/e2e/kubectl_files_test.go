package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubectlFiles are what people keep in a directory, also for kustomize.
var kubectlFiles = map[string]string{
	"one.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n  labels: {app: files}\n---\n" +
		"apiVersion: v1\nkind: Service\nmetadata:\n  name: one\n  labels: {app: files}\nspec:\n  clusterIP: None\n",
	"two.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two","labels":{"app":"files"}},"data":{"a":"b"}}`,
	"nested/three.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n" +
		"    name: three\n    labels: {app: files}\n",
	"broken/bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n",
	"kustomized/kustomization.yaml": "namePrefix: k-\nlabels: [{pairs: {team: a}}]\nresources: [map.yaml]\n" +
		"configMapGenerator: [{name: made, literals: [a=b], options: {disableNameSuffixHash: true}}]\n",
	"kustomized/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\n",
	"less/two.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: two\n  labels: {app: files}\n",
}

const pruned = " -l app=files --prune --prune-allowlist=core/v1/ConfigMap --prune-allowlist=core/v1/Service"

// fileLines work with DIR, the directory of kubectlFiles.
var fileLines = []kubectlLine{
	{args: "config view -o jsonpath={.kind},{.users[*].user.token}"},
	{args: "auth whoami --as bob --as-group a --as-group b"},
	{args: "auth whoami --as bob -o jsonpath={.status.userInfo}"},
	{args: "auth can-i create pods"}, {args: "auth can-i create pods --subresource=exec"},
	{args: "auth can-i get nothing"}, {args: "auth can-i * *"}, {args: "auth can-i list nodes -q"},
	{args: "create -f DIR --dry-run=server"},
	{args: "create -f DIR"}, {args: "create -f DIR"},
	{args: "apply -f DIR"}, {args: "apply -f DIR -R"},
	{args: "apply -f DIR/broken"}, {args: "apply -f DIR/none"},
	{args: "diff -f DIR/one.yaml"}, {args: "get -f DIR/one.yaml -o name"},
	{args: "kustomize DIR/kustomized"}, {args: "apply -k DIR/kustomized"}, {args: "apply -k DIR/kustomized"},
	{args: "diff -k DIR/kustomized"}, {args: "get -k DIR/kustomized -o name"}, {args: "delete -k DIR/kustomized"},
	{args: "apply -f DIR" + pruned}, {args: "apply -f DIR/less" + pruned + " --dry-run=server"},
	{args: "apply -f DIR/less" + pruned}, {args: "get configmaps,services -l app=files -o name"},
	{args: "apply -f DIR --prune --applyset=configmap/set"},
	{args: "create secret generic set"},
	{args: "apply -f DIR --prune --applyset=secret/set --server-side --force-conflicts"},
	{args: "get secret set -o jsonpath={.metadata.annotations}"},
	{args: "apply -f DIR/less --prune --applyset=secret/set --server-side --force-conflicts"},
	{args: "get configmaps,services -l applyset.kubernetes.io/part-of -o name"},
	{args: "get secret set -o jsonpath={.metadata.annotations}"},
	{args: "delete -f DIR/less --ignore-not-found"}, {args: "delete -f DIR --ignore-not-found -R"},
}

// Rules: FD-20
func TestKubectlAppliesFilesToSkiffDevAsToARealCluster(t *testing.T) {
	dir := t.TempDir()
	for name, text := range kubectlFiles {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECTL_APPLYSET", "true")
	var lines []kubectlLine
	for _, line := range fileLines {
		line.args = strings.ReplaceAll(line.args, "DIR", dir)
		lines = append(lines, line)
	}
	sameOnBoth(t, lines)
}
