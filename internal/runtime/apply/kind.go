package apply

import (
	"fmt"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Live is a child as it is cached: its metadata, all else that can be declared as one JSON object, and S, the fields
// of its status that the operator reads (kube.Raw for a kind that is known only at run time).
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
	// Body holds all other members as one JSON object: spec, or data, or rules ...; nil if there are none. A child
	// that is as declared is kept without it: see Read.
	Body kube.Raw `json:",embed"`

	light bool // Body was dropped
	read  any  // what Kind.Reading reads of it
}

func (c *Content) content() *Content { return c }

// object is a *Live[S] whatever its S.
type object interface {
	kube.Object
	content() *Content
	withoutBody(read any) object
	blank() object
}

// LiveObject is object for other packages. A function with a type parameter of it is compiled once, not for each S.
type LiveObject interface{ object }

// blank returns a new *Live[S].
func (l *Live[S]) blank() object { return new(Live[S]) }

// withoutBody returns a copy that takes a tenth of the memory.
func (l *Live[S]) withoutBody(read any) object {
	light := *l
	light.Body, light.light, light.read = nil, true, read
	return &light
}

// As returns the live child of a Result as what its mirror holds, nil if there is none.
func As[S any](live kube.Object) *Live[S] {
	l, _ := live.(*Live[S])
	return l
}

// Read returns what R declares of the body of a child, an R that its Kind was made to read (see Kind.Reading). The
// engine keeps that when it drops the body.
func Read[R any](live kube.Object) (R, error) {
	c := live.(object).content()
	if read, ok := c.read.(*R); ok {
		return *read, nil
	}
	var read R
	if len(c.Body) == 0 {
		return read, nil
	}
	if err := kube.Unmarshal(c.Body, &read); err != nil {
		return read, fmt.Errorf("read %s: %w", c.Key(), err)
	}
	return read, nil
}

// Strategy says how the children of a kind are brought from one declared state to the next.
type Strategy struct {
	onDelete bool
}

var (
	// InPlace changes a child by server-side apply.
	InPlace = Strategy{}
	// OnDelete creates a child and never changes it: what is declared holds for the one that is created when it was
	// deleted.
	OnDelete = Strategy{onDelete: true}
)

// Kind is one kind of children.
type Kind struct {
	resource   kube.Resource
	apiVersion string
	schema     *patch.Node // nil for a custom resource
	strategy   Strategy
	mirror     mirror
	reads      func() any // nil: nothing

	replacing *replacing // of kinds made by Replace, which have of the above only what names them; nil: of others
}

// Of returns the kind of children that a mirror of *Live holds.
func Of[T LiveObject](m *cache.Store[T], strategy Strategy) Kind {
	r := m.Resource()
	return Kind{resource: r, apiVersion: r.APIVersion(), schema: patch.SchemaFor(r.APIVersion(), r.Kind),
		strategy: strategy, mirror: mirrorOf[T]{m}}
}

// Reading has the engine keep what a struct declares of the body of a child, for Read; to must return a pointer to a
// new one.
func (k Kind) Reading(to func() any) Kind {
	k.reads = to
	return k
}

// Reads makes the argument of Reading for a struct R.
func Reads[R any]() any { return new(R) }

// readOf returns what is kept of the body of a child; nil: nothing is, or it does not decode.
func (k *Kind) readOf(c *Content) any {
	if k.reads == nil {
		return nil
	}
	read := k.reads()
	if len(c.Body) > 0 && kube.Unmarshal(c.Body, read) != nil {
		return nil
	}
	return read
}

// mirror is a Store of *Live[S] whatever its S.
type mirror interface {
	get(k kube.Key) (object, bool, error)
	owned(namespace, uid string) ([]object, error)
	countOwned(namespace, uid string) (int, error)
	reached(namespace, rv string, written time.Time) bool
	swap(old, light object)
	empty() object // to decode an answer into
}

type mirrorOf[T LiveObject] struct{ store *cache.Store[T] }

func (m mirrorOf[T]) get(k kube.Key) (object, bool, error) {
	live, ok, err := m.store.Get(k)
	if !ok {
		return nil, false, err // not a nil *Live[S], which would be an object that is not nil
	}
	return live, true, err
}

func (m mirrorOf[T]) owned(namespace, uid string) ([]object, error) {
	all, err := m.store.ByOwner(namespace, uid)
	out := make([]object, len(all))
	for i, live := range all {
		out[i] = live
	}
	return out, err
}

func (m mirrorOf[T]) countOwned(namespace, uid string) (int, error) {
	return m.store.CountByOwner(namespace, uid)
}

func (m mirrorOf[T]) reached(namespace, rv string, written time.Time) bool {
	return m.store.Reached(namespace, rv, written)
}

func (m mirrorOf[T]) swap(old, light object) { m.store.Swap(old.(T), light.(T)) }

func (m mirrorOf[T]) empty() object {
	var none T
	return none.blank() // which does not look at it
}
