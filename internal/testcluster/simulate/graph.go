package simulate

import (
	"slices"

	"skiff/internal/runtime/kube"
)

// object is the part of any object that the garbage collector reads.
type object struct {
	kube.Meta `json:"metadata"`
}

// vertex is an object with its resource.
type vertex struct {
	*object
	resource kube.Resource
}

// graph has the ownership among all objects, as the mirrors show it at one moment.
type graph struct {
	all        []vertex
	byUID      map[string]vertex
	dependents map[string][]vertex // by owner uid
}

func newGraph(all []vertex) *graph {
	g := &graph{all: all, byUID: map[string]vertex{}, dependents: map[string][]vertex{}}
	for _, v := range all {
		g.byUID[v.UID] = v
		for _, ref := range v.OwnerReferences {
			g.dependents[ref.UID] = append(g.dependents[ref.UID], v)
		}
	}
	return g
}

// owner returns the object that an owner reference of v names. A reference to another namespace is invalid and finds
// nothing.
func (g *graph) owner(v vertex, ref kube.OwnerReference) (vertex, bool) {
	o, ok := g.byUID[ref.UID]
	if !ok || o.Namespace != "" && o.Namespace != v.Namespace {
		return vertex{}, false
	}
	return o, true
}

// blocking returns the dependents of v that block its foreground deletion.
func (g *graph) blocking(v vertex) []vertex {
	return slices.DeleteFunc(slices.Clone(g.dependents[v.UID]), func(d vertex) bool {
		return !slices.ContainsFunc(d.OwnerReferences, func(ref kube.OwnerReference) bool {
			return ref.UID == v.UID && ref.BlockOwnerDeletion
		})
	})
}

// The finalizers that the garbage collector handles.
const (
	foreground = "foregroundDeletion"
	orphan     = "orphan"
)

func (v vertex) has(finalizer string) bool { return slices.Contains(v.Finalizers, finalizer) }

// waits reports whether v is deleted once its dependents are.
func (v vertex) waits() bool { return v.Deleting() && v.has(foreground) }
