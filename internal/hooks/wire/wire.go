// Package wire has the messages between skiff and a hook: requests are made of objects kept as bytes, and answers
// are read and checked.
//
// An answer comes from a foreign program: the whole answer is checked before any part counts, an error names the path
// of the fault, and memory, depth and the number of children are bounded. Package call takes a request to a hook;
// package reconcile carries an answer out. Pure functions on the caller's goroutine.
package wire

import (
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Hook names the question to a hook.
type Hook string

// The hooks.
const (
	Sync      Hook = "sync"
	Finalize  Hook = "finalize"
	Customize Hook = "customize"
)

// The versions of requests and answers. V1 under a namespaced parent knows only objects of the parent's namespace,
// and names objects without the namespace.
const (
	V1 = 1
	V2 = 2
)

// Item is an object for a request.
type Item struct {
	Key  kube.Key
	JSON kube.Raw // whole, with apiVersion and kind
}

// Group is the objects of a kind, possibly none.
type Group struct {
	Resource kube.Resource
	Items    []Item
}

// Request is a request to a hook.
type Request struct {
	Controller kube.Raw // the whole object
	Parent     kube.Raw // whole, with apiVersion and kind
	ParentKey  kube.Key
	Children   []Group
	Related    []Group
	Finalizing bool
}

// Encode returns the request in the version for a hook. The bytes of the objects are copied, not read. composite says
// that the controller is no DecoratorController.
func (r *Request) Encode(composite bool, version int, hook Hook) []byte {
	parent, children := `,"object":`, `,"attachments":`
	if composite || hook == Customize {
		parent, children = `,"parent":`, `,"children":`
	}
	out := make([]byte, 0, r.size())
	out = append(append(out, `{"controller":`...), r.Controller...)
	out = append(append(out, parent...), r.Parent...)
	if hook == Customize {
		return append(out, '}')
	}
	out = r.appendGroups(append(out, children...), r.Children, version)
	out = r.appendGroups(append(out, `,"related":`...), r.Related, version)
	if r.Finalizing {
		return append(out, `,"finalizing":true}`...)
	}
	return append(out, `,"finalizing":false}`...)
}

// frame bounds the bytes around the name of a kind or object in a request, and around all of a request.
const frame = 128

// size returns about how long the request will be.
func (r *Request) size() int {
	size := len(r.Controller) + len(r.Parent) + frame
	for _, groups := range [][]Group{r.Children, r.Related} {
		for _, g := range groups {
			size += frame
			for _, item := range g.Items {
				size += len(item.JSON) + len(item.Key.Namespace) + len(item.Key.Name) + len(`"/":,`)
			}
		}
	}
	return size
}

func (r *Request) appendGroups(out []byte, groups []Group, version int) []byte {
	out = append(out, '{')
	for i, g := range groups {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(patch.AppendString(out, mapKey(g.Resource)), `:{`...)
		first := true
		for _, item := range g.Items {
			key, ok := r.keyOf(item.Key, version)
			if !ok {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(append(patch.AppendString(out, key), ':'), item.JSON...)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// mapKey returns how a request names a kind: "Deployment.apps/v1".
func mapKey(r kube.Resource) string { return r.Kind + "." + r.APIVersion() }

// keyOf returns the name of an object in a request; false: the object is no part of requests of the version.
func (r *Request) keyOf(k kube.Key, version int) (string, bool) {
	if version == V1 && r.ParentKey.Namespace != "" {
		return k.Name, k.Namespace == r.ParentKey.Namespace
	}
	return k.String(), true
}
