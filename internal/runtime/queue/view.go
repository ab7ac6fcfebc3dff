package queue

import (
	"cmp"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// Pending is a key held by a queue, as shown to people.
type Pending struct {
	Key     kube.Key
	Running bool      // handed out
	Since   time.Time // start of the run, while running
	Waiting bool      // a run is pending, also while running
	Due     time.Time // of the pending run
	Causes  []string  // of the pending run, at most maxCauses
	More    int       // causes beyond those
}

// View returns at most limit keys that run, are due or delayed: first the running keys, then by due time. all is the
// number of such keys.
func (q *Queue) View(limit int) (first []Pending, all int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.running {
		p := r.of.view()
		p.Running, p.Since = true, r.began
		first = append(first, p)
	}
	limit = max(limit, len(first))
	runs := len(first)
	all = runs
	for _, e := range q.entries {
		if e.processing || e.parked || !e.dirty {
			continue
		}
		all++
		at, _ := slices.BinarySearchFunc(first[runs:], e, func(p Pending, e *entry) int {
			return cmp.Or(p.Due.Compare(e.due), p.Key.Compare(e.key))
		})
		if at += runs; at < limit { // a queue may hold a hundred thousand keys: only the first ones are kept
			first = slices.Insert(first, at, e.view())
			first = first[:min(len(first), limit)]
		}
	}
	return first, all
}

// Due returns when the next run of a key may start; false: none is pending.
func (q *Queue) Due(k kube.Key) (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[k]
	if e == nil || e.parked || !e.dirty {
		return time.Time{}, false
	}
	return e.due, true
}

func (e *entry) view() Pending {
	return Pending{Key: e.key, Waiting: e.dirty, Due: e.due, Causes: slices.Clone(e.causes), More: int(e.more)}
}

// Stats are the state and the counters of a queue.
type Stats struct {
	Due       int // waiting for a worker
	Low       int // the part of Due in the low lane: found by an initial list
	Delayed   int // waiting for the end of a delay
	Running   int
	Added     uint64        // new pending runs: an Add for a key already waiting is not counted
	Postponed uint64        // runs requested after a delay: retries and rechecks
	RunTime   time.Duration // of the runs under way, together
	Longest   time.Duration // of the longest run in progress
}

// Stats returns the present counts.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Due: q.lanes[low].len + q.lanes[high].len, Low: q.lanes[low].len,
		Delayed: len(q.delayed), Running: len(q.running), Added: q.added, Postponed: q.postponed}
	now := time.Now()
	for _, r := range q.running {
		d := now.Sub(r.began)
		s.RunTime += d
		s.Longest = max(s.Longest, d)
	}
	return s
}
