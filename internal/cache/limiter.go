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

// slotTime is how long a list may keep its slot. A large one over a slow line goes on without: it takes little of the
// server per second, and one that comes in drops must not hold up the other mirrors.
const slotTime = time.Minute

// acquire waits for a slot. It reports false if ctx ended first. release may be called more than once; after slotTime
// the slot is released by itself.
func (l *Limiter) acquire(ctx context.Context) (release func(), ok bool) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	give := sync.OnceFunc(func() { <-l.slots })
	timer := time.AfterFunc(slotTime, give)
	return func() {
		timer.Stop()
		give()
	}, true
}
