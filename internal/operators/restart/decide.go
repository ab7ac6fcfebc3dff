package restart

import (
	"fmt"
	"slices"
	"time"

	"skiff/internal/conditions"
)

const (
	// maxQuiet is how many debounces a restart waits for the source to become quiet: a source that never does must
	// not prevent restarts for ever.
	maxQuiet = 10
	// A target that is waited for is read again after an eighth of the time that it was waited for already, within
	// these bounds: a quick rollout is noticed at once, a stuck one costs two requests per minute.
	minPoll = time.Second
	maxPoll = 30 * time.Second
	// stuckAfter is when waiting for a target becomes a problem: the API's default of progressDeadlineSeconds.
	stuckAfter = 10 * time.Minute
)

// clone returns a copy that can be changed: s comes from the cache.
func (s State) clone() State {
	s.Targets = slices.Clone(s.Targets)
	s.Recent = slices.Clone(s.Recent)
	if s.Pending != nil {
		p := *s.Pending
		s.Pending = &p
	}
	return s
}

// stamp rounds up to a whole second, as the API's times are: what waits from then on does not come early.
func stamp(now time.Time) time.Time {
	return now.Add(time.Second - 1).UTC().Truncate(time.Second)
}

// absorb adds changes to the pending restart. The first one becomes the reason that is given for the restart.
func (s *State) absorb(changes []Change, now time.Time) {
	for _, c := range changes {
		if s.Pending == nil {
			s.Pending = &Pending{Change: c, First: stamp(now)}
		} else {
			s.Suppressed++
		}
		s.Pending.Last = stamp(now)
	}
}

// align makes the targets of s those of the rule, in its order.
func (s *State) align(r *rule) {
	list := make([]TargetStatus, len(r.targets))
	for i, t := range r.targets {
		list[i] = TargetStatus{Kind: t.Kind, Name: t.Name}
		for _, old := range s.Targets {
			if old.Kind == t.Kind && old.Name == t.Name {
				list[i] = old
			}
		}
	}
	s.Targets = list
}

// forgive forgets which annotations should be there, after one was removed and the user has changed the trigger
// since. Of the restart that was under way, nothing is repeated.
func (s *State) forgive() {
	for i := range s.Targets {
		t := &s.Targets[i]
		if s.Round != nil && same(t.RestartedAt, s.Round.Time) {
			t.Through = t.RestartedAt
		}
		t.RestartedAt = nil
	}
}

// The limits that a pending restart waits for.
const (
	debounce = "debounce"
	cooldown = "cooldown"
	budget   = "budget"
)

// due returns how long the pending restart still has to wait, and for which limit. A clock that was put back makes
// no wait longer than the limit.
func (s *State) due(r *rule, now time.Time) (wait time.Duration, limit string) {
	rest := func(from time.Time, d time.Duration) time.Duration { return min(from.Add(d).Sub(now), d) }
	wait, limit = min(rest(s.Pending.Last, r.debounce), rest(s.Pending.First, maxQuiet*r.debounce)), debounce
	if s.LastRestart != nil {
		if w := rest(s.LastRestart.Time, r.cooldown); w > wait {
			wait, limit = w, cooldown
		}
	}
	if inside := s.window(r, now); r.budget > 0 && len(inside) >= r.budget {
		if w := rest(inside[len(inside)-r.budget], r.per); w > wait {
			wait, limit = w, budget
		}
	}
	return max(wait, 0), limit
}

// overdue says that the pending restart waits for no time, so that only its targets can delay it.
func (s *State) overdue(r *rule, now time.Time) bool {
	if s.Pending == nil || r.suspended {
		return false
	}
	wait, _ := s.due(r, now)
	return wait == 0
}

// window returns the rounds within the budget's window that ends now.
func (s *State) window(r *rule, now time.Time) []time.Time {
	i := slices.IndexFunc(s.Recent, func(t time.Time) bool { return t.Add(r.per).After(now) })
	if i < 0 {
		return nil
	}
	return s.Recent[i:]
}

// decision is what to do now.
type decision struct {
	state   State
	restart int                 // place of the target to restart, at state.Round.Time, once state is stored; -1: none
	wait    time.Duration       // run again after this time; 0: at the next change
	cause   string              // of that run
	waiting *conditions.Problem // what the restart waits for
	problem *conditions.Problem // what the user has to do something about
	cycle   []string            // the triggers on the way back to this one
}

// again asks for another run, unless an earlier one is asked for already.
func (d *decision) again(wait time.Duration, cause string) {
	if wait = max(wait, 1); d.wait == 0 || wait < d.wait {
		d.wait, d.cause = wait, cause
	}
}

// decide returns what to do, given the targets as they are now, in the rule's order.
func decide(r *rule, s State, targets []target, now time.Time) decision {
	d := decision{state: s.clone(), restart: -1}
	d.state.align(r)
	for _, t := range targets {
		if t.live == nil {
			d.problem = &conditions.Problem{Reason: targetMissing, Message: "there is no " + t.String() +
				"; create it or correct the target, skiff looks again every minute"}
			break
		}
	}
	if d.reverted(targets) {
		return d
	}
	if d.state.Round == nil && !d.start(r, targets, now) {
		return d
	}
	d.advance(r, targets, now)
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
	first := slices.IndexFunc(targets, func(t target) bool { return t.live != nil })
	if first < 0 { // what appears later has not seen the old pods
		s.Pending = nil
		s.Suppressed++
		return false
	}
	if reason, message := targets[first].busy(); reason != "" {
		d.hold(targets[first], reason, message, s.Pending.Last, now)
		return false
	}
	at := now.UTC().Truncate(time.Second)
	if s.LastRestart != nil && !at.After(s.LastRestart.Time) {
		at = s.LastRestart.Time.Add(time.Second) // an annotation must differ from the one before it
	}
	s.Round = &Round{Time: at, Change: s.Pending.Change}
	s.Pending = nil
	return true
}

// advance goes on with the round.
func (d *decision) advance(r *rule, targets []target, now time.Time) {
	s := &d.state
	at := s.Round.Time
	for i, t := range targets {
		mine := &s.Targets[i]
		switch {
		case same(mine.Through, at):
			continue
		case t.live == nil: // one that appears later is new, and needs no restart
			mine.Through, mine.RestartedAt = &at, nil
			continue
		case !same(mine.RestartedAt, at) && !t.annotated().Before(at):
			s.restarted(r, i, t.live.UID) // by a skiff that was killed before it noted that, or by others
		}
		reason, message := t.busy()
		switch {
		case same(mine.RestartedAt, at) && reason == "":
			mine.Through = &at
		case reason != "":
			d.hold(t, reason, message, at, now)
			return
		case r.suspended:
			return
		default:
			d.restart = i
			return
		}
	}
	s.Round = nil
	if s.Pending != nil {
		wait, limit := s.due(r, now)
		d.again(wait, limit+" over")
	}
}

// hold waits for a target. The time since when it has waited decides how often the target is read, and when waiting
// becomes a problem.
func (d *decision) hold(t target, reason, message string, since, now time.Time) {
	waited := now.Sub(since)
	d.again(min(max(waited/8, minPoll), maxPoll), "waits for "+t.String())
	passing := (reason == rollingOut || reason == unavailable) && waited < stuckAfter
	if passing && d.state.Round != nil && t.other == "" {
		return // what every restart looks like
	}
	if t.other != "" {
		message += fmt.Sprintf(", RestartTrigger %s is restarting it", t.other)
	}
	message += "; skiff goes on when that is over"
	d.waiting = &conditions.Problem{Reason: reason, Message: message, Passing: passing}
}

// reverted says whether an annotation that we have set was removed. Setting it again would be a fight, each round
// of which is a rollout.
func (d *decision) reverted(targets []target) bool {
	for i, t := range targets {
		mine := &d.state.Targets[i]
		if t.live == nil || mine.UID != t.live.UID {
			mine.RestartedAt = nil // it is not the same object
			continue
		}
		if mine.RestartedAt != nil && t.annotated().Before(*mine.RestartedAt) {
			d.problem = stalled(reverted, "something removed the annotation %s of %s, which rolled it out once more; "+
				"make it ignore that annotation, then change this spec or restart the target by hand to go on",
				restartedAt, t)
			return true
		}
	}
	return false
}

// restarted notes that the round has restarted a target.
func (s *State) restarted(r *rule, i int, uid string) {
	at := s.Round.Time
	if !slices.ContainsFunc(s.Targets, func(t TargetStatus) bool { return same(t.RestartedAt, at) }) {
		s.Restarts++
		if r.budget > 0 {
			s.Recent = append(s.Recent, at)
			s.Recent = s.Recent[max(0, len(s.Recent)-r.budget):]
		} else {
			s.Recent = nil
		}
		s.RestartsInWindow = int32(len(s.window(r, at)))
	}
	t := &s.Targets[i]
	t.RestartedAt, t.UID = &at, uid
	s.LastRestart = &Restart{Time: at, Reason: s.Round.Reason, Pod: s.Round.Pod, Target: r.targets[i].String()}
}

func same(t *time.Time, at time.Time) bool { return t != nil && t.Equal(at) }
