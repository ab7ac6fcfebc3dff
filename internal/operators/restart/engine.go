package restart

import (
	"slices"
	"time"

	"skiff/internal/conditions"
)

const (
	// maxQuiet is how many debounces a restart waits for the source to come to rest: one that never does is no reason never to
	// restart.
	maxQuiet = 10
	// A target that is waited for is looked at again after an eighth of the time that it was waited for already, within these
	// bounds: a quick rollout is noticed at once, a stuck one costs two requests per minute.
	minPoll = time.Second
	maxPoll = 30 * time.Second
	// stuckAfter is when waiting for a target is no longer a matter of course: the API's default of progressDeadlineSeconds.
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

// stamp rounds up to a whole second, as the API's times are: nothing that waits from then on comes early.
func stamp(now time.Time) time.Time {
	return now.Add(time.Second - 1).UTC().Truncate(time.Second)
}

// absorb adds changes to what is waiting. The first one decides what a restart is said to be for.
func (s *State) absorb(changes []change, now time.Time) {
	for _, c := range changes {
		if s.Pending == nil {
			s.Pending = &Pending{Reason: c.reason, Pod: c.pod, Note: c.note, First: stamp(now)}
		} else {
			s.Suppressed++
		}
		s.Pending.Last = stamp(now)
	}
}

// begin makes s one of the rule: targets that the rule does not name are forgotten, and the others are in its order.
func (s *State) begin(r *rule) {
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

// forgive forgets which annotations should be there, after one was taken back: somebody has looked at the trigger since, and wants it
// to go on. Of the restart that was under way, nothing is repeated.
func (s *State) forgive() {
	for i := range s.Targets {
		t := &s.Targets[i]
		if s.Round != nil && same(t.RestartedAt, s.Round.Time) {
			t.Through = t.RestartedAt
		}
		t.RestartedAt = nil
	}
}

// due returns how long the pending restart has to wait yet. A clock that was put back makes no wait longer than it can be.
func (s *State) due(r *rule, now time.Time) time.Duration {
	rest := func(from time.Time, d time.Duration) time.Duration { return min(from.Add(d).Sub(now), d) }
	wait := min(rest(s.Pending.Last, r.debounce), rest(s.Pending.First, maxQuiet*r.debounce))
	if s.LastRestart != nil {
		wait = max(wait, rest(s.LastRestart.Time, r.cooldown))
	}
	if r.budget > 0 {
		if inside := s.window(r, now); len(inside) >= r.budget {
			wait = max(wait, rest(inside[len(inside)-r.budget], r.per))
		}
	}
	return max(wait, 0)
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
	wait    time.Duration       // look again after this time; 0: at the next change
	waiting *conditions.Problem // what the restart under way, or the one that is due, is waiting for
	problem *conditions.Problem // what has to be done by somebody
}

// decide returns what to do, given the targets as they are now, in the rule's order.
func decide(r *rule, s State, targets []target, now time.Time) decision {
	d := decision{state: s.clone(), restart: -1}
	d.state.begin(r)
	d.missing(targets)
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
	if d.wait = s.due(r, now); d.wait > 0 {
		return false
	}
	first := slices.IndexFunc(targets, func(t target) bool { return t.live != nil })
	if first < 0 { // what appears later has not seen the old pods
		s.Pending = nil
		s.Suppressed++
		return false
	}
	if reason, message := targets[first].busy(); reason != "" {
		d.hold(reason, message, s.Pending.Last, now)
		return false
	}
	at := now.UTC().Truncate(time.Second)
	if s.LastRestart != nil && !at.After(s.LastRestart.Time) {
		at = s.LastRestart.Time.Add(time.Second) // an annotation must differ from the one before it
	}
	s.Round = &Round{Time: at, Reason: s.Pending.Reason, Pod: s.Pending.Pod, Note: s.Pending.Note}
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
		case !same(mine.RestartedAt, at) && !t.set().Before(at):
			s.restarted(r, i, t.live.UID) // by us, who were killed before we could say so, or by somebody else
		}
		reason, message := t.busy()
		switch {
		case same(mine.RestartedAt, at) && reason == "":
			mine.Through = &at
		case reason != "":
			d.hold(reason, message, at, now)
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
		d.wait = max(s.due(r, now), 1)
	}
}

// hold waits for a target. Since when says how often it is looked at, and whether that is worth a word of warning.
func (d *decision) hold(reason, message string, since, now time.Time) {
	waited := now.Sub(since)
	d.wait = min(max(waited/8, minPoll), maxPoll)
	passing := (reason == rollingOut || reason == unavailable) && waited < stuckAfter
	if passing && d.state.Round != nil {
		return // what a restart looks like
	}
	d.waiting = &conditions.Problem{Reason: reason, Message: message + "; skiff goes on when that is over", Passing: passing}
}

// missing reports targets that are not there.
func (d *decision) missing(targets []target) {
	for _, t := range targets {
		if t.live == nil {
			d.problem = &conditions.Problem{Reason: targetMissing, Message: "there is no " + t.String() + "; create it or correct the target, skiff looks again every minute"}
			return
		}
	}
}

// reverted says whether somebody took away an annotation that we have set. To set it again would be a fight, each round of which is
// a rollout.
func (d *decision) reverted(targets []target) bool {
	for i, t := range targets {
		mine := &d.state.Targets[i]
		if t.live == nil || mine.UID != t.live.UID {
			mine.RestartedAt = nil // it is not the same object
			continue
		}
		if mine.RestartedAt != nil && t.set().Before(*mine.RestartedAt) {
			d.problem = &conditions.Problem{Reason: reverted, Stalled: true, Message: "something took the annotation " + restartedAt + " of " + t.String() +
				" back, which rolled it out once more; let it ignore that annotation, then change this spec or restart the target by hand to go on"}
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
