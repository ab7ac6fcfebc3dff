package restart

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// manager is the field manager of restarts. It is not that of children: skiff declares nothing of a target.
const manager = "skiff-restart"

// worker does what a RestartTrigger and `skiff restart` have in common.
type worker struct {
	client *kube.Client
	events *events.Recorder // nil: no Events
}

// memory is what is remembered of one trigger. All of it can be lost without harm: it saves requests, and knows more of very many pods
// than the state may hold.
type memory struct {
	uid    string
	looks  map[TargetRef]look
	lookAt time.Time // when to read targets that are waited for or missing again; zero: any time

	waiting, problem *conditions.Problem // of the last decision about the targets as they were read then
	refusal          *conditions.Problem // of the restart that is to be made, if the server did not take it

	detail     digest // what the state's digest is a summary of ...
	detailText string // ... if it is this one
}

// look is a target as it was last read.
type look struct {
	live  *workload // nil: there was none
	print uint64    // of its pods at that time
}

// absorb brings the state up to date with the source pods.
func (m *memory) absorb(r *rule, s *State, pods []sourcePod, now time.Time) {
	known, ok := decodeDigest(s.Seen)
	if ok && known.pods == nil && s.Seen == m.detailText {
		known = m.detail
	}
	if known.source != r.source {
		s.Pending = nil // it was about other pods
	}
	seen, changes, store := notice(r, known, pods)
	s.absorb(changes, now)
	if store || len(changes) > 0 {
		s.Seen = seen.encode(r.maxPods)
	}
	if d, _ := decodeDigest(s.Seen); d.pods == nil {
		m.detail, m.detailText = seen, s.Seen
	} else {
		m.detail, m.detailText = digest{}, ""
	}
}

// wantsLook says whether a decision needs the targets as they are now: they have never been read, their pods have changed, or
// something is due.
func (m *memory) wantsLook(r *rule, s *State, prints map[TargetRef]uint64, now time.Time) bool {
	due := !now.Before(m.lookAt)
	for _, ref := range r.targets {
		l, ok := m.looks[ref]
		if !ok || s.Round == nil && l.print != prints[ref] || l.live == nil && due {
			return true
		}
	}
	return due && (s.Round != nil || s.waitsNoLonger(r, now))
}

// waitsNoLonger says that only the targets can keep the pending restart from being made.
func (s *State) waitsNoLonger(r *rule, now time.Time) bool {
	return s.Pending != nil && !r.suspended && s.due(r, now) == 0
}

// decide is the engine's on what was last read of the targets; fresh says that this was just now. It also says when to read them
// again.
func (m *memory) decide(r *rule, s State, fresh bool, now time.Time) decision {
	if !fresh && (s.Round != nil || s.waitsNoLonger(r, now)) {
		return decision{state: s, restart: -1, wait: m.lookAt.Sub(now), waiting: m.waiting, problem: m.problem}
	}
	targets := make([]target, len(r.targets))
	for i, ref := range r.targets {
		targets[i] = target{ref, m.looks[ref].live}
	}
	d := decide(r, s, targets, now)
	if d.restart >= 0 && m.refusal != nil {
		d.problem = m.refusal // until it works
	}
	m.waiting, m.problem = d.waiting, d.problem
	switch {
	case d.state.Round != nil && d.wait == 0: // held up in the middle, until somebody changes something
		m.lookAt = now.Add(maxPoll)
		return d
	case d.state.Round != nil || d.waiting != nil:
		m.lookAt = now.Add(d.wait)
	case fresh && d.problem != nil && d.problem.Reason == targetMissing:
		m.lookAt = now.Add(recheck)
	case fresh || !m.lookAt.After(now):
		m.lookAt = time.Time{}
	}
	if !m.lookAt.IsZero() {
		d.wait = apply.Earlier(d.wait, m.lookAt.Sub(now))
	}
	return d
}

// refused notes that the server did not take a restart. It is tried again after an eighth of the time that it was tried for already, but
// at least every few minutes: what is in the way may be a grant, a quota or a webhook, and nothing tells when it is gone.
func (m *memory) refused(d *decision, err error, now time.Time) {
	tried := now.Sub(d.state.Round.Time)
	m.refusal = failed(err, "skiff tries again within 5 minutes", tried >= stuckAfter)
	d.problem, m.problem, m.waiting = m.refusal, m.refusal, nil
	d.wait = min(max(tried/8, minPoll), controller.SlowDelay)
	m.lookAt = now.Add(d.wait)
}

// restarted notes the answer to a restart.
func (m *memory) restarted(ref TargetRef, live *workload) {
	l := m.looks[ref]
	l.live = live
	m.looks[ref] = l
}

// read gets all targets from the server.
func (w *worker) read(ctx context.Context, namespace string, r *rule, m *memory, prints map[TargetRef]uint64) error {
	for _, ref := range r.targets {
		live := new(workload)
		err := w.client.Get(ctx, targetKinds[ref.Kind], kube.Key{Namespace: namespace, Name: ref.Name}, live)
		if kube.IsNotFound(err) {
			live, err = nil, nil
		}
		if err != nil {
			return err
		}
		m.looks[ref] = look{live: live, print: prints[ref]}
	}
	return nil
}

// patch restarts a target as it was read, and no other object that may have its name by now. annotations are for the target itself;
// with them goes its resource version, so that nobody else has written them meanwhile.
func (w *worker) patch(ctx context.Context, namespace string, ref TargetRef, seen *workload, at time.Time, annotations map[string]string) (*workload, error) {
	metadata := map[string]any{"uid": seen.UID}
	if annotations != nil {
		metadata["annotations"] = annotations
		metadata["resourceVersion"] = seen.ResourceVersion
	}
	template := map[string]any{"metadata": map[string]any{"annotations": map[string]any{restartedAt: at.Format(time.RFC3339)}}}
	live := new(workload)
	err := w.client.Patch(ctx, targetKinds[ref.Kind], kube.Key{Namespace: namespace, Name: ref.Name}, kube.StrategicMergePatch,
		map[string]any{"metadata": metadata, "spec": map[string]any{"template": template}}, live, kube.WriteOptions{FieldManager: manager})
	if err != nil {
		return nil, err
	}
	return live, nil
}

// sourcePods returns the pods that a rule is about: what it selects, but for the pods of its own targets, in the namespace home.
func sourcePods(r *rule, home string, all []*pod) []sourcePod {
	var out []sourcePod
	for _, p := range all {
		if !r.selector.matches(p.Labels) {
			continue
		}
		if ref, ok := ownerOf(p); ok && p.Namespace == home && r.restarts(ref) {
			continue
		}
		out = append(out, sourcePod{name: p.Name, uid: p.UID, ip: p.Status.PodIP, restarts: int32(p.Status.Restarts),
			running: p.Status.Phase == "Running" && !p.Deleting(), lasting: lasting(p), created: p.CreationTimestamp})
	}
	return out
}

// restarts says whether a workload is a target.
func (r *rule) restarts(ref TargetRef) bool {
	for _, t := range r.targets {
		if t == ref {
			return true
		}
	}
	return false
}

// fingerprint is one of a set: sets are compared by the XOR of their members'.
func fingerprint(uid string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uid))
	return h.Sum64()
}

// action is what this controller was doing when something happened (events.k8s.io/v1 wants to know).
const action = "Restart"

// record records an Event.
func (w *worker) record(e events.Event) {
	e.Action = action
	w.events.Record(e)
}

// announce tells of a restart, on the target and on the trigger.
func (w *worker) announce(t *RestartTrigger, ref TargetRef, live *workload, round *Round) {
	trigger, restarted := events.ObjectOf(resource, t), events.ObjectOf(targetKinds[ref.Kind], live)
	w.record(events.Event{Regarding: restarted, Related: trigger, Type: events.Normal, Reason: "Restarted",
		Note: "restarted by RestartTrigger " + t.Name + ": " + round.Note})
	w.record(events.Event{Regarding: trigger, Related: restarted, Type: events.Normal, Reason: "Restarted",
		Note: "restarted " + ref.String() + ": " + round.Note})
}

// tell tells of what is wrong now and was not before. That it is ready again after each restart, and paused, is no news.
func (w *worker) tell(ctx context.Context, t *RestartTrigger, before, after []conditions.Condition) {
	for _, n := range conditions.NewsOf(before, after) {
		if n.Warning {
			logr.FromContextOrDiscard(ctx).Info("degraded", "reason", n.Reason, "message", n.Note)
			w.record(events.Event{Regarding: events.ObjectOf(resource, t), Type: events.Warning, Reason: n.Reason, Note: n.Note})
		}
	}
}
