package controller

import "sync/atomic"

// counters count runs since the start.
type counters struct {
	done, again, errors, terminal, panics, timeouts, crashes atomic.Int64
}

// Stats are the counts of a controller's runs since the start, and what is queued now.
type Stats struct {
	Done     int64 // ended, waiting for a change
	Again    int64 // ended, to run again after a while
	Errors   int64 // failed; includes those below
	Terminal int64 // failed with a terminal error
	Panics   int64
	Crashes  int64 // panics of the controller itself
	Timeouts int64 // failed after the reconcile deadline
	Queued   int   // keys that are due and wait for a worker
}

// Stats returns the present counts.
func (c *Controller) Stats() Stats {
	return Stats{
		Done:     c.stats.done.Load(),
		Again:    c.stats.again.Load(),
		Errors:   c.stats.errors.Load(),
		Terminal: c.stats.terminal.Load(),
		Panics:   c.stats.panics.Load(),
		Crashes:  c.stats.crashes.Load(),
		Timeouts: c.stats.timeouts.Load(),
		Queued:   c.queue.Len(),
	}
}
