package restart

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// manager is the field manager of restarts. It is not that of children: skiff declares nothing of a target.
const manager = "skiff-restart"

// memory is what is remembered of one trigger. It can be lost without harm: it saves requests, and knows more of
// very many pods than the state may hold.
type memory struct {
	uid    string
	reads  map[TargetRef]reading
	others map[TargetRef]string // the triggers that are restarting a target of this one
	readAt time.Time            // when to read targets again that are waited for or missing; zero: any time

	waiting, problem *conditions.Problem // of the last decision about the targets as they were read then
	refusal          *conditions.Problem // of the restart that is to be made, if the server has refused it

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

// reading is a target as it was last read.
type reading struct {
	live *workload // nil: there was none
	pods uint64    // fingerprint of its pods at that time
}

// absorb brings the state up to date with the source pods.
func (m *memory) absorb(r *rule, s *State, pods []sourcePod, now time.Time) {
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

// needsRead says whether a decision needs the targets as they are now: they have never been read, their pods have
// changed, or something is due.
func (m *memory) needsRead(r *rule, s *State, pods map[TargetRef]uint64, now time.Time) bool {
	due := !now.Before(m.readAt)
	for _, ref := range r.targets {
		l, ok := m.reads[ref]
		if !ok || s.Round == nil && l.pods != pods[ref] || l.live == nil && due {
			return true
		}
	}
	return due && (s.Round != nil || s.overdue(r, now))
}

// decide decides on the targets as they were last read; fresh says that this was just now. It also says when to
// read them again.
func (m *memory) decide(r *rule, s State, fresh bool, now time.Time) decision {
	if !fresh && (s.Round != nil || s.overdue(r, now)) {
		d := decision{state: s, restart: -1, waiting: m.waiting, problem: m.problem}
		d.again(m.readAt.Sub(now), "waits for "+join(",", r.targets))
		return d
	}
	targets := make([]target, len(r.targets))
	for i, ref := range r.targets {
		targets[i] = target{ref, m.reads[ref].live, m.others[ref]}
	}
	d := decide(r, s, targets, now)
	if d.restart >= 0 && m.refusal != nil {
		d.problem = m.refusal // until it works
	}
	m.waiting, m.problem = d.waiting, d.problem
	switch {
	case d.state.Round != nil && d.wait == 0: // suspended in the middle
		m.readAt = now.Add(maxPoll)
		return d
	case d.state.Round != nil || d.waiting != nil:
		m.readAt = now.Add(d.wait)
	case fresh && d.problem != nil && d.problem.Reason == targetMissing:
		m.readAt = now.Add(recheck)
	case fresh || !m.readAt.After(now):
		m.readAt = time.Time{}
	}
	if !m.readAt.IsZero() {
		d.again(m.readAt.Sub(now), "looks for a missing target")
	}
	return d
}

// refused notes that the server has refused a restart. It is tried again after an eighth of the time that it was
// tried for already, but at least every few minutes: the reason may be a missing right, a quota or a webhook, and
// no event tells when it is gone.
func (m *memory) refused(d *decision, err error, now time.Time) {
	tried := now.Sub(d.state.Round.Time)
	m.refusal = failed(err, "skiff tries again within 5 minutes", tried >= stuckAfter)
	d.restart, d.problem, m.problem, m.waiting = -1, m.refusal, m.refusal, nil
	d.wait, d.cause = min(max(tried/8, minPoll), controller.SlowDelay), "tries the refused restart again"
	m.readAt = now.Add(d.wait)
}

// restarted notes the answer to a restart.
func (m *memory) restarted(ref TargetRef, live *workload) {
	m.refusal, m.readAt = nil, time.Now().Add(minPoll)
	m.reads[ref] = reading{live, m.reads[ref].pods}
}

// client is what a RestartTrigger and `skiff restart` send.
type client struct{ *kube.Client }

// read gets all targets.
func (c client) read(ctx context.Context, namespace string, r *rule, m *memory, pods map[TargetRef]uint64) error {
	for _, ref := range r.targets {
		live := new(workload)
		err := c.Get(ctx, targetKinds[ref.Kind], kube.Key{Namespace: namespace, Name: ref.Name}, live)
		if kube.IsNotFound(err) {
			live, err = nil, nil
		}
		if err != nil {
			return err
		}
		m.reads[ref] = reading{live, pods[ref]}
	}
	return nil
}

// restart restarts a target as it was read, and no other object that may have its name by now. annotations are for
// the target itself; with them goes its resource version, so that they replace no others' newer ones.
func (c client) restart(ctx context.Context, namespace string, ref TargetRef, seen *workload, round *Round,
	annotations map[string]string) (*workload, error) {
	metadata := map[string]any{"uid": seen.UID}
	if annotations != nil {
		metadata["annotations"] = annotations
		metadata["resourceVersion"] = seen.ResourceVersion
	}
	at := map[string]any{restartedAt: round.Time.Format(time.RFC3339)}
	template := map[string]any{"metadata": map[string]any{"annotations": at}}
	patch := map[string]any{"metadata": metadata, "spec": map[string]any{"template": template}}
	live := new(workload)
	err := c.Patch(ctx, targetKinds[ref.Kind], kube.Key{Namespace: namespace, Name: ref.Name},
		kube.StrategicMergePatch, patch, live, kube.WriteOptions{FieldManager: manager})
	if err != nil {
		return nil, err
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("restarted", "target", ref.String(), "reason", round.Reason.String(), "note", round.Note)
	return live, nil
}

// sourcePods returns the pods that a rule is about: what it selects, without the pods of its own targets in the
// namespace home.
func sourcePods(r *rule, home string, all []*pod) []sourcePod {
	var out []sourcePod
	for _, p := range all {
		ref, ok := ownerOf(p)
		if !r.selector.matches(p.Labels) || ok && p.Namespace == home && slices.Contains(r.targets, ref) {
			continue
		}
		out = append(out, sourcePod{name: p.Name, uid: p.UID, ip: p.Status.PodIP, restarts: p.restarts(),
			running: p.Status.Phase == "Running" && !p.Deleting(), lasting: lasting(p), created: p.CreationTimestamp})
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
