package cache

import (
	"fmt"

	"skiff/internal/runtime/kube"
)

// ByIndex returns the objects with a value in an index, in key order: of a namespace, or of the whole mirror where
// namespace is "". The error is a NotServed or ErrNoIndex.
func (s *Store[T]) ByIndex(name, namespace, value string) ([]T, error) {
	return s.byIndex(name, namespace, value, true)
}

// HeldByIndex is ByIndex without the objects not held, and without an error about them.
func (s *Store[T]) HeldByIndex(name, namespace, value string) ([]T, error) {
	return s.byIndex(name, namespace, value, false)
}

// byIndex is ByIndex; all says that an object not held makes an error.
func (s *Store[T]) byIndex(name, namespace, value string, all bool) ([]T, error) {
	out, err := s.lookUp(name, namespace, value, all)
	if err != nil {
		what := fmt.Sprintf("by %s %q", name, value)
		if namespace != "" {
			what += " in " + namespace
		}
		return nil, s.readError("list", what, err)
	}
	return out, nil
}

func (s *Store[T]) lookUp(name, namespace, value string, all bool) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(name, namespace, value, all)
	if len(set) == 0 {
		return nil, err
	}
	out := make([]T, len(set))
	for i, e := range set {
		if i < verifiedInARead {
			s.check.verify(e.obj)
		}
		out[i] = e.obj
	}
	return out, nil
}

// indexedLocked returns the part of an index for ByIndex, good while s.mu is held.
func (s *Store[T]) indexedLocked(name, namespace, value string, all bool) ([]*entry[T], error) {
	if err := s.readableLocked(namespace); err != nil {
		return nil, err
	}
	ix := s.indexLocked(name)
	if ix == nil {
		return nil, ErrNoIndex
	}
	if e := s.withheldLocked(name, namespace, value); all && e != nil {
		return nil, e
	}
	set := ix.sets[value]
	if namespace != "" {
		from, _ := find(set, kube.Key{Namespace: namespace})
		to, _ := find(set, kube.Key{Namespace: namespace + "\x00"}) // the least string above it
		set = set[from:to]
	}
	return set, nil
}

// withheldLocked returns an error where objects not held may have a value in an index. An index over the whole mirror
// leaves out shed objects, but for the single index of owners of all namespaces.
func (s *Store[T]) withheldLocked(name, namespace, value string) error {
	var e *NotServed
	switch {
	case len(s.shed) == 0:
	case name == ownerIndex:
		e = s.ownsShedLocked(namespace, value)
	case namespace != "" || s.o.Resource.ClusterScoped:
		e = s.unheldLocked(kube.Key{Namespace: namespace})
	}
	if e == nil {
		return nil
	}
	return e
}

// ByOwner returns the objects with an owner reference to uid, in key order: of a namespace, or of the whole mirror
// where namespace is "", for a cluster-scoped owner. The error is a NotServed.
func (s *Store[T]) ByOwner(namespace, uid string) ([]T, error) {
	return s.ByIndex(ownerIndex, namespace, uid)
}

// CountByOwner returns how many objects ByOwner would return.
func (s *Store[T]) CountByOwner(namespace, uid string) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(ownerIndex, namespace, uid, true)
	if err != nil {
		return 0, s.readError("count", fmt.Sprintf("by %s %q", ownerIndex, uid), err)
	}
	return len(set), nil
}

// readableLocked returns nil when a namespace is synced; where namespace is "", the whole mirror.
func (s *Store[T]) readableLocked(namespace string) error {
	if namespace != "" && s.scopeLocked(namespace) == nil {
		return s.outOfScope(kube.Key{Namespace: namespace})
	}
	for _, sc := range s.scopes {
		if !sc.Synced && (namespace == "" || sc.covers(namespace)) {
			return s.notSyncedLocked(sc)
		}
	}
	return nil
}
