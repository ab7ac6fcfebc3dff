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
	// too large on its own comes as Shed.
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
	case !now.held && was.known() && !was.held && now.key.head != nil && !was.is(now.meta(k)):
		return append(out, Change[T]{Type: Shed, Old: now.object(k)})
	case !now.known(), !now.held && was.known() && !was.held:
		return out
	case !now.held && was.held:
		return append(out, Change[T]{Type: Shed, Old: was.obj})
	case !now.held:
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

// OnChange adds a handler that hears of every change. Objects already there come at once, as Appeared and Initial,
// before OnChange returns. remove takes the handler away: there is no call after remove has returned.
//
// Changes of an object come in order, after the Store shows them. The handler runs on the goroutine that reads the
// stream, so it must be quick and must not block: a handler is meant to put a key into a queue. With several
// namespaces, several goroutines call the handler. A handler must not call OnChange or remove.
func (s *Store[T]) OnChange(f func(Change[T])) (remove func()) {
	s.handlersMu.Lock()
	defer s.handlersMu.Unlock()
	h := &f
	s.handlers = append(s.handlers, h)
	for _, obj := range s.present() {
		s.mu.RLock()
		sc := s.scopeLocked(obj.ObjectMeta().Namespace) // does not go while handlersMu is held
		s.mu.RUnlock()
		s.call(sc, f, Change[T]{Type: Appeared, New: obj, Initial: true})
	}
	return func() {
		s.handlersMu.Lock()
		defer s.handlersMu.Unlock()
		s.handlers = slices.DeleteFunc(s.handlers, func(other *func(Change[T])) bool { return other == h })
	}
}

// present returns all objects in key order, synced or not.
func (s *Store[T]) present() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(s.objects.all(""), byKey[T])
}

// notify calls the handlers, after the Store shows the changes. The caller holds handlersMu, but not mu.
func (s *Store[T]) notify(sc *scope, changes ...Change[T]) {
	for _, c := range changes {
		for _, h := range s.handlers {
			s.call(sc, *h, c)
		}
	}
}

// call contains a handler's panic: the watch goes on for all other handlers.
func (s *Store[T]) call(sc *scope, f func(Change[T]), c Change[T]) {
	if p, stack := contained(func() { f(c) }); p != nil {
		s.count(sc, func(n *Counters) { n.Panics++ })
		s.o.Log.Error(fmt.Errorf("handle change: panic: %v", p), "a change handler panicked; the watch goes on",
			"resource", s.o.Resource.GroupResource(), "object", c.Object().ObjectMeta().Key(), "stack", stack)
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

// OnServes adds a function called whenever the answer of Serves may have changed, and when the server answers again
// after failed requests. The function must be quick and must not block. remove takes the function away; a call under
// way may still end later.
func (s *Store[T]) OnServes(f func()) (remove func()) { return s.onServes.add(&s.mu, f) }

// OnReturn adds a function called when the objects of a shed namespace are held again. The function must be quick and
// must not block. remove takes the function away; a call under way may still end later.
func (s *Store[T]) OnReturn(f func(namespace string)) (remove func()) {
	return s.onReturn.add(&s.mu, f)
}

// notifyServes calls the functions of OnServes.
func (s *Store[T]) notifyServes() {
	s.mu.RLock()
	all := s.onServes
	s.mu.RUnlock()
	for _, f := range all {
		(*f)()
	}
}

// notifyReturn calls the functions of OnReturn.
func (s *Store[T]) notifyReturn(namespace string) {
	s.mu.RLock()
	all := s.onReturn
	s.mu.RUnlock()
	for _, f := range all {
		(*f)(namespace)
	}
}
