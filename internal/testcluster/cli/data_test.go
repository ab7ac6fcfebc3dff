package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli"
	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
)

// startData runs skiff-dev on a directory until it is ready, with a client of the kubeconfig there.
func startData(t *testing.T, dir string, args ...string) (*clitest.Follower, *kube.Client) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	f := skiffDevs.Follow(t, append([]string{"--data", dir, "--ready-file", ready}, args...)...)
	f.Await("a ready file", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	client, _ := connect(t, filepath.Join(dir, kubeconfigFile), kubeconfig.Flags{})
	return f, client
}

// read returns what a request with a kubeconfig gets.
func read(t *testing.T, c *kube.Client, path string, query url.Values) string {
	t.Helper()
	body, err := c.Raw(t.Context(), "GET", path, query)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return string(body)
}

// create creates a ConfigMap.
func create(t *testing.T, c *kube.Client, name string, into any) {
	t.Helper()
	err := c.Create(t.Context(), configMaps, "default", named(name), into, kube.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// content returns the content of a file.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const aThing = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
      properties: {spec: {type: object, properties: {n: {type: integer}}}}}}}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: a}
spec: {n: 3}
---
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {password: hush}
`

func TestAClusterWithDataIsTheSameAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	first, client := startData(t, dir, "--bare")
	if err := apply(aThing)(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	var made struct {
		kube.Meta `json:"metadata"`
	}
	create(t, client, "a", &made)
	paths := []string{"/apis/example.com/v1/namespaces/default/things/a", "/api/v1/namespaces/default/secrets/a",
		"/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com"}
	var before []string
	for _, path := range paths {
		before = append(before, read(t, client, path, nil))
	}
	if code := first.Stop(); code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, first.Stderr)
	}

	second, _ := startData(t, dir, "--bare")
	for i, path := range paths { // with the client of the first run
		if after := read(t, client, path, nil); after != before[i] {
			t.Errorf("%s was\n%s and is\n%s", path, before[i], after)
		}
	}
	// The last revision is where the history begins: a client that knows it has missed nothing.
	watch := func(from string) string {
		return read(t, client, "/api/v1/namespaces/default/configmaps", url.Values{"watch": {"1"},
			"resourceVersion": {from}, "timeoutSeconds": {"1"}})
	}
	var list struct {
		Metadata struct{ ResourceVersion string } `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(read(t, client, "/api/v1/namespaces", nil)), &list); err != nil {
		t.Fatal(err)
	}
	if got := watch(list.Metadata.ResourceVersion); strings.Contains(got, "ERROR") {
		t.Errorf("a watch from the last revision: %s", got)
	}
	if got := watch("1001"); !strings.Contains(got, `"code":410`) {
		t.Errorf("a watch from before the restart: %s, want 410", got)
	}
	if err := client.Delete(t.Context(), configMaps, made.Key(), kube.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	second.Stop()
}

// A process that is killed cannot write: the next one has what was written before, and uses no revision again.
func TestACrashLosesAFewSeconds(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	f, client := startData(t, dir, "--bare")
	var made struct {
		kube.Meta `json:"metadata"`
	}
	create(t, client, "kept", &made)
	f.Await("a state with the object", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, stateFile))
		return err == nil && strings.Contains(string(text), `"kept"`)
	})
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // as it is now: the process does not end
		t.Fatal(err)
	}
	create(t, client, "lost", &made)
	f.Stop()

	f, client = startData(t, copied, "--bare", "--listen", "127.0.0.1:0")
	defer f.Stop()
	var o struct {
		kube.Meta `json:"metadata"`
	}
	if err := client.Get(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "kept"}, &o); err != nil {
		t.Error(err)
	}
	lost := made.ResourceVersion
	create(t, client, "lost", &made)
	if len(made.ResourceVersion) <= len(lost) {
		t.Errorf("revision %s, that of the lost object was %s", made.ResourceVersion, lost)
	}
}

// Pods of the last run run on, where they were, and another pod does not get the address of one.
func TestPodsRunOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	addresses := func(c *kube.Client, want int) (out map[string]string) {
		t.Helper()
		for deadline := time.Now().Add(clitest.Patience); len(out) < want; <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never %d running pods: %v", want, out)
			}
			var list struct {
				Items []struct {
					Metadata struct{ Name, UID string }               `json:"metadata"`
					Status   struct{ Phase, PodIP, StartTime string } `json:"status"`
				} `json:"items"`
			}
			if err := json.Unmarshal([]byte(read(t, c, "/api/v1/pods", nil)), &list); err != nil {
				t.Fatal(err)
			}
			out = map[string]string{}
			for _, p := range list.Items {
				if p.Status.PodIP != "" {
					out[p.Status.PodIP] = fmt.Sprint(p)
				}
			}
		}
		return out
	}
	pod := func(name string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "a", "image": "a"}}}}
	}
	f, client := startData(t, dir, "--controllers", "none")
	for _, name := range []string{"c", "b", "a"} {
		if err := client.Create(t.Context(), pods, "default", pod(name), nil, kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := addresses(client, 3)
	f.Stop()
	f, client = startData(t, dir, "--controllers", "none")
	defer f.Stop()
	if err := client.Create(t.Context(), pods, "default", pod("0"), nil, kube.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	after := addresses(client, 4)
	for ip, p := range before {
		if after[ip] != p {
			t.Errorf("%s had %s, and has %s", ip, p, after[ip])
		}
	}
}

func TestADirectoryOfDataIsUsedByOne(t *testing.T) {
	dir := t.TempDir()
	f, _ := startData(t, dir, "--bare")
	defer f.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	skiffDevs.Run(ctx, t, "--data", dir, "--bare").Want(t, cli.ExitFailed,
		fmt.Sprintf("--data %s: another skiff-dev uses it, process %d", dir, os.Getpid()))
}

func TestDataThatCannotBeUsedIsNamedAndStays(t *testing.T) {
	good := t.TempDir()
	f, _ := startData(t, good, "--bare")
	f.Stop()
	state := content(t, filepath.Join(good, stateFile))
	cut, _, _ := strings.Cut(state, `{"kind":"Namespace","apiVersion":"v1","metadata":{"creationTimestamp"`)
	for name, tt := range map[string]struct {
		file, text string // "": it is removed
		want       string
	}{
		"a line is missing": {stateFile, strings.TrimSuffix(state, "\n")[:strings.LastIndex(
			strings.TrimSuffix(state, "\n"), "\n")+1], "objects: nothing was changed"},
		"half a line": {stateFile, state[:len(state)-100], "line "},
		"empty":       {stateFile, "", "no copy of a cluster"},
		"a header":    {stateFile, cut[:strings.Index(cut, "\n")+1], "it has no object"},
		"twice": {stateFile, strings.Replace(state, `"name":"kube-public"`, `"name":"kube-system"`, 1),
			"Namespace kube-system"},
		"no revision": {stateFile, strings.Replace(state, `"resourceVersion":"`, `"resourceVersion":"x`, 1),
			"line 2: "},
		"of another kind": {stateFile, strings.Replace(state, `"kind":"Namespace"`, `"kind":"Naemspace"`, 1),
			"this server stores no Naemspace of v1"},
		"no identity": {identityFile, "{", "move it away to get a new certificate, token and port"},
		"an older identity": {identityFile, `{"format":"skiff-identity/0"}`,
			`its format is "skiff-identity/0", want skiff-identity/1`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, tt.file)
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			skiffDev(t, "--data", dir, "--bare").Want(t, cli.ExitFailed, "--data", "read "+path, tt.want)
			if text := content(t, path); text != tt.text {
				t.Errorf("the file was changed to %.200q", text)
			}
		})
	}
}

func TestDataIsADirectoryOfItsOwn(t *testing.T) {
	dir := writeFiles(t, map[string]string{"words": "hush", "go.mod": "module a"})
	skiffDev(t, "--data", dir).Want(t, cli.ExitFailed, "--data "+dir+`: it has other files, such as "go.mod"`)
	skiffDev(t, "--data", filepath.Join(dir, "words")).Want(t, cli.ExitFailed, "it is a file")
	skiffDev(t, "--data", filepath.Join(dir, "words", "x")).Want(t, cli.ExitFailed, "not a directory")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}
