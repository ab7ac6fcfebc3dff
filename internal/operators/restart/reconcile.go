package restart

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// recheck is how often a target that does not exist is looked for: no event says when it does.
const recheck = time.Minute

// Manager is the field manager of restarts. It is not that of children: skiff declares nothing of a target.
const Manager = "skiff-restart"

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; the caller runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	s.Client = s.Client.Limit(Rights)
	ts := controller.CustomResources[*RestartTrigger](s, resource)
	ps := controller.Mirror[*pod](s, pods, "")
	r := &reconciler{
		client:   s.Client,
		restarts: newRestarts(),
		recorder: recorder,
		find:     newFinder(ts, ps),

		minDebounce: s.MinDebounce,
		minCooldown: s.MinCooldown,
	}
	statuses := operator.NewStatuses[*RestartTrigger, Status](s.Client, ts, func(k kube.Key) { r.memories.Delete(k) })
	r.triggers = statuses
	c := s.New("restart", r.Reconcile, statuses.Source(), controller.Watches(ts, r.find.forTrigger),
		controller.Watches(ps, r.find.forPod))
	c.Publish(r.restarts)
	c.Show(controller.Shows{Facts: r.facts})
	c.OnLeave(statuses.Leave)
	c.OnLeave(r.leave)
	return c
}

// leave drops what is remembered of the triggers of a namespace that is no longer watched.
func (r *reconciler) leave(namespace string) {
	r.memories.Range(func(key, _ any) bool {
		if key.(kube.Key).Namespace == namespace {
			r.memories.Delete(key)
		}
		return true
	})
}

type reconciler struct {
	client                   *kube.Client
	restarts                 *metrics.Counts
	recorder                 *events.Recorder // nil: no Events
	triggers                 triggers
	standalone               *standalone // the same in a `skiff restart`; nil: the state is in the status
	find                     *finder
	minDebounce, minCooldown time.Duration // floors, set by flags

	memories sync.Map // kube.Key -> *memory, which belongs to the one reconcile of that trigger
}

// triggers are where triggers and their status are kept, as by apply.Statuses.
type triggers interface {
	Get(k kube.Key) (*RestartTrigger, bool, error)
	Write(ctx context.Context, t *RestartTrigger, from, status any) (changed bool, err error)
	Forget(k kube.Key)
}

// run is one reconcile of one trigger.
type run struct {
	*reconciler
	*memory
	t      *RestartTrigger // as last read or written
	rule   *rule           // nil: the trigger is refused
	now    time.Time
	source []*pod
}

// Reconcile brings a trigger's state up to date with its pods, and restarts a target if that is due.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	t, ok, err := r.triggers.Get(key)
	if err != nil {
		return controller.Done, err
	}
	if !ok || t.Deleting() {
		r.triggers.Forget(key)
		r.memories.Delete(key)
		return controller.Done, nil
	}
	v, _ := r.memories.LoadOrStore(key, new(memory))
	m := v.(*memory)
	if m.uid != t.UID { // the first one, or one that was created anew
		*m = memory{uid: t.UID, reads: map[TargetRef]reading{}}
	}
	d, err := (&run{reconciler: r, memory: m, t: t, now: time.Now()}).converge(ctx)
	return controller.Wait(d.wait).Because(d.cause), err
}

// converge decides, writes the decision down, and carries it out. The decision that it returns says when to run
// again.
func (r *run) converge(ctx context.Context) (decision, error) {
	rl, err := newRule(r.t)
	if err != nil {
		d := stop(r.t.Status.State, stalled("InvalidSpec", "%v; correct the spec", err))
		return d, errors.Join(controller.TerminalFor("InvalidSpec", err), r.report(ctx, &d))
	}
	rl.raise(r.minDebounce, r.minCooldown)
	found, err := r.find.selected(rl)
	if errors.Is(err, cache.ErrOutOfScope) {
		d := stop(r.t.Status.State, noSource(rl.namespace, err))
		return d, r.report(ctx, &d)
	}
	targetPods, perr := r.find.targetPods(r.t, rl)
	if err := errors.Join(err, perr); err != nil {
		return decision{}, err
	}
	if d, err := r.admit(ctx, rl); err != nil || d.problem != nil {
		if err == nil {
			err = r.report(ctx, &d)
		}
		return d, err
	}
	if r.standalone != nil {
		rl.maxPods = maxAnnotatedPods
	}
	r.rule, r.source = rl, sourcePods(rl, r.t.Namespace, found)
	if r.t.Status.ObservedGeneration != r.t.Generation {
		clear(r.reads)
	}
	d := r.decide(targetPods)
	if d.stale {
		if err := r.read(ctx, targetPods); err != nil {
			return r.fail(ctx, d.state, err)
		}
		d = r.decide(targetPods)
	}
	if err := r.report(ctx, &d); err != nil {
		return d, err
	}
	r.tell(ctx, &d)
	if d.restart < 0 {
		return d, nil
	}
	return r.carryOut(ctx, d)
}

// tell tells the observer of the context which restarts are to come, and what they wait for.
func (r *run) tell(ctx context.Context, d *decision) {
	var want []apply.Child
	var report apply.Report
	s := &d.state
	for i, ref := range r.rule.targets {
		live, mine := r.reads[ref].live, s.Targets[i]
		if s.Round == nil && s.Pending == nil || live == nil || i == d.restart ||
			s.Round != nil && (same(mine.Through, s.Round.Time) || same(mine.RestartedAt, s.Round.Time)) {
			continue
		}
		result := apply.Result{Resource: targetKinds[ref.Kind], Live: live, Outcome: apply.Later,
			Key: kube.Key{Namespace: r.t.Namespace, Name: ref.Name}, Message: "when the restart before it is over"}
		switch {
		case r.rule.suspended:
			result.Outcome = apply.Paused
		case d.waiting != nil:
			result.Message = "when it can: " + d.waiting.Message
		case s.Round == nil && len(want) == 0:
			_, limit := s.due(r.rule, r.now)
			result.Message = "when the " + limit + " is over"
		}
		want = append(want, apply.Child{Body: restartPatch(r.now)})
		report.Children = append(report.Children, result)
	}
	apply.Tell(ctx, apply.OwnerOf(resource, r.t), want, report)
}

// restartPatch is what restarts a workload.
func restartPatch(at time.Time) map[string]any {
	annotations := map[string]any{restartedAt: at.Format(time.RFC3339)}
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": annotations}}}}
}

// decide brings the state up to date with the source pods, and decides on the targets as they were last read.
func (r *run) decide(targetPods map[TargetRef]uint64) decision {
	s := r.t.Status.State.clone()
	r.absorb(r.rule, &s, r.source, r.now)
	if r.t.Status.ObservedGeneration != r.t.Generation {
		if c, _ := conditions.Get(r.t.Status.Conditions, conditions.Stalled); c.Reason == reverted {
			s.forgive()
		}
	}
	targets := make([]target, len(r.rule.targets))
	others := r.find.restarting(r.t, r.rule)
	for i, ref := range r.rule.targets {
		targets[i] = target{ref, r.reads[ref], others[ref]}
		if s.Round == nil && targets[i].pods != targetPods[ref] {
			targets[i].at = time.Time{} // it has changed
		}
	}
	d := decide(r.rule, s, targets, r.now)
	if d.stale {
		return d
	}
	if way := r.find.cycle(r.t, r.rule, d.state.Targets); way != nil {
		d = refuse(d.state, circular(way)) // which may have caused what was seen
		d.cycle = way
	}
	return d
}

// read gets all targets.
func (r *run) read(ctx context.Context, targetPods map[TargetRef]uint64) error {
	for _, ref := range r.rule.targets {
		live := new(workload)
		err := r.client.Get(ctx, targetKinds[ref.Kind], kube.Key{Namespace: r.t.Namespace, Name: ref.Name}, live)
		if kube.IsNotFound(err) {
			live, err = nil, nil
		}
		if err != nil {
			return err
		}
		l := r.reads[ref]
		l.live, l.at, l.pods = live, r.now, targetPods[ref]
		r.reads[ref] = l
	}
	if r.standalone != nil {
		r.t = r.standalone.read(ctx, r.reads[r.rule.targets[0]].live)
	}
	return nil
}

// fail reports a request that failed, unless that should be over soon.
func (r *run) fail(ctx context.Context, s State, err error) (decision, error) {
	next := controller.NextOf(ctx, err)
	if next.Brief {
		return decision{}, err
	}
	d := stop(s, failed(err, next.Step, next.Stalled))
	return d, errors.Join(err, r.report(ctx, &d))
}

// carryOut restarts the target of a decision that is in the status by now.
func (r *run) carryOut(ctx context.Context, d decision) (decision, error) {
	ref := r.rule.targets[d.restart]
	seen := r.reads[ref]
	after := d.state.clone()
	after.restarted(r.rule, d.restart, seen.live.UID)
	live, err := r.restart(ctx, d.restart, &after)
	switch {
	case kube.IsNotFound(err), kube.IsConflict(err): // it was deleted, or another one has its name
		clear(r.reads)
		d.again(minPoll, "reads "+ref.String()+" again")
		return d, nil
	case err != nil && (ctx.Err() != nil || seen.refusal == nil && controller.NextOf(ctx, err).Brief):
		clear(r.reads) // the server may have done it all the same
		return decision{}, err
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "restart refused", "target", ref.String())
		r.reads[ref] = d.refused(seen, err, time.Now())
	default:
		r.announce(ref, live, after.Round)
		r.reads[ref] = reading{live: live, at: time.Now(), pods: seen.pods}
		d = decision{state: after, restart: -1}
		d.again(minPoll, "waits for "+ref.String())
	}
	return d, r.report(ctx, &d)
}

// restart restarts a target as it was read, and no other object that may have its name by now. after is the state
// that follows from it.
func (r *run) restart(ctx context.Context, i int, after *State) (*workload, error) {
	ref := r.rule.targets[i]
	seen, live := r.reads[ref].live, new(workload)
	metadata := map[string]any{"uid": seen.UID}
	keep := r.standalone != nil && i == 0
	if keep {
		if err := r.standalone.enter(metadata, seen, after); err != nil {
			return nil, err
		}
	}
	patch := restartPatch(after.Round.Time)
	patch["metadata"] = metadata
	err := r.client.Patch(ctx, targetKinds[ref.Kind], kube.Key{Namespace: r.t.Namespace, Name: ref.Name},
		kube.StrategicMergePatch, patch, live, kube.WriteOptions{FieldManager: Manager})
	r.restarts.Inc(resultOf(err))
	if err != nil {
		return nil, err
	}
	if keep {
		r.standalone.wrote(live, after)
	}
	logr.FromContextOrDiscard(ctx).Info("restarted", "target", ref.String(), "reason", after.Round.Reason.String(),
		"note", after.Round.Note)
	return live, nil
}

// report writes the status, if it has changed, and records what is new in it. Where the trigger has changed or is
// gone, nothing must be done for it any more: d says so then. What only records what was seen waits for what
// follows within a second.
func (r *run) report(ctx context.Context, d *decision) error {
	r.now = time.Now()
	before := &r.t.Status
	matching := int32(0)
	if r.rule != nil {
		matching = r.matching(before, r.t.Generation, d, int32(len(r.source)), r.now)
	}
	status := observe(r.t, r.rule, d, matching, r.now)
	if wait := r.postpone(before, &status, d, r.now); wait > 0 {
		d.again(wait, "writes what was seen")
		return nil
	}
	changed, err := r.triggers.Write(ctx, r.t, *before, status)
	if err == nil {
		r.detail = r.seen // what absorb has found is stored
		if changed {
			r.recordNews(ctx, d, before.Conditions, status.Conditions)
		}
		t, ok, err := r.triggers.Get(r.t.Key())
		if err != nil {
			return err
		}
		if ok && t.UID == r.t.UID {
			r.t = t
			return nil
		}
	} else if !errors.Is(err, apply.ErrConflict) {
		return err
	}
	clear(r.reads)
	d.restart = -1
	d.again(time.Second, "the trigger has changed")
	return nil
}
