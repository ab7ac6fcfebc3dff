package events

import (
	"maps"
	"slices"
	"time"
)

// key says which events are of the same sort. Those with the same note are one series. client-go leaves the note out
// of the comparison, and its Events hide all that was different after the first: which field was changed, which pod
// failed.
type key struct {
	typ                Type
	reason, action     string
	regarding, related Object
}

func keyOf(e Event) key {
	k := key{typ: e.Type, reason: e.Reason, action: e.Action, regarding: e.Regarding, related: e.Related}
	// The same object at another version is the same object.
	k.regarding.ResourceVersion, k.related.ResourceVersion = "", ""
	return k
}

// series is an Event that was sent and what has happened since.
type series struct {
	name    string // of the Event object; chosen before the first try, so that a repeated one cannot double it
	created bool   // the server has it
	unsure  bool   // the answer to an earlier create was lost
	marked  bool   // its first repetition was written, or could not be: the next write is sweep's
	first   queued
	count   int
	last    time.Time // last occurrence
	tries   int       // of the present write that have failed
	retry   time.Time // when it is tried again; zero: it does not wait for that
	written int       // the count that the server has
	sent    time.Time // last write
}

// bucket limits the new Events about one object.
type bucket struct {
	left float64
	at   time.Time
}

// find returns the series that an event belongs to, nil if it begins one.
func (s *sender) find(k key, e queued) *series {
	runs := s.series[k]
	i := slices.IndexFunc(runs, func(run *series) bool { return run.first.Note == e.Note })
	if i < 0 && len(runs) >= maxNotes {
		i = len(runs) - 1
	}
	if i < 0 {
		return nil
	}
	return runs[i]
}

func (r *series) repeat(at time.Time) {
	r.count++
	r.last = at
}

func (s *sender) forget(k key, run *series) {
	if runs := slices.DeleteFunc(s.series[k], func(r *series) bool { return r == run }); len(runs) > 0 {
		s.series[k] = runs
	} else {
		delete(s.series, k)
	}
}

// allow takes a token of the object's bucket. The last ones are for warnings.
func (s *sender) allow(o Object, typ Type, now time.Time) bool {
	b := s.buckets[o]
	if b == nil {
		if len(s.buckets) >= maxObjects {
			clear(s.buckets)
		}
		b = &bucket{left: burst + reserved, at: now}
		s.buckets[o] = b
	}
	b.left = min(burst+reserved, b.left+float64(now.Sub(b.at))/float64(refill))
	b.at = now
	if b.left < 1 || typ != Warning && b.left < 1+reserved {
		return false
	}
	b.left--
	return true
}

func (s *sender) open() []*series { return slices.Concat(slices.Collect(maps.Values(s.series))...) }
