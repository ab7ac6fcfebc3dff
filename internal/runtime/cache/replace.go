package cache

import (
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

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
	returned = s.readmittedLocked(c.trials)
	for _, k := range s.differLocked(namespace, c) {
		was, now := s.formLocked(k), c.form(k)
		s.holdLocked(k, was, now)
		if c.bad[k] == nil || now.known() { // an object that no longer decodes is not gone
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
		case was.held && !was.bare() && !now.known() && c.bad[k] != nil: // the last good copy stays
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
	return slices.Compact(differ) // a key in both
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
