package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// configMap creates a ConfigMap whose owners are other objects, and returns it.
func (b *bench) configMap(name string, owners ...object) object {
	b.Helper()
	refs := []any{}
	for _, o := range owners {
		refs = append(refs, reference(o))
	}
	b.createObject(configMapResource, name, object{"metadata": object{"ownerReferences": refs}})
	return b.get(configMapResource, name)
}

func reference(owner object) object {
	return object{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": at(owner, "metadata name"),
		"uid": at(owner, "metadata uid"), "blockOwnerDeletion": true}
}

// wantOwn compares the ConfigMaps that a test created.
func (b *bench) wantOwn(want ...string) {
	b.Helper()
	have := slices.DeleteFunc(b.names(configMapResource), func(name string) bool { return name == rootCA })
	if !slices.Equal(have, want) {
		b.Errorf("config maps are %q, want %q", have, want)
	}
}

// Rules: FG-01, FG-08
func TestBackgroundDeletionRemovesTheOwnerFirst(t *testing.T) {
	simulated(t, func(b *bench) {
		b.web(3)
		b.rest(time.Minute)
		before, pods := b.api.Revision(), b.names(podResource)
		b.delete(deploymentResource, "web", kube.Background)
		b.wantNames(deploymentResource)
		b.wantNames(podResource, pods...)
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
		b.web(2)
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
		b.configMap("child", b.configMap("owner"))
		b.delete(configMapResource, "owner", kube.Orphan)
		b.rest(10 * time.Second)
		b.wantOwn("child")
		b.want(configMapResource, "child", "metadata ownerReferences =")
	})
}

// Rules: FG-04
func TestADependentWithAnotherOwnerLosesOnlyTheReferenceToTheDeletedOne(t *testing.T) {
	simulated(t, func(b *bench) {
		b.configMap("child", b.configMap("one"), b.configMap("two"))
		b.delete(configMapResource, "one", kube.Background)
		b.rest(10 * time.Second)
		b.wantOwn("child", "two")
		b.want(configMapResource, "child", "metadata ownerReferences 0 name = two", "metadata ownerReferences 1 =")
		b.delete(configMapResource, "two", kube.Background)
		b.rest(10 * time.Second)
		b.wantOwn()
	})
}

// Rules: FG-05
func TestARecreatedOwnerIsNotTheOldOwner(t *testing.T) {
	simulated(t, func(b *bench) {
		b.configMap("child", b.configMap("owner"))
		b.configMap("stray", b.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: never-existed, uid: none}}"))
		b.delete(configMapResource, "owner", kube.Background)
		b.configMap("owner")
		b.rest(10 * time.Second)
		b.wantOwn("owner")
	})
}

// Rules: FG-06
func TestAnOwnerInAnotherNamespaceCountsAsDeletedAndIsReported(t *testing.T) {
	simulated(t, func(b *bench) {
		b.must(b.client.Create(b.Context(), configMapResource, "kube-system",
			b.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: far}}"), nil, kube.WriteOptions{}))
		key := kube.Key{Namespace: "kube-system", Name: "far"}
		far := b.api.Get(configMapResource, key)
		b.configMap("child", far)
		b.createObject(nodeResource, "wide", object{"metadata": object{"ownerReferences": []any{reference(far)}}})
		b.rest(10 * time.Second)
		b.wantOwn()
		if b.api.Get(configMapResource, key) == nil {
			b.Error("the owner is gone as well")
		}
		if b.get(nodeResource, "wide") == nil {
			b.Error("an object without a namespace was deleted for an owner that it cannot have")
		}
		var notes []string
		for _, e := range b.api.List(kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}, "") {
			if str(e, "reason") == "OwnerRefInvalidNamespace" {
				notes = append(notes, str(e, "involvedObject name")+": "+str(e, "message"))
			}
		}
		note := func(object, namespace string) string {
			return fmt.Sprintf("%s: ownerRef [v1/ConfigMap, namespace: %s, name: far, uid: %s] does not exist in "+
				"namespace %q", object, namespace, str(far, "metadata uid"), namespace)
		}
		slices.Sort(notes)
		if want := []string{note("child", "default"), note("wide", "")}; !slices.Equal(notes, want) {
			b.Errorf("Events %q, want %q", notes, want)
		}
	})
}

// Rules: FG-07
func TestTheDependentOfAKindThatIsNotInstalledWaitsForIt(t *testing.T) {
	widgets := kube.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget"}
	simulated(t, func(b *bench) {
		b.configMap("child", b.parse("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, uid: none}}"))
		b.rest(time.Minute)
		b.wantOwn("child")
		b.create(crdResource, "widgets.example.com", `{spec: {group: example.com, scope: Namespaced,
			names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
		b.rest(time.Minute)
		b.wantOwn() // now it is known that there is no such widget

		b.create(widgets, "w", "{}")
		b.configMap("child", b.get(widgets, "w"))
		b.rest(time.Minute)
		b.wantOwn("child")
		b.delete(widgets, "w", kube.Background)
		b.rest(time.Minute)
		b.wantOwn()
	})
}

func TestOwnersInACircleThatAreDeletedInTheForegroundGo(t *testing.T) {
	simulated(t, func(b *bench) {
		first := b.configMap("a")
		second := b.configMap("b", first)
		third := b.configMap("c", second)
		b.patchObject(configMapResource, "a", "", kube.MergePatch,
			object{"metadata": object{"ownerReferences": []any{reference(third)}}})
		b.delete(configMapResource, "a", kube.Foreground)
		b.rest(time.Minute)
		b.wantOwn()
	})
}

// Rules: FG-09
func TestAPausedCollectorCollectsWhenItIsResumed(t *testing.T) {
	simulated(t, func(b *bench) {
		b.cluster.PauseGC(true)
		b.configMap("child", b.configMap("owner"))
		b.delete(configMapResource, "owner", kube.Background)
		b.rest(10 * time.Minute)
		b.wantOwn("child")
		b.cluster.PauseGC(false)
		b.rest(10 * time.Second)
		b.wantOwn()
	})
}

func BenchmarkGraph10kObjects(b *testing.B) {
	var all []vertex
	for i := range 10_000 {
		o := &anyObject{}
		o.UID = fmt.Sprint(i)
		if i > 100 {
			o.OwnerReferences = []kube.OwnerReference{{UID: fmt.Sprint(i % 100)}}
		}
		all = append(all, vertex{o, podResource})
	}
	for b.Loop() {
		newGraph(all)
	}
}
