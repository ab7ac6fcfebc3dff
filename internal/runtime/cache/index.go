package cache

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"skiff/internal/runtime/kube"
)

// ErrNoIndex is the answer to a lookup in an index not declared with Index.
var ErrNoIndex = errors.New("there is no such index")

// ownerIndex is the name of the index of ByOwner.
const ownerIndex = "owner"

// index finds objects by values computed from them. Store.mu guards the fields.
type index[T kube.Object] struct {
	name string
	f    func(obj T, into []string) []string // appends the values of obj
	meta bool                                // the values depend on labels and owner references alone
	// sets has the objects of each value, sorted by key: lookups and removals are binary searches, and an answer is a
	// copy of a part. There are no empty sets: values such as uids do not come back.
	sets    map[string][]*entry[T]
	bad     map[kube.Key]bool // objects whose values are not known, because f panicked
	logged  bool              // the first panic of f is in the log
	scratch []string          // what f appends to
	of      *kube.Meta        // of the object with the values in scratch, where f depends on meta alone; else nil
	before  []string          // the values of the version being replaced
}

func newIndex[T kube.Object](name string, f func(obj T, into []string) []string) *index[T] {
	return &index[T]{name: name, f: f, sets: map[string][]*entry[T]{}, bad: map[kube.Key]bool{}}
}

// newOwnerIndex makes the index of ByOwner.
func newOwnerIndex[T kube.Object]() *index[T] {
	ix := newIndex(ownerIndex, ownersOf[T])
	ix.meta = true
	return ix
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

// Index declares an index: f names the values under which ByIndex finds an object. Index can be called at any time; a
// name already taken stays as before, so that all who share a mirror can each declare their needs.
//
// f must be pure, because the values of an object are asked for once more at the object's end. An object on which f
// panics is left out of the index. Each panic is counted, the first is logged, and all else goes on.
func (s *Store[T]) Index(name string, f func(obj T) []string) {
	s.addIndex(newIndex(name, func(obj T, into []string) []string { return append(into, f(obj)...) }))
}

// IndexMeta is Index for values that depend on labels and owner references alone. Most changes of an object leave
// both as they are; then f is not called, and nothing of the index is touched.
func (s *Store[T]) IndexMeta(name string, f func(labels kube.Labels, owners []kube.OwnerReference) []string) {
	ix := newIndex(name, func(obj T, into []string) []string {
		m := obj.ObjectMeta()
		return append(into, f(m.Labels, m.OwnerReferences)...)
	})
	ix.meta = true
	s.addIndex(ix)
}

func (s *Store[T]) addIndex(ix *index[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexLocked(ix.name) != nil {
		return
	}
	for e := range s.objects.entries("") {
		s.addLocked(ix, e)
	}
	s.indexes = append(s.indexes, ix)
}

// find returns where in a set the object of k is, or would be.
func find[T kube.Object](set []*entry[T], k kube.Key) (at int, found bool) {
	return slices.BinarySearchFunc(set, k, func(e *entry[T], k kube.Key) int { return e.key().Compare(k) })
}

func (s *Store[T]) indexLocked(name string) *index[T] {
	for _, ix := range s.indexes {
		if ix.name == name {
			return ix
		}
	}
	return nil
}

// enterLocked enters an object in all indexes; bare: see form.bare.
func (s *Store[T]) enterLocked(e *entry[T], bare bool) {
	s.check.enter(e.obj)
	s.usesLocked(e.obj, bare, 1)
	for _, ix := range s.indexes {
		s.addLocked(ix, e)
	}
}

// dropLocked takes an object out of all indexes.
func (s *Store[T]) dropLocked(e *entry[T], bare bool) {
	s.check.leave(e.obj)
	s.usesLocked(e.obj, bare, -1)
	for _, ix := range s.indexes {
		s.deleteLocked(ix, e)
	}
}

// usesLocked notes an object added to the content (times 1), or taken away (times -1).
func (s *Store[T]) usesLocked(obj T, bare bool, times int64) {
	if size, namespace := times*sizeOf(obj), obj.ObjectMeta().Namespace; bare {
		s.account.add(namespace, 0, size)
	} else {
		s.account.add(namespace, size, 0)
	}
}

// exchangeLocked puts obj in the place of an earlier version.
func (s *Store[T]) exchangeLocked(e *entry[T], obj T, wasBare, isBare bool) {
	old := e.obj
	same := share(old, obj)
	s.check.leave(old)
	s.check.enter(obj)
	s.usesLocked(obj, isBare, 1)
	s.usesLocked(old, wasBare, -1)
	for _, ix := range s.indexes {
		if ix.meta && same || ix.same(old, obj) {
			continue
		}
		s.deleteLocked(ix, e)
		e.obj = obj
		s.addLocked(ix, e)
		e.obj = old
	}
	e.obj = obj
}

// same says that two versions of an object have the same values.
func (ix *index[T]) same(old, obj T) bool {
	values, err := ix.values(old)
	if err != nil || ix.bad[obj.ObjectMeta().Key()] {
		return false
	}
	ix.before = append(ix.before[:0], values...)
	defer clear(ix.before)
	values, err = ix.values(obj)
	return err == nil && slices.Equal(values, ix.before)
}

func (s *Store[T]) addLocked(ix *index[T], e *entry[T]) {
	k := e.key()
	values, err := ix.values(e.obj)
	if err != nil {
		ix.bad[k] = true
		s.scopeLocked(k.Namespace).Counters.IndexPanics++
		if !ix.logged {
			ix.logged = true
			s.o.Log.Error(err, "an index function panicked; the object is left out of this index",
				"resource", s.o.Resource.GroupResource(), "index", ix.name, "object", k.String())
		}
		return
	}
	for _, v := range values {
		set := ix.sets[v]
		if n := len(set); n == 0 || set[n-1].key().Compare(k) < 0 { // as in a list, see replaceLocked
			ix.sets[v] = append(set, e)
		} else if at, found := find(set, k); !found { // found: the same value twice
			ix.sets[v] = slices.Insert(set, at, e)
		}
	}
}

func (s *Store[T]) deleteLocked(ix *index[T], e *entry[T]) {
	k := e.key()
	if ix.bad[k] {
		delete(ix.bad, k)
		return
	}
	values, err := ix.values(e.obj)
	if err != nil {
		// f is not pure: there were values for the object before. All values are looked through.
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

// values returns the values of obj by the index function. The slice is good until the next call. Pods of a Deployment
// share labels and owners (see package kube) and follow each other in a list: f is not asked for each pod.
func (ix *index[T]) values(obj T) (values []string, err error) {
	m := obj.ObjectMeta()
	if ix.of != nil && identical(ix.of.Labels, m.Labels) && identical(ix.of.OwnerReferences, m.OwnerReferences) {
		return ix.scratch, nil
	}
	ix.of = nil
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("index %s: panic: %v\n%s", ix.name, p, debug.Stack())
		}
		clear(ix.scratch[len(values):cap(ix.scratch)]) // keep no strings of gone objects
	}()
	ix.scratch = ix.f(obj, ix.scratch[:0])
	if ix.meta {
		ix.of = m
	}
	return ix.scratch, nil
}

// identical says that two slices share their memory.
func identical[E any](a, b []E) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// share makes obj keep the equal parts of old, an earlier version: labels and owner references may be shared with
// other objects (see package kube), and the name is a key of the table. The result says whether labels and owners are
// the same.
func share[T kube.Object](old, obj T) (same bool) {
	was, is := old.ObjectMeta(), obj.ObjectMeta()
	is.Name, is.Namespace = was.Name, was.Namespace
	if is.UID == was.UID {
		is.UID = was.UID
	}
	owners, labels := slices.Equal(was.OwnerReferences, is.OwnerReferences), slices.Equal(was.Labels, is.Labels)
	if owners {
		is.OwnerReferences = was.OwnerReferences
	}
	if labels {
		is.Labels = was.Labels
	}
	return owners && labels
}
