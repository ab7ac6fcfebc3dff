package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file takes a shed namespace into the mirror again. The namespace is measured from time to time, and once there
// is room, the Reflector lists the scope anew.

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
	trial bool          // the next list of the scope, or the list under way, brings the whole namespace
	at    time.Time     // when the namespace last came back; zero: never
	// complete is when the functions of OnReturn are called because no object is too large any more; zero: never.
	complete time.Time
}

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
	for _, namespace := range due {
		bytes, err := s.measure(ctx, namespace, room)
		if err != nil {
			s.postpone(namespace)
			s.o.Log.V(1).Info("a namespace stays shed", "resource", s.o.Resource.GroupResource(),
				"namespace", namespace, "reason", err.Error())
			continue
		}
		room -= bytes
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

// try has the scope of a namespace listed, with the namespace.
func (s *Store[T]) try(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc, sh := s.scopeLocked(namespace), s.shed[namespace]
	if sc == nil || sh == nil || !sh.whole {
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

// excludedLocked says that no object of a namespace is held, nor collected by a list that began with trials.
func (s *Store[T]) excludedLocked(namespace string, trials map[string]bool) bool {
	sh := s.shed[namespace]
	return sh != nil && sh.whole && !(sh.back.trial && trials[namespace])
}

// skimsBut says of which objects only the metadata is needed, in a list that begins with trials and on the stream
// behind the list, of which the function keeps nothing.
func (s *Store[T]) skimsBut(trials map[string]bool) func(kube.Key) bool {
	return func(k kube.Key) bool {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.excludedLocked(k.Namespace, trials)
	}
}

// readmittedLocked makes the namespaces listed on trial part of the content again.
func (s *Store[T]) readmittedLocked(trials map[string]bool) (namespaces []string) {
	for namespace := range trials {
		if sh := s.shed[namespace]; sh != nil && sh.whole && sh.back.trial {
			sh.whole, sh.why = false, health.Problem{}
			sh.back.trial, sh.back.at = false, time.Now()
			s.account.try(namespace, false)
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}
