package queue

import "time"

// begun is a key that is handed out.
type begun struct {
	of    *entry
	began time.Time
}

// endedLocked takes a key out of those that are handed out.
func (q *Queue) endedLocked(e *entry) {
	last := len(q.running) - 1
	for i := range q.running {
		if q.running[i].of == e {
			q.running[i] = q.running[last]
			break
		}
	}
	q.running[last].of = nil
	q.running = q.running[:last]
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
