package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// workloads is the controller of one kind of workload. It adopts and releases pods, and carries out plans.
type workloads struct {
	workloadKind
	controllerOf[*workload]
	pods      *cache.Store[*setPod]
	revisions *cache.Store[*templateRevision] // nil for kinds that have none
	nodes     *cache.Store[*node]             // nil for kinds that do not look at them

	// written has, for the key of each workload, the writtenPod that was created last. Until the mirror has reached
	// it, the mirror lacks pods that exist, and no more may be created.
	written sync.Map
}

type writtenPod struct {
	rv string
	at time.Time
}

// orphans is the index of pods without a controller.
const orphans = "orphans"

// controller returns the controller of a kind.
func (k workloadKind) controller(s *shared) runner {
	c := &workloads{workloadKind: k, controllerOf: newController[*workload](s, k.of, k.source),
		pods: mirrorOf[*setPod](s, podResource)}
	c.gone = func(_ context.Context, key kube.Key) error { c.written.Delete(key); return nil }
	c.pods.Index(orphans, func(p *setPod) []string {
		if p.ControllerUID() == "" {
			return []string{orphans}
		}
		return nil
	})
	adopters := selecting(c.mirror)
	sources := []controller.Source{controller.Owns(c.pods, k.of.Kind),
		controller.Watches(c.pods, func(p *setPod) []kube.Key {
			if p.ControllerUID() != "" {
				return nil
			}
			return adopters(p)
		})}
	if k.revisioned {
		c.revisions = cache.New[*templateRevision](s.all(revisionResource))
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
	pods, err := c.claim(ctx, w)
	if err != nil {
		return 0, err
	}
	in := facts{now: time.Now()}
	if c.revisions != nil {
		if err := c.revise(ctx, w, pods, &in); err != nil {
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
	if c.part == Deployments {
		err = p.reportFailure(w, err)
	}
	// The pods that are there count also while more are refused, by a quota for example.
	if err = errors.Join(err, c.writeStatus(ctx, w, false, w.Status, p.status)); err != nil {
		return 0, err
	}
	if p.event != nil {
		c.record(w, p.event.kind, p.event.reason, p.event.text)
	}
	return max(p.again, 0), nil
}

// claim returns the pods of w. It releases those that the selector does not match any more, and adopts those without a
// controller that it matches.
func (c *workloads) claim(ctx context.Context, w *workload) ([]*setPod, error) {
	owned, err := c.pods.ByOwner(w.Namespace, w.UID)
	if err != nil {
		return nil, err
	}
	var out []*setPod
	for _, p := range owned {
		switch {
		case p.ControllerUID() != w.UID:
		case w.Deleting() || p.Deleting() || w.selects(p):
			out = append(out, p)
		default:
			if err := c.setOwner(ctx, p, object{"uid": w.UID, "$patch": "delete"}); err != nil {
				return nil, err
			}
		}
	}
	free, err := c.pods.ByIndex(orphans, w.Namespace, orphans)
	if err != nil || w.Deleting() {
		return out, err
	}
	for _, p := range free {
		if !p.active() || !w.selects(p) {
			continue
		}
		if ok, err := c.alive(ctx, w); err != nil || !ok {
			return out, err
		}
		if err := c.setOwner(ctx, p, controllerRef(c.resource, &w.Meta)); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (c *workloads) setOwner(ctx context.Context, p *setPod, ref object) error {
	return c.patch(ctx, kube.StrategicMergePatch, podResource, p, "",
		object{"metadata": object{"ownerReferences": []any{ref}}})
}

// carryOut creates and deletes what the plan says.
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
			continue // created before; its event has not arrived yet
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

// refusal is the server's own message where there is one: real controllers put no request before it.
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

// templateRevision is a ControllerRevision: a template that a StatefulSet or DaemonSet has or had. `kubectl rollout
// undo` goes back to one.
type templateRevision struct {
	kube.Meta `json:"metadata"`
	Revision  int64 `json:"revision"`
	Data      struct {
		Spec struct {
			Template kube.Raw `json:"template"`
		} `json:"spec"`
	} `json:"data"`
}

// revise sees to it that the present template has the newest revision, and deletes old ones that no pod has.
func (c *workloads) revise(ctx context.Context, w *workload, pods []*setPod, in *facts) error {
	hash, err := templateHash(w.Spec.Template)
	if err != nil {
		return fmt.Errorf("hash pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	all, err := c.revisions.ByOwner(w.Namespace, w.UID)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *templateRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	if in.update, err = updateRevision(w, all, hash); err != nil {
		return err
	}
	in.templates = map[string]kube.Raw{in.update: w.Spec.Template}
	used := map[string]bool{in.update: true}
	for _, p := range pods {
		name, _ := p.Labels.Get(revisionLabel)
		used[name], used[w.Name+"-"+name] = true, true
	}
	var current *templateRevision
	last := int64(0)
	for _, r := range all {
		in.templates[r.Name], last = r.Data.Spec.Template, r.Revision
		if r.Name == in.update {
			current = r
		}
	}
	if w.Deleting() {
		return nil
	}
	switch {
	case current == nil:
		return c.createRevision(ctx, w, in.update, hash, last+1)
	case current.Revision < last: // rolled back to
		return c.change(ctx, revisionResource, current, true, "", object{"revision": last + 1})
	}
	old := slices.DeleteFunc(all, func(r *templateRevision) bool { return used[r.Name] || r.Deleting() })
	for _, r := range old[:max(0, len(old)-valueOr(w.Spec.RevisionHistoryLimit, defaultHistoryLimit))] {
		if err := c.remove(ctx, revisionResource, r); err != nil {
			return err
		}
	}
	return nil
}

// updateRevision returns the name of the revision of the present template. The controller of another cluster has given
// it another one than this.
func updateRevision(w *workload, all []*templateRevision, hash string) (string, error) {
	own := w.Name + "-" + hash
	for _, r := range slices.Backward(all) {
		made, err := templateHash(r.Data.Spec.Template)
		if err != nil {
			return "", fmt.Errorf("hash pod template of ControllerRevision %s: %w", r.Key(), err)
		}
		if r.Name != own && made == hash {
			return r.Name, nil
		}
	}
	return own, nil
}

func (c *workloads) createRevision(ctx context.Context, w *workload, name, hash string, number int64) error {
	if ok, err := c.alive(ctx, w); err != nil || !ok {
		return err
	}
	var template object
	if err := json.Unmarshal(w.Spec.Template, &template); err != nil {
		return fmt.Errorf("read pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	labels := maps.Clone(member(member(template, "metadata"), "labels"))
	labels[revisionLabel] = hash
	template["$patch"] = "replace" // the revision is a strategic merge patch of the workload
	return c.create(ctx, revisionResource, w.Namespace, object{"revision": number, "metadata": object{"name": name,
		"labels": labels, "ownerReferences": []any{controllerRef(c.resource, &w.Meta)}},
		"data": object{"spec": object{"template": template}}})
}
