package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// workloads is the controller of a kind of workload, which adopts and releases pods, and carries out plans.
type workloads struct {
	workloadKind
	controllerOf[*workload]
	pods      *cache.Store[*setPod]
	revisions *cache.Store[*templateRevision] // nil for kinds without revisions
	nodes     *cache.Store[*node]             // nil for kinds that do not look at nodes

	// written has, for the key of each workload, the last created pod. Until the mirror has reached the pod, the
	// mirror lacks existing pods, and no more may be created.
	written sync.Map
}

type writtenPod struct {
	rv string
	at time.Time
}

// controller returns the controller of a kind.
func (k workloadKind) controller(s *shared) runner {
	c := &workloads{workloadKind: k, controllerOf: newController[*workload](s, k.of, k.source),
		pods: mirrorOf[*setPod](s, podResource)}
	c.gone = func(_ context.Context, key kube.Key) error { c.written.Delete(key); return nil }
	indexOrphans(c.pods)
	sources := []controller.Source{controller.Owns(c.pods, k.of.Kind), adopters(c.pods, c.mirror)}
	if k.revisioned {
		c.revisions = cache.New[*templateRevision](s.all(revisionResource))
		indexOrphans(c.revisions)
		sources = append(sources, controller.Owns(c.revisions, k.of.Kind))
	}
	if k.onNodes {
		c.nodes = mirrorOf[*node](s, nodeResource)
		sources = append(sources, controller.Watches(c.nodes, func(*node) []kube.Key { return everyKey(c.mirror) }))
	}
	return c.forEach(k.source, c.sync, sources...)
}

// everyKey returns the keys of all objects of a mirror.
func everyKey[T kube.Object](mirror *cache.Store[T]) (keys []kube.Key) {
	all, err := mirror.List("")
	if err != nil {
		return nil // not synced yet: all will be reconciled then
	}
	for _, o := range all {
		keys = append(keys, o.ObjectMeta().Key())
	}
	return keys
}

func (c *workloads) sync(ctx context.Context, w *workload) (time.Duration, error) {
	v, _ := c.written.Load(w.Key())
	if last, ok := v.(writtenPod); ok && !c.pods.Reached(w.Namespace, last.rv, last.at) {
		return mirrorLag, nil
	}
	pods, err := claim(ctx, &c.controllerOf, w, c.pods, podResource, (*setPod).active)
	if err != nil {
		return 0, err
	}
	in := facts{now: time.Now()}
	if c.revisions != nil {
		if err := c.revise(ctx, w, pods, &in); errors.Is(err, errMerged) {
			return mirrorLag, nil
		} else if err != nil {
			return 0, err
		}
	}
	if c.nodes != nil {
		if in.nodes, err = c.nodes.List(""); err != nil {
			return 0, err
		}
	}
	p := c.plan(w, pods, in)
	if p.err != nil {
		return 0, controller.Terminal(fmt.Errorf("plan the pods of %s %s: %w", c.resource.Kind, w.Key(), p.err))
	}
	if !w.Deleting() {
		err = c.carryOut(ctx, w, p)
	}
	if p.saysFailure {
		err = p.reportFailure(c.resource, w, err)
	}
	// The existing pods count also while more are refused, by a quota for example.
	if err = errors.Join(err, c.writeStatus(ctx, w, false, w.Status, p.status)); err != nil {
		return 0, err
	}
	if p.event != nil {
		c.record(w, p.event.kind, p.event.reason, p.event.text)
	}
	return max(p.again, 0), nil
}

// carryOut creates and deletes the objects of the plan.
func (c *workloads) carryOut(ctx context.Context, w *workload, p plan) error {
	if p.over {
		return c.remove(ctx, c.resource, w)
	}
	if len(p.create) > 0 {
		if ok, err := c.alive(ctx, w); err != nil || !ok {
			return err
		}
	}
	for _, body := range p.claims {
		if err := c.create(ctx, claimResource, w.Namespace, body); err != nil {
			return err
		}
	}
	for _, body := range p.create {
		var created anyObject
		member(body, "metadata")["ownerReferences"] = []any{controllerRef(c.resource, &w.Meta)}
		err := c.createInto(ctx, podResource, w.Namespace, body, &created)
		if kube.IsAlreadyExists(err) {
			continue // created before; the event has not arrived yet
		}
		if err != nil {
			c.record(w, events.Warning, "FailedCreate", "Error creating: "+refusal(err))
			return err
		}
		c.written.Store(w.Key(), writtenPod{created.ResourceVersion, time.Now()})
		c.recordPod(w, "SuccessfulCreate", "Created", "create", created.Name)
	}
	var errs []error
	for _, pod := range p.remove {
		err := c.remove(ctx, podResource, pod)
		if err == nil {
			c.recordPod(w, "SuccessfulDelete", "Deleted", "delete", pod.Name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// refusal is the server's own message, if any: real controllers do not put the request before the message.
func refusal(err error) string {
	if st := kube.AsStatus(err); st != nil {
		return st.Error()
	}
	return err.Error()
}

// recordPod records the Event about a pod, in the words of the kind's real controller.
func (c *workloads) recordPod(w *workload, reason, done, verb, pod string) {
	note := fmt.Sprintf("%s pod: %s", done, pod)
	if c.part == StatefulSets {
		note = fmt.Sprintf("%s Pod %s in StatefulSet %s successful", verb, pod, w.Name)
	}
	c.record(w, events.Normal, reason, note)
}
