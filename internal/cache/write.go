package cache

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"skiff/internal/kube"
)

// This file is the write side of a Store. Only the Reflector of a scope calls it, so between two calls
// nobody else changes that scope.

// ChangeType says what happened to an object.
type ChangeType int

// The changes. An object that was deleted and created again under the same name comes as Deleted and Added,
// never as Modified.
const (
	Added ChangeType = iota + 1
	Modified
	Deleted // gone from the mirror: deleted, or no longer selected
)

func (t ChangeType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	}
	return fmt.Sprintf("ChangeType(%d)", int(t))
}

// Change is one change of the mirror. Its objects are shared and must not be changed.
type Change[T kube.Object] struct {
	Type    ChangeType
	Old     T    // nil for Added. For Deleted: the last that is known of the object
	New     T    // nil for Deleted
	Initial bool // part of the first list: the object need not be new
	Unknown bool // of Deleted: nobody saw it happen, so Old may not be the object's final state
}

// Object returns New, or Old where the object is gone.
func (c Change[T]) Object() T {
	if c.Type == Deleted {
		return c.Old
	}
	return c.New
}

// content is a whole collection that is about to become a scope's content.
type content[T kube.Object] struct {
	objects table[T]
	bad     map[kube.Key]*kube.DecodeError
	rv      string
	// rewound: rv is of another history than what the mirror holds, where the same version may be another
	// content.
	rewound bool
}

func newContent[T kube.Object]() content[T] {
	return content[T]{objects: table[T]{}, bad: map[kube.Key]*kube.DecodeError{}}
}

// lookup is Get for the Reflector, which also looks before the scope is synced.
func (s *Store[T]) lookup(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.get(k)
}

// put stores obj and moves the scope to rv.
func (s *Store[T]) put(sc *scope, obj T, rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := obj.ObjectMeta().Key()
	if old, ok := s.objects.get(k); ok {
		s.dropLocked(old)
	}
	s.objects.putNew(obj)
	s.indexLocked(obj)
	delete(s.bad, k)
	sc.moveTo(rv)
}

// remove drops the object under k and moves the scope to rv.
func (s *Store[T]) remove(sc *scope, k kube.Key, rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.objects.get(k); ok {
		s.dropLocked(old)
		s.objects.delete(k)
	}
	delete(s.bad, k)
	sc.moveTo(rv)
}

// advance moves the scope to rv with its content as it is: a bookmark.
func (s *Store[T]) advance(sc *scope, rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.moveTo(rv)
}

// quarantine remembers that the newest version of an object does not decode. The last good copy stays. It
// reports whether this is new. Without a name there is nothing to remember it by: it is counted.
func (s *Store[T]) quarantine(sc *scope, bad *kube.DecodeError, rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.counters.Undecodable++
	sc.moveTo(rv)
	if bad.Key.Name == "" {
		return false
	}
	_, known := s.bad[bad.Key]
	s.bad[bad.Key] = bad
	return !known
}

func (sc *scope) moveTo(rv string) {
	sc.rv = rv
	sc.lastEvent = time.Now()
}

// replace makes c the content of the scope, in one step for readers. It returns how that differs from what was
// there, which must be told although nobody saw it happen, and how many objects were there.
func (s *Store[T]) replace(sc *scope, c content[T]) (changes []Change[T], had int) {
	s.mu.Lock()
	had = s.objects.count(sc.namespace)
	changes = s.replaceLocked(sc, c)
	s.mu.Unlock()
	// Key order, and of one key the deletion first, as it was appended.
	slices.SortStableFunc(changes, func(a, b Change[T]) int { return byKey(a.Object(), b.Object()) })
	return changes, had
}

func (s *Store[T]) replaceLocked(sc *scope, c content[T]) []Change[T] {
	var changes []Change[T]
	for k := range c.bad { // an object that no longer decodes is not gone
		if _, newer := c.objects.get(k); newer {
			continue
		}
		if old, ok := s.objects.get(k); ok {
			c.objects.put(old)
		}
	}
	for old := range s.objects.all(sc.namespace) {
		m := old.ObjectMeta()
		if now, ok := c.objects.get(m.Key()); !ok || !sameIdentity(old, now) {
			changes = append(changes, Change[T]{Type: Deleted, Old: old, Unknown: true})
			s.dropLocked(old)
		}
	}
	changes = slices.Grow(changes, max(0, c.objects.count(sc.namespace)-s.objects.count(sc.namespace)))
	for obj := range c.objects.all(sc.namespace) {
		old, had := s.objects.get(obj.ObjectMeta().Key())
		switch {
		case !had || !sameIdentity(old, obj):
			changes = append(changes, Change[T]{Type: Added, New: obj, Initial: !sc.synced})
			s.indexLocked(obj)
		case !c.rewound && sameVersion(old, obj):
			c.objects.put(old) // the copy that readers and indexes have; the new one is garbage
		default:
			changes = append(changes, Change[T]{Type: Modified, Old: old, New: obj})
			s.dropLocked(old)
			s.indexLocked(obj)
		}
	}
	s.swapLocked(sc, c)
	return changes
}

// swapLocked puts the new buckets and the new quarantine of a scope in place of the old ones.
func (s *Store[T]) swapLocked(sc *scope, c content[T]) {
	if sc.namespace == "" {
		s.objects = c.objects
	} else if b := c.objects[sc.namespace]; b != nil {
		s.objects[sc.namespace] = b
	} else {
		delete(s.objects, sc.namespace)
	}
	for k := range s.bad {
		if sc.covers(k.Namespace) {
			delete(s.bad, k)
		}
	}
	for k, bad := range c.bad {
		s.bad[k] = bad
	}
	if c.rewound {
		sc.rewound = time.Now()
		sc.counters.Rewinds++
	}
	sc.counters.Undecodable += len(c.bad)
	sc.moveTo(c.rv)
}

// indexLocked enters obj in the owner index.
func (s *Store[T]) indexLocked(obj T) {
	addOwner(s.owned, obj)
	s.check.enter(obj)
}

// dropLocked takes the old version of an object out of the owner index.
func (s *Store[T]) dropLocked(old T) {
	s.check.leave(old)
	removeOwner(s.owned, old)
}

// sameIdentity tells two versions of one object from two objects of one name.
func sameIdentity[T kube.Object](a, b T) bool {
	return a.ObjectMeta().UID == b.ObjectMeta().UID
}

func sameVersion[T kube.Object](a, b T) bool {
	rv := a.ObjectMeta().ResourceVersion
	return rv != "" && rv == b.ObjectMeta().ResourceVersion && sameIdentity(a, b)
}

// setSynced opens the scope for readers, once.
func (s *Store[T]) setSynced(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc.synced {
		return
	}
	sc.synced = true
	s.unsynced--
	if s.unsynced == 0 {
		close(s.synced)
	}
}

// tell calls the handlers, without the lock, after the Store shows the change.
func (s *Store[T]) tell(sc *scope, c Change[T]) {
	for _, f := range s.handlers {
		s.call(sc, f, c)
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
		s.o.Log.Error(fmt.Errorf("handle change: panic: %v", p), "a change handler panicked; the mirror goes on",
			"resource", s.o.Resource.GroupResource(), "object", c.Object().ObjectMeta().Key().String(),
			"stack", string(debug.Stack()))
	}()
	f(c)
}
