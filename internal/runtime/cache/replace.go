package cache

import (
	"cmp"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// This file makes a list the content of a scope.

// content is a whole collection that is about to become a scope's content.
type content[T kube.Object] struct {
	objects table[T]
	bad     map[kube.Key]*kube.DecodeError
	keys    map[string]*keys // by namespace: the objects that are not held as they are
	rv      string
	// rewound: rv is of another history than what the mirror holds, where the same version may be another
	// content.
	rewound bool
}

func newContent[T kube.Object]() content[T] {
	return content[T]{objects: table[T]{}, bad: map[kube.Key]*kube.DecodeError{}, keys: map[string]*keys{}}
}

// replace makes c the content of the scope, in one step for readers, and tells the handlers how that differs from
// what was there. before is called with these changes, and with how many objects were there, held or not, before any
// handler is.
func (s *Store[T]) replace(sc *scope, c content[T], before func(changes []Change[T], had int)) {
	sc.writing.Lock()
	defer sc.writing.Unlock()
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
	for namespace, sh := range s.shed {
		if sc.covers(namespace) {
			had += sh.keys.len()
		}
	}
	return s.replaceLocked(sc, c), had
}

// replaceLocked returns the changes in key order, and of one key the deletion first. Objects enter the indexes in that
// order, too, because then each is the last one of its sets. An object that stays keeps its entry.
func (s *Store[T]) replaceLocked(sc *scope, c content[T]) []Change[T] {
	s.pruneLocked(&c)
	for k := range c.bad { // an object that no longer decodes is not gone
		if _, newer := c.objects.get(k); newer {
			continue
		}
		if old, ok := s.objects.get(k); ok && !s.bareLocked(k) {
			c.objects.put(old)
		}
	}
	changes, stay := s.leaveLocked(sc, &c)
	changes = slices.Grow(changes, max(0, c.objects.count(sc.namespace)-len(stay)))
	for _, e := range stay {
		k := e.key()
		obj, _ := c.objects.get(k)
		bare := c.bare(k)
		if any(obj) != any(e.obj) && (c.rewound || !sameVersion(e.obj, obj) || bare != s.bareLocked(k)) {
			changes = append(changes, Change[T]{Type: Updated, Old: e.obj, New: obj})
			s.exchangeLocked(e, obj, s.bareLocked(k), bare)
		}
		c.objects.putEntry(e) // else readers and indexes have this copy
	}
	for e := range c.objects.entries(sc.namespace) {
		if old := s.objects.entry(e.key()); old == nil || !sameIdentity(old.obj, e.obj) {
			changes = append(changes, Change[T]{Type: Appeared, New: e.obj, Initial: !sc.synced})
		}
	}
	sortChanges(changes)
	for _, change := range changes {
		if k := change.Object().ObjectMeta().Key(); change.Type == Appeared {
			s.enterLocked(c.objects.entry(k), c.bare(k))
		}
	}
	s.swapLocked(sc, c)
	return changes
}

// sortChanges puts changes in key order, and of one key the deletion first.
func sortChanges[T kube.Object](changes []Change[T]) {
	slices.SortFunc(changes, func(a, b Change[T]) int {
		return cmp.Or(byKey(a.Object(), b.Object()), cmp.Compare(order(a.Type), order(b.Type)))
	})
}

// order is the place of a change among those of one key: what ends comes before what begins.
func order(t ChangeType) int {
	if t == Gone {
		return 0
	}
	return 1
}

// bare says whether an object is held without what makes it large.
func (c *content[T]) bare(k kube.Key) bool {
	of := c.keys[k.Namespace]
	return of != nil && of.byName[k.Name].bare
}

// leaveLocked returns the changes of what will not be held any more, or was not held and is gone, or is new and will
// not be held; and the entries that stay.
func (s *Store[T]) leaveLocked(sc *scope, c *content[T]) (changes []Change[T], stay []*entry[T]) {
	for e := range s.objects.entries(sc.namespace) {
		k := e.key()
		now, held := c.objects.get(k)
		if held && sameIdentity(e.obj, now) {
			stay = append(stay, e)
			continue
		}
		left := Change[T]{Type: Gone, Old: e.obj, Unknown: true}
		if of := c.keys[k.Namespace]; !held && of != nil && of.byName[k.Name].uid == e.obj.ObjectMeta().UID {
			left = Change[T]{Type: Shed, Old: e.obj}
		}
		changes = append(changes, left)
		s.dropLocked(e, s.bareLocked(k))
	}
	for namespace, sh := range s.shed {
		if !sc.covers(namespace) {
			continue
		}
		for name, was := range sh.keys.byName {
			k := kube.Key{Namespace: namespace, Name: name}
			if i := c.identify(k); !was.bare && i.uid != was.uid {
				changes = append(changes, Change[T]{Type: Gone, Old: stub[T](k, was), Unknown: true})
			}
		}
	}
	for namespace, of := range c.keys {
		for name, key := range of.byName {
			k := kube.Key{Namespace: namespace, Name: name}
			var was shedKey
			if sh := s.shed[namespace]; sh != nil {
				was = sh.keys.byName[name]
			}
			e := s.objects.entry(k)
			isNew := was.uid != key.uid && (e == nil || e.obj.ObjectMeta().UID != key.uid)
			if key.told = was.told && was.uid == key.uid; isNew && !key.bare {
				changes = append(changes, Change[T]{Type: Shed, Old: stub[T](k, key)})
			}
			of.byName[name] = key
		}
	}
	return changes, stay
}

// identify returns what a content has under a key.
func (c *content[T]) identify(k kube.Key) identity {
	if obj, ok := c.objects.get(k); ok {
		m := obj.ObjectMeta()
		return identity{m.UID, m.ResourceVersion, true}
	}
	if of := c.keys[k.Namespace]; of != nil {
		key, known := of.byName[k.Name]
		return identity{key.uid, key.rv, known}
	}
	return identity{}
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
	s.swapKeysLocked(sc, c)
	if c.rewound {
		sc.rewound = time.Now()
		sc.counters.Rewinds++
	}
	sc.counters.Undecodable += len(c.bad)
	sc.moveTo(c.rv)
}

// swapKeysLocked puts the new keys of a scope in place of the old ones.
func (s *Store[T]) swapKeysLocked(sc *scope, c content[T]) {
	for namespace, sh := range s.shed {
		if !sc.covers(namespace) {
			continue
		}
		s.account.add(namespace, 0, 0, -sh.keys.bytes())
		if !sh.whole && sh.keys.len() > 0 {
			sh.back.complete = true // if there are no others: see completed
			s.wakeComeback()
		}
		sh.keys, sh.from, sh.staged = keys{}, "", nil
	}
	for namespace, of := range c.keys {
		if of.len() == 0 {
			continue
		}
		sh := s.shedOfLocked(namespace)
		sh.keys = *of
		sh.noteSize()
		s.account.add(namespace, 0, 0, of.bytes())
	}
}
