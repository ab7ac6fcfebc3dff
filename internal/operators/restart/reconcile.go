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

// recheck is the wait for what only somebody else can change, and of which nothing tells us: a target that is not there.
const recheck = time.Minute

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; who made it runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	s.Client = s.Client.Limit(Rights)
	ts := controller.Mirror[*RestartTrigger](s, resource, "")
	ps := controller.Mirror[*pod](s, pods, "")
	cycles, wake := controller.Woken()
	r := &reconciler{
		worker:   worker{client: s.Client, events: recorder},
		triggers: apply.NewStatuses[RestartTrigger](s.Client, ts),
		pods:     ps.List,
		graph:    newGraph(wake),
		memories: map[kube.Key]*memory{},
	}
	ts.OnChange(func(c cache.Change[*RestartTrigger]) { // ahead of the controller's: whoever runs finds the graph as it is by then
		if c.Type == cache.Gone {
			r.graph.remove(c.Old.Key())
			return
		}
		r.graph.put(c.New)
	})
	return s.New("restart", r.Reconcile, controller.For(ts), controller.Watches(ps, r.graph.forPod), cycles)
}

type reconciler struct {
	worker
	triggers *apply.Statuses[RestartTrigger, *RestartTrigger]
	pods     func(namespace string) ([]*pod, error)
	graph    *graph

	mu       sync.Mutex // guards memories; what an entry points at belongs to the one reconcile of that trigger
	memories map[kube.Key]*memory
}

// memoryOf returns what is remembered of a trigger. One that was created anew begins with nothing.
func (r *reconciler) memoryOf(t *RestartTrigger) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[t.Key()]
	if m == nil || m.uid != t.UID {
		m = &memory{uid: t.UID, looks: map[TargetRef]look{}}
		r.memories[t.Key()] = m
	}
	return m
}

func (r *reconciler) forget(k kube.Key) {
	r.triggers.Forget(k)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, k)
}

// Reconcile brings a trigger's state up to date with its pods, and restarts a target if that is due.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	t, ok, err := r.triggers.Get(key)
	if err != nil {
		return controller.Done, err
	}
	if !ok || t.Deleting() {
		r.forget(key)
		return controller.Done, nil
	}
	rl, err := r.graph.rule(t)
	if err != nil {
		d := &decision{state: t.Status.State, problem: invalid(err)}
		_, werr := r.report(ctx, t, nil, d)
		return controller.Done, errors.Join(controller.Terminal(err), werr)
	}
	rl.suspended = rl.suspended || conditions.IsPaused(t.Annotations)
	d, err := r.converge(ctx, t, rl)
	if d == nil {
		return controller.Done, err
	}
	return controller.Wait(d.wait), err
}

// converge decides, writes the decision down, and carries it out. The decision that it returns says when to look again; nil: at the
// next change, which is on its way.
func (r *reconciler) converge(ctx context.Context, t *RestartTrigger, rl *rule) (*decision, error) {
	mem := r.memoryOf(t)
	source, prints, err := r.look(t, rl)
	if err != nil {
		d := &decision{state: t.Status.State, problem: noSource(rl.namespace, err)}
		if !errors.Is(err, cache.ErrOutOfScope) {
			return nil, err
		}
		_, err = r.report(ctx, t, rl, d)
		return d, err
	}
	now := time.Now()
	s := t.Status.State.clone()
	mem.absorb(rl, &s, source, now)
	if t.Status.ObservedGeneration != t.Generation {
		mem.lookAt = time.Time{}
		if c, _ := conditions.Get(t.Status.Conditions, conditions.Stalled); c.Reason == reverted {
			s.forgive()
		}
	}
	s.begin(rl)
	fresh := mem.wantsLook(rl, &s, prints, now)
	if fresh {
		if err := r.read(ctx, t.Namespace, rl, mem, prints); err != nil {
			next := controller.NextOf(ctx, err)
			if next.Brief {
				return nil, err
			}
			d := &decision{state: s, problem: failed(err, next.Step, next.Stalled)}
			_, werr := r.report(ctx, t, rl, d)
			return nil, errors.Join(err, werr)
		}
		for _, ref := range rl.targets {
			r.graph.learn(t.Key(), target{ref, mem.looks[ref].live})
		}
	}
	if way := r.graph.cycle(t.Key()); way != nil {
		// What happens meanwhile is not to be made up for: some of it would be of its own making.
		s.Seen, s.Pending, s.Round = "", nil, nil
		d := &decision{state: s, problem: circular(way), wait: recheck}
		_, err := r.report(ctx, t, rl, d)
		return d, err
	}
	d := mem.decide(rl, s, fresh, now)
	t, err = r.report(ctx, t, rl, &d)
	if err != nil || t == nil || d.restart < 0 {
		return &d, err
	}
	return r.restart(ctx, t, rl, mem, d)
}

// restart carries out a decision that is in the status by now.
func (r *reconciler) restart(ctx context.Context, t *RestartTrigger, rl *rule, mem *memory, d decision) (*decision, error) {
	ref := rl.targets[d.restart]
	s := d.state.clone()
	live, err := r.patch(ctx, t.Namespace, ref, mem.looks[ref].live, s.Round.Time, nil)
	if kube.IsNotFound(err) || kube.IsConflict(err) { // gone, or another one has its name
		mem.lookAt = time.Time{}
		d.wait = minPoll
		return &d, nil
	}
	if err != nil && (ctx.Err() != nil || mem.refusal == nil && controller.NextOf(ctx, err).Brief) {
		mem.lookAt = time.Time{} // it may have happened all the same
		return nil, err
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "restart refused", "target", ref.String())
		d.restart = -1
		mem.refused(&d, err, time.Now())
		_, err = r.report(ctx, t, rl, &d)
		return &d, err
	}
	mem.refusal = nil
	s.restarted(rl, d.restart, live.UID)
	logr.FromContextOrDiscard(ctx).Info("restarted", "target", ref.String(), "reason", string(s.Round.Reason), "note", s.Round.Note)
	r.announce(t, ref, live, s.Round)
	mem.restarted(ref, live)
	after := decision{state: s, restart: -1, wait: minPoll}
	mem.lookAt = time.Now().Add(minPoll)
	_, err = r.report(ctx, t, rl, &after)
	return &after, err
}

// look returns the source pods of a trigger, without those of its targets, and a fingerprint of the pods of each target.
func (r *reconciler) look(t *RestartTrigger, rl *rule) ([]sourcePod, map[TargetRef]uint64, error) {
	near, err := r.pods(t.Namespace)
	if err != nil {
		return nil, nil, err
	}
	prints := map[TargetRef]uint64{}
	for _, ref := range rl.targets {
		prints[ref] = 0
	}
	for _, p := range near {
		ref, ok := ownerOf(p)
		if _, ours := prints[ref]; ok && ours && !p.Deleting() {
			prints[ref] ^= fingerprint(p.UID)
		}
	}
	from := near
	if rl.namespace != t.Namespace {
		if from, err = r.pods(rl.namespace); err != nil {
			return nil, nil, err
		}
	}
	return sourcePods(rl, t.Namespace, from), prints, nil
}

// report writes the status, if it has changed, and tells of what is new in it. It returns the trigger as it is now, or nil if there is
// another one by now, or none: then nothing must be done for this one any more.
func (r *reconciler) report(ctx context.Context, t *RestartTrigger, rl *rule, d *decision) (*RestartTrigger, error) {
	status := observe(t, rl, d, time.Now())
	changed, err := r.triggers.Write(ctx, t, t.Status, status)
	switch {
	case errors.Is(err, apply.ErrOvertaken):
		d.restart = -1
		d.wait = apply.Earlier(d.wait, time.Second)
		return nil, nil
	case err != nil:
		return nil, err
	case changed:
		r.tell(ctx, t, t.Status.Conditions, status.Conditions)
	}
	now, ok, err := r.triggers.Get(t.Key())
	if err != nil || !ok || now.UID != t.UID {
		return nil, err
	}
	return now, nil
}
