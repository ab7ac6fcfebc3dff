package cache

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"skiff/internal/runtime/kube"
)

// ChangeType names a kind of change.
type ChangeType int

// The changes. An object deleted and created again under the same name comes as Gone and Appeared, never as Updated.
const (
	Appeared ChangeType = iota + 1
	Updated
	Gone // gone from the mirror: deleted, or no longer selected
	// Shed: the object exists, and is not in the mirror for lack of room (see NotServed). Each change of an object
	// too large on its own, or being deleted, comes as Shed.
	Shed
)

func (t ChangeType) String() string {
	switch t {
	case Appeared:
		return "ADDED"
	case Updated:
		return "MODIFIED"
	case Gone:
		return "DELETED"
	case Shed:
		return "SHED"
	}
	return fmt.Sprintf("ChangeType(%d)", int(t))
}

// Change is one change of the mirror. The objects are shared and must not be changed.
type Change[T kube.Object] struct {
	Type    ChangeType
	Old     T    // nil for Appeared. For Gone and Shed: the last known version of the object, or the metadata alone
	New     T    // nil for Gone and Shed
	Initial bool // part of the first list: the object need not be new
	Unknown bool // of Gone: found out by a list, so Old may not be the object's final state
}

// Object returns New, or Old where the object is not in the mirror any more.
func (c Change[T]) Object() T {
	if c.Type == Gone || c.Type == Shed {
		return c.Old
	}
	return c.New
}

// changesOf returns the changes for the handlers when the form of an object changes from was to now.
func changesOf[T kube.Object](k kube.Key, was, now form[T], initial bool) (out []Change[T]) {
	if was.known() && (!now.known() || was.uid() != now.uid()) {
		out = append(out, Change[T]{Type: Gone, Old: was.object(k), Unknown: true})
		was = form[T]{}
	}
	switch {
	case !now.known(), now.shed && was.shed && (now.key.head == nil && !now.key.deleting || was.is(now.meta(k))):
		return out
	case now.shed && was.held && !now.key.deleting:
		return append(out, Change[T]{Type: Shed, Old: was.obj})
	case now.shed:
		return append(out, Change[T]{Type: Shed, Old: now.object(k)})
	case was.held:
		return append(out, Change[T]{Type: Updated, Old: was.obj, New: now.obj})
	}
	return append(out, Change[T]{Type: Appeared, New: now.obj, Initial: initial})
}

// listeners are functions added by callers. Each change of the slice makes a new slice, so that a copy can be gone
// through without a lock.
type listeners[F any] []*F

// add adds f. mu guards the slice.
func (l *listeners[F]) add(mu sync.Locker, f F) (remove func()) {
	mu.Lock()
	defer mu.Unlock()
	*l = append(slices.Clip(*l), &f)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		*l = slices.DeleteFunc(slices.Clone(*l), func(other *F) bool { return other == &f })
	}
}

// mutated is the panic of a test in which a reader has changed a shared object. Nothing contains the panic.
type mutated string

// contained calls f and returns the panic: no object and no answer of a server ends the process.
func contained(f func()) (p any, stack string) {
	defer func() {
		if p = recover(); p == nil {
			return
		}
		if _, bug := p.(mutated); bug {
			panic(p)
		}
		stack = string(debug.Stack())
	}()
	f()
	return nil, ""
}
