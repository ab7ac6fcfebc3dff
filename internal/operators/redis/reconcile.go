package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/apply"
	"skiff/internal/cache"
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
		client:   s.Client,
		redis:    apply.NewStatuses[Redis](s.Client, rs),
		services: apply.New(s.Client, apply.Of(ss, apply.InPlace)),
		pods:     ps,
		memories: memories{of: map[kube.Key]*memory{}},
		events:   recorder,
	}
	return s.New("redis", r.Reconcile, controller.For(rs), controller.Owns(ps, resource.Kind), controller.Owns(ss, resource.Kind))
}

type reconciler struct {
	client   *kube.Client
	redis    *apply.Statuses[Redis, *Redis]
	services *apply.Engine
	pods     *cache.Store[*pod]
	memories memories
	events   *events.Recorder
}

// Reconcile makes the pods and the Service of a Redis what it declares, and its status what was seen.
func (r *reconciler) Reconcile(ctx context.Context, key kube.Key) (controller.Outcome, error) {
	rd, ok, err := r.redis.Get(key)
	if err != nil {
		return controller.Done, err
	}
	if !ok {
		r.redis.Forget(key)
		r.services.Forget(key)
		r.memories.forget(key)
		return controller.Done, nil
	}
	c := &crew{reconciler: r, rd: rd, mem: r.memories.get(rd)}
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

// converge goes the next steps towards what is declared.
func (c *crew) converge(ctx context.Context, f *findings) {
	want, err := desire(c.rd)
	if err != nil {
		f.errs = append(f.errs, controller.Terminal(err))
		f.problem = &conditions.Problem{Reason: "InvalidSpec", Message: err.Error() + "; correct the spec", Stalled: true}
		c.idle = true
		c.see(ctx, f, 0)
		return
	}
	f.want = want
	c.idle = conditions.IsPaused(c.rd.Annotations)
	// Before the first pod, and confirmed: a Redis that is deleted now still has its pods removed in order.
	if !c.idle {
		if c.rd, err = c.redis.AddFinalizer(ctx, c.rd, Finalizer); err != nil {
			c.interrupted(ctx, f, err, want.num)
			return
		}
	}
	report := c.services.Apply(ctx, apply.OwnerOf(resource, c.rd), []apply.Child{want.service}, c.idle)
	c.recordService(ctx, f, report.Children[0])
	if c.see(ctx, f, want.num) && !c.idle {
		c.run(ctx, f, plan(want, f.slots, time.Now()))
	}
}

// teardown removes the pods one after the other, and then the finalizer. Neither a pause nor a wrong spec keeps it from that.
func (c *crew) teardown(ctx context.Context, f *findings) {
	f.settled = true
	if c.mem.released || !slices.Contains(c.rd.Finalizers, Finalizer) {
		return // the cache is behind our last write, or it is others that hold it
	}
	// With --cascade=orphan the user wants to keep the pods, which the garbage collector frees.
	if !slices.Contains(c.rd.Finalizers, "orphan") {
		if !c.see(ctx, f, 0) {
			return
		}
		if len(f.slots) > 0 {
			f.settled = false
			c.run(ctx, f, planRemoval(f.slots))
			if slices.ContainsFunc(f.slots, func(s *slot) bool { return s.pod != nil }) {
				return
			}
		}
	}
	if err := c.redis.RemoveFinalizer(ctx, c.rd, Finalizer); err != nil {
		c.interrupted(ctx, f, err, 0)
		return
	}
	f.settled, c.mem.released = true, true
	c.event(events.Normal, "PodsDeleted", "all pods are gone, the Redis may go", nil)
}

// interrupted is what follows from an error of a write to the Redis itself. That it has changed is none: its event comes.
func (c *crew) interrupted(ctx context.Context, f *findings, err error, num int) {
	f.settled = true
	if errors.Is(err, apply.ErrOvertaken) {
		c.again(soon)
		return
	}
	f.fail(resource.Kind, err)
	c.idle = true
	if c.see(ctx, f, num) {
		f.settled = false
	}
}

// see looks at the pods, and brings back labels that they need; false if that is not possible.
func (c *crew) see(ctx context.Context, f *findings, num int) bool {
	slots, err := c.look(ctx, num)
	if err != nil {
		f.errs = append(f.errs, err)
		f.settled = true
		return false
	}
	f.slots = slots
	for _, s := range slots {
		if s.foreign != "" && f.problem == nil {
			f.problem = nameTaken(s.foreign)
		}
	}
	return true
}

// run goes the steps. One that fails is no reason to leave out others, but those of its kind.
func (c *crew) run(ctx context.Context, f *findings, steps []step) {
	for _, s := range f.slots {
		if s.pod != nil {
			if err := c.relabel(ctx, s); err != nil {
				f.fail(pods.Kind, err)
			}
		}
	}
	failed := map[string]bool{}
	var made []*slot
	for _, s := range steps {
		if failed[s.reason] {
			continue
		}
		done, err := c.take(ctx, f.want, s)
		if done && s.reason == createPod {
			made = append(made, s.slot)
		}
		if s.slot.foreign != "" && f.problem == nil {
			f.problem = nameTaken(s.slot.foreign)
		}
		switch {
		case kube.IsNamespaceTerminating(err):
			f.problem = &conditions.Problem{Reason: "Waiting", Passing: true,
				Message: fmt.Sprintf("namespace %s is being deleted; there is nothing to do", c.rd.Namespace)}
			failed[s.reason] = true
		case err != nil:
			f.fail(pods.Kind, err)
			failed[s.reason] = true
		}
	}
	c.announceMade(f.want, made)
}

// take does what a step says, and tells of it, but for a pod that was created: of that announceMade tells.
func (c *crew) take(ctx context.Context, d *desired, s step) (done bool, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("pod", s.slot.name, "reason", s.reason, "note", s.note)
	if s.reason == createPod {
		if done, err = c.create(ctx, d, s.slot); done {
			log.Info("created", "uid", s.slot.pod.UID)
		}
		return done, err
	}
	if s.reason == rollPod {
		if err := c.try(ctx, d, s.slot); err != nil {
			return false, err
		}
	}
	before := s.slot.pod
	if done, err = c.remove(ctx, s.slot); done {
		log.Info("deleted", "uid", before.UID)
		kind := events.Normal
		if s.reason == replacePod {
			kind = events.Warning
		}
		c.event(kind, s.reason, fmt.Sprintf("deleted pod %s: %s", s.slot.name, s.note), before)
	}
	return done, err
}

// recordService adds what came of the Service.
func (c *crew) recordService(ctx context.Context, f *findings, r apply.Result) {
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
func (c *crew) report(ctx context.Context, f *findings) {
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
