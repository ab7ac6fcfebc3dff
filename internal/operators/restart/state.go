package restart

import (
	"slices"
	"time"
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
		list[i] = TargetStatus{TargetRef: t}
		for _, old := range s.Targets {
			if old.TargetRef == t {
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
	budget   = "budget window"
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

// window returns the rounds within the budget's window that ends now.
func (s *State) window(r *rule, now time.Time) []time.Time {
	i := slices.IndexFunc(s.Recent, func(t time.Time) bool { return t.Add(r.per).After(now) })
	if i < 0 {
		return nil
	}
	return s.Recent[i:]
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
