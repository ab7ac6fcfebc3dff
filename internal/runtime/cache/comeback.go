package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// lookEvery is how often it is looked whether a namespace that is shed fits again.
	lookEvery = time.Second
	// settleTime is for how long it has to have fitted: objects that come and go many times a second, or a rollout
	// that replaces large ones, must not have it read again each time.
	settleTime = 10 * time.Second
	// maxSettleTime bounds that time, which doubles each time that the namespace does not fit after all: its size is
	// a guess as long as it is not read.
	maxSettleTime = 5 * time.Minute
	// calmTime is how long a namespace has to fit for the next time to be the first again.
	calmTime = 10 * time.Minute
	// comebackTimeout bounds one read of a namespace: fifty pages of 500 objects from a server under load.
	comebackTimeout = time.Minute
)

// comeback is what is known of the way back of a namespace that is shed. Store.mu guards it.
type comeback struct {
	peak  int64         // the most that its objects would have taken since it was looked at last
	since time.Time     // since when it fits
	pause time.Duration // for how long it has to; 0: settleTime
	at    time.Time     // when it was held again, zero if it never was
	try   bool          // it is read once although it does not seem to fit: see tryShed
}

// forgettable says that nothing has to be remembered of a namespace that is not shed.
func (c *comeback) forgettable() bool { return c.at.IsZero() || time.Since(c.at) > calmTime }

// longer makes the next try wait for twice as long.
func (c *comeback) longer() { c.pause = min(2*max(c.pause, settleTime), maxSettleTime) }

func (sh *shed[T]) noteSize() { sh.back.peak = max(sh.back.peak, sh.keys.size) }

// relieve sheds namespaces until all mirrors take no more than they may.
func (s *Store[T]) relieve() {
	for {
		v, over := s.account.over()
		if !over {
			return
		}
		v.account.shed(v.namespace, v)
	}
}

// comeBack holds namespaces again that were shed, once they have fitted for a while, until ctx ends.
func (s *Store[T]) comeBack(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if !s.anyShed() {
			select {
			case <-s.shedNews:
			case <-ctx.Done():
				return
			}
		}
		ticker.Reset(lookEvery)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, namespace := range s.fitting() {
			s.tryBack(ctx, namespace)
		}
	}
}

// tryBack is bringBack with panics contained, as safeStep contains those of a Reflector. The content may be half done,
// so the namespace is shed once more.
func (s *Store[T]) tryBack(ctx context.Context, namespace string) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, bug := p.(mutated); bug {
			panic(p)
		}
		s.o.Log.Error(fmt.Errorf("read %s of namespace %q again: panic: %v", s.o.Resource, namespace, p),
			"reading a namespace again panicked; it stays shed", "stack", string(debug.Stack()))
		s.shedNamespace(namespace, victim{})
	}()
	s.bringBack(ctx, namespace)
}

func (s *Store[T]) anyShed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sh := range s.shed {
		if sh.whole {
			return true
		}
	}
	return false
}

// fitting returns the namespaces that can be held again, as far as is known.
func (s *Store[T]) fitting() (namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for namespace, sh := range s.shed {
		sc := s.scopeLocked(namespace)
		if !sh.whole && sh.keys.len() == 0 && sh.back.forgettable() {
			delete(s.shed, namespace)
		}
		if !sh.whole || sc == nil || sc.listing || !sc.synced {
			continue
		}
		if !s.account.fits(sh.back.peak) {
			sh.back.since = now
		}
		sh.back.peak = sh.keys.size
		if sh.back.try {
			sh.back.try = false
			namespaces = append(namespaces, namespace)
			continue
		}
		if now.Sub(sh.back.since) >= max(sh.back.pause, settleTime) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// tryShed has the namespaces of a scope that are shed read once, although they do not seem to fit. Their sizes are
// guesses, and keys that the server no longer has, because it was restored or has lied, would keep them out until they
// are read on trial (see maxSettleTime).
func (s *Store[T]) tryShed(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, sh := range s.shed {
		if sh.whole && (sc.namespace == "" || sc.namespace == namespace) {
			sh.back.try = true
		}
	}
}

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
		sh.staged, sh.back.since = nil, time.Now()
		sh.back.longer()
		s.account.unlist(namespace)
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

// tellReturn calls the functions of OnReturn.
func (s *Store[T]) tellReturn(namespace string) {
	s.mu.RLock()
	all := s.onReturn // replaced on each change, never changed
	s.mu.RUnlock()
	for _, f := range all {
		(*f)(namespace)
	}
}

// OnReturn adds a function that is called when the objects of a namespace that was shed are held again. It must be
// quick and must not block. remove takes it away; a call that is under way may still end after it.
func (s *Store[T]) OnReturn(f func(namespace string)) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onReturn = append(slices.Clip(s.onReturn), &f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.onReturn = slices.DeleteFunc(slices.Clone(s.onReturn), func(o *func(string)) bool { return o == &f })
	}
}
