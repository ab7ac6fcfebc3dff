package cache

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"skiff/internal/kube"
)

// ErrNoIndex is the answer to a lookup in an index that was not declared with Index.
var ErrNoIndex = errors.New("there is no such index")

// ownerIndex is the name of the index of ByOwner.
const ownerIndex = "owner"

// index finds objects by values that a function takes from them. Store.mu guards it.
type index[T kube.Object] struct {
	name string
	f    func(obj T, into []string) []string // appends the values of obj
	// sets has the objects of each value, sorted by key: lookups and removals are binary searches, and an answer is a
	// copy of a part. There are no empty sets: values such as uids do not come back.
	sets    map[string][]T
	bad     map[kube.Key]bool // objects whose values are not known, because f panicked
	logged  bool              // the first panic of f is in the log
	scratch []string          // what f appends to
	before  []string          // what it appended for the version that is being replaced
}

func newIndex[T kube.Object](name string, f func(obj T, into []string) []string) *index[T] {
	return &index[T]{name: name, f: f, sets: map[string][]T{}, bad: map[kube.Key]bool{}}
}

// ownersOf appends the uids of the owners of obj.
func ownersOf[T kube.Object](obj T, into []string) []string {
	for _, ref := range obj.ObjectMeta().OwnerReferences {
		if ref.UID != "" {
			into = append(into, ref.UID)
		}
	}
	return into
}

// Index declares an index: f names the values under which ByIndex finds an object. It can be called at any time; a
// name that is taken is left as it is, so that those who share a mirror can each declare what they need.
//
// f must be pure, because the values of an object are asked for once more when it goes. An object on which f panics
// is left out of that index. Each is counted, the first is logged, and all else goes on.
func (s *Store[T]) Index(name string, f func(obj T) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexLocked(name) != nil {
		return
	}
	ix := newIndex(name, func(obj T, into []string) []string { return append(into, f(obj)...) })
	for obj := range s.objects.all("") {
		s.addLocked(ix, obj)
	}
	s.indexes = append(s.indexes, ix)
}

// ByIndex returns the objects with a value in an index, in key order: of one namespace, or of the whole mirror where
// namespace is "". The error is ErrNotSynced, ErrOutOfScope or ErrNoIndex.
func (s *Store[T]) ByIndex(name, namespace, value string) ([]T, error) {
	out, err := s.lookUp(name, namespace, value)
	if err != nil {
		what := fmt.Sprintf("by %s %q", name, value)
		if namespace != "" {
			what += " in " + namespace
		}
		return nil, s.readError("list", what, err)
	}
	return out, nil
}

func (s *Store[T]) lookUp(name, namespace, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(name, namespace, value)
	for _, obj := range set {
		s.check.verify(obj)
	}
	return slices.Clone(set), err
}

// indexedLocked returns the part of an index that ByIndex asks for. It is good while s.mu is held.
func (s *Store[T]) indexedLocked(name, namespace, value string) ([]T, error) {
	if err := s.readableLocked(namespace); err != nil {
		return nil, err
	}
	ix := s.indexLocked(name)
	if ix == nil {
		return nil, ErrNoIndex
	}
	set := ix.sets[value]
	if namespace != "" {
		from, _ := find(set, kube.Key{Namespace: namespace})
		to, _ := find(set, kube.Key{Namespace: namespace + "\x00"}) // the least string above it
		set = set[from:to]
	}
	return set, nil
}

// ByOwner returns the objects that have an owner reference to uid, in key order: of one namespace, or of the whole
// mirror where namespace is "", for an owner that is cluster-scoped. The error is ErrNotSynced or ErrOutOfScope.
func (s *Store[T]) ByOwner(namespace, uid string) ([]T, error) {
	return s.ByIndex(ownerIndex, namespace, uid)
}

// CountByOwner returns how many objects ByOwner would return.
func (s *Store[T]) CountByOwner(namespace, uid string) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(ownerIndex, namespace, uid)
	if err != nil {
		return 0, s.readError("count", fmt.Sprintf("by %s %q", ownerIndex, uid), err)
	}
	return len(set), nil
}

// readableLocked returns nil when a namespace is synced; where namespace is "", the whole mirror.
func (s *Store[T]) readableLocked(namespace string) error {
	if namespace != "" && s.scopeLocked(namespace) == nil {
		return ErrOutOfScope
	}
	for _, sc := range s.scopes {
		if !sc.synced && (namespace == "" || sc.covers(namespace)) {
			return s.notSyncedLocked(sc)
		}
	}
	return nil
}

// find returns where in a set the object of k is, or would be.
func find[T kube.Object](set []T, k kube.Key) (at int, found bool) {
	return slices.BinarySearchFunc(set, k, func(obj T, k kube.Key) int { return obj.ObjectMeta().Key().Compare(k) })
}

func (s *Store[T]) indexLocked(name string) *index[T] {
	for _, ix := range s.indexes {
		if ix.name == name {
			return ix
		}
	}
	return nil
}

// enterLocked enters an object in all indexes.
func (s *Store[T]) enterLocked(obj T) {
	s.check.enter(obj)
	s.usesLocked(sizeOf(obj))
	for _, ix := range s.indexes {
		s.addLocked(ix, obj)
	}
}

// dropLocked takes an object out of all indexes.
func (s *Store[T]) dropLocked(old T) {
	s.check.leave(old)
	s.usesLocked(-sizeOf(old))
	for _, ix := range s.indexes {
		s.deleteLocked(ix, old)
	}
}

// exchangeLocked enters obj in all indexes in the place of old, an earlier version of it. Most changes of an object
// leave it where it was in the indexes.
func (s *Store[T]) exchangeLocked(old, obj T) {
	share(old, obj)
	s.check.leave(old)
	s.check.enter(obj)
	s.usesLocked(sizeOf(obj) - sizeOf(old))
	for _, ix := range s.indexes {
		if !ix.exchange(old, obj) {
			s.deleteLocked(ix, old)
			s.addLocked(ix, obj)
		}
	}
}

// exchange puts obj in the place of old where both have the same values. ok is false, and nothing is changed for
// good, where they have not, or where the index function panics.
func (ix *index[T]) exchange(old, obj T) (ok bool) {
	k := obj.ObjectMeta().Key()
	values, err := ix.values(old)
	if err != nil || ix.bad[k] {
		return false
	}
	ix.before = append(ix.before[:0], values...)
	defer clear(ix.before)
	if values, err = ix.values(obj); err != nil || !slices.Equal(values, ix.before) {
		return false
	}
	for _, v := range values {
		set := ix.sets[v]
		at, found := find(set, k)
		if !found { // f is not pure
			return false
		}
		set[at] = obj
	}
	return true
}

func (s *Store[T]) addLocked(ix *index[T], obj T) {
	k := obj.ObjectMeta().Key()
	values, err := ix.values(obj)
	if err != nil {
		ix.bad[k] = true
		s.scopeLocked(k.Namespace).counters.IndexPanics++
		if !ix.logged {
			ix.logged = true
			s.o.Log.Error(err, "an index function panicked; the object is left out of this index",
				"resource", s.o.Resource.GroupResource(), "index", ix.name, "object", k.String())
		}
		return
	}
	for _, v := range values {
		set := ix.sets[v]
		if n := len(set); n == 0 || set[n-1].ObjectMeta().Key().Compare(k) < 0 { // as in a list, see replaceLocked
			ix.sets[v] = append(set, obj)
		} else if at, found := find(set, k); !found { // found: the same value twice
			ix.sets[v] = slices.Insert(set, at, obj)
		}
	}
}

func (s *Store[T]) deleteLocked(ix *index[T], old T) {
	k := old.ObjectMeta().Key()
	if ix.bad[k] {
		delete(ix.bad, k)
		return
	}
	values, err := ix.values(old)
	if err != nil {
		// f is not pure: it had values for this object before. All of them are looked through.
		values = values[:0]
		for v := range ix.sets {
			values = append(values, v)
		}
	}
	for _, v := range values {
		set := ix.sets[v]
		switch at, found := find(set, k); {
		case !found:
		case len(set) == 1:
			delete(ix.sets, v)
		default:
			ix.sets[v] = slices.Delete(set, at, at+1)
		}
	}
}

// values returns what the index function says of obj. The slice is good until the next call.
func (ix *index[T]) values(obj T) (values []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("index %s: panic: %v\n%s", ix.name, p, debug.Stack())
		}
		clear(ix.scratch[len(values):cap(ix.scratch)]) // keep no strings of objects that are gone
	}()
	ix.scratch = ix.f(obj, ix.scratch[:0])
	return ix.scratch, nil
}

// share makes obj keep the labels and owner references of old, an earlier version of it, where they are the same:
// those may be shared with other objects (see package kube).
func share[T kube.Object](old, obj T) {
	was, is := old.ObjectMeta(), obj.ObjectMeta()
	if slices.Equal(was.OwnerReferences, is.OwnerReferences) {
		is.OwnerReferences = was.OwnerReferences
	}
	if slices.Equal(was.Labels, is.Labels) {
		is.Labels = was.Labels
	}
}
