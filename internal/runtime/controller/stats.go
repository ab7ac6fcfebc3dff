package controller

import (
	"sync/atomic"

	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/queue"
)

// counters count runs since the start.
type counters struct {
	done, again, errors, terminal, panics, timeouts, crashes atomic.Int64

	waited, took, worked *metrics.Histogram
	causes               causes
}

// The bounds of the histograms are those of controller-runtime and client-go, which dashboards are made for.
var (
	runBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
		0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60}
	queueBounds = metrics.Exponential(1e-8, 10, 12)
)

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

	Workers int                // runs at a time
	Failing int                // keys whose last run failed
	Stalled int                // of these, keys that are tried at the longest interval
	Queue   queue.Stats        // of the queue
	Causes  map[string]uint64  // runs by cause, without names of objects; a run with two causes counts twice
	Waited  *metrics.Histogram // from when a run was due until it began
	Took    *metrics.Histogram // runs, with the bounds of controller-runtime
	Worked  *metrics.Histogram // runs, with the bounds of a work queue
}

// Stats returns the present counts.
func (c *Controller) Stats() Stats {
	s := Stats{
		Done:     c.stats.done.Load(),
		Again:    c.stats.again.Load(),
		Errors:   c.stats.errors.Load(),
		Terminal: c.stats.terminal.Load(),
		Panics:   c.stats.panics.Load(),
		Crashes:  c.stats.crashes.Load(),
		Timeouts: c.stats.timeouts.Load(),
		Workers:  c.o.Workers,
		Queue:    c.queue.Stats(),
		Causes:   c.stats.causes.all(),
		Waited:   c.stats.waited,
		Took:     c.stats.took,
		Worked:   c.stats.worked,
	}
	s.Queued = s.Queue.Due
	s.Failing, s.Stalled = c.streaks.count()
	return s
}
