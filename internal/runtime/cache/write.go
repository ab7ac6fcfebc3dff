package cache

import (
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
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
	// Shed: it exists, and is not in the mirror any more, because there is no room for it (see ShedError).
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

// Change is one change of the mirror. Its objects are shared and must not be changed.
type Change[T kube.Object] struct {
	Type    ChangeType
	Old     T    // nil for Appeared. For Gone and Shed: the last that is known of the object, or its metadata alone
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

// lookup is Get for the Reflector, which also looks before the scope is synced.
func (s *Store[T]) lookup(k kube.Key) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects.get(k)
}

// identity is which object, in which version, the mirror knows under a key, held or not.
type identity struct {
	uid, rv string
	known   bool
}

func (i identity) is(m *kube.Meta) bool { return i.known && i.uid == m.UID }

func (i identity) sameVersion(m *kube.Meta) bool {
	return i.is(m) && i.rv != "" && i.rv == m.ResourceVersion
}

// identify also returns up to which version the events of the namespace are in the mirror, where that is not the
// version of the scope; else "".
func (s *Store[T]) identify(k kube.Key) (i identity, from string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sh := s.shed[k.Namespace]
	if sh != nil {
		from = sh.from
		key, known := sh.keys.byName[k.Name]
		i = identity{key.uid, key.rv, known}
	}
	if obj, ok := s.objects.get(k); ok {
		m := obj.ObjectMeta()
		i = identity{m.UID, m.ResourceVersion, true}
	}
	return i, from
}

// put stores obj, which has come in an event of type t, as far as it was read; it moves the scope to rv and tells the
// handlers.
func (s *Store[T]) put(sc *scope, obj T, part kube.Part, t kube.EventType, rv string) {
	defer s.relieve() // once nothing is locked any more
	sc.writing.Lock()
	defer sc.writing.Unlock() // also after a panic, which safeStep contains
	s.telling.RLock()
	defer s.telling.RUnlock()
	changes, why := s.store(sc, obj, part, t, rv)
	s.logShed(obj.ObjectMeta().Namespace, why)
	for _, c := range changes {
		s.tell(sc, c)
	}
}

// store makes obj visible to readers, or notes its key where there is no room for it. It returns what has changed,
// and why its namespace is shed where it had to be.
func (s *Store[T]) store(sc *scope, obj T, part kube.Part, t kube.EventType, rv string) (changes []Change[T],
	why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := obj.ObjectMeta()
	k := m.Key()
	if part.Skimmed && !s.wholeLocked(k.Namespace) { // it has come back since: this object is not known any more
		changes, why = s.shedLocked(k.Namespace, victim{})
	}
	e := s.objects.entry(k)
	var old T
	var was shedKey
	var hadKey bool
	if e != nil {
		old = e.obj
	}
	sh := s.shed[k.Namespace]
	if sh != nil {
		was, hadKey = sh.keys.byName[k.Name]
	}
	f := s.formOf(obj, part, sh != nil && sh.whole)
	if sh != nil && sh.staged != nil {
		more := sh.staged.event(s.formOf(obj, part, false), part.Skimmed)
		s.account.add(k.Namespace, 0, more, 0)
	}
	if f.shed {
		s.putKeyLocked(k.Namespace, &f, t == kube.Added && e == nil)
	} else if hadKey {
		s.dropKeyLocked(k, 0)
	}
	switch {
	case !f.held && e != nil:
		s.dropLocked(e, was.bare)
		s.objects.delete(k)
	case !f.held:
	case e != nil:
		s.exchangeLocked(e, f.obj, was.bare, f.shed)
	default:
		s.enterLocked(s.objects.putNew(f.obj), f.shed)
	}
	s.dropBadLocked(k)
	sc.moveTo(rv)
	if e == nil && hadKey {
		old = stub[T](k, was)
	}
	return append(changes, change(old, e != nil, hadKey, obj, &f)...), why
}

// change returns what a new version of an object, or another object of its name, changes for the handlers. wasHeld
// and hadKey say that what was there before was held, or that its key was known.
func change[T kube.Object](old T, wasHeld, hadKey bool, obj T, now *form[T]) []Change[T] {
	var out []Change[T]
	known := wasHeld || hadKey
	if known && !sameIdentity(old, obj) {
		out, known, wasHeld = append(out, Change[T]{Type: Gone, Old: old, Unknown: true}), false, false
	}
	switch {
	case !now.held && (wasHeld || !known):
		return append(out, Change[T]{Type: Shed, Old: obj})
	case !now.held:
		return out
	case wasHeld:
		return append(out, Change[T]{Type: Updated, Old: old, New: now.obj})
	}
	return append(out, Change[T]{Type: Appeared, New: now.obj})
}

// dropKeyLocked forgets the key of an object; size is what it took if its key is not known.
func (s *Store[T]) dropKeyLocked(k kube.Key, size int64) {
	sh := s.shed[k.Namespace]
	if sh == nil {
		return
	}
	s.account.add(k.Namespace, 0, 0, -sh.keys.delete(k.Name, size))
	if !sh.whole && sh.keys.len() == 0 {
		sh.back.complete = true
		s.wakeComeback()
	}
}

// remove drops the object under k, moves the scope to rv and tells the handlers of c, its deletion.
func (s *Store[T]) remove(sc *scope, k kube.Key, rv string, c Change[T]) {
	s.drop(sc, k, kube.Part{}, rv, c)
}

// drop is remove of an object as far as its deletion was read.
func (s *Store[T]) drop(sc *scope, k kube.Key, part kube.Part, rv string, c Change[T]) {
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.telling.RLock()
	defer s.telling.RUnlock()
	if s.unstore(sc, k, part, rv) {
		s.tell(sc, c)
	}
}

// unstore hides the object under k from readers. It reports whether there was one.
func (s *Store[T]) unstore(sc *scope, k kube.Key, part kube.Part, rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects.entry(k)
	known := e != nil
	bare := false
	if sh := s.shed[k.Namespace]; sh != nil {
		key, hadKey := sh.keys.byName[k.Name]
		known, bare = known || hadKey, key.bare
		if sh.staged != nil {
			s.account.add(k.Namespace, 0, sh.staged.deleted(k.Name, rv), 0)
		}
		if hadKey || sh.whole {
			s.dropKeyLocked(k, int64(part.Size/2))
		}
	}
	if e != nil {
		s.dropLocked(e, bare)
		s.objects.delete(k)
	}
	s.dropBadLocked(k)
	sc.moveTo(rv)
	return known
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
	if sh := s.shed[bad.Key.Namespace]; sh != nil && sh.whole {
		if sh.staged != nil {
			s.account.add(bad.Key.Namespace, 0, sh.staged.undecodable(bad), 0)
		}
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
	s.account.add(k.Namespace, sizeOfBad(bad), 0, 0)
}

func (s *Store[T]) dropBadLocked(k kube.Key) {
	if bad := s.bad[k]; bad != nil {
		s.account.add(k.Namespace, -sizeOfBad(bad), 0, 0)
		delete(s.bad, k)
	}
}

func (sc *scope) moveTo(rv string) {
	sc.rv = rv
	sc.lastEvent = time.Now()
	sc.contact = sc.lastEvent
}

// sameIdentity tells two versions of one object from two objects of one name.
func sameIdentity[T kube.Object](a, b T) bool {
	return a.ObjectMeta().UID == b.ObjectMeta().UID
}

func sameVersion[T kube.Object](a, b T) bool {
	rv := a.ObjectMeta().ResourceVersion
	return rv != "" && rv == b.ObjectMeta().ResourceVersion && sameIdentity(a, b)
}
