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

// setPod is the part of a Pod that the ReplicaSet controller reads.
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

// active reports whether the pod counts as a replica: it runs or will run.
func (p *setPod) active() bool {
	return !p.Deleting() && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed"
}

// readySince returns when the pod became ready, false if it is not ready.
func (p *setPod) readySince() (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return c.LastTransitionTime, true
		}
	}
	return time.Time{}, false
}

// replicaSets is the ReplicaSet controller: it keeps the number of pods that each replica set wants.
type replicaSets struct {
	client  *kube.Client
	mirror  *cache.Store[*replicaSet]
	ownPods *cache.Store[*setPod]

	mu sync.Mutex // guards written
	// written has, for each replica set, the resourceVersion of the last pod that was created, and when. Until the
	// mirror has reached it, the mirror lacks pods that exist, and no more may be created.
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
	return controller.New("simulate-replicaset", retryStale(r.reconcile), o.controller(),
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
		return controller.After(mirrorLag), nil
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

// scale creates missing pods or deletes surplus pods.
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

// leastWorth orders pods for deletion: first those without a node, then those that are not ready, then the newer ones.
// The order depends only on the pods, so that a reconcile before the events of the deletions chooses the same pods.
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

// podFor returns a pod made from the template of rs.
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

// writeStatus updates the status of rs if it differs from the state of its pods, and requeues rs for the time when a
// ready pod has been ready for minReadySeconds.
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
			outcome = controller.After(due.Sub(now)) // the latest is enough: each reconcile computes it again
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
