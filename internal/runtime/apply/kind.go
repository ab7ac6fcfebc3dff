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
	// Body holds all other members as one JSON object: spec, or data, or rules ...; nil if there are none. See Read.
	Body kube.Raw `json:",embed"`
}

func (c *Content) content() *Content { return c }

// object is a *Live[S] of any S.
type object interface {
	kube.Object
	content() *Content
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

// Read returns the fields of a child's body declared by R, a struct.
func Read[R any](live kube.Object) (R, error) {
	c := live.(object).content()
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
	strategy   Strategy
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

// mirror is a Store of any type.
type mirror interface {
	get(k kube.Key) (kube.Object, bool, error)
	head(k kube.Key) (kube.Object, bool)                // the metadata of an object too large to hold
	owned(namespace, uid string) ([]kube.Object, error) // objects not held come with metadata alone
	countOwned(namespace, uid string) (int, error)
	reached(namespace, rv string, written time.Time) bool
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

func (m mirrorOf[T]) empty() kube.Object { return m.blank() }

// ReplaceOptions say how children of a kind are replaced that are made from one template and cannot be changed, such
// as pods. All of it is data and pure functions.
type ReplaceOptions[T kube.Object] struct {
	New func() T // a child to read into
	// Revision is the key of the label that identifies a child's template. Every child declares a value. A child with
	// another value is replaced.
	Revision string
	// Selector are the keys of the labels by which the children are found. Lost labels are restored, and an object
	// without an owner is adopted only with the declared values.
	Selector []string
	// Ready says whether a child is ready, and since when.
	Ready func(T) (since time.Time, ok bool)
	// Ended says how a child ended, and false if the child has not ended.
	Ended func(T) (how string, ended bool)
}

// Replace returns a kind whose children, held by a mirror, are replaced: missing children are created, and a child of
// another revision is deleted and created again, the last declared first.
func Replace[T kube.Object](m *cache.Store[T], o ReplaceOptions[T]) Kind {
	kind := kindOf(m, func() kube.Object { return o.New() }, replace{})
	kind.template = &template{
		revision: o.Revision,
		selector: o.Selector,
		ready:    func(object kube.Object) (time.Time, bool) { return o.Ready(object.(T)) },
		ended:    func(object kube.Object) (string, bool) { return o.Ended(object.(T)) },
	}
	return kind
}

// template describes the children made from one template; see ReplaceOptions.
type template struct {
	revision string
	selector []string
	ready    func(kube.Object) (time.Time, bool)
	ended    func(kube.Object) (string, bool)
}

// vitals are the state of a child made from a template.
type vitals struct {
	made    string // the revision of the child's template
	ended   bool   // how says how
	how     string
	ready   bool // since then
	since   time.Time
	replace time.Time // earliest replacement of an ended child
}

func (t *template) vitalsOf(live kube.Object) vitals {
	var h vitals
	h.made, _ = live.ObjectMeta().Labels.Get(t.revision)
	h.how, h.ended = t.ended(live)
	h.since, h.ready = t.ready(live)
	return h
}
