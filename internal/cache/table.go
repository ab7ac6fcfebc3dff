package cache

import (
	"iter"
	"slices"

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

// ownedSet is the bucket of one owner in the owner index, sorted by key: lookups and removals are binary
// searches, and ByOwner hands out a copy as it is. A special case for a single object would save nothing: its
// slice takes 24 bytes and one 8-byte element, as much as a struct of "one object or a slice".
func findOwned[T kube.Object](set []T, k kube.Key) (int, bool) {
	return slices.BinarySearchFunc(set, k, func(obj T, k kube.Key) int { return obj.ObjectMeta().Key().Compare(k) })
}

// addOwner enters obj in the set of each of its owners. Objects of one owner repeat its uid, name and kind;
// they are made to share the strings of the first one.
func addOwner[T kube.Object](owned map[string][]T, obj T) {
	refs := obj.ObjectMeta().OwnerReferences
	for i := range refs {
		if refs[i].UID == "" {
			continue
		}
		set := owned[refs[i].UID]
		at, found := findOwned(set, obj.ObjectMeta().Key())
		if found { // a second reference to the same owner
			continue
		}
		if len(set) > 0 {
			shareOwner(&refs[i], set[0].ObjectMeta().OwnerReferences)
		}
		owned[refs[i].UID] = slices.Insert(set, at, obj)
	}
}

func shareOwner(ref *kube.OwnerReference, of []kube.OwnerReference) {
	for i := range of {
		if of[i] == *ref {
			*ref = of[i]
			return
		}
	}
}

// removeOwner undoes addOwner.
func removeOwner[T kube.Object](owned map[string][]T, obj T) {
	for _, ref := range obj.ObjectMeta().OwnerReferences {
		set := owned[ref.UID]
		at, found := findOwned(set, obj.ObjectMeta().Key())
		switch {
		case !found:
		case len(set) == 1:
			delete(owned, ref.UID) // an empty set would stay for ever: uids do not come back
		default:
			owned[ref.UID] = slices.Delete(set, at, at+1)
		}
	}
}
