package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// New returns the controller. It sends nothing before Run. A nil recorder means no Events; who made it runs it.
func New(s controller.Setup, recorder *events.Recorder) *controller.Controller {
	s.Client = s.Client.Limit(Rights)
	rs := controller.Mirror[*Redis](s, resource, "")
	ps := controller.Mirror[*pod](s, pods, apply.ManagedBySelector)
	ss := controller.Mirror[*service](s, services, apply.ManagedBySelector)
	r := &reconciler{
		redis:    apply.NewStatuses[Redis](s.Client, rs),
		services: apply.New(s.Client, apply.Of(ss, apply.InPlace)),
		pods:     apply.NewReplacer(s.Client, ps, podOptions),
		events:   recorder,
	}
	return s.New("redis", r.Reconcile, controller.For(rs), controller.Owns(ps, resource.Kind), controller.Owns(ss, resource.Kind))
}

// podOptions say how the pods are replaced.
var podOptions = apply.ReplaceOptions[*pod]{
	Revision: RevisionLabel,
	Selector: []string{nameLabel, instanceLabel},
	Ready:    (*pod).ready,
	Ended:    (*pod).ended,
}

type reconciler struct {
	redis    *apply.Statuses[Redis, *Redis]
	services *apply.Engine
	pods     *apply.Replacer
	events   *events.Recorder
}

// run is one reconcile of a Redis.
type run struct {
	*reconciler
	rd    *Redis
	owner apply.Owner
	idle  bool          // nothing is changed, only reported
	wait  time.Duration // look again after this time, even if no event comes; 0: no need
}

func (c *run) again(d time.Duration) { c.wait = apply.Earlier(c.wait, d) }

// soon is the wait where the next event should bring what is missing, and this is only for the case that it does not.
const soon = time.Second

// Reconcile makes the pods and the Service of a Redis what it declares, and its status what was seen.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	rd, ok, err := r.redis.Get(key)
	if err != nil {
		return controller.Done, err
	}
	if !ok {
		r.redis.Forget(key)
		r.services.Forget(key)
		r.pods.Forget(key)
		return controller.Done, nil
	}
	c := &run{reconciler: r, rd: rd, owner: ownerOf(rd)}
	f := &findings{}
	if rd.Deleting() {
		c.teardown(ctx, f)
	} else {
		c.converge(ctx, f)
	}
	if !f.settled {
		c.report(ctx, f)
	}
	err = errors.Join(f.errs...)
	if c.wait > 0 && controller.IsTerminal(err) { // what is refused must not hold up the rest
		logr.FromContextOrDiscard(ctx).Info("refused", "error", err.Error())
		return controller.After(c.wait), nil
	}
	return controller.Wait(c.wait), err
}

// ownerOf returns a Redis as the owner of its pods.
func ownerOf(rd *Redis) apply.Owner {
	o := apply.OwnerOf(resource, rd)
	adopt, _ := rd.Annotations.Get("skiff.dev/adopt")
	o.Adopt, o.Known = adopt == "true", map[string]string{}
	for _, m := range rd.Status.Members {
		o.Known[m.Name] = m.UID
	}
	return o
}

// converge goes the next steps towards what is declared.
func (c *run) converge(ctx context.Context, f *findings) {
	want, err := desire(c.rd)
	if err != nil {
		f.errs = append(f.errs, controller.Terminal(err))
		f.problem = &conditions.Problem{Reason: "InvalidSpec", Message: err.Error() + "; correct the spec", Stalled: true}
		c.take(ctx, f, c.pods.Apply(ctx, c.owner, nil, true))
		return
	}
	f.want = want
	c.idle = conditions.IsPaused(c.rd.Annotations)
	// Before the first pod, and confirmed: a Redis that is deleted now still has its pods removed in order.
	if !c.idle {
		if c.rd, err = c.redis.AddFinalizer(ctx, c.rd, Finalizer); err != nil {
			c.interrupted(ctx, f, err)
			return
		}
	}
	report := c.services.Apply(ctx, c.owner, []apply.Child{want.service}, c.idle)
	c.recordService(ctx, f, report.Children[0])
	c.take(ctx, f, c.pods.Apply(ctx, c.owner, want.pods(c.rd), c.idle))
}

// teardown removes the pods one after the other, and then the finalizer. Neither a pause nor a wrong spec keeps it
// from that.
func (c *run) teardown(ctx context.Context, f *findings) {
	if !slices.Contains(c.rd.Finalizers, Finalizer) {
		f.settled = true // it is others that hold it
		return
	}
	// With --cascade=orphan the user wants to keep the pods, which the garbage collector frees.
	if !slices.Contains(c.rd.Finalizers, "orphan") {
		if c.take(ctx, f, c.pods.Teardown(ctx, c.owner)); len(f.surplus) > 0 || f.settled {
			return
		}
	}
	if err := c.redis.RemoveFinalizer(ctx, c.rd, Finalizer); err != nil {
		c.interrupted(ctx, f, err)
		return
	}
	f.settled = true
	c.event(events.Normal, "PodsDeleted", "all pods are gone, the Redis may go", nil)
}

// interrupted is what follows from an error of a write to the Redis itself. That it has changed is none: its event
// comes.
func (c *run) interrupted(ctx context.Context, f *findings, err error) {
	if errors.Is(err, apply.ErrOvertaken) {
		f.settled = true
		c.again(soon)
		return
	}
	f.fail(resource.Kind, err)
	var declared []apply.Child
	if f.want != nil {
		declared = f.want.pods(c.rd)
	}
	c.take(ctx, f, c.pods.Apply(ctx, c.owner, declared, true))
}

// take takes in what came of the pods, and tells of what was done.
func (c *run) take(ctx context.Context, f *findings, r apply.ReplaceReport) {
	f.pods, f.surplus = r.Children, r.Surplus
	if r.Err != nil {
		f.settled = true
		f.fail(pods.Kind, r.Err)
		return
	}
	all := slices.Concat(r.Children, r.Surplus)
	c.announceActions(ctx, all)
	for _, p := range all {
		c.again(p.Wait)
		if p.Err != nil {
			f.fail(pods.Kind, p.Err)
		}
		if f.problem == nil {
			f.problem = problemOf(p.Outcome, p.Message)
		}
	}
}

// recordService adds what came of the Service.
func (c *run) recordService(ctx context.Context, f *findings, r apply.Result) {
	log := logr.FromContextOrDiscard(ctx)
	switch r.Outcome {
	case apply.Created:
		log.Info("created", "child", services.Kind+" "+r.Key.String())
		c.event(events.Normal, "CreateService", "created headless Service "+r.Key.Name, nil)
	case apply.Applied:
		log.Info("applied", "child", services.Kind+" "+r.Key.String(), "differences", r.Differences)
	case apply.Foreign, apply.Contested, apply.Waiting, apply.Overtaken:
		log.Info(r.Outcome.String(), "message", r.Message)
	}
	c.again(r.Wait)
	if r.Err != nil {
		f.fail(services.Kind, r.Err)
		return
	}
	f.problem = problemOf(r.Outcome, r.Message)
}

// report writes the status that follows from what was found, and tells of what has changed in it.
func (c *run) report(ctx context.Context, f *findings) {
	f.explain(ctx)
	status, wait := observe(c.rd, f, time.Now())
	c.again(wait)
	changed, err := c.redis.Write(ctx, c.rd, c.rd.Status, status)
	switch {
	case errors.Is(err, apply.ErrOvertaken):
		c.again(soon)
	case err != nil:
		f.errs = append(f.errs, err)
	case changed:
		c.announce(ctx, c.rd.Status.Conditions, status.Conditions)
	}
}
