package cache

import (
	"errors"
	"fmt"
	"math"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file is about objects not held, because they take more memory than there is for the namespace, or than one
// object may. Only their keys are known: name, uid, version and controller.

// DefaultObjectBytes is how large an object may be in a mirror, by default: a pod template of a hundred containers
// has a tenth of the size, and a hundred objects as large still fit into a container of 128 MiB.
const DefaultObjectBytes = 256 << 10

// shed is all that is known of the objects of a namespace not held. Store.mu guards the fields.
type shed[T kube.Object] struct {
	whole bool           // no object of the namespace is held, but those being deleted
	why   health.Problem // with the figures of the moment of shedding
	keys  keys
	back  readmission
}

// shedOfLocked returns the shed of a namespace, to be added to.
func (s *Store[T]) shedOfLocked(namespace string) *shed[T] {
	sh := s.shed[namespace]
	if sh == nil {
		sh = &shed[T]{}
		s.shed[namespace] = sh
	}
	return sh
}

// wholeLocked says whether a namespace is shed.
func (s *Store[T]) wholeLocked(namespace string) bool {
	sh := s.shed[namespace]
	return sh != nil && sh.whole
}

// skims says of which objects a Reflector needs only the metadata.
func (s *Store[T]) skims(k kube.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.wholeLocked(k.Namespace)
}

// maxObject bounds the memory for an object while reading; 0: no bound. In the mirror, an object may take as much.
func (s *Store[T]) maxObject() int64 {
	if s.o.MaxObjectBytes == math.MaxInt64 {
		return 0
	}
	return s.o.MaxObjectBytes
}

// unheldLocked is the answer to a read of an object not held for lack of memory, or of a whole namespace where the
// name is ""; nil: all are held.
func (s *Store[T]) unheldLocked(k kube.Key) *NotServed {
	sh := s.shed[k.Namespace]
	if sh == nil {
		return nil
	}
	e := &NotServed{Problem: sh.why, Resource: s.o.Resource, Key: k}
	key, known := sh.keys.byName[k.Name]
	e.Size = key.size
	switch {
	case known && key.large:
		e.Problem = s.tooLarge(k, key)
	case sh.whole:
	case k.Name != "" || len(sh.keys.byName) == 0:
		return nil
	default: // some objects are too large: the first by name, so that the text stays the same
		first := ""
		for name := range sh.keys.byName {
			if first == "" || name < first {
				first = name
			}
		}
		e.Problem = s.tooLarge(kube.Key{Namespace: k.Namespace, Name: first}, sh.keys.byName[first])
	}
	return e
}

// tooLarge describes a too large object, and the next step.
func (s *Store[T]) tooLarge(k kube.Key, key shedKey) health.Problem {
	return health.Problem{Reason: TooLarge, Severity: health.Stalled, Public: fmt.Sprintf(
		"%s %s takes %s of memory, one object may take %s", s.o.Resource.Kind, k, kib(key.size),
		kib(s.o.MaxObjectBytes)),
		Next: "make it smaller" + or(s.o.Advice.ObjectBytes)}
}

// or adds another thing to do.
func or(advice string) string {
	if advice == "" {
		return ""
	}
	return ", or " + advice
}

func kib(bytes int64) string {
	if bytes >= 10<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", (bytes+1023)>>10)
}

// ownsShedLocked says whether an object not held has an owner of that uid, or may have.
func (s *Store[T]) ownsShedLocked(namespace, uid string) *NotServed {
	of := func(namespace string, sh *shed[T]) *NotServed {
		if sh.keys.more > 0 {
			return s.unheldLocked(kube.Key{Namespace: namespace})
		}
		for name, key := range sh.keys.byName {
			if key.owner.UID == uid {
				return s.unheldLocked(kube.Key{Namespace: namespace, Name: name})
			}
		}
		return nil
	}
	if namespace != "" {
		sh := s.shed[namespace]
		if sh == nil {
			return nil
		}
		if sh.whole {
			return s.unheldLocked(kube.Key{Namespace: namespace})
		}
		return of(namespace, sh)
	}
	for namespace, sh := range s.shed {
		if e := of(namespace, sh); e != nil {
			return e
		}
	}
	return nil
}

// putKeyLocked notes an object not held whole.
func (s *Store[T]) putKeyLocked(k kube.Key, f *form[T], added bool) {
	sh := s.shedOfLocked(k.Namespace)
	more, stored := sh.keys.put(k.Name, f.key, added)
	f.held = f.held && stored
	s.account.add(k.Namespace, 0, more)
}

// shedNamespace drops the objects of a namespace, but for their keys, and notifies the handlers. Any goroutine
// without a lock of a Store may call: the memory is needed now, and the Reflector may wait for an event for minutes.
func (s *Store[T]) shedNamespace(namespace string, v victim) {
	s.mu.RLock()
	sc := s.scopeLocked(namespace)
	s.mu.RUnlock()
	if sc == nil {
		return
	}
	sc.writing.Lock()
	defer sc.writing.Unlock()
	s.handlersMu.RLock()
	defer s.handlersMu.RUnlock()
	changes, why := s.letGo(sc, namespace, v)
	s.logShed(namespace, why)
	s.notify(sc, changes...)
}

// logShed logs a shed namespace; why is nil if the namespace was shed before.
func (s *Store[T]) logShed(namespace string, why *health.Problem) {
	if why != nil {
		s.o.Log.Error(errors.New(why.Note()), "a namespace is over its memory budget; the others are not affected",
			"resource", s.o.Resource.GroupResource(), "namespace", namespace)
	}
}

// letGo is shedNamespace for the content.
func (s *Store[T]) letGo(sc *scope, namespace string, v victim) (changes []Change[T], why *health.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scopeLocked(namespace) != sc {
		return nil, nil
	}
	return s.shedLocked(namespace, v)
}

// shedLocked makes keys of the objects of a namespace. why is nil if the namespace was shed before.
func (s *Store[T]) shedLocked(namespace string, v victim) (changes []Change[T], why *health.Problem) {
	s.account.unlist(namespace)
	sh := s.shedOfLocked(namespace)
	s.account.try(namespace, false)
	s.sheds++
	if sh.whole {
		if sh.back.trial { // else another mirror over the budget of all was faster
			sh.back.postpone(time.Now())
			s.wakeReadmit()
		}
		return nil, nil
	}
	sh.whole, sh.why = true, s.whyShed(namespace, v)
	sh.back.begin(time.Now())
	for k := range s.bad {
		if k.Namespace == namespace {
			s.dropBadLocked(k)
		}
	}
	for e := range s.objects.entries(namespace) {
		k := e.key()
		was := s.formLocked(k)
		if was.bare() {
			continue
		}
		now := s.formOf(e.obj, kube.Part{}, true)
		s.putKeyLocked(k, &now, true)
		s.holdLocked(k, was, now)
		if !now.held {
			changes = append(changes, Change[T]{Type: Shed, Old: was.obj})
		}
	}
	s.wakeReadmit()
	return changes, new(sh.why)
}

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

// wakeReadmit has readmit look at the due namespaces.
func (s *Store[T]) wakeReadmit() {
	select {
	case s.shedNews <- struct{}{}:
	default: // woken already
	}
}

// maxName bounds the name of an object in a text.
const maxName = 253

// whyShed says why a namespace is shed, and the next step.
func (s *Store[T]) whyShed(namespace string, v victim) health.Problem {
	of := s.o.Resource.GroupResource()
	if namespace != "" {
		of += " of namespace " + namespace
	}
	what := fmt.Sprintf("the %s take %s", of, kib(v.bytes))
	switch {
	case v.bytes == 0:
		what = fmt.Sprintf("the %s took more memory than there is", of)
	case v.all:
		what += fmt.Sprintf(", the most of all, and all mirrors together may take %s", kib(v.most))
	default:
		what += fmt.Sprintf(", the most of all, and all %s together may take %s", s.o.Resource.Plural, kib(v.most))
	}
	var largest T
	most := int64(0)
	for obj := range s.objects.all(namespace) {
		if n := sizeOf(obj); n > most {
			largest, most = obj, n
		}
	}
	name := v.largest
	if most > 0 {
		name = largest.ObjectMeta().Name
	} else {
		most = v.largestBytes
	}
	if most > 0 {
		what += fmt.Sprintf("; the largest is %s with %s", kube.Printable(name, maxName), kib(most))
	}
	until := "skiff applies a change of their owners to those that exist, and does nothing else"
	if s.o.Owners {
		until = "skiff leaves them as they are"
	}
	return health.Problem{Reason: OverBudget, Severity: health.Stalled, Public: what,
		Next: "delete some or make them smaller" + or(s.o.Advice.MirrorBytes) + "; until then " + until}
}
