package cache

import (
	"fmt"
	"reflect"

	"skiff/internal/runtime/kube"
)

// Assume has the mirror show an object, in JSON, as if an event had brought the object: for a plan of consequences.
// The mirror must have been listed and get no events, which would know better.
func (s *Store[T]) Assume(text kube.Raw) error {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := kube.Unmarshal(text, obj); err != nil {
		return fmt.Errorf("decode %s: %w", s.o.Resource, err)
	}
	m := obj.ObjectMeta()
	s.mu.RLock()
	sc := s.scopeLocked(m.Namespace)
	rv, synced := "", false
	if sc != nil {
		rv, synced = sc.ResourceVersion, sc.Synced
	}
	s.mu.RUnlock()
	if !synced {
		return s.readError("assume", m.Key().String(), s.outOfScope(m.Key()))
	}
	s.put(sc, obj, kube.Part{Size: len(text)}, kube.Added, rv)
	return nil
}
