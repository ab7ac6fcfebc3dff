package cache

import (
	"fmt"
	"runtime/debug"
	"slices"

	"skiff/internal/runtime/kube"
)

// handler is one registration of OnChange. Its address identifies it.
type handler[T kube.Object] struct{ f func(Change[T]) }

// OnChange adds a handler that hears of every change. What is there already it hears of at once, as Appeared and
// Initial, before OnChange returns. remove takes the handler away: it is not called after remove has returned.
//
// Changes of one object come in order, after the Store shows them. The handler runs on the goroutine that
// reads the stream, so it must be quick and must not block: it is meant to put a key into a queue. With
// several namespaces it is called by several goroutines. A handler must not call OnChange or remove.
func (s *Store[T]) OnChange(f func(Change[T])) (remove func()) {
	h := &handler[T]{f}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.handlers = append(s.handlers, h)
	for _, obj := range s.present() {
		s.mu.RLock()
		sc := s.scopeLocked(obj.ObjectMeta().Namespace) // does not go while telling is held
		s.mu.RUnlock()
		s.call(sc, f, Change[T]{Type: Appeared, New: obj, Initial: true})
	}
	return func() {
		s.telling.Lock()
		defer s.telling.Unlock()
		s.handlers = slices.DeleteFunc(s.handlers, func(other *handler[T]) bool { return other == h })
	}
}

// present returns all objects in key order, synced or not.
func (s *Store[T]) present() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(s.objects.all(""), byKey[T])
}

// tell calls the handlers, after the Store shows the change. The caller holds telling, but not mu.
func (s *Store[T]) tell(sc *scope, c Change[T]) {
	for _, h := range s.handlers {
		s.call(sc, h.f, c)
	}
}

// call keeps a handler's panic from ending the mirror of everybody else.
func (s *Store[T]) call(sc *scope, f func(Change[T]), c Change[T]) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.count(sc, func(n *Counters) { n.Panics++ })
		s.o.Log.Error(fmt.Errorf("handle change: panic: %v", p), "a change handler panicked; the watch goes on",
			"resource", s.o.Resource.GroupResource(), "object", c.Object().ObjectMeta().Key(),
			"stack", string(debug.Stack()))
	}()
	f(c)
}
