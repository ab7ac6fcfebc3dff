package reconcile

import "time"

const (
	// freeRuns may write without a pause: hundreds of children of a parent may become ready at once.
	freeRuns = 60
	// Further runs have a pause: a sixtieth of the time that the parent has been held back, within these bounds.
	firstPause, lastPause = time.Second, time.Minute
	// unsettledAfter is how long a parent is held back before an Event says so.
	unsettledAfter = 10 * time.Second
)

// pace holds back a parent whose runs never come to rest, because each write leads to an answer that wants another
// write: a time, a counter or a random value in the answer is enough. Without pace such a hook would keep the server
// busy for ever.
type pace struct {
	generation, changes int64     // of the parent and of the hook: a change begins anew
	spent               float64   // how many runs have written, less one for each pause since
	last                time.Time // when spent was computed
	held                time.Time // since when there are pauses; zero: there are none
}

// wait returns how long the next run has to wait; 0: no wait.
func (p *pace) wait(now time.Time, generation, changes int64) time.Duration {
	if p.generation != generation || p.changes != changes {
		*p = pace{generation: generation, changes: changes, last: now}
	}
	pause := firstPause
	if !p.held.IsZero() {
		pause = min(max(now.Sub(p.held)/60, firstPause), lastPause)
	}
	p.spent = max(0, p.spent-now.Sub(p.last).Seconds()/pause.Seconds())
	p.last = now
	missing := p.spent - (freeRuns - 1)
	switch {
	case missing > 0 && p.held.IsZero():
		p.held = now
	case p.spent == 0:
		p.held = time.Time{}
	}
	return max(0, time.Duration(missing*float64(pause)))
}
