package kube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// attempts are one request of each kind, by the right that an API server asks for.
var attempts = map[string]func(t *testing.T, c *kube.Client) error{
	"get": func(t *testing.T, c *kube.Client) error {
		return c.Get(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, nil)
	},
	"list": func(t *testing.T, c *kube.Client) error {
		_, err := kube.List[*configMap](t.Context(), c, kube.Query{Resource: configMaps}, kube.ListOptions{})
		return err
	},
	"watch": func(t *testing.T, c *kube.Client) error {
		w, err := kube.Watch[*configMap](t.Context(), c, kube.Query{Resource: configMaps}, kube.WatchOptions{})
		if err == nil {
			_ = w.Close()
		}
		return err
	},
	"create": func(t *testing.T, c *kube.Client) error {
		body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "new"}}
		return c.Create(t.Context(), configMaps, "default", body, nil, kube.WriteOptions{})
	},
	"patch": func(t *testing.T, c *kube.Client) error {
		return c.Patch(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, kube.MergePatch,
			map[string]any{"data": map[string]any{"n": "1"}}, nil, kube.WriteOptions{})
	},
	"delete": func(t *testing.T, c *kube.Client) error {
		return c.Delete(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, kube.DeleteOptions{})
	},
}

func TestALimitedClientSendsWhatIsDeclaredAndNothingElse(t *testing.T) {
	for declared := range attempts {
		inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
			create(t, c, "a")
			limited := c.Limit([]kube.Right{{Resource: configMaps, Verbs: []string{declared}}})
			for verb, attempt := range attempts {
				err := attempt(t, limited)
				switch {
				case verb == declared && err != nil:
					t.Errorf("%s is declared: %v", verb, err)
				case verb != declared && (!errors.Is(err, kube.ErrNotDeclared) ||
					!strings.Contains(err.Error(), verb+" on configmaps")):
					t.Errorf("%s, where only %s is declared: %v, want it to say that %s on configmaps is missing",
						verb, declared, err, verb)
				}
			}
			var now configMap
			err := c.Get(t.Context(), configMaps, kube.Key{Namespace: "default", Name: "a"}, &now)
			if gone := kube.IsNotFound(err); gone != (declared == "delete") {
				t.Errorf("where %s is declared, the object is gone: %t", declared, gone)
			}
			if patched := now.Data["n"] == "1"; patched != (declared == "patch") {
				t.Errorf("where %s is declared, the object was patched: %t", declared, patched)
			}
		})
	}
}

func TestARightOnAnObjectIsNoneOnItsSubresourceAndNoneOnAnotherGroup(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
		limited := c.Limit([]kube.Right{{Resource: pods, Verbs: []string{"patch"}}})
		patch := func(r kube.Resource, subresource string) error {
			return limited.Patch(t.Context(), r, kube.Key{Namespace: "default", Name: "a"}, kube.MergePatch,
				struct{}{}, nil, kube.WriteOptions{Subresource: subresource})
		}
		if err := patch(pods, ""); !kube.IsNotFound(err) {
			t.Errorf("patch pods: %v, want the server's answer", err)
		}
		if err := patch(pods, "status"); !errors.Is(err, kube.ErrNotDeclared) ||
			!strings.Contains(err.Error(), "patch on pods/status") {
			t.Errorf("patch pods/status: %v", err)
		}
		metrics := kube.Resource{Group: "metrics.k8s.io", Version: "v1", Plural: "pods", Kind: "Pod"}
		if err := patch(metrics, ""); !errors.Is(err, kube.ErrNotDeclared) {
			t.Errorf("patch pods.metrics.k8s.io: %v", err)
		}
	})
}

func TestALimitIsNeverWidened(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		get := []kube.Right{{Resource: configMaps, Verbs: []string{"get"}}}
		both := []kube.Right{{Resource: configMaps, Verbs: []string{"get", "list"}}}
		if err := attempts["list"](t, c.Limit(get).Limit(both)); !errors.Is(err, kube.ErrNotDeclared) {
			t.Errorf("list: %v, want the first limit to hold", err)
		}
		deployments := kube.Resource{Group: "apps", Version: "v2", Plural: "deployments", Kind: "Deployment"}
		if got := c.Limit(get).OtherVersions(t.Context(), deployments); len(got) != 1 || got[0] != "v1" {
			t.Errorf("discovery, which needs no right, has %v, want v1", got)
		}
		if _, err := c.Limit(both).Raw(t.Context(), http.MethodGet, "/version",
			nil); !errors.Is(err, kube.ErrNotDeclared) {
			t.Errorf("a path that is no resource: %v", err)
		}
	})
}
