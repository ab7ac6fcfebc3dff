package cache

import (
	"context"
	"sync"
	"time"
)

// DefaultInitialLists is how many full lists one process has in flight. The server's priority and fairness
// gives a plain client a few dozen seats and a large list takes up to ten of them, so more at a time do not
// end sooner; and each holds its decoded content before it is swapped in.
const DefaultInitialLists = 4

// Limiter bounds how many full lists are in flight, so that a process that starts, or that loses all its
// watches at once, does not ask for everything at the same moment.
type Limiter struct{ slots chan struct{} }

// NewLimiter returns a Limiter of n lists at a time; n below 1 counts as 1.
func NewLimiter(n int) *Limiter {
	return &Limiter{slots: make(chan struct{}, max(n, 1))}
}

const (
	// slotTime is how long a list may keep its slot. A large one over a slow line goes on without: it takes little of
	// the server per second.
	slotTime = time.Minute
	// slotIdle is how long it may keep it while fewer than slotObjects come: a list that comes in drops must not hold
	// up the other mirrors. A server under load may need some seconds for its first byte.
	slotIdle    = 15 * time.Second
	slotObjects = 100
)

// slot is the place of one list among those in flight.
type slot struct {
	give    func()
	timer   *time.Timer
	until   time.Time
	objects int // since the timer was started
}

// acquire waits for a slot. It reports false if ctx ended first. The slot is released by itself when its time is up.
func (l *Limiter) acquire(ctx context.Context) (*slot, bool) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-l.slots })
	return &slot{give: give, timer: time.AfterFunc(slotIdle, give), until: time.Now().Add(slotTime)}, true
}

// moves notes that an object has come.
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
