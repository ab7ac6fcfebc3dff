package reconcile

import (
	"time"

	"skiff/internal/runtime/backoff"
)

const (
	// fightUndone times within fightWindow the same write was undone: too often for a person, so another controller
	// wants something else for the same parent.
	fightUndone = 5
	fightWindow = time.Minute
)

// truces are the pauses between the following writes.
var truces = backoff.Backoff{Min: time.Minute, Max: 16 * time.Minute}

// fight is about the writes to a parent undone by another writer: two controllers of a parent want different statuses
// or labels.
type fight struct {
	since  time.Time // of the first undone
	undone int       // since then
	last   time.Time // when a write was last undone
	truce  time.Duration
	until  time.Time // the end of truce: nothing is written before
	tried  bool      // something was written since
	wrote  bool      // the last write was made: a difference is by another writer
}

// resume takes in an undone write, and says whether to write once more.
func (f *fight) resume(now time.Time) bool {
	if now.Before(f.until) {
		return false
	}
	if !f.wrote { // refused by the server, not undone by another writer
		return true
	}
	if now.Sub(f.last) > 2*truces.Max { // the other writer had stopped
		*f = fight{wrote: true}
	}
	f.last = now
	switch {
	case f.truce > 0 && !f.tried:
		f.tried = true
		return true
	case f.truce == 0:
		if now.Sub(f.since) > fightWindow {
			f.since, f.undone = now, 0
		}
		if f.undone++; f.undone < fightUndone {
			return true
		}
	}
	f.truce, f.tried = truces.Next(f.truce), false
	f.until = now.Add(f.truce)
	return false
}
