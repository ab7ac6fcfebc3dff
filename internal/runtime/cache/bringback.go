package cache

import (
	"context"
	"errors"
	"time"

	"skiff/internal/runtime/kube"
)

// This file reads a namespace that was shed and holds it again. When, is in comeback.go.

// comebackTimeout bounds one read of a namespace: fifty pages of 500 objects from a server under load.
const comebackTimeout = time.Minute

// errNoRoom says that a namespace does not fit after all.
var errNoRoom = errors.New("it does not fit")

// bringBack reads a namespace and holds it again, if it fits.
func (s *Store[T]) bringBack(ctx context.Context, namespace string) {
	if !s.account.begin(namespace) {
		return // another mirror does
	}
	defer s.account.end(namespace)
	ctx, cancel := context.WithTimeout(ctx, comebackTimeout)
	defer cancel()
	sc, st, rv := s.stage(namespace)
	if st == nil {
		return
	}
	version, err := s.readStaged(ctx, namespace, st, rv)
	if err == nil {
		err = s.unshed(sc, namespace, st, version)
	}
	if err == nil {
		s.o.Log.Info("a namespace is within its memory budget again", "resource", s.o.Resource.GroupResource(),
			"namespace", namespace)
		s.tellReturn(namespace)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.shed[namespace]; sh != nil && sh.staged == st {
		sh.staged = nil
		s.account.unlist(namespace)
		sh.back.readInVain(sh.keys.size, s.account.room())
	}
	if ctx.Err() == nil {
		s.o.Log.V(1).Info("a namespace stays shed", "resource", s.o.Resource.GroupResource(), "namespace", namespace,
			"reason", err.Error())
	}
}

// stage begins to collect a namespace. It returns the version that the mirror is at.
func (s *Store[T]) stage(namespace string) (*scope, *staging[T], string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc, sh := s.scopeLocked(namespace), s.shed[namespace]
	if sc == nil || sc.listing || sh == nil || !sh.whole || sh.staged != nil {
		return nil, nil, ""
	}
	sh.staged = &staging[T]{objects: map[string]form[T]{}, bad: map[string]*kube.DecodeError{},
		gone: map[string]string{}}
	return sc, sh.staged, sc.rv
}

// readStaged lists a namespace.
func (s *Store[T]) readStaged(ctx context.Context, namespace string, st *staging[T], rv string) (string, error) {
	o := kube.ListOptions{ResourceVersion: rv, ResourceVersionMatch: "NotOlderThan", MaxObject: s.maxObject(),
		Again: func() { s.reread(st) },
		Each: func(obj kube.Object, part kube.Part, bad *kube.DecodeError) error {
			if large, part, ok := largeOf[T](bad); ok {
				return s.addStaged(namespace, st, s.formOf(large, part, false), nil)
			}
			if bad != nil {
				return s.addStaged(namespace, st, form[T]{}, bad)
			}
			if s.trim != nil {
				s.trim(obj.(T))
			}
			return s.addStaged(namespace, st, s.formOf(obj.(T), part, false), nil)
		}}
	if rv == "" {
		o.ResourceVersionMatch = ""
	}
	res, err := kube.List[T](ctx, s.o.Client, s.queryIn(namespace), o)
	return res.ResourceVersion, err
}

// reread notes that the list begins anew. What it has brought may be gone by now, and events of that are passed over
// later, so the next try reads the namespace.
func (s *Store[T]) reread(st *staging[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.broken = true
}

// addStaged adds an object of the list, or one that does not decode, if it fits.
func (s *Store[T]) addStaged(namespace string, st *staging[T], f form[T], bad *kube.DecodeError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.shed[namespace]; sh == nil || sh.staged != st || st.broken {
		return errNoRoom // it was shed meanwhile, or has to be read once more
	}
	switch {
	case bad == nil:
		s.account.add(namespace, 0, st.listed(f), 0)
	case bad.Key.Namespace == namespace:
		s.account.add(namespace, 0, st.undecodable(bad), 0)
	}
	if !s.account.fits(0) {
		return errNoRoom
	}
	return nil
}

// unshed makes what was collected the content of the mirror for a namespace, and tells the handlers.
func (s *Store[T]) unshed(sc *scope, namespace string, st *staging[T], version string) error {
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.telling.RLock()
	defer s.telling.RUnlock()
	changes, err := s.unshedStaged(namespace, st, version)
	for _, c := range changes {
		s.tell(sc, c)
	}
	return err
}

func (s *Store[T]) unshedStaged(namespace string, st *staging[T], version string) (changes []Change[T], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shed[namespace]
	if sh == nil || sh.staged != st || st.broken || !s.account.end(namespace) {
		return nil, errNoRoom
	}
	before := sh.keys
	s.account.add(namespace, 0, 0, -before.bytes())
	sh.whole, sh.staged, sh.keys, sh.why = false, nil, keys{}, ""
	sh.back = comeback{pause: sh.back.pause, at: time.Now()}
	sh.from = version
	for name, was := range before.byName {
		k := kube.Key{Namespace: namespace, Name: name}
		now, there := st.objects[name]
		if was.bare && (!there || !now.held) {
			s.dropLocked(s.objects.entry(k), true)
			s.objects.delete(k)
		}
		if _, bad := st.bad[name]; !bad && (!there || now.uid != was.uid) {
			changes = append(changes, Change[T]{Type: Gone, Old: stub[T](k, was), Unknown: true})
		}
	}
	for name, now := range st.objects {
		if now.shed {
			s.putKeyLocked(namespace, &now, true)
		}
		if !now.held {
			continue
		}
		if e := s.objects.entry(kube.Key{Namespace: namespace, Name: name}); e != nil { // bare until now
			s.exchangeLocked(e, now.obj, true, now.shed)
		} else {
			s.enterLocked(s.objects.putNew(now.obj), now.shed)
		}
		changes = append(changes, Change[T]{Type: Appeared, New: now.obj, Initial: true})
	}
	for name, bad := range st.bad {
		s.putBadLocked(kube.Key{Namespace: namespace, Name: name}, bad)
	}
	s.account.unlist(namespace)
	sortChanges(changes)
	return changes, nil
}
