package restart

import (
	"hash/fnv"
	"slices"
	"time"

	"skiff/internal/runtime/conditions"
)

// memory is what is remembered of one trigger. It can be lost without harm: it saves requests, and knows more of
// very many pods than the state may hold.
type memory struct {
	uid   string
	reads map[TargetRef]reading

	recordAt time.Time // when to write what only records; zero: there is nothing to write
	emptyAt  time.Time // when to say that no pod matches; zero: some do
	allowed  time.Time // when the source namespace was last seen to allow this trigger

	detail, seen detail // of the digest that is stored, and of the one that is to be stored
}

// detail is a digest of pods that are too many for the state, with the summary that the state has in its place.
type detail struct {
	digest digest
	text   string
}

// reading is a target as it was last read, or as the answer to its restart was.
type reading struct {
	live *workload // nil: there was none
	at   time.Time // when; zero: read it
	pods uint64    // fingerprint of its pods at that time

	refusal *conditions.Problem // of its restart, if the server has refused that; until it works
	retry   time.Time           // when to try that again
}

// absorb brings the state up to date with the source pods.
func (m *memory) absorb(r *rule, s *State, pods []*pod, now time.Time) {
	known, ok := decodeDigest(s.Seen)
	if ok && known.pods == nil && s.Seen == m.detail.text {
		known = m.detail.digest
	}
	if known.source != r.source {
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

// sourcePods returns the pods that a rule is about: what it selects, without the pods of its own targets in the
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
