package cache

import (
	"context"
	"errors"
	"time"

	"skiff/internal/runtime/kube"
)

// This file reads a namespace that was shed, and makes what it has read the content of the mirror for it.

// staging is a namespace that is being read to be held again: what a list brings, and what events have changed since
// it began. Store.mu guards it.
type staging[T kube.Object] struct {
	content[T]
	gone   map[string]string // the version of the deletion of those that events have deleted
	broken bool              // an event was not read as a whole: the namespace has to be read once more
}

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
	log := s.o.Log.WithValues("resource", s.o.Resource.GroupResource(), "namespace", namespace)
	if err == nil {
		log.Info("a namespace is within its memory budget again")
		s.notifyReturn(namespace)
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
		log.V(1).Info("a namespace stays shed", "reason", err.Error())
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
	sh.staged = &staging[T]{content: newContent[T](), gone: map[string]string{}}
	return sc, sh.staged, sc.ResourceVersion
}

// readStaged lists a namespace.
func (s *Store[T]) readStaged(ctx context.Context, namespace string, st *staging[T], rv string) (string, error) {
	o := kube.ListOptions{ResourceVersion: rv, MaxObject: s.maxObject(),
		Again: func() { s.reread(st) },
		Each: func(obj kube.Object, part kube.Part, bad *kube.DecodeError) error {
			if large, part, ok := largeOf[T](bad); ok {
				return s.addStaged(namespace, st, s.formOf(large, part, false), nil)
			}
			if bad != nil {
				return s.addStaged(namespace, st, form[T]{}, bad)
			}
			return s.addStaged(namespace, st, s.formOf(obj.(T), part, false), nil)
		}}
	if rv != "" {
		o.ResourceVersionMatch = "NotOlderThan"
	}
	res, err := kube.List[T](ctx, s.o.Client, s.query(namespace), o)
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
	k, more := kube.Key{}, int64(0)
	if bad != nil {
		k = bad.Key
	} else {
		k = f.obj.ObjectMeta().Key()
	}
	switch {
	case k.Namespace != namespace: // a server that mixes them up
	case bad != nil:
		more = st.takeBad(bad, true)
	default:
		more = st.take(f, true)
	}
	s.account.list(namespace, k.Name, more, f.bytes)
	if !s.account.fits(0) {
		return errNoRoom
	}
	return nil
}

// unshed makes what was collected at a version the content of the mirror for a namespace, and notifies the handlers.
func (s *Store[T]) unshed(sc *scope, namespace string, st *staging[T], version string) error {
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.handlersMu.RLock()
	defer s.handlersMu.RUnlock()
	changes, err := s.unshedStaged(namespace, st, version)
	s.notify(sc, changes...)
	return err
}

func (s *Store[T]) unshedStaged(namespace string, st *staging[T], version string) ([]Change[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shed[namespace]
	if sh == nil || sh.staged != st || st.broken || !s.account.end(namespace) {
		return nil, errNoRoom
	}
	sh.whole, sh.why = false, ""
	changes := s.replaceLocked(namespace, &st.content, true)
	sh.from, sh.back = version, comeback{pause: sh.back.pause, at: time.Now()}
	s.account.unlist(namespace)
	return changes, nil
}

// stale says that something newer is there already: the server may answer a list from a state that the watch has not
// brought yet, and an event may be older than the list. Where versions cannot be compared, events count.
func (st *staging[T]) stale(k kube.Key, rv string, listed bool) bool {
	has, there := st.version(k)
	if !listed {
		return there && older(rv, has)
	}
	gone, deleted := st.gone[k.Name]
	return there && !older(has, rv) || deleted && !older(gone, rv)
}

// take adds an object of the list, or of an event. It returns how much more is collected.
func (st *staging[T]) take(f form[T], listed bool) (more int64) {
	m := f.obj.ObjectMeta()
	if st.stale(m.Key(), m.ResourceVersion, listed) {
		return 0
	}
	delete(st.gone, m.Name)
	return -st.drop(m.Key(), 0) + st.put(f)
}

// takeBad adds an object that does not decode.
func (st *staging[T]) takeBad(bad *kube.DecodeError, listed bool) (more int64) {
	if st.stale(bad.Key, bad.ResourceVersion, listed) {
		return 0
	}
	delete(st.gone, bad.Key.Name)
	return st.putBad(bad)
}

// delete notes a deletion that an event has brought.
func (st *staging[T]) delete(k kube.Key, rv string) (more int64) {
	if st.stale(k, rv, false) {
		return 0
	}
	st.gone[k.Name] = rv
	return -st.drop(k, 0)
}
