package controller

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
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
	Stalled int                // the part of Failing tried at the longest interval
	Queue   queue.Stats        // of the queue
	Causes  map[string]uint64  // runs by cause, without names of objects; a run with two causes counts twice
	Waited  *metrics.Histogram // from when a run was due until it began
	Took    *metrics.Histogram // runs, with the bounds of controller-runtime
	Worked  *metrics.Histogram // runs, with the bounds of a work queue
}

// stuckAfter is for how long workers may begin and end nothing: longer than a run lasts by default.
const stuckAfter = 2 * time.Minute

// Progress is how far the workers of a controller are.
type Progress struct {
	Turns uint64        // keys that they have taken or put away since the start
	Due   int           // keys that wait for a worker; 0 while there is none
	Limit time.Duration // for which Turns may stay while keys are due
}

const (
	// maxCauses bounds the sorts of causes with a count of their own: every sort is a time series.
	maxCauses = 64
	// otherCause stands for the causes given by operators, which may name objects.
	otherCause = "other"
)

// sort is a cause without the name of an object: "Deployment" and "MODIFIED", or "initial list" and "".
type sort struct{ what, change string }

// causes count runs by the sorts of their causes.
type causes struct {
	mu sync.Mutex // guards of
	of map[sort]uint64
}

func (c *causes) count(item queue.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range item.Causes {
		s := sortOf(text)
		n, known := c.of[s]
		switch {
		case known:
		case c.of == nil:
			c.of = map[sort]uint64{}
		case len(c.of) >= maxCauses:
			s = sort{what: otherCause}
			n = c.of[s]
		}
		if !known {
			s.what = strings.Clone(s.what) // not to keep the whole text of the first one
		}
		c.of[s] = n + 1
	}
}

// all returns the counts by what a label can say: "Deployment MODIFIED".
func (c *causes) all() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]uint64, len(c.of))
	for s, n := range c.of {
		out[strings.TrimSpace(s.what+" "+s.change)] = n
	}
	return out
}

// ownCauses are the causes given by package controller.
var ownCauses = []string{initialList, startCause, recheckCause, retryCause, refusedCause, manyErrorsCause, worksCause,

	cutCause, unseenCause, seenCause, listedCause}

// changes are the ends of a cause that is the change of an object; see add.
var changes = []string{"ADDED", "MODIFIED", "DELETED"}

func sortOf(text string) sort {
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		if at := slices.Index(changes, text[i+1:]); at >= 0 {
			kind, _, _ := strings.Cut(text, " ")
			return sort{kind, changes[at]}
		}
	}
	if at := slices.Index(ownCauses, text); at >= 0 {
		return sort{what: ownCauses[at]}
	}
	return sort{what: otherCause}
}

// WatchState is the state of one scope of a mirror.
type WatchState struct {
	Resource kube.Resource
	Labels   string // the label selector, "" for all
	Bytes    int64  // memory of the whole mirror, about; 0 but for its first scope
	cache.ScopeState
}

// WatchStates returns the scopes of all mirrors of some controllers, a mirror that several share once.
func WatchStates(cs ...*Controller) []WatchState {
	var out []WatchState
	seen := map[mirror]bool{}
	for _, c := range cs {
		for _, m := range c.everyMirror() {
			if seen[m] {
				continue
			}
			seen[m] = true
			bytes := m.Bytes()
			for _, s := range m.State() {
				out = append(out, WatchState{m.Resource(), m.Labels(), bytes, s})
				bytes = 0
			}
		}
	}
	return out
}

// Part is the unit in which a controller works: one namespace, or everything.
type Part struct {
	Namespace string // "": all
	Working   bool
	Missing   map[string]bool // why not, of MissingReasons
	Problems  []health.Problem
}

// The keys of Part.Missing: a right (403), a resource (404), and a list or the server in another way.
const (
	MissingRight    = "forbidden"
	MissingResource = "not_found"
	MissingContent  = "not_synced"
)

// MissingReasons are all of these.
var MissingReasons = []string{MissingRight, MissingResource, MissingContent}

// Failing is a key whose last run failed, with the Problem of the run: Since is the first failure of the class
// failing, zero without any.
type Failing struct {
	Key      kube.Key
	Failures int // in a row
	health.Problem
}

// Pending is a key that runs or waits.
type Pending struct {
	queue.Pending
	Failures int // in a row
}

// all returns what fails, in key order.
func (s *streaks) all() (out []Failing) {
	s.View(func(of map[kube.Key]streak) {
		for _, k := range slices.SortedFunc(maps.Keys(of), kube.Key.Compare) {
			out = append(out, Failing{k, of[k].failures, of[k].problem()})
		}
	})
	return out
}
