package cache

import (
	"cmp"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
)

// This file shows what is not held, for conditions, status pages and metrics.

// ShedNamespace is what a mirror does not hold of a namespace.
type ShedNamespace struct {
	Namespace string
	Whole     bool   // none of its objects is held; else those are too large that are not
	Objects   int    // that are not held
	Bytes     int64  // what they would take, about
	Largest   string // the largest of them, as far as is known
	Most      int64  // what that would take
	Message   string // what takes how much, and what to do
}

// Sheds returns what is not held, by namespace, those first that would take most.
func (s *Store[T]) Sheds() []ShedNamespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []ShedNamespace
	for namespace, sh := range s.shed {
		if !sh.whole && sh.keys.len() == 0 {
			continue
		}
		one := ShedNamespace{Namespace: namespace, Whole: sh.whole, Objects: sh.keys.len(),
			Bytes:   sh.keys.size + sh.keys.beyond,
			Message: s.shedErrorLocked(kube.Key{Namespace: namespace}).Message}
		for name, key := range sh.keys.byName {
			if key.size > one.Most || key.size == one.Most && name < one.Largest {
				one.Largest, one.Most = name, key.size
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b ShedNamespace) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// Keys returns the keys of all objects of a namespace that are known, held or not, of the whole mirror where namespace
// is "", in no order.
func (s *Store[T]) Keys(namespace string) []kube.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []kube.Key
	for e := range s.objects.entries(namespace) {
		out = append(out, e.key())
	}
	for of, sh := range s.shed {
		for name, key := range sh.keys.byName {
			if (namespace == "" || namespace == of) && !key.bare {
				out = append(out, kube.Key{Namespace: of, Name: name})
			}
		}
	}
	return out
}

// ShedObject is what is known of an object that is not held.
type ShedObject struct {
	UID, ResourceVersion string
	Generation           int64
	Told                 bool // its status says so: see Told
}

// Shed returns what is known of an object that is not held; false: it is held, or not known.
func (s *Store[T]) Shed(k kube.Key) (ShedObject, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sh := s.shed[k.Namespace]
	if sh == nil {
		return ShedObject{}, false
	}
	key, known := sh.keys.byName[k.Name]
	return ShedObject{key.uid, key.rv, key.generation, key.told}, known && !key.bare
}

// Told notes that the status of an object that is not held says so. It is forgotten when the object is held again.
func (s *Store[T]) Told(k kube.Key, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shed[k.Namespace]
	if sh == nil {
		return
	}
	if key, known := sh.keys.byName[k.Name]; known && key.uid == uid {
		key.told = true
		sh.keys.byName[k.Name] = key
	}
}

// KnownByOwner is ByOwner where some are not held: of these it returns, as far as they are known, the metadata that
// their deletion needs.
func (s *Store[T]) KnownByOwner(namespace, uid string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(ownerIndex, namespace, uid, false)
	if err != nil {
		return nil, s.readError("list", fmt.Sprintf("by %s %q in %s", ownerIndex, uid, namespace), err)
	}
	out := make([]T, 0, len(set))
	for _, e := range set {
		out = append(out, e.obj)
	}
	if sh := s.shed[namespace]; sh != nil {
		for name, key := range sh.keys.byName {
			if key.owner.UID == uid && !key.bare {
				out = append(out, stub[T](kube.Key{Namespace: namespace, Name: name}, key))
			}
		}
	}
	slices.SortFunc(out, func(a, b T) int { return a.ObjectMeta().Key().Compare(b.ObjectMeta().Key()) })
	return out, nil
}
