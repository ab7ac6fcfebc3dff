package cache

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"skiff/internal/kube"
)

// This file is the write side of a Store. Only the Reflector of a scope calls it, so between two calls
// nobody else changes that scope.

// ChangeType says what happened to an object.
type ChangeType int

// The changes. An object that was deleted and created again under the same name comes as Gone and Appeared,
// never as Updated.
const (
	Appeared ChangeType = iota + 1
	Updated
	Gone // gone from the mirror: deleted, or no longer selected
)

func (t ChangeType) String() string {
	switch t {
	case Appeared:
		return "ADDED"
	case Updated:
		return "MODIFIED"
	case Gone:
		return "DELETED"
	}
	return fmt.Sprintf("ChangeType(%d)", int(t))
}

// Change is one change of the mirror. Its objects are shared and must not be changed.
type Change[T kube.Object] struct {
	Type    ChangeType
	Old     T    // nil for Appeared. For Gone: the last that is known of the object
	New     T    // nil for Gone
	Initial bool // part of the first list: the object need not be new
	Unknown bool // of Gone: found out by a list, so Old may not be the object's final state
}

// Object returns New, or Old where the object is gone.
func (c Change[T]) Object() T {
	if c.Type == Gone {
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

// put stores obj, moves the scope to rv and tells the handlers.
func (s *Store[T]) put(sc *scope, obj T, rv string) {
	s.telling.RLock()
	defer s.telling.RUnlock()
	old, had := s.store(sc, obj, rv)
	switch {
	case !had:
		s.tell(sc, Change[T]{Type: Appeared, New: obj})
	case !sameIdentity(old, obj):
		s.tell(sc, Change[T]{Type: Gone, Old: old, Unknown: true})
		s.tell(sc, Change[T]{Type: Appeared, New: obj})
	default:
		s.tell(sc, Change[T]{Type: Updated, Old: old, New: obj})
	}
}

// store makes obj visible to readers. It returns the version that was there before.
func (s *Store[T]) store(sc *scope, obj T, rv string) (old T, had bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := obj.ObjectMeta().Key()
	if e := s.objects.entry(k); e != nil {
		old, had = e.obj, true
		s.exchangeLocked(e, obj)
	} else {
		s.enterLocked(s.objects.putNew(obj))
	}
	s.dropBadLocked(k)
	sc.moveTo(rv)
	return old, had
}

// remove drops the object under k, moves the scope to rv and tells the handlers of c, its deletion.
func (s *Store[T]) remove(sc *scope, k kube.Key, rv string, c Change[T]) {
	s.telling.RLock()
	defer s.telling.RUnlock()
	if s.unstore(sc, k, rv) {
		s.tell(sc, c)
	}
}

// unstore hides the object under k from readers. It reports whether there was one.
func (s *Store[T]) unstore(sc *scope, k kube.Key, rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects.entry(k)
	if e != nil {
		s.dropLocked(e)
		s.objects.delete(k)
	}
	s.dropBadLocked(k)
	sc.moveTo(rv)
	return e != nil
}

// advance moves the scope to rv with its content as it is: a bookmark.
func (s *Store[T]) advance(sc *scope, rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.moveTo(rv)
}

// bookmark notes that a bookmark has come.
func (s *Store[T]) bookmark(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.bookmark = time.Now()
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
	s.putBadLocked(bad.Key, bad)
	return !known
}

// putBadLocked puts an object into quarantine, dropBadLocked takes it out.
func (s *Store[T]) putBadLocked(k kube.Key, bad *kube.DecodeError) {
	s.dropBadLocked(k)
	s.bad[k] = bad
	s.usesLocked(sizeOfBad(bad))
}

func (s *Store[T]) dropBadLocked(k kube.Key) {
	if bad := s.bad[k]; bad != nil {
		s.usesLocked(-sizeOfBad(bad))
		delete(s.bad, k)
	}
}

func (sc *scope) moveTo(rv string) {
	sc.rv = rv
	sc.lastEvent = time.Now()
	sc.contact = sc.lastEvent
}

// replace makes c the content of the scope, in one step for readers, and tells the handlers how that differs from
// what was there. before is called with these changes, and with how many objects
// were there, before any handler is.
func (s *Store[T]) replace(sc *scope, c content[T], before func(changes []Change[T], had int)) {
	s.telling.RLock()
	defer s.telling.RUnlock()
	changes, had := s.swap(sc, c)
	before(changes, had)
	for _, change := range changes {
		s.tell(sc, change)
	}
	s.setSynced(sc)
}

// swap makes c visible to readers.
func (s *Store[T]) swap(sc *scope, c content[T]) (changes []Change[T], had int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had = s.objects.count(sc.namespace)
	return s.replaceLocked(sc, c), had
}

// replaceLocked returns the changes in key order, and of one key the deletion first. Objects enter the indexes in that
// order, too, because then each is the last one of its sets. An object that stays keeps its entry.
func (s *Store[T]) replaceLocked(sc *scope, c content[T]) []Change[T] {
	var changes []Change[T]
	var stay []*entry[T]
	for k := range c.bad { // an object that no longer decodes is not gone
		if _, newer := c.objects.get(k); newer {
			continue
		}
		if old, ok := s.objects.get(k); ok {
			c.objects.put(old)
		}
	}
	for e := range s.objects.entries(sc.namespace) {
		if now, ok := c.objects.get(e.key()); !ok || !sameIdentity(e.obj, now) {
			changes = append(changes, Change[T]{Type: Gone, Old: e.obj, Unknown: true})
			s.dropLocked(e)
		} else {
			stay = append(stay, e)
		}
	}
	changes = slices.Grow(changes, max(0, c.objects.count(sc.namespace)-len(stay)))
	for _, e := range stay {
		obj, _ := c.objects.get(e.key())
		if any(obj) != any(e.obj) && (c.rewound || !sameVersion(e.obj, obj)) {
			changes = append(changes, Change[T]{Type: Updated, Old: e.obj, New: obj})
			s.exchangeLocked(e, obj)
		}
		c.objects.putEntry(e) // else readers and indexes have this copy
	}
	for e := range c.objects.entries(sc.namespace) {
		if old := s.objects.entry(e.key()); old == nil || !sameIdentity(old.obj, e.obj) {
			changes = append(changes, Change[T]{Type: Appeared, New: e.obj, Initial: !sc.synced})
		}
	}
	slices.SortFunc(changes, func(a, b Change[T]) int {
		return cmp.Or(byKey(a.Object(), b.Object()), cmp.Compare(b.Type, a.Type))
	})
	for _, change := range changes {
		if change.Type == Appeared {
			s.enterLocked(c.objects.entry(change.New.ObjectMeta().Key()))
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
			s.dropBadLocked(k)
		}
	}
	for k, bad := range c.bad {
		s.putBadLocked(k, bad)
	}
	if c.rewound {
		sc.rewound = time.Now()
		sc.counters.Rewinds++
	}
	sc.counters.Undecodable += len(c.bad)
	sc.moveTo(c.rv)
}

// sameIdentity tells two versions of one object from two objects of one name.
func sameIdentity[T kube.Object](a, b T) bool {
	return a.ObjectMeta().UID == b.ObjectMeta().UID
}

func sameVersion[T kube.Object](a, b T) bool {
	rv := a.ObjectMeta().ResourceVersion
	return rv != "" && rv == b.ObjectMeta().ResourceVersion && sameIdentity(a, b)
}
