package cache

import "context"

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

// acquire waits for a slot. It reports false if ctx ended first.
func (l *Limiter) acquire(ctx context.Context) bool {
	select {
	case l.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *Limiter) release() { <-l.slots }
