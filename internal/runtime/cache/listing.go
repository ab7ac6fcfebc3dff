package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// listing collects a list that is to become the content of a scope, and keeps keys while reading, where there is no
// room for objects.
type listing[T kube.Object] struct {
	*Reflector[T]
	content content[T]
	unset   bool // of the state: the same version may be of another history
	slot    *slot
	sheds   int // Store.sheds when the content was last looked through
}

// begin begins the list, or begins anew. Until close, no other namespace goes on trial.
func (l *listing[T]) begin() {
	l.content = newContent[T]()
	l.store.account.unlist(l.scope.Namespace)
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.scope.listing, l.sheds = true, l.store.sheds
}

func (l *listing[T]) close() {
	l.store.mu.Lock()
	l.scope.listing = false
	l.store.mu.Unlock()
	l.store.account.unlist(l.scope.Namespace)
}

// collect reads the initial events of a watch up to their end.
func (l *listing[T]) collect(stream *kube.Stream[T], opened time.Time, watchdog *time.Timer) error {
	for {
		ev, err := stream.Next()
		switch bad, ok := errors.AsType[*kube.DecodeError](err); {
		case ok:
			l.addBad(bad, ev.Type)
		case err == io.EOF:
			return fmt.Errorf("read initial events of %s: %w", l.query, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("read initial events of %s: %w", l.query, err)
		case ev.InitialEventsEnd && ev.ResourceVersion == "":
			return fmt.Errorf("read initial events of %s: the end marker carries no resource version", l.query)
		case ev.InitialEventsEnd:
			l.content.rv = ev.ResourceVersion
			return nil
		case ev.Type == kube.Added, ev.Type == kube.Modified:
			l.add(ev.Object, ev.Part)
		case ev.Type == kube.Deleted:
			l.delete(ev.Object.ObjectMeta().Key(), int64(ev.Part.Size/2))
		case ev.Type == kube.Bookmark:
			continue // no progress: does not count as activity for the watchdog
		default:
			l.store.count(l.scope, func(n *Counters) { n.UnknownType++ })
		}
		if time.Since(opened) > maxStreamedList {
			return fmt.Errorf("read initial events of %s: %w", l.query, errNoEndMarker)
		}
		watchdog.Reset(endMarkerTimeout)
	}
}

// add takes an object. Where the mirror holds the same version, the mirror's copy is taken, so that a second list
// does not need the memory twice. (With unset, the same version may be of another history.) For a repeated key the
// last object counts.
func (l *listing[T]) add(obj T, part kube.Part) {
	l.slot.moves()
	k := obj.ObjectMeta().Key()
	if !l.belongs(k) {
		return
	}
	s := l.store
	s.mu.RLock()
	whole, sheds := s.excludedLocked(k.Namespace), s.sheds
	old := s.formLocked(k)
	s.mu.RUnlock()
	if sheds != l.sheds {
		l.prune()
	}
	more := -l.content.drop(k, 0)
	f := s.formOf(obj, part, whole)
	if old.held && !f.shed && !l.unset && sameVersion(old.obj, obj) {
		l.content.objects.put(old.obj)
		more += f.bytes
	} else {
		more += l.content.put(f)
	}
	s.account.list(k.Namespace, k.Name, more, f.bytes)
	s.relieve()
}

// delete removes the object collected under a key; size is the object's size if the key is not known.
func (l *listing[T]) delete(k kube.Key, size int64) {
	l.store.account.list(k.Namespace, k.Name, -l.content.drop(k, size), 0)
}

// prune makes keys of the collected objects of namespaces shed meanwhile.
func (l *listing[T]) prune() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.sheds = l.store.sheds
	l.store.pruneLocked(&l.content)
}

// addBad takes an object that does not decode.
func (l *listing[T]) addBad(bad *kube.DecodeError, t kube.EventType) {
	if obj, part, ok := largeOf[T](bad); ok && t != kube.Deleted {
		l.add(obj, part)
		return
	}
	l.slot.moves()
	switch {
	case bad.Key.Name == "": // no key to remember
		l.store.count(l.scope, func(n *Counters) { n.Undecodable++ })
		l.log.Error(bad,
			"an object of the list does not decode and has no readable name; it is left out")
	case !l.belongs(bad.Key):
	case t == kube.Deleted:
		l.delete(bad.Key, 0)
	case !l.store.skims(bad.Key):
		l.store.account.list(bad.Key.Namespace, bad.Key.Name, l.content.putBad(bad), sizeOfBad(bad))
		l.store.relieve()
	}
}

// initialLists is how many full lists a process has in flight. The server's priority and fairness gives a plain
// client a few dozen seats and a large list takes up to ten, so more at a time do not end sooner; and each list holds
// its decoded content before the swap.
const initialLists = 4

// limiter bounds the full lists in flight, so that a process at the start, or after the loss of all watches at once,
// does not ask for everything at the same moment.
type limiter struct{ slots chan struct{} }

// newLimiter returns a limiter of n lists at a time; n below 1 counts as 1.
func newLimiter(n int) *limiter {
	return &limiter{slots: make(chan struct{}, max(n, 1))}
}

const (
	// slotTime is how long a list may keep a slot. A large list over a slow line goes on without a slot, and takes
	// little of the server per second.
	slotTime = time.Minute
	// slotIdle is how long a list may keep a slot while fewer than slotObjects come: a list in drops must not hold up
	// the other mirrors. A server under load may need some seconds for the first byte.
	slotIdle    = 15 * time.Second
	slotObjects = 100
)

// slot is the place of a list in flight.
type slot struct {
	give    func()
	timer   *time.Timer
	until   time.Time
	objects int // since the timer was started
}

// acquire waits for a slot; false: ctx ended first. The slot is given back when the time is up, also before release.
func (l *limiter) acquire(ctx context.Context) (*slot, bool) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-l.slots })
	return &slot{give: give, timer: time.AfterFunc(slotIdle, give), until: time.Now().Add(slotTime)}, true
}

// moves notes an object that has come.
func (s *slot) moves() {
	if s.objects++; s.objects >= slotObjects {
		s.objects = 0
		s.timer.Reset(min(slotIdle, time.Until(s.until)))
	}
}

// release may be called more than once.
func (s *slot) release() {
	s.timer.Stop()
	s.give()
}
