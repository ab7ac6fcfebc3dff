package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file is about objects not held, because they take more memory than there is for the namespace, or than one
// object may. Only their keys are known: name, uid, version and controller. A shed namespace is measured from time to
// time, and once there is room, the Reflector lists the scope anew.

const (
	// firstPause is how long a namespace is out at least. A rollout of large objects, or objects that come and go,
	// must not have the namespace listed each time; and a tenant who stops is worked on within two minutes.
	firstPause = time.Minute
	// maxPause bounds the pause, which doubles while nothing changes in a namespace too large to fit, and each time
	// the namespace was in for less than calmTime.
	maxPause = 5 * time.Minute
	// calmTime is how long a namespace has to fit for the next pause to be the first again.
	calmTime = 10 * time.Minute
	// completeAfter is the delay of OnReturn's functions after the last too large object: an object may become large
	// and small a hundred times a second, and the functions must not be called as often.
	completeAfter = time.Second
	// measureTimeout bounds one measurement: fifty pages of 500 objects from a server under load.
	measureTimeout = time.Minute
)

// errNoRoom says that a namespace does not fit.
var errNoRoom = errors.New("it does not fit")

// errReadmit is why a watch is ended whose scope is to be listed for the sake of a namespace.
var errReadmit = errors.New("a namespace is listed that was over its memory budget")

// readmission is the way of a namespace back. Store.mu guards the fields.
type readmission struct {
	due   time.Time     // when the namespace is measured next
	pause time.Duration // between two measurements
	moved bool          // an event of the namespace has come since the last measurement, or there was none yet
	trial bool          // the next list of the scope, or the list under way, brings the whole namespace: see try
	at    time.Time     // when the namespace last came back; zero: never
	// complete is when the functions of OnReturn are called because no object is too large any more; zero: never.
	complete time.Time
}

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

// maxName bounds the name of an object in a text.
const maxName = 253

// begin sets the first pause of a namespace being shed.
func (r *readmission) begin(now time.Time) {
	if r.at.IsZero() || now.Sub(r.at) >= calmTime {
		r.pause = 0
	}
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.due, r.moved, r.trial = now.Add(r.pause), true, false
}

// postpone sets the next pause of a namespace without room.
func (r *readmission) postpone(now time.Time) {
	if !r.moved {
		r.pause = min(2*r.pause, maxPause)
	}
	r.due, r.moved, r.trial = now.Add(r.pause), false, false
}

// forgettable says that a held namespace needs no memory of the past.
func (r *readmission) forgettable(now time.Time) bool {
	return r.complete.IsZero() && (r.at.IsZero() || now.Sub(r.at) > calmTime)
}

// movesLocked notes an event of a namespace, which may fit by now. sh is nil if the namespace was never shed.
func (s *Store[T]) movesLocked(sh *shed[T]) {
	if sh == nil || sh.back.moved {
		return
	}
	sh.back.moved = true
	if soon := time.Now().Add(firstPause); sh.whole && soon.Before(sh.back.due) {
		sh.back.due = soon
		s.wakeReadmit()
	}
}

// completeLocked notes that no object of a held namespace may be too large any more.
func (s *Store[T]) completeLocked(sh *shed[T]) {
	if !sh.whole && sh.keys.len() == 0 && sh.back.complete.IsZero() {
		sh.back.complete = time.Now().Add(completeAfter)
		s.wakeReadmit()
	}
}

// readmit takes shed namespaces into the mirror again, until ctx ends.
func (s *Store[T]) readmit(ctx context.Context) {
	for ctx.Err() == nil {
		var due <-chan time.Time // nil: there is nothing to wait for
		if at, ok := s.nextDue(); ok {
			due = time.After(time.Until(at))
		}
		select {
		case <-due:
		case <-s.shedNews:
			continue
		case <-ctx.Done():
			return
		}
		if p, stack := contained(func() { s.readmitDue(ctx) }); p != nil {
			s.o.Log.Error(fmt.Errorf("measure %s: panic: %v", s.o.Resource, p),
				"measuring a namespace panicked; it is measured again", "stack", stack)
		}
	}
}

// nextDue returns when readmitDue has something to do next; false: not as things are.
func (s *Store[T]) nextDue() (at time.Time, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sh := range s.shed {
		for _, due := range []time.Time{sh.dueLocked(), sh.back.complete} {
			if !due.IsZero() && (!ok || due.Before(at)) {
				at, ok = due, true
			}
		}
	}
	return at, ok
}

// dueLocked returns when a namespace is to be measured; zero: never.
func (sh *shed[T]) dueLocked() time.Time {
	if !sh.whole || sh.back.trial {
		return time.Time{}
	}
	return sh.back.due
}

// readmitDue measures the namespaces at the end of their pause, has those with room listed, and calls the functions
// of OnReturn for those whose last too large object is gone.
func (s *Store[T]) readmitDue(ctx context.Context) {
	completed, due := s.takeDue(time.Now())
	for _, namespace := range completed {
		s.notifyReturn(namespace)
	}
	room := s.account.room()
	var fit []string
	for _, namespace := range due {
		bytes, err := s.measure(ctx, namespace, room)
		if err != nil {
			s.postpone(namespace)
			s.o.Log.V(1).Info("a namespace stays shed", "resource", s.o.Resource.GroupResource(),
				"namespace", namespace, "reason", err.Error())
			continue
		}
		room -= bytes
		fit = append(fit, namespace)
	}
	for _, namespace := range fit { // together: a list of the scope brings all
		s.try(namespace)
	}
}

// takeDue returns the namespaces whose last too large object is gone, and those to be measured, in order. Forgettable
// namespaces are forgotten.
func (s *Store[T]) takeDue(now time.Time) (completed, due []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, sh := range s.shed {
		back := &sh.back
		switch sc := s.scopeLocked(namespace); {
		case !back.complete.IsZero() && !back.complete.After(now):
			back.complete = time.Time{}
			if !sh.whole && sh.keys.len() == 0 {
				completed = append(completed, namespace)
			}
		case !sh.whole && sh.keys.len() == 0 && back.forgettable(now):
			delete(s.shed, namespace)
		case sh.dueLocked().IsZero() || back.due.After(now):
		case sc == nil || sc.listing || !sc.Synced:
			back.due = now.Add(firstPause)
		default:
			// The next try, should the measurement panic; else postpone or a list sets another.
			back.due = now.Add(back.pause)
			due = append(due, namespace)
		}
	}
	slices.Sort(completed)
	slices.Sort(due)
	return completed, due
}

func (s *Store[T]) postpone(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.shed[namespace]; sh != nil && sh.whole && !sh.back.trial {
		sh.back.postpone(time.Now())
	}
}

// measure reads a namespace, keeps no object, and returns how many bytes all objects would take. The error is
// errNoRoom once the sum is more than room.
func (s *Store[T]) measure(ctx context.Context, namespace string, room int64) (bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	o := kube.ListOptions{MaxObject: s.maxObject(), Again: func() { bytes = 0 },
		Each: func(obj kube.Object, part kube.Part, bad *kube.DecodeError) error {
			if large, part, ok := largeOf[T](bad); ok {
				f := s.formOf(large, part, false)
				bytes += f.key.bytes(large.ObjectMeta().Name)
			} else if bad != nil {
				bytes += sizeOfBad(bad)
			} else if f := s.formOf(obj.(T), part, false); f.shed {
				bytes += f.bytes + f.key.bytes(obj.ObjectMeta().Name)
			} else {
				bytes += f.bytes
			}
			if bytes > room {
				return errNoRoom
			}
			return nil
		}}
	if rv := s.versionOf(namespace); rv != "" {
		o.ResourceVersion, o.ResourceVersionMatch = rv, "NotOlderThan"
	}
	_, err = kube.List[T](ctx, s.o.Client, s.query(namespace), o)
	return bytes, err
}

// versionOf returns the version of the collection shown by the mirror of a namespace.
func (s *Store[T]) versionOf(namespace string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if sc := s.scopeLocked(namespace); sc != nil {
		return sc.ResourceVersion
	}
	return ""
}

// try has the scope of a namespace listed, with the namespace. A list under way has skimmed the objects, and another
// list follows later.
func (s *Store[T]) try(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc, sh := s.scopeLocked(namespace), s.shed[namespace]
	if sc == nil || sh == nil || !sh.whole {
		return
	}
	if sc.listing {
		sh.back.due = time.Now().Add(firstPause)
		return
	}
	sh.back.trial = true
	s.account.try(namespace, true)
	if sc.interrupt != nil {
		sc.interrupt(errReadmit)
	}
}

// onTrial says that the scope is to be listed for the sake of a namespace.
func (s *Store[T]) onTrial(sc *scope) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.onTrialLocked(sc)
}

func (s *Store[T]) onTrialLocked(sc *scope) bool {
	for namespace, sh := range s.shed {
		if sh.back.trial && sc.covers(namespace) {
			return true
		}
	}
	return false
}

// excludedLocked says that no object of a namespace is held, nor collected by a list.
func (s *Store[T]) excludedLocked(namespace string) bool {
	sh := s.shed[namespace]
	return sh != nil && sh.whole && !sh.back.trial
}

// readmittedLocked makes the namespaces listed on trial part of the content again, in one namespace, or in all where
// namespace is "".
func (s *Store[T]) readmittedLocked(namespace string) (returned []string) {
	for of, sh := range s.shed {
		if covers(namespace, of) && sh.whole && sh.back.trial {
			sh.whole, sh.why = false, health.Problem{}
			sh.back.trial, sh.back.at = false, time.Now()
			s.account.try(of, false)
			returned = append(returned, of)
		}
	}
	slices.Sort(returned)
	return returned
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
	return s.excludedLocked(k.Namespace)
}

// maxObject bounds the memory for an object while reading; 0: no bound. In the mirror, an object may take as much.
func (s *Store[T]) maxObject() int64 {
	if s.o.MaxObjectBytes == math.MaxInt64 {
		return 0
	}
	return s.o.MaxObjectBytes
}

// unheldLocked is the answer to a read of an object that may exist and is not held for lack of memory, or of a whole
// namespace where the name is ""; nil: all are held.
func (s *Store[T]) unheldLocked(k kube.Key) *NotServed {
	sh := s.shed[k.Namespace]
	if sh == nil {
		return nil
	}
	e := &NotServed{Problem: sh.why, Resource: s.o.Resource, Key: k}
	key, known := sh.keys.byName[k.Name]
	e.UID, e.ResourceVersion, e.Generation = key.uid, key.rv, key.generation
	e.Size, e.Deleting, e.Reported = key.size, key.deleting, key.reported
	switch {
	case known && key.large:
		e.Problem = s.tooLarge(k, key)
	case sh.whole:
	case k.Name != "" && sh.keys.more == 0 || sh.keys.len() == 0:
		return nil
	default:
		e.Problem = s.someTooLarge(k.Namespace, &sh.keys)
	}
	return e
}

// someTooLarge describes the first too large object of a namespace by name, so that the text stays the same.
func (s *Store[T]) someTooLarge(namespace string, known *keys) health.Problem {
	first := ""
	for name := range known.byName {
		if first == "" || name < first {
			first = name
		}
	}
	key := known.byName[first]
	if first == "" { // all are beyond maxKeys
		first, key.size = "?", known.size/int64(known.more)
	}
	return s.tooLarge(kube.Key{Namespace: namespace, Name: first}, key)
}

// tooLarge describes a too large object, and the next step.
func (s *Store[T]) tooLarge(k kube.Key, key shedKey) health.Problem {
	return health.Problem{Reason: TooLarge, Severity: health.Stalled, Public: fmt.Sprintf(
		"%s %s takes %s of memory, one object may take %s", s.o.Resource.Kind, k, kib(key.size),
		kib(s.o.MaxObjectBytes)),
		Next: "make it smaller" + or(s.o.Advice.ObjectBytes)}
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
func (s *Store[T]) putKeyLocked(k kube.Key, key shedKey, added bool) {
	s.account.add(k.Namespace, 0, s.shedOfLocked(k.Namespace).keys.put(k.Name, key, added))
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
		was, now := s.formLocked(k), s.formOf(e.obj, kube.Part{}, true)
		s.putKeyLocked(k, now.key, true)
		s.holdLocked(k, was, now)
		changes = append(changes, Change[T]{Type: Shed, Old: was.obj})
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
	return health.Problem{Reason: OverBudget, Severity: health.Stalled, Public: what,
		Next: "delete some or make them smaller" + or(s.o.Advice.MirrorBytes) +
			"; until then skiff does nothing with them but apply a change of their owners"}
}

// OverBudget returns why a namespace is shed; nil: the namespace is not.
func (s *Store[T]) OverBudget(namespace string) *NotServed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.wholeLocked(namespace) {
		return nil
	}
	return s.unheldLocked(kube.Key{Namespace: namespace})
}

// Sheds returns the parts not held, by namespace, the largest first.
func (s *Store[T]) Sheds() []ShedNamespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []ShedNamespace
	for namespace, sh := range s.shed {
		if !sh.whole && sh.keys.len() == 0 {
			continue
		}
		one := ShedNamespace{Namespace: namespace, Whole: sh.whole, Objects: sh.keys.len(),
			Bytes:   sh.keys.size,
			Problem: s.unheldLocked(kube.Key{Namespace: namespace}).Problem}
		for name, key := range sh.keys.byName {
			if key.size > one.Most || key.size == one.Most && name < one.Largest {
				one.Largest, one.Most = name, key.size
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b ShedNamespace) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// Reported notes an object whose status says: not worked on. The note ends when the object is held again.
func (s *Store[T]) Reported(k kube.Key, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shed[k.Namespace]
	if sh == nil {
		return
	}
	if key, known := sh.keys.byName[k.Name]; known && key.uid == uid {
		key.reported = true
		sh.keys.byName[k.Name] = key
	}
}
