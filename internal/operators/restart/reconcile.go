package restart

import (
	"context"
	"errors"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/operators/sources"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// recheck is how often a missing target is looked for: no event tells of the creation.
const recheck = time.Minute

// Manager is the field manager of restarts, and not the manager of children: skiff declares nothing of a target.
const Manager = "skiff-restart"

// Options hold the flags of the controller. The zero value has no floors, and pods as the only sources.
type Options struct {
	Floors
	Sources Sources
}

// New returns the controller, which sends nothing before Run. A nil recorder means no Events; the caller runs the
// recorder.
func New(s controller.Setup, recorder *events.Recorder, o Options) *controller.Controller {
	o.Sources = o.Sources.served()
	s.Client = s.Client.Limit(o.Sources.Rights())
	ts := controller.Mirror[*RestartTrigger](s, resource, "")
	var ps *cache.Store[*pod]
	if o.Sources.Pods {
		ps = controller.Mirror[*pod](s, pods, "")
	}
	r := &reconciler{
		client:   s.Client,
		restarts: newRestarts(),
		recorder: recorder,
		find:     newFinder(ts, ps),
		floors:   o.Floors,
	}
	statuses := operator.NewStatuses[*RestartTrigger, Status](s.Client, ts, r.memories.Forget)
	r.triggers = statuses
	from := []controller.Source{statuses.Source(), controller.Watches(ts, r.find.forTrigger)}
	if o.Sources.Pods {
		from = append(from, controller.Watches(ps, r.find.forPod))
	}
	if o.Sources.ConfigMaps {
		from = append(from, mirrorConfigs[*sources.ConfigMap](s, r.find, sources.ConfigMaps, sources.ConfigMapKind))
	}
	if o.Sources.Secrets {
		from = append(from, mirrorConfigs[*sources.Secret](s, r.find, sources.Secrets, sources.SecretKind))
	}
	c := s.New("restart", r.Reconcile, from...)
	c.Publish(r.restarts)
	r.found = c.Report
	c.Show(controller.Shows{Facts: r.facts, Short: []string{"rt"}})
	c.Remembers(statuses, &r.memories)
	return c
}

type reconciler struct {
	client     *kube.Client
	restarts   *metrics.Counts
	recorder   *events.Recorder // nil: no Events
	triggers   triggers
	standalone *standalone // the same in a `skiff restart`; nil: the state is in the status
	find       *finder
	floors     Floors
	found      func(k kube.Key, p *health.Problem) // Report of the controller

	memories keyed.Map[*memory] // each used by the one reconcile of the trigger
}

// triggers are where triggers and their status are kept, as by apply.Statuses.
type triggers interface {
	Get(ctx context.Context, k kube.Key) (*RestartTrigger, bool, error)
	Write(ctx context.Context, t *RestartTrigger, from, status any) (changed bool, err error)
}

// run is a reconcile of a trigger.
type run struct {
	*reconciler
	*memory
	t      *RestartTrigger // as last read or written
	rule   *rule           // nil: the trigger is refused
	now    time.Time
	source []*pod

	configs foundConfigs
}

// Reconcile brings a trigger's state up to date with the source pods, and restarts a target where a restart is due.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	t, ok, err := r.triggers.Get(ctx, key)
	if err != nil {
		return controller.Done, err
	}
	switch {
	case !ok:
		return controller.Gone, nil
	case t.Deleting():
		return r.held(ctx, t)
	}
	m := r.memories.Get(key)
	if m == nil || m.uid != t.UID { // the first, or created anew
		m = &memory{uid: t.UID, reads: map[TargetRef]reading{}}
		r.memories.Set(key, m)
	}
	d, err := (&run{reconciler: r, memory: m, t: t, now: time.Now()}).converge(ctx)
	return controller.Wait(d.wait).Because(d.cause), err
}

// held writes that a trigger is being deleted, and that no restart of it is pending any more.
func (r *reconciler) held(ctx context.Context, t *RestartTrigger) (controller.Outcome, error) {
	r.memories.Forget(t.Key())
	set, s := conditions.HeldBy(t.Annotations, t.Finalizers), t.Status
	r.found(t.Key(), set.Problem)
	s.Pending, s.NextRestartTime = nil, nil
	s.Common = operator.CommonOf(&t.Status.Common, &set, t.Generation, t.DeletionTimestamp)
	return operator.HeldOutcome(r.triggers.Write(ctx, t, t.Status, s))
}

// converge decides, writes the decision down, and acts on the decision. The result says when to run again.
func (r *run) converge(ctx context.Context) (decision, error) {
	rl, err := newRule(r.t)
	if err != nil {
		p := stalled("InvalidSpec", "correct the spec", "the spec is not valid")
		p.Quoted = err.Error()
		d := stop(r.t.Status.State, p)
		return d, errors.Join(controller.TerminalFor("InvalidSpec", err), r.report(ctx, &d))
	}
	rl.raise(r.floors)
	if p := r.find.notServed(rl); p != nil {
		d := stop(r.t.Status.State, p)
		return d, r.report(ctx, &d)
	}
	found, err := r.find.selected(rl)
	if cache.Unserved(err, cache.OutOfScope) != nil {
		d := stop(r.t.Status.State, noSource(rl.namespace, err))
		return d, r.report(ctx, &d)
	}
	if d, err := r.admit(ctx, rl); err != nil || d.problem != nil { // before it is told what is wrong with the pods
		if err == nil {
			err = r.report(ctx, &d)
		}
		return d, err
	}
	targetPods, perr := r.find.targetPods(r.t, rl)
	configs, cerr := r.find.configsOf(rl)
	if err := errors.Join(err, perr, cerr); err != nil {
		return decision{}, err
	}
	if r.standalone != nil {
		rl.maxPods = maxAnnotatedPods
	}
	r.rule, r.source, r.configs = rl, sourcePods(rl, r.t.Namespace, found), configs
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

// decide brings the state up to date with the source pods, and decides on the targets as they were last read.
func (r *run) decide(targetPods map[TargetRef]uint64) decision {
	s := r.t.Status.State.clone()
	r.absorb(r.rule, &s, r.source, r.now)
	r.absorbConfigs(r.rule, &s, r.configs.within, r.now)
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
	if d.missing = r.configs.missing; r.configs.count > maxConfigs {
		d.crowd = r.configs.count
	}
	return d
}

// read gets all targets.
func (r *run) read(ctx context.Context, targetPods map[TargetRef]uint64) error {
	for _, ref := range r.rule.targets {
		live := new(liveTarget)
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
	d := stop(s, failed(err, next.Step, next.Severity()))
	return d, errors.Join(err, r.report(ctx, &d))
}

// report writes the status after a change, and records the news in the status. Where the trigger has changed or is
// gone, nothing must be done for the trigger any more: d says so then. Mere observations wait for more to write within
// a second.
func (r *run) report(ctx context.Context, d *decision) error {
	r.now = time.Now()
	before := &r.t.Status
	matching := int32(0)
	if r.rule != nil {
		matching = r.matching(before, r.t.Generation, d, int32(len(r.source)), r.now)
	}
	status, problem := observe(r.t, r.rule, d, matching, r.now)
	r.found(r.t.Key(), problem)
	if wait := r.postpone(before, &status, d, r.now); wait > 0 {
		d.again(wait, "writes what was seen")
		return nil
	}
	changed, err := r.triggers.Write(ctx, r.t, *before, status)
	if err == nil {
		r.detail, r.values = r.seen, r.seenValues // what absorb has found is stored
		if changed {
			r.recordNews(ctx, d, before.Conditions, status.Conditions)
		}
		t, ok, err := r.triggers.Get(ctx, r.t.Key())
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
