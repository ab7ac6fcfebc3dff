package cache

import (
	"iter"

	"skiff/internal/kube"
)

// table holds objects by namespace, then name. The outer level is the namespace index, and because of it an
// entry costs one string and one pointer instead of a whole Key. A namespace without objects has no bucket.
type table[T kube.Object] map[string]*bucket[T]

type bucket[T kube.Object] struct {
	namespace string // the copy of this string that the objects in the bucket share
	byName    map[string]T
}

func (t table[T]) get(k kube.Key) (T, bool) {
	b := t[k.Namespace]
	if b == nil {
		var none T
		return none, false
	}
	obj, ok := b.byName[k.Name]
	return obj, ok
}

// put stores obj under its key.
func (t table[T]) put(obj T) {
	m := obj.ObjectMeta()
	b := t.bucket(m.Namespace)
	// Delete first: assigning to a present key would keep the old object's copy of the name alive.
	delete(b.byName, m.Name)
	b.byName[m.Name] = obj
}

// putNew is put for an object that nobody else has seen yet: it may still be made to share the string of its
// namespace.
func (t table[T]) putNew(obj T) {
	m := obj.ObjectMeta()
	m.Namespace = t.bucket(m.Namespace).namespace
	t.put(obj)
}

func (t table[T]) bucket(namespace string) *bucket[T] {
	b := t[namespace]
	if b == nil {
		b = &bucket[T]{namespace: namespace, byName: map[string]T{}}
		t[namespace] = b
	}
	return b
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

// all yields the objects of one namespace, or of all where namespace is "", in no order.
func (t table[T]) all(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) {
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

func (b *bucket[T]) each(yield func(T) bool) bool {
	for _, obj := range b.byName {
		if !yield(obj) {
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
