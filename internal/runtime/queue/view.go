package queue

import (
	"cmp"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// Pending is a key that a queue holds, for those who want to know why it does not run, or what runs.
type Pending struct {
	Key      kube.Key
	Running  bool      // handed out
	Since    time.Time // when its run began, while it is running
	Waiting  bool      // a run of it is pending, also while it is running
	Due      time.Time // when that run may start
	Causes   []string  // of that run, at most maxCauses
	More     int       // causes beyond those
	Failures int       // in a row
}

// View returns at most limit of the keys that run or wait: those that run, then those that are due first. all is how
// many there are.
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
		if e.processing || !e.dirty {
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
	if e == nil || !e.dirty {
		return time.Time{}, false
	}
	return e.due, true
}

func (e *entry) view() Pending {
	return Pending{Key: e.key, Waiting: e.dirty, Due: e.due, Causes: slices.Clone(e.causes), More: int(e.more),
		Failures: int(e.failures)}
}

// Stats are what a queue holds now, and what it has counted since it was made.
type Stats struct {
	Due       int           // keys that wait for a worker
	Low       int           // those of them in the low lane: found by an initial list
	Delayed   int           // keys that wait for the end of a delay
	Running   int           // keys that are handed out
	Added     uint64        // pending runs that were begun: an Add for a key that waits already is not counted
	Postponed uint64        // runs that were asked for after a delay: retries, and rechecks
	RunTime   time.Duration // of the runs under way, together
	Longest   time.Duration // of the longest of these
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
