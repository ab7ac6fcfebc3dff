package kube_test

import (
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// Rules: LST-23
func TestASelectorReachesTheServerAsItIsWritten(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		for name, labels := range map[string]map[string]string{
			"a": {"app": "web", "example.com/part-of": "shop"}, "b": {"app": "db-1", "tier": ""}, "c": {"tier": "v1.2_3"},
		} {
			body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": name, "labels": labels}}
			if err := c.Create(t.Context(), configMaps, "default", body, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for selectors, want := range map[[2]string]string{
			{"app=web"}: "a", {"app==web"}: "a", {"app!=web"}: "b c", {"app in (web,db-1)"}: "a b",
			{"tier notin (,x)"}: "a c", {"tier"}: "b c", {"!tier"}: "a", {"tier="}: "b", {"app,tier"}: "b",
			{"example.com/part-of=shop"}: "a", {"tier=v1.2_3,!app"}: "c", {"", "metadata.name!=b"}: "a c",
			{"app", "metadata.name=b,metadata.namespace=default"}: "b",
		} {
			q := kube.Query{Resource: configMaps, Namespace: "default", LabelSelector: selectors[0], FieldSelector: selectors[1]}
			list, err := kube.List[*configMap](t.Context(), c, q, kube.ListOptions{})
			var got []string
			for _, m := range list.Items {
				got = append(got, m.Name)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%q: got %v, %v, want %s", selectors, got, err, want)
			}
		}
	})
}
