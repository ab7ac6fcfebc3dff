package simulate

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func TestEachNamespaceHasItsServiceAccountAndTheRootCA(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(namespaceResource, "shop", "{}")
		want := func(namespaces ...string) {
			b.rest(time.Second)
			for _, namespace := range namespaces {
				if b.api.Get(serviceAccountResource, kube.Key{Namespace: namespace, Name: "default"}) == nil {
					b.Errorf("namespace %s has no ServiceAccount", namespace)
				}
				if m := b.api.Get(configMapResource, kube.Key{Namespace: namespace, Name: rootCA}); at(m,
					"data ca.crt") != testCA {
					b.Errorf("the root CA of namespace %s is %v", namespace, m)
				}
			}
		}
		want("default", "kube-node-lease", "kube-public", "kube-system", "shop")
		b.delete(serviceAccountResource, "default", "")
		b.patch(configMapResource, rootCA, "{data: {ca.crt: forged}}")
		want("default")
		b.delete(namespaceResource, "shop", "")
		b.rest(time.Minute)
		if b.get(namespaceResource, "shop") != nil {
			b.Error("the namespace does not go away: its ServiceAccount or its ConfigMap is created again and again")
		}
	})
}

func TestPartsOfTheSimulationCanBeSwitchedOff(t *testing.T) {
	none := func(b *bench, r kube.Resource) bool { return len(b.names(r)) == 0 }
	for part, missing := range map[Part]func(b *bench) bool{
		GC: func(b *bench) bool {
			b.delete(replicaSetResource, b.names(replicaSetResource)[0], kube.Background)
			b.rest(time.Minute)
			return len(b.names(podResource)) == 2 // the old pod, and that of the new replica set
		},
		ServiceAccounts: func(b *bench) bool { return none(b, serviceAccountResource) },
		Deployments:     func(b *bench) bool { return none(b, replicaSetResource) },
		Pods:            func(b *bench) bool { return none(b, nodeResource) },
	} {
		for _, without := range [][]Part{nil, {part}} {
			t.Run(fmt.Sprint(part, len(without)), func(t *testing.T) {
				simulatedWith(t, Options{Without: without}, func(b *bench) {
					b.web(1)
					b.rest(time.Minute)
					if missing(b) != (without != nil) {
						b.Errorf("without %v, %s is missing: %t", without, part, without == nil)
					}
				})
			})
		}
	}
}
