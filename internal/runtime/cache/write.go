package cache

import (
	"fmt"
	"reflect"
	"slices"
	"time"

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
	beyond := t != kube.Added && s.beyondLocked(k, was)
	if beyond || was.shed && !now.shed {
		s.dropKeyLocked(k, now.key.size+now.bytes)
	}
	if now.shed {
		s.putKeyLocked(k, now.key, (beyond || t == kube.Added) && !was.held)
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

// beyondLocked says that an object that exists is one of those beyond maxKeys.
func (s *Store[T]) beyondLocked(k kube.Key, was form[T]) bool {
	sh := s.shed[k.Namespace]
	return sh != nil && sh.keys.more > 0 && !was.known() && s.bad[k] == nil
}

// look returns the form of an object.
func (s *Store[T]) look(k kube.Key) form[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.formLocked(k)
}

// formOf returns the form in which an object is held; whole says that the namespace is shed. The size of a skimmed
// object is a guess: half of the bytes read, because managedFields and the status of others are not held of any
// object.
func (s *Store[T]) formOf(obj T, part kube.Part, whole bool) form[T] {
	f := form[T]{obj: obj, held: true}
	if !part.Skimmed && !part.Large {
		f.bytes = sizeOf(obj)
	}
	large := part.Large || f.bytes > s.o.MaxObjectBytes
	if !whole && !large && !part.Skimmed {
		return f
	}
	f.key, f.shed, f.held = keyOf(obj.ObjectMeta(), f.bytes), true, false
	switch {
	case part.Skimmed:
		f.key.size = int64(part.Size / 2)
	case part.Large:
		f.key.size = int64(part.Size)
	}
	f.bytes = 0
	f.key.large = large
	if large && (part.Whole || !part.Large) && !part.Skimmed {
		f.key.head = headOf(obj)
	}
	return f
}

// holdLocked changes objects and indexes as the form of an object changes from was to now.
func (s *Store[T]) holdLocked(k kube.Key, was, now form[T]) {
	switch {
	case now.held && was.held:
		s.exchangeLocked(s.objects.entry(k), now.obj)
	case now.held:
		s.enterLocked(s.objects.put(now.obj))
	case was.held:
		s.dropLocked(s.objects.entry(k))
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
		if was.shed || sh.whole || s.beyondLocked(k, was) {
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

// Assume has the mirror show an object, in JSON, as if an event had brought the object: for a plan of consequences.
// The mirror must have been listed and get no events, which would know better.
func (s *Store[T]) Assume(text kube.Raw) error {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := kube.Unmarshal(text, obj); err != nil {
		return fmt.Errorf("decode %s: %w", s.o.Resource, err)
	}
	m := obj.ObjectMeta()
	s.mu.RLock()
	sc := s.scopeLocked(m.Namespace)
	rv, synced := "", false
	if sc != nil {
		rv, synced = sc.ResourceVersion, sc.Synced
	}
	s.mu.RUnlock()
	if !synced {
		return s.readError("assume", m.Key().String(), s.outOfScope(m.Key()))
	}
	s.put(sc, obj, kube.Part{Size: len(text)}, kube.Added, rv)
	return nil
}

// replace makes c the content of the scope, in a single step for readers, and notifies the handlers of the
// differences. before is called ahead of the handlers, with the changes, and with how many objects were there, held
// or not.
func (s *Store[T]) replace(sc *scope, c content[T], before func(changes []Change[T], had int)) {
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.handlersMu.RLock()
	defer s.handlersMu.RUnlock()
	changes, had, returned := s.swap(sc, c)
	before(changes, had)
	s.notify(sc, changes...)
	s.setSynced(sc, true)
	for _, namespace := range returned {
		s.o.Log.Info("a namespace is within its memory budget again", "resource", s.o.Resource.GroupResource(),
			"namespace", namespace)
		s.notifyReturn(namespace)
	}
}

// swap makes c visible to readers.
func (s *Store[T]) swap(sc *scope, c content[T]) (changes []Change[T], had int, returned []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had = s.objects.count(sc.Namespace)
	for namespace, sh := range s.shed {
		if sc.covers(namespace) {
			had += sh.keys.len()
		}
	}
	changes, returned = s.replaceLocked(sc.Namespace, &c, !sc.Synced)
	if c.rewound {
		sc.rewound = time.Now()
		sc.Counters.Rewinds++
	}
	sc.Counters.Undecodable += len(c.bad)
	sc.moveTo(c.rv)
	return changes, had, returned
}

// replaceLocked makes c the content of a namespace, of all where namespace is "". The results are the changes in key
// order, for each key the deletion first, and the namespaces held again. Objects enter the indexes in the same order:
// then each is the last of the sets. An unchanged object keeps the old copy, which readers and indexes have.
func (s *Store[T]) replaceLocked(namespace string, c *content[T], initial bool) (changes []Change[T],
	returned []string) {
	s.pruneLocked(c)
	returned = s.readmittedLocked(namespace)
	for _, k := range s.differLocked(namespace, c) {
		was, now := s.formLocked(k), c.form(k)
		s.holdLocked(k, was, now)
		if c.bad[k] == nil || now.known() { // an object that no longer decodes is not gone
			changes = append(changes, changesOf(k, was, now, initial || slices.Contains(returned, k.Namespace))...)
		}
	}
	for k := range s.bad {
		if covers(namespace, k.Namespace) {
			s.dropBadLocked(k)
		}
	}
	for _, bad := range c.bad {
		s.putBadLocked(bad)
	}
	s.replaceKeysLocked(namespace, c, returned)
	return changes, returned
}

// differLocked returns the keys of the objects of which c has something else than the mirror, in order.
func (s *Store[T]) differLocked(namespace string, c *content[T]) (differ []kube.Key) {
	compare := func(k kube.Key) {
		was, now := s.formLocked(k), c.form(k)
		switch {
		case was.held && !now.known() && c.bad[k] != nil: // the last good copy stays
		case !was.held || !now.held,
			any(was.obj) != any(now.obj) && (c.rewound || !sameVersion(was.obj, now.obj)):
			differ = append(differ, k)
		}
	}
	differ = make([]kube.Key, 0, max(0, c.objects.count(namespace)-s.objects.count(namespace)))
	for e := range s.objects.entries(namespace) {
		compare(e.key())
	}
	for e := range c.objects.entries(namespace) {
		if k := e.key(); s.objects.entry(k) == nil {
			compare(k)
		}
	}
	byKeys := func(of string, known *keys) {
		for name := range known.byName {
			k := kube.Key{Namespace: of, Name: name}
			if s.objects.entry(k) == nil && c.objects.entry(k) == nil {
				compare(k)
			}
		}
	}
	for of, sh := range s.shed {
		if covers(namespace, of) {
			byKeys(of, &sh.keys)
		}
	}
	for of, known := range c.keys {
		byKeys(of, known)
	}
	slices.SortFunc(differ, kube.Key.Compare)
	return slices.Compact(differ) // a key in both
}

// replaceKeysLocked makes the keys of c those of a namespace, of which some namespaces are held again.
func (s *Store[T]) replaceKeysLocked(namespace string, c *content[T], returned []string) {
	for of, known := range c.keys {
		if sh := s.shed[of]; sh != nil {
			known.keepReported(&sh.keys)
		}
	}
	for of, sh := range s.shed {
		if !covers(namespace, of) {
			continue
		}
		s.account.add(of, 0, -sh.keys.bytes())
		had := sh.keys.len() > 0
		sh.keys = keys{}
		if had && !slices.Contains(returned, of) {
			s.completeLocked(sh) // takeDue looks whether there are new ones
		}
	}
	for of, known := range c.keys {
		if known.len() > 0 {
			sh := s.shedOfLocked(of)
			sh.keys = *known
			s.account.add(of, 0, known.bytes())
		}
	}
}

// pruneLocked makes keys of the objects of shed namespaces.
func (s *Store[T]) pruneLocked(c *content[T]) {
	for namespace := range c.objects {
		if !s.excludedLocked(namespace) {
			continue
		}
		for e := range c.objects.entries(namespace) {
			c.objects.delete(e.key())
			c.put(s.formOf(e.obj, kube.Part{}, true))
		}
	}
	for k := range c.bad {
		if s.excludedLocked(k.Namespace) {
			delete(c.bad, k)
		}
	}
}

// enterLocked enters an object in all indexes.
func (s *Store[T]) enterLocked(e *entry[T]) {
	s.check.enter(e.obj)
	s.usesLocked(e.obj, 1)
	for _, ix := range s.indexes {
		s.addLocked(ix, e)
	}
}

// dropLocked takes an object out of all indexes.
func (s *Store[T]) dropLocked(e *entry[T]) {
	s.check.leave(e.obj)
	s.usesLocked(e.obj, -1)
	for _, ix := range s.indexes {
		s.deleteLocked(ix, e)
	}
}

// usesLocked notes an object added to the content (times 1), or taken away (times -1).
func (s *Store[T]) usesLocked(obj T, times int64) {
	s.account.add(obj.ObjectMeta().Namespace, times*sizeOf(obj), 0)
}

// exchangeLocked puts obj in the place of an earlier version.
func (s *Store[T]) exchangeLocked(e *entry[T], obj T) {
	old := e.obj
	same := share(old, obj)
	s.check.leave(old)
	s.check.enter(obj)
	s.usesLocked(obj, 1)
	s.usesLocked(old, -1)
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

func sameVersion[T kube.Object](a, b T) bool {
	return (&form[T]{obj: a, held: true}).is(b.ObjectMeta())
}
