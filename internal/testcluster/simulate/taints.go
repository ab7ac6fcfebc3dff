package simulate

import (
	"context"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// onNode returns the pods to look at after a change of a node: the pods that wait for a node, and with NoExecute
// taints the pods on the node.
func (c *kubelet) onNode(n *node) []kube.Key {
	keys := c.waiting()
	if !slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.Effect == noExecute }) {
		return keys
	}
	pods, err := c.mirror.List("")
	if err != nil {
		return keys // not synced yet: all will be reconciled then
	}
	for _, p := range pods {
		if p.Spec.NodeName == n.Name {
			keys = append(keys, p.Key())
		}
	}
	return keys
}

// untilEvicted returns whether a pod is to be evicted from the node because of a taint, or after how long: 0 is never.
func (c *kubelet) untilEvicted(p *kubeletPod, now time.Time) (wait time.Duration, evicted bool) {
	n, ok, err := c.nodes.Get(kube.Key{Name: p.Spec.NodeName})
	if !ok || err != nil {
		return 0, false // the event is on the way
	}
	limit, limited := time.Duration(0), false
	owner, _ := p.Controller()
	for _, t := range n.Spec.Taints {
		daemon := owner.Kind == daemonSetResource.Kind && strings.HasPrefix(t.Key, "node.kubernetes.io/")
		if t.Effect != noExecute || daemon {
			continue
		}
		by := slices.Clone(p.Spec.Tolerations)
		by = slices.DeleteFunc(by, func(by toleration) bool { return !t.toleratedBy(by) })
		if len(by) == 0 {
			return 0, true
		}
		for _, b := range by {
			if s := b.TolerationSeconds; s != nil {
				if d := time.Duration(max(0, *s)) * time.Second; !limited || d < limit {
					limit, limited = d, true
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	box, known := c.boxes[p.Key()]
	switch {
	case !known || box.uid != p.UID:
		return 0, false // the pod comes again, with a sandbox
	case !limited:
		box.tainted = time.Time{}
	case box.tainted.IsZero():
		box.tainted = now
	}
	c.boxes[p.Key()] = box
	wait = box.tainted.Add(limit).Sub(now)
	return wait, limited && wait <= 0
}

// evict deletes a pod that does not tolerate a taint of the node, and says so in the status.
func (c *kubelet) evict(ctx context.Context, p *kubeletPod) error {
	var was struct {
		Conditions conditions `json:"conditions"`
	}
	if err := readStatus(podResource, p, p.Status, &was); err != nil {
		return err
	}
	target := was.Conditions.next("DisruptionTarget", "True", "DeletionByTaintManager",
		"Taint manager: deleting due to NoExecute taint")
	if err := c.patch(ctx, kube.StrategicMergePatch, podResource, p, "status",
		object{"status": object{"conditions": []any{target}}}); err != nil {
		return err
	}
	c.evicting(podResource, p, events.Normal, "TaintManagerEviction", "Marking for deletion Pod "+p.Key().String())
	return c.client.Delete(ctx, podResource, p.Key(), kube.DeleteOptions{UID: p.UID})
}
