package supervise_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// Rules: HK-13, HK-94
func TestAControllerGoesOnWhenItsParentsComeBackWithAnotherScope(t *testing.T) {
	for name, gone := range map[string]time.Duration{"at once": 0, "after a minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.installThings()
				w.put(strings.Replace(composite, `"apiVersion":"v1","resource":"configmaps"`,
					`"apiVersion":"v1","resource":"namespaces"`, 1))
				w.Pass(10 * time.Second)
				w.done(w.User.Delete(context.Background(), kube.Resource{Group: "apiextensions.k8s.io", Version: "v1",
					Plural: "customresourcedefinitions", ClusterScoped: true}, kube.Key{Name: "things.example.com"},
					kube.DeleteOptions{}))
				w.Pass(gone)
				crd, err := os.ReadFile("../reconcile/testdata/things.yaml")
				w.done(err)
				w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
					[]byte(strings.Replace(string(crd), "scope: Namespaced", "scope: Cluster", 1)))
				w.Pass(time.Second)
				cluster := things
				cluster.ClusterScoped = true
				w.done(w.User.Create(context.Background(), cluster, "", kube.Raw(`{"apiVersion":"example.com/v1",
					"kind":"Thing","metadata":{"name":"a"}}`), nil, kube.WriteOptions{}))
				w.Pass(time.Minute)
				w.Want("attention", len(w.hooks.Attention()), 0)
				w.Want("controllers", len(w.set.All()), 1)
				w.Want("cluster-scoped", w.set.All()[0].Resource().ClusterScoped, true)
				w.Want("children", w.API.Get(namespaces, kube.Key{Name: "a"}) != nil, true)
			})
		})
	}
}
