package cache

import (
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// replace makes c the content of the scope, in one step for readers, and notifies the handlers of how that differs
// from what was there. before is called with these changes, and with how many objects were there, held or not, before
// any handler is.
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

// replaceLocked makes c all that is known of a namespace, of all where it is "". It returns the changes in key order,
// of one key the deletion first, and the namespaces that are held again. Objects enter the indexes in that order, too:
// then each is the last of its sets. An object that does not change keeps its copy, which readers and indexes have.
func (s *Store[T]) replaceLocked(namespace string, c *content[T], initial bool) (changes []Change[T],
	returned []string) {
	s.pruneLocked(c)
	returned = s.readmittedLocked(c.trials)
	for _, k := range s.differLocked(namespace, c) {
		was, now := s.formLocked(k), c.form(k)
		s.holdLocked(k, was, now)
		if c.bad[k] == nil || now.known() { // an object that does not decode any more is not gone
			changes = append(changes, changesOf(k, was, now, initial || c.trials[k.Namespace])...)
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
	s.replaceKeysLocked(namespace, c)
	return changes, returned
}

// differLocked returns the keys of the objects of which c has something else than the mirror, in order.
func (s *Store[T]) differLocked(namespace string, c *content[T]) (differ []kube.Key) {
	compare := func(k kube.Key) {
		was, now := s.formLocked(k), c.form(k)
		switch {
		case was.held && !was.bare() && !now.known() && c.bad[k] != nil: // its last good copy stays
		case !was.held || !now.held || was.bare() != now.bare(),
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
	return slices.Compact(differ) // a key that both have as such
}

// replaceKeysLocked makes the keys of c those of a namespace.
func (s *Store[T]) replaceKeysLocked(namespace string, c *content[T]) {
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
		if had && !c.trials[of] {
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

func sameVersion[T kube.Object](a, b T) bool {
	return (&form[T]{obj: a, held: true}).is(b.ObjectMeta())
}
