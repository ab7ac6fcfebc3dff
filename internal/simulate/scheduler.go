package simulate

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"skiff/internal/kube"
)

// node is what the scheduler reads of a Node.
type node struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Unschedulable bool `json:"unschedulable"` // kubectl cordon
	} `json:"spec"`
}

// schedule binds a pod to a node: always the same for the same pod while the nodes stay the same, all nodes alike in the long run.
func (c *kubelet) schedule(ctx context.Context, p *kubeletPod, status map[string]any) error {
	var open []string
	for _, name := range c.o.Nodes {
		n, ok, err := c.nodes.Get(kube.Key{Name: name})
		if err != nil {
			return err
		}
		if ok && !n.Spec.Unschedulable {
			open = append(open, name)
		}
	}
	if len(open) == 0 {
		return c.unschedulable(ctx, p, status)
	}
	h := fnv.New32a()
	h.Write([]byte(p.UID))
	return c.client.Create(ctx, podResource, p.Namespace, map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": p.Name, "uid": p.UID},
		"target": map[string]any{"kind": nodeResource.Kind, "name": open[h.Sum32()%uint32(len(open))]},
	}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "binding"})
}

// unschedulable says in the status of a pod, once, that no node takes it.
func (c *kubelet) unschedulable(ctx context.Context, p *kubeletPod, status map[string]any) error {
	if conditions, _ := status["conditions"].([]any); len(conditions) > 0 {
		return nil // the only one that a pod without a node has
	}
	condition := map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": wireTime(time.Now()),
		"message": fmt.Sprintf("0/%d nodes are available: they are cordoned or deleted.", len(c.o.Nodes))}
	return c.client.Patch(ctx, podResource, p.Key(), kube.StrategicMergePatch, map[string]any{
		"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"conditions": []any{condition}},
	}, nil, kube.WriteOptions{FieldManager: manager, Subresource: "status"})
}

// waiting are the pods that may get a node after a change of one.
func (c *kubelet) waiting(*node) []kube.Key {
	pods, err := c.mirror.List("")
	if err != nil {
		return nil // not listed yet: then all pods are looked at anyway
	}
	var out []kube.Key
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			out = append(out, p.Key())
		}
	}
	return out
}
