package cache

import (
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file is the write side of a Store. A Reflector changes a scope, and so does whoever sheds a namespace or holds
// a namespace again; scope.writing puts the writers in an order, in which the handlers hear of the changes.

// put stores obj, from an event of type t, as far as read; the scope moves to rv and the handlers are notified.
func (s *Store[T]) put(sc *scope, obj T, part kube.Part, t kube.EventType, rv string) {
	defer s.relieve() // once nothing is locked any more
	sc.writing.Lock()
	defer sc.writing.Unlock() // also after a panic, which safeStep contains
	s.handlersMu.RLock()
	defer s.handlersMu.RUnlock()
	changes, why := s.store(sc, obj, part, t, rv)
	s.logShed(obj.ObjectMeta().Namespace, why)
	s.notify(sc, changes...)
}

// store makes obj visible to readers, or notes the key where there is no room. The results are the changes, and why
// the namespace is shed where there was no room for it.
func (s *Store[T]) store(sc *scope, obj T, part kube.Part, t kube.EventType, rv string) (changes []Change[T],
	why *health.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := obj.ObjectMeta()
	k := m.Key()
	if part.Skimmed && !s.wholeLocked(k.Namespace) { // the namespace is back: the object is not known any more
		changes, why = s.shedLocked(k.Namespace, victim{})
	}
	was, sh := s.formLocked(k), s.shed[k.Namespace]
	s.movesLocked(sh)
	now := s.formOf(obj, part, sh != nil && sh.whole)
	if now.shed {
		s.putKeyLocked(k, &now, t == kube.Added && !was.held)
	} else if was.shed {
		s.dropKeyLocked(k, 0)
	}
	s.objects.share(m)
	s.holdLocked(k, was, now)
	s.dropBadLocked(k)
	sc.moveTo(rv)
	return append(changes, changesOf(k, was, now, false)...), why
}

// formLocked returns the form of an object.
func (s *Store[T]) formLocked(k kube.Key) (f form[T]) {
	f.obj, f.held = s.objects.get(k)
	if sh := s.shed[k.Namespace]; sh != nil {
		f.key, f.shed = sh.keys.byName[k.Name]
	}
	return f
}

// look returns the form of an object.
func (s *Store[T]) look(k kube.Key) form[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.formLocked(k)
}

// holdLocked changes objects and indexes as the form of an object changes from was to now.
func (s *Store[T]) holdLocked(k kube.Key, was, now form[T]) {
	switch {
	case now.held && was.held:
		s.exchangeLocked(s.objects.entry(k), now.obj, was.bare(), now.bare())
	case now.held:
		s.enterLocked(s.objects.put(now.obj), now.bare())
	case was.held:
		s.dropLocked(s.objects.entry(k), was.bare())
		s.objects.delete(k)
	}
}

// dropKeyLocked forgets the key of an object; size is the object's size if the key is not known.
func (s *Store[T]) dropKeyLocked(k kube.Key, size int64) {
	sh := s.shed[k.Namespace]
	s.account.add(k.Namespace, 0, -sh.keys.delete(k.Name, size))
	s.completeLocked(sh)
}

// remove drops the object under k, with the deletion read as far as part says, moves the scope to rv and notifies the
// handlers of c, the deletion.
func (s *Store[T]) remove(sc *scope, k kube.Key, part kube.Part, rv string, c Change[T]) {
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.handlersMu.RLock()
	defer s.handlersMu.RUnlock()
	if s.unstore(sc, k, part, rv) {
		s.notify(sc, c)
	}
}

// unstore hides the object under k from readers, and returns whether there was any.
func (s *Store[T]) unstore(sc *scope, k kube.Key, part kube.Part, rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.formLocked(k)
	if sh := s.shed[k.Namespace]; sh != nil {
		s.movesLocked(sh)
		if was.shed || sh.whole {
			s.dropKeyLocked(k, int64(part.Size/2))
		}
	}
	s.holdLocked(k, was, form[T]{})
	s.dropBadLocked(k)
	sc.moveTo(rv)
	return was.known()
}

// advance moves the scope to rv with the content unchanged.
func (s *Store[T]) advance(sc *scope, rv string, bookmark bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.moveTo(rv)
	if bookmark {
		sc.LastBookmark = sc.LastEvent
	}
}

// quarantine remembers an object whose newest version does not decode. The last good copy stays. The result says
// whether the object is new there. Without a name the object can only be counted.
func (s *Store[T]) quarantine(sc *scope, bad *kube.DecodeError, rv string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc.Counters.Undecodable++
	sc.moveTo(rv)
	if bad.Key.Name == "" {
		return false
	}
	if sh := s.shed[bad.Key.Namespace]; sh != nil && sh.whole {
		s.movesLocked(sh)
		return false
	}
	_, known := s.bad[bad.Key]
	s.putBadLocked(bad)
	return !known
}

// putBadLocked puts an object into quarantine, dropBadLocked takes it out.
func (s *Store[T]) putBadLocked(bad *kube.DecodeError) {
	s.dropBadLocked(bad.Key)
	s.bad[bad.Key] = bad
	s.account.add(bad.Key.Namespace, sizeOfBad(bad), 0)
}

func (s *Store[T]) dropBadLocked(k kube.Key) {
	if bad := s.bad[k]; bad != nil {
		s.account.add(k.Namespace, -sizeOfBad(bad), 0)
		delete(s.bad, k)
	}
}
