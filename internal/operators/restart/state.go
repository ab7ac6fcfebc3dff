package restart

import (
	"hash/fnv"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
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

// isAhead says that a time is of a clock that is not ours.
func isAhead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

// catchUp makes the times that a restart waits for those of our clock: what is far ahead counts as of now. Else the
// wait would begin anew with each run.
func (s *State) catchUp(now time.Time) {
	was := func(t time.Time) time.Time {
		if isAhead(t, now) {
			return stamp(now)
		}
		return t
	}
	if p := s.Pending; p != nil {
		p.First, p.Last = was(p.First), was(p.Last)
	}
	if s.LastRestart != nil && isAhead(s.LastRestart.Time, now) {
		last := *s.LastRestart
		last.Time = stamp(now)
		s.LastRestart = &last
	}
	for i, t := range s.Recent {
		s.Recent[i] = was(t)
	}
}

// absorb adds changes to the pending restart. The first becomes the stated reason of the restart.
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

// forgive forgets which annotations should be there, after a removed annotation and a later change of the trigger by
// the user. Nothing is repeated of the restart under way.
func (s *State) forgive() {
	for i := range s.Targets {
		s.forgiveOne(i)
	}
}

func (s *State) forgiveOne(i int) {
	t := &s.Targets[i]
	if s.Round != nil && same(t.RestartedAt, s.Round.Time) {
		t.Through = t.RestartedAt
	}
	t.RestartedAt = nil
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
	s.LastRestart = &Restart{Time: at, Reason: s.Round.Reason, Pod: s.Round.Pod, Source: s.Round.Source,
		Target: r.targets[i].String()}
}

func same(t *time.Time, at time.Time) bool { return t != nil && t.Equal(at) }

// memory is the knowledge about a trigger that can be lost without harm: a memory saves requests, and knows more of
// very many pods than the state may hold.
type memory struct {
	uid   string
	reads map[TargetRef]reading

	recordAt time.Time // when to write what only records; zero: there is nothing to write
	emptyAt  time.Time // when to say that no pod matches; zero: some do
	allowed  time.Time // when the source namespace was last seen to allow this trigger

	delay        string // the limit that the pending restart waits for, as was said last; "": nothing was said
	detail, seen detail // of the stored digest, and of the digest to store

	// The values of ConfigMaps and Secrets as of the stored digest, and of the digest to store, by source.
	values, seenValues map[string][]kube.NamedDigest
}

// detail is a digest of too many pods for the state, with the summary stored in its place.
type detail struct {
	digest digest
	text   string
}

// reading is a target as last read, or as answered to the restart.
type reading struct {
	live *liveTarget // nil: there was none
	at   time.Time   // when; zero: read it
	pods uint64      // fingerprint of the pods at the time

	refusal *health.Problem // of a restart that the server has refused; until a restart works
	retry   time.Time       // when to try that again
}

// absorbConfigs brings the state up to date with the ConfigMaps and Secrets.
func (m *memory) absorbConfigs(r *rule, s *State, found []config, now time.Time) {
	if len(r.wanted) == 0 {
		if s.SeenConfigs != "" && s.Pending != nil && s.Pending.Source != "" {
			s.Pending = nil // the restart was for ConfigMaps or Secrets
		}
		s.SeenConfigs, m.seenValues = "", nil
		return
	}
	seen, changes := noticeConfigs(r, decodeConfigs(s.SeenConfigs), found, m.values, now)
	s.absorb(changes, now)
	s.SeenConfigs = seen.encode()
	m.seenValues = make(map[string][]kube.NamedDigest, len(found))
	for _, c := range found {
		if m.seenValues[c.name] = c.values; !c.there {
			m.seenValues[c.name] = m.values[c.name] // to compare with when it comes back
		}
	}
}

// absorb brings the state up to date with the source pods.
func (m *memory) absorb(r *rule, s *State, pods []*pod, now time.Time) {
	if len(r.selector) == 0 {
		s.Seen, m.seen = "", detail{}
		return
	}
	known, ok := decodeDigest(s.Seen)
	if ok && known.pods == nil && s.Seen == m.detail.text {
		known = m.detail.digest
	}
	if known.source != r.source && len(r.wanted) == 0 && s.Pending != nil && s.Pending.Source == "" {
		s.Pending = nil // it was about other pods
	}
	seen, changes, store := notice(r, known, pods)
	s.absorb(changes, now)
	if store || len(changes) > 0 {
		s.Seen = seen.encode(r.maxPods)
	}
	m.seen = detail{}
	if d, _ := decodeDigest(s.Seen); d.pods == nil {
		m.seen = detail{seen, s.Seen}
	}
}

// sourcePods returns the pods of a rule: the selected pods, without the pods of the rule's own targets in the
// namespace home.
func sourcePods(r *rule, home string, all []*pod) (out []*pod) {
	for _, p := range all {
		ref, ok := ownerOf(&p.Meta)
		ours := ok && p.Namespace == home && slices.Contains(r.targets, ref)
		if !ours && r.selector.Match(p.Labels) {
			out = append(out, p)
		}
	}
	return out
}

// fingerprint identifies the pods of a target that are not being deleted.
func fingerprint(all []*pod) uint64 {
	h := fnv.New64a()
	for _, p := range all {
		if !p.Deleting() {
			h.Write([]byte(p.UID))
		}
	}
	return h.Sum64()
}
