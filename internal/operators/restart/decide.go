package restart

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
)

const (
	// maxQuiet is how many debounces a restart waits for the source to become quiet: a source that never does must
	// not prevent restarts for ever.
	maxQuiet = 10
	// A target that a round waits for is read again after an eighth of the time waited so far, within these bounds: a
	// quick rollout is noticed at once, a stuck rollout costs two requests per minute.
	minPoll = time.Second
	maxPoll = 30 * time.Second
	// stuckAfter is when waiting for a target becomes a problem: the API's default of progressDeadlineSeconds.
	stuckAfter = 10 * time.Minute
	// maxAhead is how far another clock may be ahead of ours, of skiff before or of who restarts a target by hand:
	// clocks that are kept right differ by seconds. A time further ahead says nothing of now.
	maxAhead = time.Minute
)

// decision is what to do now.
type decision struct {
	state   State
	restart int             // place of the target to restart, at state.Round.Time, once state is stored; -1: none
	wait    time.Duration   // run again after this time; 0: at the next change
	cause   string          // of that run
	waiting *health.Problem // what the restart waits for
	problem *health.Problem // what the user has to do something about
	missing *health.Problem // an item of the source that finds nothing; nil: there is none
	crowd   int             // how many ConfigMaps, Secrets and keys there are, if too many; 0: not too many
	partial string          // which pods of a target no restart replaces; "": there are none
	stale   bool            // read the targets and decide again: the rest is of no use before
	cycle   []string        // the triggers on the way back to this trigger
}

// again asks for another run, unless an earlier one is asked for already.
func (d *decision) again(wait time.Duration, cause string) {
	if wait = max(wait, 1); d.wait == 0 || wait < d.wait {
		d.wait, d.cause = wait, cause
	}
}

// decide returns what to do, given the targets as last read, in the rule's order. Only targets read just now are acted
// on.
func decide(r *rule, s State, targets []target, now time.Time) decision {
	d := decision{state: s.clone(), restart: -1}
	d.state.align(r)
	d.state.catchUp(now)
	for i, t := range targets {
		looked := t.at.Add(recheck).Sub(now)
		if t.at.IsZero() || t.live == nil && looked <= 0 {
			d.stale = true
			return d
		}
		d.state.Targets[i].PodLabels = t.podLabels()
		if partial := t.partial(); partial != "" && d.partial == "" {
			d.partial = partial
			again := t.at.Add(controller.SlowDelay).Sub(now)
			if d.stale = again <= 0; d.stale {
				return d
			}
			d.again(again, "looks at the partition of "+t.String())
		}
		if t.live == nil && d.problem == nil {
			d.again(looked, "rechecks the missing target")
			d.problem = &health.Problem{Reason: targetMissing, Public: "there is no " + t.String(),
				Next: "create it or correct the target, skiff looks again"}
		}
	}
	if d.reverted(targets, now) {
		return d
	}
	if d.state.Round == nil && !d.start(r, targets, now) {
		return d
	}
	if d.advance(r, targets, now) {
		return d
	}
	// The rest of the round is halted: another restart includes the rest.
	if s := &d.state; s.Pending != nil {
		round := s.Round
		if s.Round = nil; d.start(r, targets, now) {
			d.advance(r, targets, now)
		} else if s.Pending != nil {
			s.Round = round
		}
	}
	return d
}

// start begins a round if one is due; false if not.
func (d *decision) start(r *rule, targets []target, now time.Time) bool {
	s := &d.state
	if s.Pending == nil || r.suspended {
		return false
	}
	if wait, limit := s.due(r, now); wait > 0 {
		d.again(wait, limit+" over")
		return false
	}
	first := slices.IndexFunc(targets, func(t target) bool { return t.live != nil && !t.halted() })
	if first < 0 {
		first = slices.IndexFunc(targets, func(t target) bool { return t.live != nil })
	}
	if first >= 0 {
		if reason, message := targets[first].busy(); reason != "" {
			d.hold(targets[first], reason, message, s.Pending.Last, now)
			return false
		}
	}
	if slices.ContainsFunc(targets, func(t target) bool { return t.old(now) }) {
		d.stale = true
		return false
	}
	if first < 0 { // what appears later has not seen the old pods
		s.Pending = nil
		s.Suppressed++
		return false
	}
	at := now.UTC().Truncate(time.Second)
	if s.LastRestart != nil && !at.After(s.LastRestart.Time) {
		at = s.LastRestart.Time.Add(time.Second) // an annotation must differ from the value before
	}
	s.Round = &Round{Time: at, Change: s.Pending.Change}
	s.Pending = nil
	return true
}

// advance goes on with the round, and returns false where all remaining targets are halted.
func (d *decision) advance(r *rule, targets []target, now time.Time) bool {
	s := &d.state
	at, left := s.Round.Time, false
	for i, t := range targets {
		mine := &s.Targets[i]
		switch {
		case same(mine.Through, at):
			continue
		case t.live == nil && t.old(now):
			d.stale = true
			return true
		case t.live == nil: // a target that appears later is new, and needs no restart
			mine.Through, mine.RestartedAt = &at, nil
			continue
		case !same(mine.RestartedAt, at) && t.restarted(at, now):
			s.restarted(r, i, t.live.UID) // by a skiff that was killed before noting it, or by somebody else
		}
		restarted := same(mine.RestartedAt, at)
		reason, message := t.busy()
		switch {
		case reason != "":
			d.hold(t, reason, message, at, now)
			if d.stale || !t.halted() {
				return true
			}
			left = true
		case !restarted && r.suspended:
			return true
		case !restarted && t.refusal != nil && now.Before(t.retry):
			d.problem = t.refusal
			d.again(t.retry.Sub(now), retryRefused)
			return true
		case t.old(now):
			d.stale = true
			return true
		case restarted:
			mine.Through = &at
		default:
			d.restart, d.problem = i, cmp.Or(t.refusal, d.problem) // the refusal, until it works
			return true
		}
	}
	if left {
		return false
	}
	s.Round = nil
	if s.Pending != nil {
		wait, limit := s.due(r, now)
		d.again(wait, limit+" over")
	}
	return true
}

// hold waits for a target. The time since when it has waited decides how often the target is read, and when waiting
// becomes a problem.
func (d *decision) hold(t target, reason, message string, since, now time.Time) {
	look := t.at.Add(min(max(t.at.Sub(since)/8, minPoll), maxPoll)).Sub(now)
	if look <= 0 {
		d.stale = true
		return
	}
	d.again(look, "waits for "+t.String())
	waited := now.Sub(since)
	passing := (reason == rollingOut || reason == unavailable) && waited < stuckAfter
	if passing && d.state.Round != nil && t.other == "" {
		return // what every restart looks like
	}
	if t.other != "" {
		message += fmt.Sprintf(", RestartTrigger %s is restarting it", t.other)
	}
	if d.waiting == nil || d.waiting.Severity == health.Passing { // what only a user can end is said first
		d.waiting = &health.Problem{Reason: reason, Public: message, Next: "resumes when that is over"}
		if passing {
			d.waiting.Severity = health.Passing
		}
	}
}

// reverted says whether an annotation set by us was removed. Setting the annotation again would be a fight, each round
// of which is a rollout.
func (d *decision) reverted(targets []target, now time.Time) bool {
	for i, t := range targets {
		mine := &d.state.Targets[i]
		same := t.live != nil && mine.UID == t.live.UID
		switch {
		case mine.RestartedAt == nil, same && !t.annotated().Before(*mine.RestartedAt):
		case t.old(now) && t.at.Before(*mine.RestartedAt): // another process has set it since
			d.stale = true
			return true
		case !same:
			mine.RestartedAt = nil
		case isAhead(*mine.RestartedAt, now) && !t.annotated().IsZero(): // it may be of a restart by hand
			d.state.forgiveOne(i)
		default:
			d.problem = stalled(reverted, "configure it to ignore that annotation, then change this spec or restart "+
				"the target by hand", "another field manager removed the annotation %s of %s, which rolled it out "+
				"once more", restartedAt, t)
			return true
		}
	}
	return false
}

// retryRefused is the cause of a run that tries a refused restart again.
const retryRefused = "retries the refused restart"

// refused notes that the server has refused a restart. The next try is after an eighth of the time tried so far, but
// at least every few minutes: the reason may be a missing right, a quota or a webhook, and no event says when the
// reason is gone.
func (d *decision) refused(l reading, err error, now time.Time) reading {
	tried := now.Sub(d.state.Round.Time)
	wait := min(max(tried/8, minPoll), controller.SlowDelay)
	severity := health.Failing
	if tried >= stuckAfter {
		severity = health.Stalled
	}
	l.refusal, l.retry = failed(err, "skiff tries again", severity), now.Add(wait)
	d.restart, d.problem = -1, l.refusal
	d.again(wait, retryRefused)
	return l
}
