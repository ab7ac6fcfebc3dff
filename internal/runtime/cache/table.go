package cache

import (
	"iter"

	"skiff/internal/runtime/kube"
)

// table holds objects by namespace, then name. The outer level is the namespace index, so a place costs a string and
// a pointer instead of a whole Key. A namespace without objects has no bucket.
type table[T kube.Object] map[string]*bucket[T]

type bucket[T kube.Object] struct {
	namespace string // the copy of the string shared by the objects in the bucket
	byName    map[string]*entry[T]
}

// entry is the place of an object, and stays while versions of the object follow each other, so that an index of
// entries need not follow a version with the same values.
type entry[T kube.Object] struct{ obj T }

func (e *entry[T]) key() kube.Key { return e.obj.ObjectMeta().Key() }

func (t table[T]) get(k kube.Key) (T, bool) {
	if e := t.entry(k); e != nil {
		return e.obj, true
	}
	var none T
	return none, false
}

// entry returns nil where there is no object.
func (t table[T]) entry(k kube.Key) *entry[T] {
	if b := t[k.Namespace]; b != nil {
		return b.byName[k.Name]
	}
	return nil
}

// put stores obj under the key, in the place of any object before.
func (t table[T]) put(obj T) *entry[T] {
	m := obj.ObjectMeta()
	b := t[m.Namespace]
	if b == nil {
		b = &bucket[T]{namespace: m.Namespace, byName: map[string]*entry[T]{}}
		t[m.Namespace] = b
	}
	// Delete first: assigning to a present key would keep the old object's copy of the name alive.
	delete(b.byName, m.Name)
	e := &entry[T]{obj}
	b.byName[m.Name] = e
	return e
}

// share makes an object, not seen by any reader yet, use the bucket's string of the namespace.
func (t table[T]) share(m *kube.Meta) {
	if b := t[m.Namespace]; b != nil {
		m.Namespace = b.namespace
	}
}

func (t table[T]) delete(k kube.Key) {
	b := t[k.Namespace]
	if b == nil {
		return
	}
	delete(b.byName, k.Name)
	if len(b.byName) == 0 {
		delete(t, k.Namespace)
	}
}

// all yields the objects of a namespace, or of all where namespace is "", in no order. The object just yielded may be
// deleted, or put anew.
func (t table[T]) all(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := range t.entries(namespace) {
			if !yield(e.obj) {
				return
			}
		}
	}
}

func (t table[T]) entries(namespace string) iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		if namespace != "" {
			if b := t[namespace]; b != nil {
				b.each(yield)
			}
			return
		}
		for _, b := range t {
			if !b.each(yield) {
				return
			}
		}
	}
}

func (b *bucket[T]) each(yield func(*entry[T]) bool) bool {
	for _, e := range b.byName {
		if !yield(e) {
			return false
		}
	}
	return true
}

// count returns how many objects all would yield.
func (t table[T]) count(namespace string) int {
	if namespace != "" {
		if b := t[namespace]; b != nil {
			return len(b.byName)
		}
		return 0
	}
	n := 0
	for _, b := range t {
		n += len(b.byName)
	}
	return n
}
