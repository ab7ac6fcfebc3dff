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

// find returns where in a set the object of k is, or would be.
func find[T kube.Object](set []*entry[T], k kube.Key) (at int, found bool) {
	return slices.BinarySearchFunc(set, k, func(e *entry[T], k kube.Key) int { return e.key().Compare(k) })
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
