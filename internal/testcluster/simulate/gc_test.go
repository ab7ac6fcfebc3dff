package simulate

import (
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

var (
	configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	widgets    = kube.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget"}
)

// configMap creates a ConfigMap with owners and returns it.
func (b *bench) configMap(name string, owners ...map[string]any) map[string]any {
	b.Helper()
	refs := []any{}
	for _, o := range owners {
		refs = append(refs, reference(o, true))
	}
	b.create(configMaps, "default", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "ownerReferences": refs}})
	return b.api.Get(configMaps, kube.Key{Namespace: "default", Name: name})
}

func reference(owner map[string]any, blocks bool) map[string]any {
	return map[string]any{"apiVersion": str(owner, "apiVersion"), "kind": str(owner, "kind"),
		"name": str(owner, "metadata", "name"),
		"uid":  str(owner, "metadata", "uid"), "blockOwnerDeletion": blocks}
}

// own returns the names of the ConfigMaps that a test created.
func (b *bench) own() []string {
	return slices.DeleteFunc(b.names(configMaps), func(name string) bool { return name == "kube-root-ca.crt" })
}

func (b *bench) wantOwn(want ...string) {
	b.Helper()
	if have := b.own(); !slices.Equal(have, want) {
		b.Errorf("config maps are %q, want %q", have, want)
	}
}

func (b *bench) owners(name string) []string {
	list, _ := at(b.api.Get(configMaps, kube.Key{Namespace: "default", Name: name}), "metadata",
		"ownerReferences").([]any)
	var out []string
	for _, ref := range list {
		out = append(out, str(ref, "name"))
	}
	return out
}

// Rules: FG-01, FG-08
func TestBackgroundDeletionRemovesTheOwnerFirst(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 3))
		b.rest(time.Minute)
		before, pods := b.api.Revision(), b.names(podResource)
		b.delete(deploymentResource, "web", kube.Background)
		b.wantNames(deploymentResource)
		if now := b.names(podResource); !slices.Equal(now, pods) {
			b.Errorf("right after the deletion the pods are %q, want %q", now, pods)
		}
		for range 200 {
			b.rest(20 * time.Millisecond)
			for _, name := range b.names(podResource) {
				if !slices.Contains(pods, name) {
					b.Fatalf("pod %s was created after the deletion", name)
				}
			}
		}
		b.wantNames(replicaSetResource)
		b.wantNames(podResource)
		if b.api.Revision() < before+1+1+3 {
			b.Error("the dependents went without writes of their own")
		}
	})
}

// Rules: FG-02
func TestForegroundDeletionRemovesTheDependentsFirst(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(deploymentResource, "default", deploymentBody("web", "nginx:1", 2))
		b.rest(time.Minute)
		b.delete(deploymentResource, "web", kube.Foreground)
		sawBoth := false
		for range 50 {
			b.rest(100 * time.Millisecond)
			d, sets, pods := len(b.names(deploymentResource)), len(b.names(replicaSetResource)),
				len(b.names(podResource))
			if d < sets || sets == 0 && pods > 0 {
				b.Fatalf("there are %d deployments, %d replica sets and %d pods: an owner went before its dependents",
					d, sets, pods)
			}
			sawBoth = sawBoth || d == 1 && pods > 0
		}
		if !sawBoth {
			b.Error("the deployment was never seen waiting for its pods")
		}
		b.wantNames(deploymentResource)
		b.wantNames(replicaSetResource)
		b.wantNames(podResource)
	})
}

// Rules: FG-03
func TestOrphanDeletionKeepsTheDependents(t *testing.T) {
	simulated(t, func(b *bench) {
		owner := b.configMap("owner")
		b.configMap("child", owner)
		b.delete(configMaps, "owner", kube.Orphan)
		b.rest(10 * time.Second)
		b.wantOwn("child")
		if refs := b.owners("child"); len(refs) != 0 {
			b.Errorf("the child still refers to %q", refs)
		}
	})
}

// Rules: FG-04
func TestADependentWithAnotherOwnerLosesOnlyTheReferenceToTheDeletedOne(t *testing.T) {
	simulated(t, func(b *bench) {
		b.configMap("child", b.configMap("one"), b.configMap("two"))
		b.delete(configMaps, "one", kube.Background)
		b.rest(10 * time.Second)
		b.wantOwn("child", "two")
		if refs := b.owners("child"); !slices.Equal(refs, []string{"two"}) {
			b.Errorf("the child refers to %q, want two", refs)
		}
		b.delete(configMaps, "two", kube.Background)
		b.rest(10 * time.Second)
		b.wantOwn()
	})
}

// Rules: FG-05
func TestARecreatedOwnerIsNotTheOldOwner(t *testing.T) {
	simulated(t, func(b *bench) {
		b.configMap("child", b.configMap("owner"))
		b.delete(configMaps, "owner", kube.Background)
		b.configMap("owner")
		b.rest(10 * time.Second)
		b.wantOwn("owner")
	})
}

func TestAnOwnerThatNeverExistedCountsAsDeleted(t *testing.T) {
	simulated(t, func(b *bench) {
		b.configMap("child", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "nobody", "uid": "none"}})
		b.rest(10 * time.Second)
		b.wantOwn()
	})
}

// Rules: FG-06
func TestAnOwnerInAnotherNamespaceCountsAsDeletedAndIsReported(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(configMaps, "kube-system", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "far"}})
		far := b.api.Get(configMaps, kube.Key{Namespace: "kube-system", Name: "far"})
		b.configMap("child", far)
		b.create(nodeResource, "", map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
			"name": "wide", "ownerReferences": []any{reference(far, false)}}})
		b.rest(10 * time.Second)
		b.wantOwn()
		if b.api.Get(configMaps, kube.Key{Namespace: "kube-system", Name: "far"}) == nil {
			b.Error("the owner is gone as well")
		}
		if b.api.Get(nodeResource, kube.Key{Name: "wide"}) == nil {
			b.Error("an object without a namespace was deleted for an owner that it cannot have")
		}
		var notes []string
		for _, e := range b.api.List(kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}, "") {
			if str(e, "reason") == "OwnerRefInvalidNamespace" {
				notes = append(notes, str(e, "involvedObject", "name")+": "+str(e, "message"))
			}
		}
		slices.Sort(notes)
		ref := func(namespace string) string {
			uid := str(far, "metadata", "uid")
			return "ownerRef [v1/ConfigMap, namespace: " + namespace + ", name: far, uid: " + uid +
				`] does not exist in namespace "` + namespace + `"`
		}
		if want := []string{"child: " + ref("default"), "wide: " + ref("")}; !slices.Equal(notes, want) {
			b.Errorf("Events %q, want %q", notes, want)
		}
	})
}

// Rules: FG-07
func TestTheDependentOfAKindThatIsNotInstalledWaitsForIt(t *testing.T) {
	simulated(t, func(b *bench) {
		widget := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "w", "uid": "none"}}
		b.configMap("child", widget)
		b.rest(time.Minute)
		b.wantOwn("child")

		b.create(crdResource, "", map[string]any{"apiVersion": "apiextensions.k8s.io/v1",
			"kind":     "CustomResourceDefinition",
			"metadata": map[string]any{"name": "widgets.example.com"},
			"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
				"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget",
					"listKind": "WidgetList"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}})
		b.rest(time.Minute)
		b.wantOwn() // now it is known that there is no such widget

		b.create(widgets, "default", map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "w"}})
		b.configMap("child", b.api.Get(widgets, kube.Key{Namespace: "default", Name: "w"}))
		b.rest(time.Minute)
		b.wantOwn("child")
		b.delete(widgets, "w", kube.Background)
		b.rest(time.Minute)
		b.wantOwn()
	})
}

// Rules: FG-09
func TestAPausedCollectorCollectsWhenItIsResumed(t *testing.T) {
	simulated(t, func(b *bench) {
		b.cluster.PauseGC(true)
		b.configMap("child", b.configMap("owner"))
		b.delete(configMaps, "owner", kube.Background)
		b.rest(time.Hour)
		b.wantOwn("child")
		b.cluster.PauseGC(false)
		b.rest(10 * time.Second)
		b.wantOwn()
	})
}
