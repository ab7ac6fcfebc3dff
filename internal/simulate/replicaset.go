package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/kube"
)

// setPod is what the replica set controller reads of a Pod.
type setPod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string         `json:"phase"`
		Conditions []podCondition `json:"conditions"`
	} `json:"status"`
}

type podCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// active says whether the pod counts: it runs or will.
func (p *setPod) active() bool {
	return !p.Deleting() && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed"
}

// readySince returns when the pod became ready, and false if it is not.
func (p *setPod) readySince() (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return c.LastTransitionTime, true
		}
	}
	return time.Time{}, false
}

// replicaSets keeps as many pods as each replica set wants.
type replicaSets struct {
	client  *kube.Client
	mirror  *cache.Store[*replicaSet]
	ownPods *cache.Store[*setPod]

	mu sync.Mutex // guards written
	// written is the version of the last pod created per replica set, and when that was. Until the mirror has reached
	// it, pods are missing there that exist, and must not be created a second time.
	written map[kube.Key]writtenPod
}

type writtenPod struct {
	rv string
	at time.Time
}

func newReplicaSets(c *kube.Client, o Options) *controller.Controller {
	r := &replicaSets{client: c,
		mirror:  cache.New[*replicaSet](o.mirror(c, replicaSetResource)),
		ownPods: cache.New[*setPod](o.mirror(c, podResource)),
		written: map[kube.Key]writtenPod{},
	}
	return controller.New("simulate-replicaset", patient(r.reconcile), o.controller(),
		controller.For(r.mirror), controller.Owns(r.ownPods, replicaSetResource.Kind))
}

func (c *replicaSets) reconcile(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	rs, ok, err := c.mirror.Get(k)
	if err != nil {
		return controller.Done, err
	}
	if !ok {
		c.setWritten(k, "")
		return controller.Done, nil
	}
	if w := c.lastWritten(k); w.rv != "" && !c.ownPods.Reached(k.Namespace, w.rv, w.at) {
		return controller.After(lookAgain), nil
	}
	pods, err := c.ownPods.ByOwner(k.Namespace, rs.UID)
	if err != nil {
		return controller.Done, err
	}
	pods = slices.DeleteFunc(pods, func(p *setPod) bool { return p.ControllerUID() != rs.UID || !p.active() })
	if !rs.Deleting() {
		if err := c.scale(ctx, rs, pods); err != nil {
			return controller.Done, err
		}
	}
	return c.writeStatus(ctx, rs, pods, time.Now())
}

func (c *replicaSets) lastWritten(k kube.Key) writtenPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written[k]
}

func (c *replicaSets) setWritten(k kube.Key, rv string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rv == "" {
		delete(c.written, k)
		return
	}
	c.written[k] = writtenPod{rv, time.Now()}
}

// scale creates the pods that are missing or deletes those that are too many.
func (c *replicaSets) scale(ctx context.Context, rs *replicaSet, pods []*setPod) error {
	missing := rs.replicas() - len(pods)
	if missing > 0 {
		if ok, err := alive(ctx, c.client, replicaSetResource, &rs.Meta); err != nil || !ok {
			return err
		}
		body, err := podFor(rs)
		if err != nil {
			return err
		}
		for range missing {
			var created setPod
			if err := c.client.Create(ctx, podResource, rs.Namespace, body, &created,
				kube.WriteOptions{FieldManager: manager}); err != nil {
				return err
			}
			c.setWritten(rs.Key(), created.ResourceVersion)
		}
		return nil
	}
	slices.SortStableFunc(pods, leastWorth)
	var errs []error
	for _, p := range pods[:-missing] {
		errs = append(errs, c.client.Delete(ctx, podResource, p.Key(), kube.DeleteOptions{UID: p.UID}))
	}
	return errors.Join(errs...)
}

// leastWorth orders pods for deletion: those without a node first, then those that are not ready, then the younger.
// The order depends on the pods alone, so that a second look before the deletions have come back chooses the same
// ones.
func leastWorth(a, b *setPod) int {
	rank := func(p *setPod) int {
		_, ready := p.readySince()
		switch {
		case p.Spec.NodeName == "":
			return 0
		case !ready:
			return 1
		}
		return 2
	}
	return cmp.Or(rank(a)-rank(b), b.CreationTimestamp.Compare(a.CreationTimestamp), cmp.Compare(a.Name, b.Name))
}

// podFor returns the body of a pod from the template of rs.
func podFor(rs *replicaSet) (map[string]any, error) {
	var template struct {
		Metadata struct {
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
			Finalizers  []string          `json:"finalizers,omitempty"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(rs.Spec.Template, &template); err != nil {
		return nil, fmt.Errorf("read pod template of replica set %s: %w", rs.Key(), err)
	}
	var spec map[string]any
	if err := json.Unmarshal(template.Spec, &spec); err != nil {
		return nil, fmt.Errorf("read pod template of replica set %s: %w", rs.Key(), err)
	}
	m := template.Metadata
	return map[string]any{
		"apiVersion": podResource.APIVersion(), "kind": podResource.Kind,
		"metadata": map[string]any{
			"generateName": rs.Name + "-", "namespace": rs.Namespace,
			"labels": m.Labels, "annotations": m.Annotations, "finalizers": m.Finalizers,
			"ownerReferences": []any{controllerRef(replicaSetResource, &rs.Meta)},
		},
		"spec": spec,
	}, nil
}

// writeStatus patches the status of rs where it differs from what its pods show, and asks for another look when a
// ready pod will have been so for minReadySeconds.
func (c *replicaSets) writeStatus(ctx context.Context, rs *replicaSet, pods []*setPod,
	now time.Time) (controller.Outcome, error) {
	next := replicaSetStatus{ObservedGeneration: rs.Generation, Replicas: len(pods), FullyLabeledReplicas: len(pods)}
	outcome := controller.Done
	for _, p := range pods {
		since, ready := p.readySince()
		if !ready {
			continue
		}
		next.ReadyReplicas++
		due := since.Add(time.Duration(rs.Spec.MinReadySeconds) * time.Second)
		if due.After(now) && rs.Spec.MinReadySeconds > 0 {
			outcome = controller.After(due.Sub(now)) // the last of them is enough: each look asks anew
		} else {
			next.AvailableReplicas++
		}
	}
	if next == rs.Status {
		return outcome, nil
	}
	err := c.client.Patch(ctx, replicaSetResource, rs.Key(), kube.MergePatch, map[string]any{
		"metadata": map[string]any{"uid": rs.UID},
		"status": map[string]any{
			"observedGeneration":   next.ObservedGeneration,
			"replicas":             next.Replicas,
			"fullyLabeledReplicas": orNull(next.FullyLabeledReplicas),
			"readyReplicas":        orNull(next.ReadyReplicas),
			"availableReplicas":    orNull(next.AvailableReplicas),
		}}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "status"})
	return outcome, err
}
