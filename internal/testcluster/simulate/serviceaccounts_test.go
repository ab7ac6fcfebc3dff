package simulate

import (
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func TestEachNamespaceHasItsServiceAccountAndTheRootCA(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(namespaceResource, "", map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "shop"}})
		b.rest(time.Second)
		have := func(namespace string) (account, ca bool) {
			account = b.api.Get(serviceAccountResource, kube.Key{Namespace: namespace, Name: "default"}) != nil
			m := b.api.Get(configMapResource, kube.Key{Namespace: namespace, Name: "kube-root-ca.crt"})
			return account, str(m, "data", "ca.crt") == testCA
		}
		for _, namespace := range []string{"default", "kube-node-lease", "kube-public", "kube-system", "shop"} {
			if account, ca := have(namespace); !account || !ca {
				b.Errorf("namespace %s: its ServiceAccount exists: %t, its root CA: %t", namespace, account, ca)
			}
		}

		b.delete(serviceAccountResource, "default", "")
		b.patch(configMapResource, "kube-root-ca.crt", map[string]any{"data": map[string]any{"ca.crt": "forged"}})
		b.rest(time.Second)
		if account, ca := have("default"); !account || !ca {
			b.Errorf("after they were changed: the ServiceAccount exists: %t, the root CA is right: %t", account, ca)
		}

		if err := b.client.Delete(b.Context(), namespaceResource, kube.Key{Name: "shop"},
			kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.rest(time.Minute)
		if b.api.Get(namespaceResource, kube.Key{Name: "shop"}) != nil {
			b.Error("the namespace does not go away: its ServiceAccount or its ConfigMap is created again and again")
		}
	})
}

func TestPartsOfTheSimulationCanBeSwitchedOff(t *testing.T) {
	for part, missing := range map[Part]func(b *bench) bool{
		GC: func(b *bench) bool {
			b.delete(replicaSetResource, b.names(replicaSetResource)[0], kube.Background)
			b.rest(time.Minute)
			return len(b.names(podResource)) == 2 // the old pod, and that of the new replica set
		},
		ServiceAccounts: func(b *bench) bool { return len(b.names(serviceAccountResource)) == 0 },
		Deployments:     func(b *bench) bool { return len(b.names(replicaSetResource)) == 0 },
		Pods:            func(b *bench) bool { return len(b.api.List(nodeResource, "")) == 0 },
	} {
		t.Run(string(part), func(t *testing.T) {
			simulatedWith(t, Options{Without: []Part{part}}, func(b *bench) {
				b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
				b.rest(time.Minute)
				if !missing(b) {
					b.Errorf("%s is switched off and still works", part)
				}
			})
			simulatedWith(t, Options{}, func(b *bench) {
				b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 1))
				b.rest(time.Minute)
				if missing(b) {
					b.Errorf("%s is not switched off and does not work", part)
				}
			})
		})
	}
}
