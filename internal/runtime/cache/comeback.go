package cache

import (
	"context"
	"fmt"
	"time"
)

// This file finds out when a namespace that was shed fits again, and has it read.

const (
	// lookEvery is how often it is looked whether a namespace that is shed fits again.
	lookEvery = time.Second
	// fitTime is for how long it has to have fitted: objects that come and go many times a second, or a rollout
	// that replaces large ones, must not have it read again each time.
	fitTime = 10 * time.Second
	// maxShortTime bounds that time where the namespace is shed again and again. Once its tenant stops, it is worked
	// on within half a minute.
	maxShortTime = 20 * time.Second
	// maxFitTime bounds that time where the namespace was read in vain: its size is a guess as long as it is not
	// read. What makes it much smaller, or makes much room, ends the wait.
	maxFitTime = 5 * time.Minute
	// calmTime is how long a namespace has to fit for the next time to be the first again.
	calmTime = 10 * time.Minute
)

// comeback is what is known of the way back of a namespace that is shed. Store.mu guards it.
type comeback struct {
	peak  int64         // the most that its objects would have taken since it was looked at last
	since time.Time     // since when it fits
	pause time.Duration // for how long it has to; 0: fitTime
	at    time.Time     // when it was held again, zero if it never was
	try   bool          // it is read once although it does not seem to fit: see tryShed
	// Of the last read that was in vain: what the namespace seemed to take, and what there was for it; 0: there was
	// none.
	vain, room int64
	// complete says that the last object that was too large has gone or become small: OnReturn is to
	// be called.
	complete bool
}

// forgettable says that nothing has to be remembered of a namespace that is not shed.
func (c *comeback) forgettable() bool { return c.at.IsZero() || time.Since(c.at) > calmTime }

// shedAgain makes the next try of a namespace wait for twice as long that was held for a short time only.
func (c *comeback) shedAgain() { c.pause = min(2*max(c.pause, fitTime), maxShortTime) }

// readInVain makes the next try of a namespace wait for twice as long that seemed to take size, less than room.
func (c *comeback) readInVain(size, room int64) {
	c.pause = min(2*max(c.pause, fitTime), maxFitTime)
	c.since, c.vain, c.room = time.Now(), size, room
}

// changed says that a namespace is much smaller than when it was read in vain, or that there is much more room.
func (c *comeback) changed(size, room int64) bool {
	return c.vain > 0 && (size < c.vain/10*9 || room > c.room+c.vain/10)
}

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
		if !s.awaitsComeback() {
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
		for _, namespace := range s.completed() {
			s.notifyReturn(namespace)
		}
		for _, namespace := range s.fitting() {
			s.tryBack(ctx, namespace)
		}
	}
}

// tryBack is bringBack with panics contained. The content may be half done, so the namespace is shed once more.
func (s *Store[T]) tryBack(ctx context.Context, namespace string) {
	if p, stack := contained(func() { s.bringBack(ctx, namespace) }); p != nil {
		s.o.Log.Error(fmt.Errorf("read %s of namespace %q again: panic: %v", s.o.Resource, namespace, p),
			"reading a namespace again panicked; it stays shed", "stack", stack)
		s.shedNamespace(namespace, victim{})
	}
}

// awaitsComeback says that comeBack has something to do.
func (s *Store[T]) awaitsComeback() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, sh := range s.shed {
		if sh.whole || sh.back.complete {
			return true
		}
	}
	return false
}

// wakeComeback has comeBack look.
func (s *Store[T]) wakeComeback() {
	select {
	case s.shedNews <- struct{}{}:
	default: // it will
	}
}

// completed returns the namespaces that are held as a whole again, because nothing in them is too large any more.
func (s *Store[T]) completed() (namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, sh := range s.shed {
		if sh.back.complete && !sh.whole && sh.keys.len() == 0 {
			namespaces = append(namespaces, namespace)
		}
		sh.back.complete = sh.back.complete && sh.keys.len() > 0 && !sh.whole
	}
	return namespaces
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
			continue
		}
		if !sh.whole || sc == nil || sc.listing || !sc.Synced {
			continue
		}
		if !s.account.fits(sh.back.peak) {
			sh.back.since = now
		} else if sh.back.changed(sh.back.peak, s.account.room()) {
			sh.back.since, sh.back.pause, sh.back.vain = now, 0, 0
		}
		sh.back.peak = sh.keys.size
		if sh.back.try {
			sh.back.try = false
			namespaces = append(namespaces, namespace)
			continue
		}
		if now.Sub(sh.back.since) >= max(sh.back.pause, fitTime) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// tryShed has the namespaces of a scope that are shed read once, although they do not seem to fit. Their sizes are
// guesses, and keys that the server no longer has, because it was restored or has lied, would keep them out until they
// are read on trial (see maxFitTime).
func (s *Store[T]) tryShed(sc *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, sh := range s.shed {
		if sh.whole && (sc.Namespace == "" || sc.Namespace == namespace) {
			sh.back.try = true
		}
	}
}
