package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

const (
	contentRemains   = "NamespaceContentRemaining"
	finalizersRemain = "NamespaceFinalizersRemaining"
)

// deletionConditions are those of a namespace that is being deleted, in the words of the real controller. failed is
// the reason if something is left, and what begins the list of it; the first three do not fail here.
var deletionConditions = []struct{ kind, reason, message, failed, what string }{
	{"NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered", "", ""},
	{"NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions",
		"All legacy kube types successfully parsed", "", ""},
	{"NamespaceDeletionContentFailure", "ContentDeleted",
		"All content successfully deleted, may be waiting on finalization", "", ""},
	{contentRemains, "ContentRemoved", "All content successfully removed", "SomeResourcesRemain",
		"Some resources are remaining: "},
	{finalizersRemain, "ContentHasNoFinalizers", "All content-preserving finalizers finished", "SomeFinalizersRemain",
		"Some content in the namespace has finalizers remaining: "},
}

// emptyNamespaces deletes the content of namespaces that are being deleted, and then the namespaces.
func (s *Server) emptyNamespaces() {
	for marked := true; marked; marked = marked && faults.Sleep(s.ctx, removalGap) {
		marked = false
		s.store.Update(func(tx *store.Tx) error {
			for _, ns := range tx.List("namespaces", "") {
				if ns.Deleting && len(obj.Slice(ns.Value(), "spec", "finalizers")) > 0 {
					marked = s.emptyNamespace(tx, ns) || marked
				}
			}
			return nil
		})
	}
}

// emptyNamespace deletes what is in a namespace, the pods before all else, and says in its conditions what is left. As
// on a real server these say nothing about pods that the rest waits for. Where pods are only marked, as remove does,
// nothing is said before a second call, which deletes them.
func (s *Server) emptyNamespace(tx *store.Tx, ns *store.Object) (marked bool) {
	objects, finalizers := map[string]int{}, map[string]int{}
	pods := func(k *kinds.Kind) bool { return k.Plural == "pods" && k.Group == "" }
	clearAll := func(is func(*kinds.Kind) bool) {
		for _, k := range s.registry.all() {
			if k.ClusterScoped || k.Table != "" && k.Group != "" || !is(k) { // each table once
				continue
			}
			if left := s.empty(tx, k, ns.Name); left > 0 {
				objects[k.Plural+"."+k.Group+" has"] = left
			}
			for _, o := range tx.List(k.TableName(), ns.Name) {
				marked = marked || isRemovable(o.Value())
				for _, f := range obj.Slice(o.Value(), "metadata", "finalizers") {
					finalizers[fmt.Sprint(f)+" in"]++
				}
			}
		}
	}
	wait := false
	if s.opts.Features.On("OrderedNamespaceDeletion") {
		clearAll(pods)
		wait = len(objects) > 0
	}
	if !wait {
		clearAll(func(k *kinds.Kind) bool { return true })
	}
	if marked {
		return true
	}
	next := obj.Clone(ns.Value())
	left := map[string]map[string]int{contentRemains: objects, finalizersRemain: finalizers}
	for _, c := range deletionConditions {
		status, reason, message := "False", c.reason, c.message
		if left := left[c.kind]; len(left) > 0 && !wait {
			status, reason, message = "True", c.failed, c.what+counted(left)
		}
		setCondition(next, c.kind, status, reason, message)
	}
	if len(objects) == 0 {
		obj.Remove(next, "spec", "finalizers")
		if len(obj.Slice(next, "metadata", "finalizers")) == 0 {
			tx.Delete("namespaces", ns.Key, next)
			return false
		}
	}
	if !patch.Equal(next, ns.Value()) {
		tx.Put("namespaces", ns.Key, next, ns.Shape)
	}
	return false
}

// counted lists what there is, with its numbers.
func counted(counts map[string]int) string {
	var out []string
	for _, of := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s %d resource instances", of, counts[of]))
	}
	return strings.Join(out, ", ")
}
