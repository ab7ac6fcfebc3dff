package apply

import (
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// Live is a child as it is cached: its metadata, all else that can be declared as one JSON object, and S, the fields of its
// status that the operator reads (kube.Raw for a kind that is known only at run time).
type Live[S any] struct {
	Content
	Status S `json:"status"`
}

// Content is what a child is compared by.
type Content struct {
	kube.MetaAnnotated `json:"metadata"`
	// An answer and a watch event have these two, an item of a list has not.
	APIVersion kube.Skipped `json:"apiVersion"`
	Kind       kube.Skipped `json:"kind"`
	// Body holds all other members as one JSON object: spec, or data, or rules ...; nil if there are none.
	Body kube.Raw `json:",embed"`
}

func (c *Content) content() *Content { return c }

// object is a *Live[S] whatever its S.
type object interface {
	kube.Object
	content() *Content
}

// As returns the live child of a Result as what its mirror holds, nil if there is none.
func As[S any](live kube.Object) *Live[S] {
	l, _ := live.(*Live[S])
	return l
}

// Strategy says how the children of a kind are brought from one declared state to the next.
type Strategy struct{}

// InPlace changes a child by server-side apply.
var InPlace = Strategy{}

// Kind is one kind of children.
type Kind struct {
	resource kube.Resource
	schema   *patch.Node // nil for a custom resource
	strategy Strategy
	mirror   mirror
}

// Of returns the kind of children that a mirror holds.
func Of[S any](m *cache.Store[*Live[S]], strategy Strategy) Kind {
	r := m.Resource()
	return Kind{resource: r, schema: patch.SchemaFor(r.APIVersion(), r.Kind), strategy: strategy, mirror: mirrorOf[S]{m}}
}

// mirror is a Store of *Live[S] whatever its S.
type mirror interface {
	get(k kube.Key) (object, bool, error)
	owned(namespace, uid string) ([]object, error)
	reached(namespace, rv string, written time.Time) bool
	empty() object // to decode an answer into
}

type mirrorOf[S any] struct{ store *cache.Store[*Live[S]] }

func (m mirrorOf[S]) get(k kube.Key) (object, bool, error) {
	live, ok, err := m.store.Get(k)
	if !ok {
		return nil, false, err // not a nil *Live[S], which would be an object that is not nil
	}
	return live, true, err
}

func (m mirrorOf[S]) owned(namespace, uid string) ([]object, error) {
	all, err := m.store.ByOwner(namespace, uid)
	out := make([]object, len(all))
	for i, live := range all {
		out[i] = live
	}
	return out, err
}

func (m mirrorOf[S]) reached(namespace, rv string, written time.Time) bool {
	return m.store.Reached(namespace, rv, written)
}

func (m mirrorOf[S]) empty() object { return new(Live[S]) }
