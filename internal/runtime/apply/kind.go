package apply

import (
	"encoding/json"
	"fmt"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Live is a child in the form of the cache: the metadata, all other fields that can be declared as one JSON object,
// and S, the status fields read by the operator (kube.Raw for a kind known only at run time).
type Live[S any] struct {
	Content
	Status S `json:"status"`
}

// Content is the compared part of a child.
type Content struct {
	kube.MetaWhole `json:"metadata"`
	// An answer and a watch event have both fields, an item of a list has neither.
	APIVersion kube.Skipped `json:"apiVersion"`
	Kind       kube.Skipped `json:"kind"`
	// Body holds all other members as one JSON object: spec, or data, or rules ...; nil if there are none. A child in
	// sync is kept without Body: see Read.
	Body kube.Raw `json:",embed"`

	light bool // Body was dropped
	read  any  // of Body, by Kind.Reading
}

func (c *Content) content() *Content { return c }

// object is a *Live[S] of any S.
type object interface {
	kube.Object
	content() *Content
	withoutBody(read any) kube.Object
	blank() kube.Object
	statusJSON() []byte
}

// contentOf returns the compared part of a child, nil for a kind cached without a Content.
func contentOf(live kube.Object) *Content {
	if l, ok := live.(object); ok {
		return l.content()
	}
	return nil
}

// LiveObject is object for other packages. A function with a type parameter of LiveObject is compiled once, not for
// each S.
type LiveObject interface{ object }

// blank returns a new *Live[S].
func (l *Live[S]) blank() kube.Object { return new(Live[S]) }

// withoutBody returns a copy with a tenth of the memory.
func (l *Live[S]) withoutBody(read any) kube.Object {
	light := *l
	light.Body, light.light, light.read = nil, true, read
	return &light
}

// Shown returns the conditions in a status kept as JSON; none for other statuses, or where the conditions do not
// follow the API conventions.
func (l *Live[S]) Shown() []conditions.Condition {
	raw, ok := any(l.Status).(kube.Raw)
	if !ok || len(raw) == 0 {
		return nil
	}
	var status struct {
		Conditions []conditions.Condition `json:"conditions"`
	}
	if json.Unmarshal(raw, &status) != nil {
		return nil
	}
	return status.Conditions
}

// As returns the live child of a Result in the type of its mirror, nil if there is none.
func As[S any](live kube.Object) *Live[S] {
	l, _ := live.(*Live[S])
	return l
}

// Read returns the fields of a child's body declared by R, the struct given to the Kind (see Kind.Reading). The engine
// keeps the R when the body is dropped.
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

// Kind is one kind of children.
type Kind struct {
	resource   kube.Resource
	apiVersion string
	schema     *patch.Node // nil for a custom resource
	mirror     mirror
	reads      func() any // nil: nothing
	strategy   Strategy
	whole      bool       // children keep their body
	scarce     *nodePorts // of Services, because a cluster can run out of node ports; nil: of other kinds
	template   *template  // of kinds made by Replace, with children from one template; nil: of other kinds
}

// Of returns the kind of children held by a mirror of *Live.
func Of[T LiveObject](m *cache.Store[T], strategy Strategy) Kind {
	var none T
	kind := kindOf(m, none.blank, strategy) // blank does not look at its receiver
	kind.scarce = scarceFor(kind.resource)
	return kind
}

func kindOf[T kube.Object](m *cache.Store[T], blank func() kube.Object, strategy Strategy) Kind {
	r := m.Resource()
	return Kind{resource: r, apiVersion: r.APIVersion(), schema: patch.SchemaFor(r.APIVersion(), r.Kind),
		mirror: mirrorOf[T]{m, blank}, strategy: strategy}
}

// Reading has the engine keep the fields of a child's body declared by a struct, for Read; to must return a pointer to
// a new struct.
func (k Kind) Reading(to func() any) Kind {
	k.reads = to
	return k
}

// Whole has the engine keep children with their bodies, for a caller that passes the children on.
func (k Kind) Whole() Kind {
	k.whole = true
	return k
}

// Reads makes the argument of Reading for a struct R.
func Reads[R any]() any { return new(R) }

// readOf returns the kept part of a child's body; nil: nothing is kept, or the body does not decode.
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

// mirror is a Store of any type.
type mirror interface {
	get(k kube.Key) (kube.Object, bool, error)
	head(k kube.Key) (kube.Object, bool)                // the metadata of an object too large to hold
	owned(namespace, uid string) ([]kube.Object, error) // objects not held come with metadata alone
	countOwned(namespace, uid string) (int, error)
	reached(namespace, rv string, written time.Time) bool
	swap(old, same kube.Object) bool
	empty() kube.Object // to decode an answer into
}

type mirrorOf[T kube.Object] struct {
	store *cache.Store[T]
	blank func() kube.Object
}

func (m mirrorOf[T]) get(k kube.Key) (kube.Object, bool, error) {
	live, ok, err := m.store.Get(k)
	if !ok {
		return nil, false, err // a nil *Live[S] would be a non-nil kube.Object
	}
	return live, true, err
}

func (m mirrorOf[T]) head(k kube.Key) (kube.Object, bool) {
	head, ok := m.store.Head(k)
	return head, ok
}

func (m mirrorOf[T]) owned(namespace, uid string) ([]kube.Object, error) {
	all, err := m.store.KnownByOwner(namespace, uid)
	if cache.Unheld(err) != nil { // a deletion makes room: begin with the known children
		err = nil
	}
	out := make([]kube.Object, len(all))
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

func (m mirrorOf[T]) swap(old, same kube.Object) bool { return m.store.Swap(old.(T), same.(T)) }

func (m mirrorOf[T]) empty() kube.Object { return m.blank() }
