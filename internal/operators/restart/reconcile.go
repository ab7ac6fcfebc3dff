package restart

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/cache"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// recheck is how often a target that does not exist is looked for: no event tells when it does.
const recheck = time.Minute

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; the caller runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	s.Client = s.Client.Limit(Rights)
	ts := controller.Mirror[*RestartTrigger](s, resource, "")
	ps := controller.Mirror[*pod](s, pods, "")
	r := &reconciler{
		client:   client{s.Client},
		recorder: recorder,
		triggers: apply.NewStatuses[RestartTrigger](s.Client, ts),
		find:     newFinder(s, ts, ps),
	}
	return s.New("restart", r.Reconcile, controller.For(ts), controller.Watches(ts, r.find.forTrigger),
		controller.Watches(ps, r.find.forPod))
}

type reconciler struct {
	client
	recorder *events.Recorder // nil: no Events
	triggers *apply.Statuses[RestartTrigger, *RestartTrigger]
	find     *finder
	memories sync.Map // kube.Key -> *memory, which belongs to the one reconcile of that trigger
}

// run is one reconcile of one trigger.
type run struct {
	*reconciler
	*memory
	t      *RestartTrigger // as last read or written
	rule   *rule           // nil: the trigger is refused
	now    time.Time
	source []sourcePod
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
		return d, errors.Join(controller.Terminal(err), r.report(ctx, &d))
	}
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
	r.rule, r.source = rl, sourcePods(rl, r.t.Namespace, found)
	s := r.t.Status.State.clone()
	r.absorb(rl, &s, r.source, r.now)
	if r.t.Status.ObservedGeneration != r.t.Generation {
		r.readAt = time.Time{}
		if c, _ := conditions.Get(r.t.Status.Conditions, conditions.Stalled); c.Reason == reverted {
			s.forgive()
		}
	}
	s.align(rl)
	fresh := r.needsRead(rl, &s, targetPods, r.now)
	if fresh {
		if err := r.read(ctx, r.t.Namespace, rl, r.memory, targetPods); err != nil {
			return r.fail(ctx, s, err)
		}
		for i, ref := range rl.targets {
			s.Targets[i].PodLabels = podLabels(r.reads[ref].live)
		}
	}
	var d decision
	if way := r.find.cycle(r.t, rl, s.Targets); way != nil {
		d = refuse(s, circular(way)) // which may have caused what was seen
		d.cycle = way
	} else {
		r.others = r.find.restarting(r.t, rl)
		d = r.decide(rl, s, fresh, r.now)
	}
	if err := r.report(ctx, &d); err != nil || d.restart < 0 {
		return d, err
	}
	return r.carryOut(ctx, d)
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
	i, round := d.restart, d.state.Round
	ref := r.rule.targets[i]
	live, err := r.restart(ctx, r.t.Namespace, ref, r.reads[ref].live, round, nil)
	switch {
	case kube.IsNotFound(err), kube.IsConflict(err): // it was deleted, or another one has its name
		r.readAt = time.Time{}
		d.again(minPoll, "reads "+ref.String()+" again")
		return d, nil
	case err != nil && (ctx.Err() != nil || r.refusal == nil && controller.NextOf(ctx, err).Brief):
		r.readAt = time.Time{} // the server may have done it all the same
		return decision{}, err
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "restart refused", "target", ref.String())
		r.refused(&d, err, time.Now())
	default:
		r.announce(ref, live, round)
		r.restarted(ref, live)
		d = decision{state: d.state.clone(), restart: -1}
		d.state.restarted(r.rule, i, live.UID)
		d.again(minPoll, "waits for "+ref.String())
	}
	return d, r.report(ctx, &d)
}

// report writes the status, if it has changed, and tells what is new in it. Where the trigger has changed or is
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
			r.tell(ctx, d, before.Conditions, status.Conditions)
		}
		t, ok, err := r.triggers.Get(r.t.Key())
		if err != nil {
			return err
		}
		if ok && t.UID == r.t.UID {
			r.t = t
			return nil
		}
	} else if !errors.Is(err, apply.ErrOvertaken) {
		return err
	}
	d.restart = -1
	d.again(time.Second, "the trigger has changed")
	return nil
}
