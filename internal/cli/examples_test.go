package cli

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"skiff/examples"
	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// exampleDocuments returns the objects of a file of the examples.
func exampleDocuments(t *testing.T, name string) []object {
	t.Helper()
	var out []object
	for d := yaml.NewDecoder(bytes.NewReader([]byte(examples.Text(name)))); ; {
		var body object
		if err := d.Decode(&body); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, body)
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return out
}

// exampleKinds are those of the examples.
var exampleKinds = []kube.Resource{webServers, redises, triggers, deployments,
	{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true},
	{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "rolebindings", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "clusterroles",
		Kind: "ClusterRole", ClusterScoped: true},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "clusterrolebindings",
		Kind: "ClusterRoleBinding", ClusterScoped: true},
	{Group: "policy", Version: "v1", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget"},
}

// Strict, as kubectl is: a typo in an example is refused and not dropped. Each file goes into a namespace of its own.
func TestTheServerTakesEveryExample(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	noError(t, definitions.Ensure(t.Context(), c.client, 10*time.Second))
	files, err := filepath.Glob(repositoryFile("examples/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for i, file := range files {
		name := filepath.Base(file)
		home := "example-" + string(rune('a'+i))
		c.create(exampleKinds[4], "", named(home, nil))
		for _, body := range exampleDocuments(t, name) {
			at := slices.IndexFunc(exampleKinds, func(r kube.Resource) bool {
				return r.Kind == body["kind"] &&
					r.APIVersion() == body["apiVersion"]
			})
			if at < 0 {
				t.Errorf("%s: %v of %v is not in the table of this test", name, body["kind"], body["apiVersion"])
				continue
			}
			namespace := home
			if own, _ := body["metadata"].(object)["namespace"].(string); own != "" {
				namespace = own
			}
			if exampleKinds[at].ClusterScoped {
				namespace = ""
			}
			err := c.client.Create(t.Context(), exampleKinds[at], namespace, body, nil,
				kube.WriteOptions{FieldValidation: "Strict"})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
