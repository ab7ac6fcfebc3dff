package controller

import (
	"maps"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/queue"
)

// This file shows how a controller is doing, for metrics and debug pages. Ready and Status are for probes.

// WatchState is the state of one scope of a mirror that controllers have.
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
		for _, m := range c.mirrors {
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

// Part is what a controller works on as a whole: one namespace, or everything.
type Part struct {
	Namespace string // "": all
	Working   bool
	Missing   map[string]bool // what keeps it from working, of MissingReasons
	Problem   string          // the same in words, with the next step; "" if nothing does
}

// The keys of Part.Missing: a right (403), a resource (404), and a list or the server in another way.
const (
	MissingRight    = "forbidden"
	MissingResource = "not_found"
	MissingContent  = "not_synced"
)

// MissingReasons are all of these.
var MissingReasons = []string{MissingRight, MissingResource, MissingContent}

// Parts returns what the controller works on, and what keeps it from that.
func (c *Controller) Parts() []Part {
	var out []Part
	for _, one := range c.parts.list() {
		p := Part{Namespace: one.namespace, Working: c.parts.works(one.namespace), Problem: c.problemOf(one),
			Missing: map[string]bool{}}
		for _, m := range c.mirrors {
			for _, s := range m.State() {
				switch ours := s.Namespace == "" || s.Namespace == one.namespace; {
				case !ours, s.Synced && !s.Parked:
				case kube.IsForbidden(s.Err):
					p.Missing[MissingRight] = true
				case kube.IsNotFound(s.Err):
					p.Missing[MissingResource] = true
				default:
					p.Missing[MissingContent] = true
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// Failing is a key whose last run failed.
type Failing struct {
	Key      kube.Key
	Failures int // in a row
	Stalled  bool
	Since    time.Time // of the first failure of a kind that does not pass by itself; zero if there is none
}

// View returns at most limit of the keys that run or wait, at most limit of those that fail, in key order, and how
// many there are of each.
func (c *Controller) View(limit int) (pending []queue.Pending, waiting int, failing []Failing, failed int) {
	pending, waiting = c.queue.View(limit)
	failing = c.streaks.all()
	failed = len(failing)
	return pending, waiting, failing[:min(failed, limit)], failed
}

// all returns what fails, in key order.
func (s *streaks) all() []Failing {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Failing, 0, len(s.of))
	for _, k := range slices.SortedFunc(maps.Keys(s.of), kube.Key.Compare) {
		one := s.of[k]
		out = append(out, Failing{Key: k, Failures: one.failures, Stalled: one.stalled, Since: one.since})
	}
	return out
}

// Publish adds counts of the operator's own to the metrics of the controller. It is for before Run.
func (c *Controller) Publish(counts *metrics.Counts) { c.counts = append(c.counts, counts) }

// Counts returns what was given to Publish.
func (c *Controller) Counts() []*metrics.Counts { return c.counts }
